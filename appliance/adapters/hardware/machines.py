"""Reads the hardware of nodes: by the probe over SSH, by their BMCs, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Literal

from appliance.adapters.ssh.call import last_line
from appliance.adapters.ssh.probe_archive import probe_archive, probe_script
from appliance.errors import ApplianceError
from appliance.model.checks.hardware.found import Machine, NotHardware, read_machine
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
        self._site, self._nodes, self._bmcs = site, nodes, bmcs

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
        pool = ThreadPoolExecutor(min(2 * len(nodes), MOST_AT_ONCE))
        try:
            inside = [pool.submit(self._probe, node, trials) for node in nodes if asks_probe]
            # Of both, a node without a BMC is read by its probe alone.
            outside = {
                node.name: pool.submit(self._bmcs.inspect, node)
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
            pool.shutdown(wait=False, cancel_futures=True)

    def _probe(self, node: Node, trials: Collection[str]) -> Machine | str:
        python = self._site.settings.ssh.python
        script = probe_script(python, ["--hardware", ",".join(sorted(trials)) or "none"])
        try:
            answer = self._nodes.run_as_root(
                node, script, stdin=probe_archive(), timeout=PROBE_SECONDS, or_self=True
            )
        except ApplianceError as error:
            return error.message.removeprefix(f"{node.name}: ")
        if answer.code or not answer.output.strip():
            said = last_line(answer.errors or answer.output) or "no output"
            return f"the probe exited with {answer.code}: {said}"
        try:
            return read_machine(answer.output).received(time.time())
        except NotHardware as error:
            return f"the output of its probe is not valid: {error}"
