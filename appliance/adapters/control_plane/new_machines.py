"""Claims new machines for a backup, and gives one of them the authorities of the lost cluster.

It needs SSH and the nodes' Python alone. The keys go through this machine's memory. What must not
be here: whether a machine may be claimed (:mod:`appliance.model.backup.new_machines`; the machine
itself asks again).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.control_plane.restoring import ask_as_root, program_command
from appliance.errors import ApplianceError
from appliance.model.backup.new_machines import PKI, Machine, read_machine
from appliance.model.documents.strict_json import Unreadable

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

PROGRAM: Final = "appliance_new_machine.py"
SECONDS: Final = 60


class SshNewMachines:
    """The machines of one site, before and after they are members.

    Args:
        nodes: SSH to them.
        python: the interpreter on the nodes.
    """

    def __init__(self, nodes: SshNodes, python: str) -> None:
        self._nodes = nodes
        self._python = python

    def look(self, asked: Sequence[Node], key: str) -> Mapping[str, Machine | str]:
        """Node -> what it says of itself, or why nothing is known."""
        with ThreadPoolExecutor(9) as pool:
            found = pool.map(lambda node: self._machine(node, key), asked)
            return dict(zip((node.name for node in asked), found, strict=True))

    def act(self, nodes: Sequence[Node], key: str, act: str) -> None:
        """Carry out ``claim``, ``made`` or ``known`` on each machine.

        Raises:
            ClusterError: a machine refused; its reason.
            NodeUnreachable: one does not answer.
        """
        with ThreadPoolExecutor(9) as pool:
            list(pool.map(lambda node: self._ask(node, [act, key]), nodes))

    def give_authorities(self, node: Node, key: str, contents: Mapping[str, bytes]) -> None:
        """Put the authorities in their place on a claimed machine.

        Raises:
            ClusterError: it is not claimed, or has others.
            NodeUnreachable: it does not answer.
        """
        packed = {name: base64.b64encode(one).decode() for name, one in contents.items()}
        self._ask(node, (PKI, key), json.dumps(packed).encode())

    def _machine(self, node: Node, key: str) -> Machine | str:
        try:
            return read_machine(self._ask(node, ["look", key]))
        except ApplianceError as error:
            return error.message
        except (Unreadable, ValueError, LookupError, TypeError) as error:
            return f"{node.name}: its answer is not readable: {error}"

    def _ask(self, node: Node, words: Sequence[str], stdin: bytes = b"") -> dict[str, Any]:
        command = program_command(self._python, PROGRAM, words)
        return ask_as_root(self._nodes, node, command, stdin, SECONDS)
