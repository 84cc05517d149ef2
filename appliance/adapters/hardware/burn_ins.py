"""Starts, shows and ends burn-ins of nodes, by the probe over SSH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.adapters.hardware.probe_answer import HardwareProbe
from appliance.model.checks.hardware.trials.burn_in import Look, read_look

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

# A login, systemd, and the first state of a burn-in.
SECONDS: Final = 90.0
MOST_AT_ONCE: Final = 64


class BurnIns:
    """The burn-ins of one site's nodes.

    Args:
        site: the site.
        nodes: SSH to its nodes.
    """

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._probe = HardwareProbe(site.settings.ssh.python, nodes, SECONDS, or_self=False)

    def ask(self, nodes: Sequence[Node], commands: Mapping[str, str]) -> Mapping[str, Look | str]:
        """Node -> its burn-in after the command for it, or why it did not answer."""
        # Imported before the threads start: parallel imports can meet an incomplete module.
        import paramiko  # noqa: F401

        if not nodes:
            return {}
        pool = ThreadPoolExecutor(min(len(nodes), MOST_AT_ONCE))
        try:
            told = pool.map(lambda node: self._ask(node, commands[node.name]), nodes)
            return {node.name: one for node, one in zip(nodes, told, strict=True)}
        finally:
            # After Ctrl-C nobody waits for answers; connections end by their time limit.
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self, node: Node, command: str) -> Look | str:
        return self._probe.ask(node, ["--burn-in", command], read_look)
