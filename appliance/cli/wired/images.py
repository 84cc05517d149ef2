"""What saving images of the registry, and bringing them back, is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.cluster.backups.images import ImageSources
    from appliance.workflows.cluster.restoring.images import BackupWithImages, ImagesSources


def image_sources(connected: SiteSession) -> ImageSources:
    """The registry that the site's services node runs."""
    from appliance.adapters.backup.volumes.images import NodeImages

    return NodeImages(connected.site, connected.nodes)


def image_restore_ports(connected: SiteSession, backup: BackupWithImages) -> ImagesSources:
    """The same registry, and the backup."""
    from appliance.adapters.backup.volumes.images import NodeImages
    from appliance.workflows.cluster.restoring.images import ImagesSources

    return ImagesSources(NodeImages(connected.site, connected.nodes), backup)
