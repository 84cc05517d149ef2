"""What a site says of the address at which Run:ai's backend answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import IPv4Address
from typing import Final

from appliance.model.site.files.diagnostics import SiteFault, Where
from appliance.model.site.files.draft import Draft, KnownContent
from appliance.model.site.groups import CONTROL_PLANE, SYSTEM_NODES

_ADDRESS: Final[Where] = ("runai", "address")
_ON: Final[Where] = ("runai", "address_on")


def address_can_be_carried(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Keepalived gets an address that is free, in a LAN of the nodes, and system nodes for it."""
    runai = draft.value.runai if draft.value else None
    if draft.value is None or runai is None or not draft.sound(_ADDRESS, _ON):
        return
    if runai.address_on != "node" and runai.address is None:
        yield draft.fault(
            _ON,
            f"address_on: {runai.address_on} needs an address",
            "write address: the one to which the backend's name resolves",
        )
    if runai.address_on != "keepalived" or runai.address is None:
        return
    taken: dict[IPv4Address | None, str] = {
        **{node.bmc_address: f"{name}'s bmc_address" for name, node in draft.nodes.items()},
        draft.value.control_plane_endpoint.virtual_address: "control_plane_endpoint's",
        **{interface.ip: f"{name}'s address" for name, interface in draft.addresses().items()},
    }
    if runai.address in taken:
        yield draft.fault(
            _ADDRESS,
            f"{runai.address} is also {taken[runai.address]}",
            "write a free address, which keepalived may move between the system nodes",
        )
    lans = draft.lans()
    if lans and not any(runai.address in lan for lan in lans):
        yield draft.fault(
            _ADDRESS,
            f"{runai.address} is in no LAN of the nodes: keepalived cannot use it",
            f"write a free address in {lans[0]}",
        )
    named = CONTROL_PLANE if runai.system_on_control_plane else SYSTEM_NODES
    if not any({SYSTEM_NODES, named} & groups for groups in draft.hosts.groups.values()):
        yield draft.fault(
            _ON,
            "keepalived carries the address on system nodes, and there is none",
            f"name nodes in the group {SYSTEM_NODES} of hosts.yml",
        )


def runai_has_a_system_node(draft: Draft, _known: KnownContent) -> Iterator[SiteFault]:
    """Run:ai's own software runs on system nodes; a plan refuses a site without one."""
    runai = draft.value.runai if draft.value else None
    if runai is None or runai.system_on_control_plane or not draft.hosts.groups:
        return
    if runai.address_on == "keepalived" and runai.address is not None:
        # A fault already.
        return
    if not draft.hosts.members.get(SYSTEM_NODES):
        yield draft.fault(
            ("runai",),
            f"runai needs a node in the group {SYSTEM_NODES}, and there is none",
            f"add a worker to {SYSTEM_NODES} in hosts.yml (with system_nodes_shared: true it may "
            "also be a GPU or CPU worker)",
        )


RUNAI_WARNINGS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    runai_has_a_system_node,
)
RUNAI_CHECKS: Final[tuple[Callable[[Draft, KnownContent], Iterator[SiteFault]], ...]] = (
    address_can_be_carried,
)
