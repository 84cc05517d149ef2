"""``appliance lab down``: remove a lab from this machine, whatever its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from appliance.errors import LabError, Refused
from appliance.lab.layout import RunningNode, SysctlChange, require_lab_name
from appliance.lab.ports import LabContainers, LabHost, LabPlays


@dataclass(frozen=True)
class LabDownPorts:
    """The adapters of ``lab down``.

    Attributes:
        host: this machine.
        containers: podman.
        plays: local playbooks.
        confirm: asks before nodes are destroyed.
        note: prints one line for the operator.
        destroy: removes what was opened of a backup outside the containers; tells what it was.
        stop_bmcs: ends the BMCs of a lab; whether there were any.
    """

    host: LabHost
    containers: LabContainers
    plays: LabPlays
    confirm: Callable[[tuple[RunningNode, ...]], bool]
    note: Callable[[str], None]
    destroy: Callable[[str], Sequence[str]] = lambda _lab: ()
    stop_bmcs: Callable[[str], bool] = lambda _lab: False


def lab_down(name: str, ports: LabDownPorts, *, dry_run: bool = False) -> tuple[RunningNode, ...]:
    """Take a lab down and return its nodes; do nothing if there is no such lab.

    Raises:
        ConfigError: the name is invalid.
        Refused: not root, or not confirmed.
        LabError: a part of the lab could not be removed.
    """
    require_lab_name(name)
    if not ports.host.is_root():
        raise Refused(
            "lab down needs root: the lab's containers belong to root",
            hint=f"sudo appliance lab down --name {name}",
        )
    if not ports.host.programs(("podman",)):
        if not dry_run:
            _stop_bmcs(name, ports)
            _destroy(name, ports)
        return ()
    nodes = ports.containers.nodes(name)
    if dry_run:
        return nodes
    if nodes and not ports.confirm(nodes):
        raise Refused(f"lab {name} was not removed: not confirmed")
    before = ports.host.changed_sysctls()
    # First: nothing may start a node again.
    _stop_bmcs(name, ports)
    # Even without containers: an incomplete lab may have left volumes or its network.
    ports.plays.run("lab_down", {"lab_node_lab": name})
    remaining = [node.name for node in ports.containers.nodes(name)]
    if remaining or name in ports.containers.subnets():
        raise LabError(
            f"lab {name} was not removed completely: found {', '.join(remaining) or 'its network'}",
            hint="podman ps --all; podman network ls; then run the same command again",
        )
    _destroy(name, ports)
    _tell_sysctls(ports, before)
    return nodes


def _stop_bmcs(name: str, ports: LabDownPorts) -> None:
    if ports.stop_bmcs(name):
        ports.note(f"ended: the BMCs of lab {name} (stand-ins)")


def _destroy(name: str, ports: LabDownPorts) -> None:
    for line in ports.destroy(name):
        ports.note(line)


def _tell_sysctls(ports: LabDownPorts, before: tuple[SysctlChange, ...]) -> None:
    """Print which sysctls were restored; after the last lab also which were not, and why."""
    now = ports.host.sysctls([change.name for change in before])
    another = bool(ports.containers.nodes())
    for change in before:
        if now.get(change.name) == change.before:
            ports.note(f"restored: this machine's sysctl {change.undone()}")
        elif not another:
            ports.note(
                f"not restored: this machine's sysctl {change.name} = {now.get(change.name)} "
                f"(before the first lab: {change.before}): another program set or needs it"
            )
