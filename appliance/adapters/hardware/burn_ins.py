"""Starts, shows and ends burn-ins of nodes, by the probe over SSH."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from appliance.adapters.ssh.call import last_line
from appliance.adapters.ssh.probe_archive import probe_archive, probe_script
from appliance.errors import ApplianceError
from appliance.model.checks.hardware.found import NotHardware
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
        self._python, self._nodes = site.settings.ssh.python, nodes

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
        script = probe_script(self._python, ["--burn-in", command])
        try:
            answer = self._nodes.run_as_root(node, script, stdin=probe_archive(), timeout=SECONDS)
        except ApplianceError as error:
            return error.message.removeprefix(f"{node.name}: ")
        if answer.code or not answer.output.strip():
            said = last_line(answer.errors or answer.output) or "no output"
            return f"the probe exited with {answer.code}: {said}"
        try:
            return read_look(answer.output)
        except NotHardware as error:
            return f"the output of its probe is not valid: {error}"
