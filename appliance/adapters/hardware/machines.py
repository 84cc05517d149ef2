"""Reads the hardware of nodes: by the probe over SSH, by their BMCs, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Literal

from appliance.adapters.hardware.probe_answer import HardwareProbe
from appliance.model.checks.hardware.found import Machine, read_machine
from appliance.model.checks.hardware.reading import Reading

if TYPE_CHECKING:
    from appliance.adapters.hardware.redfish_hardware import RedfishHardware
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

PROBE_SECONDS: Final = 60.0
MOST_AT_ONCE: Final = 64


class Machines:
    """The hardware of one site's nodes.

    Args:
        site: the site.
        nodes: SSH to its nodes.
        bmcs: its BMCs.
    """

    def __init__(self, site: Site, nodes: SshNodes, bmcs: RedfishHardware) -> None:
        self._asked, self._bmcs = (
            HardwareProbe(site.settings.ssh.python, nodes, PROBE_SECONDS),
            bmcs,
        )

    def read(
        self,
        nodes: Sequence[Node],
        way: Literal["probe", "bmc", "both"],
        trials: Collection[str] = (),
    ) -> Mapping[str, Reading]:
        """Node -> what was read. A node or BMC that does not answer is in its reading."""
        # Imported before the threads start: parallel imports can meet an incomplete module.
        import paramiko  # noqa: F401

        asks_probe, asks_bmc = way in ("probe", "both"), way in ("bmc", "both")
        if not nodes:
            return {}
        # Nodes that are slow to log in to hold up no BMC.
        at_once = min(len(nodes), MOST_AT_ONCE)
        probes, bmcs = ThreadPoolExecutor(at_once), ThreadPoolExecutor(at_once)
        try:
            inside = [probes.submit(self._probe, node, trials) for node in nodes if asks_probe]
            # Of both, a node without a BMC is read by its probe alone.
            outside = {
                node.name: bmcs.submit(self._bmcs.inspect, node)
                for node in nodes
                if asks_bmc and (way == "bmc" or node.bmc_address is not None)
            }
            return {
                node.name: Reading(
                    inside[number].result() if asks_probe else None,
                    outside[node.name].result() if node.name in outside else None,
                )
                for number, node in enumerate(nodes)
            }
        finally:
            # After Ctrl-C nobody waits for answers; connections end by their time limit.
            for pool in (probes, bmcs):
                pool.shutdown(wait=False, cancel_futures=True)

    def _probe(self, node: Node, trials: Collection[str]) -> Machine | str:
        arguments = ["--hardware", ",".join(sorted(trials)) or "none"]
        return self._asked.ask(
            node, arguments, lambda output: read_machine(output).received(time.time())
        )
