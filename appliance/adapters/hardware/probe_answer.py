"""Runs the probe on a node for one question about its hardware, and reads the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from appliance.adapters.ssh.call import last_line
from appliance.adapters.ssh.probing.archive import probe_archive, probe_script
from appliance.errors import ApplianceError
from appliance.model.checks.hardware.found import NotHardware

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class HardwareProbe:
    """The probe on one site's nodes, for one kind of question.

    Attributes:
        python: the nodes' interpreter.
        nodes: SSH to the nodes.
        seconds: the longest that an answer may take.
        or_self: asked as the login user where root is not to be had.
    """

    python: str
    nodes: SshNodes
    seconds: float
    or_self: bool = True

    def ask(
        self, node: Node, arguments: Sequence[str], read: Callable[[str], Answer]
    ) -> Answer | str:
        """What ``read`` makes of the probe's output, or why there is none.

        Args:
            node: which node.
            arguments: of the probe.
            read: raises NotHardware where the output is not what was asked for.
        """
        script = probe_script(self.python, arguments)
        try:
            answer = self.nodes.run_as_root(
                node, script, stdin=probe_archive(), timeout=self.seconds, or_self=self.or_self
            )
        except ApplianceError as error:
            return error.message.removeprefix(f"{node.name}: ")
        if answer.code or not answer.output.strip():
            said = last_line(answer.errors or answer.output) or "no output"
            return f"the probe exited with {answer.code}: {said}"
        try:
            return read(answer.output)
        except NotHardware as error:
            return f"the output of its probe is not valid: {error}"
