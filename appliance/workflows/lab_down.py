"""``appliance lab down``: nothing of a lab is left on this machine, whatever state it was in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from appliance.errors import LabError, Refused
from appliance.model.lab import RunningNode, SysctlChange, require_lab_name
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
        ConfigError: no lab can have this name.
        Refused: not root, or not confirmed.
        LabError: something of the lab is left.
    """
    require_lab_name(name)
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
    _tell_sysctls(ports, before)
    return nodes


def _tell_sysctls(ports: LabDownPorts, before: tuple[SysctlChange, ...]) -> None:
    """Say which sysctls are back; after the last lab also which are not, being somebody's own."""
    now = ports.host.sysctls([change.name for change in before])
    another = bool(ports.containers.nodes())
    for change in before:
        if now.get(change.name) == change.before:
            ports.note(f"put back: this machine's sysctl {change.undone()}")
        elif not another:
            ports.note(
                f"left as it is: this machine's sysctl {change.name} = {now.get(change.name)} "
                f"(before the first lab: {change.before}): something else set or needs it"
            )
