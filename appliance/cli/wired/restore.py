"""What ``cluster restore`` is given: its ports, and a lock that needs no lost node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from appliance.adapters.backup.opened import BackupFile
    from appliance.cli.site_session import SiteSession
    from appliance.model.backup.restoring.restore_release import KnownRelease
    from appliance.workflows.cluster.restore import RestoreRequest, RestoreSources
    from appliance.workflows.session.ports import Observer
    from appliance.workflows.session.session import Session


def restore_ports(
    connected: SiteSession,
    display: Observer,
    request: RestoreRequest,
    backup: BackupFile | None,
) -> tuple[Session, RestoreSources]:
    """The ports of a restore, of a backup that was read to its end, or of a survivor."""
    from appliance.adapters.control_plane.restoring import SshRestoring
    from appliance.workflows.cluster.restore import RestoreSources

    options, site = request.options, connected.site
    left = {options.survivor} if options.survivor else set()
    left = left or {node.name for node in site.control_plane} - set(options.without)
    session = connected.session(display, request.run, plays=True)
    lock = connected.lock(request.run, voters=left)
    python = site.settings.ssh.python
    ports = RestoreSources(SshRestoring(connected.nodes, python), backup, known_releases)
    return replace(session, lock=lock), ports


def known_releases() -> Mapping[str, KnownRelease]:
    """The releases that this tool has: name -> what a restore needs of each."""
    from appliance.adapters.local.content import list_releases, load_release
    from appliance.model.backup.restoring.restore_release import KnownRelease

    found = {name: load_release(name) for name in list_releases()}
    return {
        name: KnownRelease(one.versions.kubernetes, one.reached_from) for name, one in found.items()
    }
