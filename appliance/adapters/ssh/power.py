"""Shuts a node down cleanly by SSH, and checks its SSH port.

What must not be here: how long a node must be silent, and other evidence that it is off
(:mod:`appliance.workflows.node.maintenance.power_off`).
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from appliance.errors import ClusterError, NodeUnreachable

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node, Site

PORT_SECONDS = 2.0
# One second later, so that SSH can return the answer.
_POWEROFF = "systemd-run --quiet --collect --on-active=1 --timer-property=AccuracySec=100ms \
systemctl poweroff"


class SshPower:
    """Powers off nodes of one site."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._nodes = nodes
        self._ssh = site.settings.ssh

    def shut_down(self, node: Node) -> None:
        """Request a clean power-off in one second.

        Raises:
            NodeUnreachable: the node does not answer.
            ClusterError: the node refused.
        """
        answer = self._nodes.run_as_root(node, _POWEROFF, timeout=15)
        if answer.code != 0:
            raise ClusterError(
                f"{node.name}: the power-off command failed: {answer.errors.strip()}",
                hint="power it off by its BMC or its button; the node is drained",
            )

    def answers(self, node: Node) -> bool:
        """Whether anything answers at its address, even with a refusal.

        A system that shuts down ends sshd early and refuses connections until it is off. A jump
        host hides this: there the node must answer a command.
        """
        if self._ssh.jump_host:
            try:
                self._nodes.run(node, "true", timeout=5)
            except NodeUnreachable as error:
                return error.answers
            return True
        try:
            socket.create_connection((node.ip, self._ssh.port), timeout=PORT_SECONDS).close()
        except ConnectionError:
            return True
        except OSError:
            return False
        return True
