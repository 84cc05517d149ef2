"""BMCs by Redfish: the machine's identity, and whether it is powered off. A BMC is only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self

from appliance.adapters.hardware.redfish_documents import one_line
from appliance.adapters.hardware.redfish_session import HTTPS, BmcFailed, RedfishSessions
from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.facts.placeholders import told_serial, told_uuid

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

# For all answers of one BMC: three documents of some tens of kilobytes, from slow hardware.
BMC_SECONDS: Final = 60.0
MOST_BYTES: Final = 2 * 1024 * 1024


class RedfishBmcs:
    """The BMCs of one site.

    Args:
        secrets: the vault's secrets, read with the first request.
        port: the port of the BMCs.
    """

    def __init__(self, secrets: Callable[[], Mapping[str, str]], port: int = HTTPS) -> None:
        self._sessions = RedfishSessions(secrets, port)

    @classmethod
    def sharing(cls, sessions: RedfishSessions) -> Self:
        """BMCs by sessions that others use too: none tries a password again that was refused."""
        found = cls(lambda: {})
        found._sessions = sessions
        return found

    def report(self, node: Node) -> BmcReport | None:
        """The report of the node's BMC; None without a BMC in the inventory. Never raises."""
        if node.bmc_address is None:
            return None
        try:
            with self._sessions.open(node, BMC_SECONDS, MOST_BYTES) as bmc:
                system = bmc.own_system()
                with bmc.asking():
                    return judged(system, _off())
        except BmcFailed as failed:
            return BmcReport(reason=failed.reason)


def _off() -> Any:
    import sushy

    return sushy.PowerState.OFF


def judged(system: Any, off: Any) -> BmcReport:
    """The report of a BMC's system; a placeholder serial or UUID counts as missing."""
    return BmcReport(
        serial=told_serial(one_line(system.serial_number)),
        powered_off=system.power_state == off,
        uuid=told_uuid(one_line(system.uuid)),
    )
