"""Reads the hardware of nodes from their BMCs by Redfish: every resource that tells of it.

A resource that does not answer makes its facts unknown, and holds up nothing else. Time, bytes and
number of resources of one BMC are limited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.hardware.redfish_session import (
    HTTPS,
    BmcFailed,
    OpenBmc,
    RedfishSessions,
)
from appliance.model.checks.hardware.found import Machine, NotHardware
from appliance.model.checks.hardware.redfish import machine_of
from appliance.model.checks.hardware.redfish_links import wanted

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

# A server of 32 modules, 10 cards and 24 disks has some 150 resources; a BMC is slow hardware.
SECONDS: Final = 180.0
MOST_BYTES: Final = 8 * 1024 * 1024
MOST_RESOURCES: Final = 500


class RedfishHardware:
    """The hardware of one site's nodes, as their BMCs tell it.

    Args:
        secrets: the vault's secrets, read with the first request.
        port: the port of the BMCs.
    """

    def __init__(self, secrets: Callable[[], Mapping[str, str]], port: int = HTTPS) -> None:
        self._sessions = RedfishSessions(secrets, port)

    def inspect(self, node: Node) -> Machine | str:
        """What the node's BMC tells, or why nothing is known. Never raises for a BMC."""
        if node.bmc_address is None:
            return "the inventory has no bmc_address for it"
        try:
            with self._sessions.open(node, SECONDS, MOST_BYTES) as bmc:
                system = bmc.require_system()
                resources, failed = read_resources(bmc, system)
        except BmcFailed as error:
            return error.reason
        try:
            return machine_of(resources, system, failed)
        except NotHardware as error:
            return f"the BMC at {bmc.url}: its documents are not valid: {error}"


def read_resources(
    bmc: OpenBmc, system: str
) -> tuple[dict[str, Mapping[str, Any]], dict[str, str]]:
    """Read the system and all that it leads to.

    Returns:
        path -> document, and path -> why it did not answer.

    Raises:
        BmcFailed: the system itself did not answer.
    """
    system = system.rstrip("/")
    resources: dict[str, Mapping[str, Any]] = {system: bmc.get(system)}
    failed: dict[str, str] = {}
    while True:
        waiting = [
            path
            for path in dict.fromkeys(wanted(resources, system))
            if path not in resources and path not in failed
        ]
        if not waiting:
            return resources, failed
        for path in waiting:
            if len(resources) >= MOST_RESOURCES:
                failed[path] = f"the BMC lists more than {MOST_RESOURCES} resources"
                continue
            if bmc.limits.broken:
                failed[path] = f"the BMC at {bmc.url}: {bmc.limits.broken}"
                continue
            try:
                resources[path] = bmc.get(path)
            except BmcFailed as error:
                failed[path] = error.reason
