"""``appliance lab down``: nothing of a lab is left on this machine, whatever state it was in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from appliance.errors import LabError, Refused
from appliance.model.lab import RunningNode
from appliance.workflows.lab_ports import LabContainers, LabHost, LabPlays


@dataclass(frozen=True)
class LabDownPorts:
    """The outside.

    Attributes:
        host: this machine.
        containers: podman.
        plays: local playbooks.
        confirm: asks before nodes are destroyed.
        note: tells the operator one line.
    """

    host: LabHost
    containers: LabContainers
    plays: LabPlays
    confirm: Callable[[tuple[RunningNode, ...]], bool]
    note: Callable[[str], None]


def lab_down(name: str, ports: LabDownPorts, *, dry_run: bool = False) -> tuple[RunningNode, ...]:
    """Take a lab down; returns the nodes it had. A lab that is not there is down already.

    Raises:
        Refused: not root, or not confirmed.
        LabError: something of the lab is left.
    """
    if not ports.host.is_root():
        raise Refused(
            "the lab's containers belong to root", hint=f"sudo appliance lab down --name {name}"
        )
    if not ports.host.programs(("podman",)):
        return ()
    nodes = ports.containers.nodes(name)
    if dry_run:
        return nodes
    if nodes and not ports.confirm(nodes):
        raise Refused(f"lab {name} stays as it is: not confirmed")
    before = ports.host.changed_sysctls()
    # Also without a container: a half-made lab may have left volumes or its network.
    ports.plays.run("lab_down", {"lab_node_lab": name})
    left = [node.name for node in ports.containers.nodes(name)]
    if left or name in ports.containers.subnets():
        raise LabError(
            f"lab {name} is not gone: {', '.join(left) or 'its network'} is left",
            hint="podman ps --all; podman network ls; then run the same command again",
        )
    left_changed = set(ports.host.changed_sysctls())
    for change in (change for change in before if change not in left_changed):
        ports.note(f"put back: this machine's sysctl {change.undone()}")
    return nodes
