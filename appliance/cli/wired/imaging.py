"""The adapters of ``node image``: who drives, serves, remembers and meets bare servers."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, ConfigError

if TYPE_CHECKING:
    from appliance.adapters.imaging.serving import Pxe
    from appliance.cli.site_session import SiteSession
    from appliance.model.bundle.release.installer import InstallerMedium
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.node.imaging.pxe import Dhcp
    from appliance.model.state.journal import Run
    from appliance.workflows.node.imaging.course import Via
    from appliance.workflows.node.imaging.request import ImageRequest
    from appliance.workflows.session.ports import Observer
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class Serve:
    """Where and what this machine serves.

    Attributes:
        iso: the operator's.
        address: of this machine, as the servers reach it.
        port: 0 for any.
        via: virtual media, or the network.
        interface: for PXE.
        dhcp: for PXE.
    """

    iso: Path
    address: IPv4Address
    port: int = 0
    via: Via = "media"
    interface: str | None = None
    dhcp: Dhcp = "proxy"


def with_imaging(
    session: Session, connected: SiteSession, names: Sequence[str], serve: Serve
) -> Session:
    """The session with what imaging needs; the ISO is checked here, before anything is changed.

    Raises:
        ConfigError: the ISO is not the release's, or PXE cannot be served from here.
    """
    from appliance.adapters.imaging.first_contact import HostKeyContact
    from appliance.adapters.imaging.medium import require_iso
    from appliance.adapters.imaging.notes import FOLDER, NoteFiles
    from appliance.adapters.imaging.programs import installer_programs
    from appliance.adapters.imaging.serving import HttpServing, Medium
    from appliance.workflows.node.imaging.looking import images_of

    installer = installer_of(connected)
    images = images_of(connected.site, names)
    pxe = _pxe(images, serve) if serve.via == "pxe" else None
    require_iso(serve.iso, installer.layout, installer.sha256)
    state = connected.site.state_directory
    medium = Medium(serve.iso, installer.layout, state / FOLDER / "media")
    return replace(
        session,
        driver=connected.bmc_driver,
        serving=HttpServing(serve.address, serve.port, medium, installer_programs(), pxe),
        contact=HostKeyContact(connected.site),
        notes=NoteFiles(state),
        documents=connected.documents(),
    )


def installer_of(connected: SiteSession) -> InstallerMedium:
    """The medium of the site's operating system.

    Raises:
        ConfigError: the release names none.
    """
    system = connected.site.settings.operating_system
    installer = connected.desired.release.operating_systems[system].installer
    if installer is None:
        raise ConfigError(
            f"the release has no installer of {system}", hint="install the nodes by hand"
        )
    return installer


def _pxe(images: dict[str, NodeImage], serve: Serve) -> Pxe:
    from appliance.adapters.imaging.serving import Pxe
    from appliance.model.node.imaging.pxe import PxeNetwork, lan_of

    lan = lan_of(list(images.values()))
    if lan is None or serve.address not in lan or serve.interface is None:
        raise ConfigError(
            "PXE crosses no router: the servers and --address are in one LAN, and --interface is "
            "this machine's in it",
            hint="see this machine's interfaces: ip -br address",
        )
    return Pxe(PxeNetwork(serve.interface, lan, serve.dhcp), images)


def image_request(
    connected: SiteSession, names: Sequence[str], run: Run, wipe: Sequence[str], via: Via
) -> ImageRequest:
    """What is asked for, with the site's passports as far as they can be read."""
    from appliance.adapters.imaging.programs import installer_programs
    from appliance.workflows.node.baselines import read_passports
    from appliance.workflows.node.imaging.request import ImageRequest

    request = ImageRequest(
        connected.site,
        tuple(dict.fromkeys(names)),
        run,
        installer_programs(),
        lambda: secrets.token_hex(16),
        tuple(wipe),
        via,
    )
    if not connected.desired.founded:
        return request
    try:
        return replace(request, passports=read_passports(connected.archive))
    except ApplianceError as error:
        return replace(request, unread=error.message)


def image_session(connected: SiteSession, display: Observer, run: Run) -> Session:
    """The session; a site that has no cluster yet is locked on this machine alone."""
    from appliance.adapters.control_plane.local_lock import LocalLock

    if connected.desired.founded:
        return connected.session(display, run)
    state = connected.site.state_directory
    return replace(
        connected.session(display),
        lock=LocalLock(state, f"{run.command} {run.id}"),
        journal=connected.records(),
    )
