"""The draft of a site, from the machines that were found: which node is what, its name and address.

The same machines give the same draft, in whatever order they answered.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Address, IPv4Interface
from typing import Any, Final

from appliance.errors import ConfigError
from appliance.model.checks.discovery.found import Found
from appliance.model.checks.discovery.imaging import section
from appliance.model.checks.discovery.targets import Target
from appliance.model.site import addresses
from appliance.model.site.groups import (
    CONTROL_PLANE,
    CPU_WORKERS,
    GPU_WORKERS,
    SYSTEM_NODES,
)
from appliance.model.state.facts.hardware_models import GB, MB, HardwareModel, RoleMinimum
from appliance.model.state.facts.hardware_shown import Configuration

SHORT: Final[Mapping[str, str]] = {
    CONTROL_PLANE: "cp",
    GPU_WORKERS: "gpu",
    SYSTEM_NODES: "sys",
    CPU_WORKERS: "cpu",
}
PATTERN: Final = "{role}{number}"
_FIELD: Final = re.compile(r"\{(?P<name>role|number)(?::0(?P<width>[1-9]))?\}")
_MASTER, _WORKER = "master", "worker"


@dataclass(frozen=True)
class Wishes:
    """What an operator says of the draft.

    Attributes:
        control_planes: how many control-plane nodes: 1 or 3.
        system_nodes: how many nodes for Run:ai's own software.
        pattern: of names.
        plan: the first address of machines that have none yet, with the prefix of the LAN.
        roles: address of a target -> its group.
    """

    control_planes: int = 1
    system_nodes: int = 1
    pattern: str = PATTERN
    plan: IPv4Interface | None = None
    roles: Mapping[IPv4Address, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Profiles:
    """What is known of hardware: models, the minimum of each role, the guide's configurations."""

    models: Mapping[str, HardwareModel]
    minima: Mapping[str, RoleMinimum]
    configurations: Mapping[str, Configuration]

    def model_of(self, machine: Found) -> str | None:
        """The model whose recorded or written product name is exactly the machine's."""
        product = (machine.product or "").casefold()
        for name, model in sorted(self.models.items()):
            known = [model.dmi.product] if model.dmi.product else [model.product]
            named = {one.casefold() for one in (*known, *model.also_called)}
            if product and product in named and not model.standin:
                return name
        return None

    def use_of(self, model: str | None) -> str | None:
        """``master`` or ``worker``, if every configuration uses the model as this."""
        uses = {
            server.role
            for one in self.configurations.values()
            for server in one.servers
            if server.hardware == model
        }
        return uses.pop() if len(uses) == 1 else None

    def lacks(self, group: str, machine: Found) -> str:
        """What keeps a machine from a role; empty if nothing does. Unknown keeps it, too."""
        minimum = self.minima.get(group)
        if minimum is None:
            return ""
        for seen, least, factor, words in (
            (machine.cpus, minimum.cpus, 1, "CPUs"),
            (machine.memory_bytes, minimum.memory_mb, MB, "MB of memory"),
            (machine.disk_bytes, minimum.disk_gb, GB, "GB of disk"),
        ):
            if least is not None and seen is None:
                return f"its {words} are not known, {group} needs {least}"
            if least is not None and seen is not None and seen < least * factor:
                return f"{seen // factor} {words}, {group} needs {least}"
        return ""


@dataclass(frozen=True)
class DraftNode:
    """One node of the draft.

    Attributes:
        machine: by SSH if it was found so, else by its BMC.
        bmc: the target that is its BMC; None if none was found.
        by_bmc: what that BMC told.
    """

    name: str
    group: str
    address: IPv4Interface
    machine: Found
    model: str | None = None
    bmc: Target | None = None
    by_bmc: Found | None = None

    @property
    def ssh(self) -> Target | None:
        """The target that is the server itself; None if only its BMC was found."""
        return self.machine.target if self.machine.target.kind == "ssh" else None


@dataclass(frozen=True)
class Drafted:
    """The nodes, and what was found but is no part of them, one sentence each."""

    nodes: tuple[DraftNode, ...]
    notices: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Machine:
    seen: Found
    by_bmc: Found | None

    @property
    def bmc(self) -> Target | None:
        return self.by_bmc.target if self.by_bmc else None


