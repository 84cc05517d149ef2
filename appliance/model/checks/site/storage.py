"""Checks of a site's shared storage that involve more than one value."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.model.site.export_path import forbidden
from appliance.model.site.files.diagnostics import SiteFault
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.groups import JUMPBOXES


def no_jumpbox_serves(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """The way in has no packages of the bundle, so nothing can be served from it."""
    value = draft.value
    if value is None or value.nfs is None or not draft.sound(("nfs", "server")):
        return
    for name in draft.hosts.members.get(JUMPBOXES, ()):
        settings = draft.nodes[name].checked.value if name in draft.nodes else None
        address = str(settings.address.ip) if settings else None
        if value.nfs.server in (name, f"{name}.{value.domain}", address):
            yield draft.fault(
                ("nfs", "server"),
                f"{name} is a jumpbox: the appliance installs no NFS server there",
                "name a node of another group, or your own NFS server",
            )


def no_system_folder_is_exported(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """The role gives the folder to user 1001 and opens it to everyone."""
    value = draft.value
    if value is None or value.nfs is None or not draft.sound(("nfs",)):
        return
    system = forbidden(value.nfs.path)
    if system and _is_ours(draft, value.nfs.server, value.domain):
        yield draft.fault(
            ("nfs", "path"),
            f"{value.nfs.path} is in the system folder {system} of a node of this site",
            "name a separate folder, such as /srv/runai",
        )


def _is_ours(draft: Draft, server: str, domain: str) -> bool:
    """Whether a node of the site serves it; an NFS server of the customer's has its own folders."""
    for name, node in draft.nodes.items():
        address = str(node.checked.value.address.ip) if node.checked.value else None
        if server in (name, f"{name}.{domain}", address):
            return True
    return False


STORAGE_CHECKS: Final = (no_jumpbox_serves, no_system_folder_is_exported)
