"""What saving and restoring the data of volumes is given."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.cluster.backups.volumes import VolumesAsked, VolumeSources
    from appliance.workflows.cluster.restoring.volumes import VolumeRestoreSources


def volumes_asked(names: tuple[str, ...], place: str, *, everything: bool) -> VolumesAsked:
    """What was asked for, and what the place for backups has free."""
    from appliance.adapters.backup.targets import free_bytes_at
    from appliance.workflows.cluster.backups.volumes import VolumesAsked

    return VolumesAsked(names, everything, free_bytes_at(place))


def volume_sources(connected: SiteSession) -> VolumeSources:
    """The volumes of a site."""
    from appliance.adapters.backup.volumes.on_node import NodeVolumes

    return NodeVolumes(connected.site, connected.nodes, connected.cluster)


def volume_restore_ports(
    connected: SiteSession, file: Path, identity: Path
) -> VolumeRestoreSources:
    """The volumes of a site, and the backup, read to its end.

    Raises:
        Refused: the file is no backup, or the key cannot be read.
        NotHealthy: the backup was interrupted, changed or cut, or the key does not open it.
    """
    from appliance.adapters.backup.opened import BackupFile
    from appliance.adapters.backup.volumes.on_node import NodeVolumes
    from appliance.workflows.cluster.restoring.volumes import VolumeRestoreSources

    backup = BackupFile(file, identity)
    volumes = NodeVolumes(connected.site, connected.nodes, connected.cluster)
    return VolumeRestoreSources(volumes, backup)