def draft(
    found: Sequence[Found],
    profiles: Profiles,
    wishes: Wishes,
    answering: Collection[IPv4Address] = (),
) -> Drafted:
    """Draft the nodes.

    Args:
        found: the machines that were read.
        profiles: what is known of hardware.
        wishes: what the operator says.
        answering: addresses where something answers, read or not; the plan does not give them.

    Raises:
        ConfigError: the pattern gives no names, an address is missing, or no machine fits a role.
    """
    require_pattern(wishes.pattern)
    machines, notices = _one_each(found)
    strange = set(wishes.roles) - {one.target.address for one in found}
    if strange:
        listed = ", ".join(map(str, sorted(strange)))
        raise ConfigError(
            f"--role names {listed}, where no machine was read",
            hint="name an address that answers, or leave it out",
        )
    groups, undecided = _grouped(machines, profiles, wishes)
    placed = [one for one in machines if one.seen.target in groups]
    found_addresses = _addresses(placed, found, answering, wishes.plan)
    nodes, numbers = [], dict.fromkeys(SHORT, 0)
    for group in SHORT:
        for one in placed:
            if groups[one.seen.target] != group:
                continue
            numbers[group] += 1
            nodes.append(
                DraftNode(
                    name_of(wishes.pattern, group, numbers[group]),
                    group,
                    found_addresses[one.seen.target],
                    one.seen,
                    profiles.model_of(one.seen),
                    one.bmc,
                    one.by_bmc,
                )
            )
    return Drafted(tuple(nodes), (*notices, *undecided))


def name_of(pattern: str, group: str, number: int) -> str:
    """The name of the group's nth node.

    Raises:
        ConfigError: the pattern makes no name of a node.
    """

    def put(one: re.Match[str]) -> str:
        if one["name"] == "role":
            return SHORT[group]
        return f"{number:0{one['width'] or 1}d}"

    name = _FIELD.sub(put, pattern)
    if not addresses.is_label(name):
        raise ConfigError(
            f"the pattern {pattern[:80]!r} gives {name[:80]!r}, which is no name of a node",
            hint="use lower-case letters, digits and hyphens: --names 'rack7-{role}{number:02}'",
        )
    return name


def require_pattern(pattern: str) -> None:
    """Check that the pattern gives every node a name of its own.

    Raises:
        ConfigError: it does not.
    """
    for group in SHORT:
        name_of(pattern, group, 1)
    if not all(re.search(rf"\{{{name}[:}}]", pattern) for name in ("role", "number")):
        raise ConfigError(
            f"the pattern {pattern[:80]!r} gives two nodes the same name",
            hint="use {role} and {number} in it: --names 'rack7-{role}{number:02}'",
        )


def _one_each(found: Sequence[Found]) -> tuple[list[_Machine], list[str]]:
    """Every machine once, with its BMC; what was left out is named."""
    ordered = sorted(found, key=lambda one: (one.target.kind != "ssh", one.target.address))
    machines: list[_Machine] = []
    notices: list[str] = []
    # What tells a machine -> places of those that told it, so that each meets few others.
    telling: dict[tuple[str, str], list[int]] = {}
    for one in ordered:
        marks = [("serial", one.serial or ""), ("uuid", one.uuid or "")]
        met = sorted({n for mark in marks if mark[1] for n in telling.get(mark, ())})
        place, same = next(
            ((n, machines[n]) for n in met if machines[n].seen.is_also(one)), (0, None)
        )
        if same is None:
            for mark in marks:
                telling.setdefault(mark, []).append(len(machines))
            machines.append(_Machine(one, one if one.target.kind == "bmc" else None))
            if one.serial is None and one.uuid is None:
                notices.append(f"{one.target} tells no serial and no UUID: compare it by hand")
        elif one.target.kind == "bmc" and same.bmc is None:
            machines[place] = replace(same, by_bmc=one)
        else:
            first = same.bmc if one.target.kind == "bmc" else same.seen.target
            who = f"serial {one.serial}" if one.serial else f"UUID {one.uuid}"
            notices.append(
                f"{first} and {one.target} are one machine ({who}): {one.target} is left out"
            )
    return machines, [*notices, *_shared_serials(machines)]


