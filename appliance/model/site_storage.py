"""What a site says of its shared storage, beside what one value may be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from appliance.model.groups import JUMPBOXES
from appliance.model.site_draft import Draft, KnownContent
from appliance.model.site_faults import SiteFault


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
                f"{name} is a jumpbox, on which the appliance installs nothing",
                "name a node of another group, or an NFS server of your own",
            )


STORAGE_CHECKS: Final = (no_jumpbox_serves,)
