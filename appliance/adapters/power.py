"""A node is shut down cleanly by SSH, and looked for by its SSH port.

What must not be here: for how long silence has to last, and what else shows that a node is off
(:mod:`appliance.workflows.power_off`).
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from appliance.errors import ClusterError, NodeUnreachable

if TYPE_CHECKING:
    from appliance.adapters.ssh import SshNodes
    from appliance.model.site import Node, Site

PORT_SECONDS = 2.0
# Later than the answer, so that SSH can give it.
_POWEROFF = "systemd-run --quiet --collect --on-active=1 --timer-property=AccuracySec=100ms \
systemctl poweroff"


class SshPower:
    """Powers nodes of one site off."""

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._nodes = nodes
        self._ssh = site.settings.ssh

    def shut_down(self, node: Node) -> None:
        """Ask for a clean power-off, a second from now.

        Raises:
            NodeUnreachable: it does not answer.
            ClusterError: it refused.
        """
        answer = self._nodes.run_as_root(node, _POWEROFF, timeout=15)
        if answer.code != 0:
            raise ClusterError(
                f"{node.name}: it did not take the order to power off: {answer.errors.strip()}",
                hint="power it off by its BMC or its button; the node is empty",
            )

    def answers(self, node: Node) -> bool:
        """Whether anything answers at its address, were it only to refuse.

        A system that goes down ends sshd early, and refuses connections until it is off. Behind a
        jump host that is not seen: there a command has to be answered.
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