def _shared_serials(machines: Sequence[_Machine]) -> Iterator[str]:
    by_serial: dict[str, list[Target]] = {}
    for one in machines:
        if one.seen.serial:
            by_serial.setdefault(one.seen.serial, []).append(one.seen.target)
    for serial, shared in by_serial.items():
        if len(shared) > 1:
            listed = ", ".join(map(str, shared))
            yield f"{listed} tell one serial {serial} and several UUIDs: they are drafted apart"


def _grouped(
    machines: Sequence[_Machine], profiles: Profiles, wishes: Wishes
) -> tuple[dict[Target, str], list[str]]:
    """Target -> group; and why a machine got none."""
    groups: dict[Target, str] = {}
    spare: list[_Machine] = []
    notices: list[str] = []
    for one in machines:
        said = wishes.roles.get(one.seen.target.address) or (
            wishes.roles.get(one.bmc.address) if one.bmc else None
        )
        use = profiles.use_of(profiles.model_of(one.seen))
        if said:
            groups[one.seen.target] = said
        elif one.seen.gpus or (one.seen.gpus is None and use == _WORKER):
            groups[one.seen.target] = GPU_WORKERS
        elif one.seen.gpus == 0 or use == _MASTER:
            spare.append(one)
        else:
            notices.append(
                f"{one.seen.target}: whether it has GPUs is not known: it is left out; "
                f"to decide: --role {one.seen.target.address}=worker"
            )
    spare.sort(key=lambda one: profiles.use_of(profiles.model_of(one.seen)) != _MASTER)
    for group, count in (
        (CONTROL_PLANE, wishes.control_planes),
        (SYSTEM_NODES, wishes.system_nodes),
    ):
        missing = count - sum(given == group for given in groups.values())
        for one in [one for one in spare if not profiles.lacks(group, one.seen)][: max(missing, 0)]:
            groups[one.seen.target] = group
            spare.remove(one)
            missing -= 1
        if missing > 0 and group == CONTROL_PLANE:
            raise ConfigError(
                f"{count} control-plane nodes are wanted, and {count - missing} machines without "
                "GPUs fit",
                details=[f"{one.seen.target}: {profiles.lacks(group, one.seen)}" for one in spare]
                + notices,
                hint="give a role by hand: --role ADDRESS=control-plane",
            )
    groups.update({one.seen.target: CPU_WORKERS for one in spare})
    return groups, notices


def _addresses(
    placed: Sequence[_Machine],
    found: Sequence[Found],
    answering: Collection[IPv4Address],
    plan: IPv4Interface | None,
) -> dict[Target, IPv4Interface]:
    """Target -> the node's address: its own, or the next free one of the plan."""
    taken = {one.target.address for one in found} | set(answering)
    result: dict[Target, IPv4Interface] = {}
    faults: list[str] = []
    following = _free(plan, taken)
    for one in placed:
        target, prefix = one.seen.target, one.seen.prefix
        if target.kind == "bmc":
            address = next(following, None)
            if address is None:
                faults.append(f"{target}: the plan has no free address for this machine")
            else:
                result[target] = address
        elif prefix is None and (plan is None or target.address not in plan.network):
            faults.append(f"{target}: the prefix of its network is not known")
        else:
            length = prefix if prefix is not None or plan is None else plan.network.prefixlen
            result[target] = IPv4Interface(f"{target.address}/{length}")
    if faults:
        raise ConfigError(
            "addresses are missing: nothing was changed",
            details=faults,
            hint="name the first free address and the prefix of the LAN: "
            "--addresses 198.51.100.11/24",
        )
    return result


def _free(plan: IPv4Interface | None, taken: set[IPv4Address]) -> Iterator[IPv4Interface]:
    if plan is None:
        return
    network = plan.network
    for number in range(int(plan.ip), int(network.broadcast_address)):
        address = IPv4Address(number)
        if address not in taken and address != network.network_address:
            yield IPv4Interface(f"{address}/{network.prefixlen}")


def host_vars(node: DraftNode, fingerprint: str | None) -> dict[str, Any]:
    """The keys of the node's host_vars file.

    Args:
        node: of the draft.
        fingerprint: of its BMC's certificate.
    """
    values: dict[str, Any] = {
        "address": str(node.address),
        "hardware": node.model,
        "bmc_address": str(node.bmc.address) if node.bmc else None,
        "bmc_fingerprint": fingerprint if node.bmc else None,
        "mac": node.machine.mac,
        "imaging": section(node.machine, node.by_bmc),
    }
    return {key: value for key, value in values.items() if value is not None}
