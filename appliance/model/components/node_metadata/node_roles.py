"""Run:ai's node roles: the labels and the RunaiConfig of a request, and its refusals.

``runai-adm`` writes the same labels and the same patch. It also scales the operator, deletes
Jobs, and may delete a claim and every StatefulSet. This module does none of that: it refuses a
label that would move a stateful service. What must not be here: talking to the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from appliance.model.state.nodes.roles import (
    GROUP_ROLES,
    LABELS,
    ROLES,
    AnchoredObject,
    NodeAffinity,
    Role,
    RolesView,
)
from appliance.model.state.plan import Notice, Refusal

Verb = Literal["set", "remove"]
TO_MOVE = "make this node a system node too, or move the service by hand first"
WORDS: Final[Mapping[Role, str]] = {
    "system": "a system node",
    "gpu": "a GPU worker",
    "cpu": "a CPU worker",
}
ONE_ANSWER: Final = {"gpu": "cpu", "cpu": "gpu"}


@dataclass(frozen=True)
class RoleRequest:
    """A request of an operator.

    Attributes:
        every: all nodes that can have the role, instead of ``nodes``.
        allow_move: stateful services may move, or wait for their data, afterwards.
        allow_control_plane: the site allows control-plane nodes as system nodes.
    """

    verb: Verb
    role: Role
    nodes: tuple[str, ...] = ()
    every: bool = False
    allow_move: bool = False
    allow_control_plane: bool = False


@dataclass(frozen=True)
class LabelChange:
    """One label that a node gets (``present``) or loses."""

    node: str
    role: Role
    present: bool

    @property
    def key(self) -> str:
        """The label's key; its value is the empty string."""
        return LABELS[self.role]


@dataclass(frozen=True)
class RolesPlan:
    """What to write, in which order, or why it is refused.

    Attributes:
        patch: of the RunaiConfig; None when it needs no change or does not exist.
        patch_first: the patch loosens a restriction, so it precedes the removal of labels.
        moves: the stateful services that would have to move.
    """

    changes: tuple[LabelChange, ...] = ()
    patch: Mapping[str, Any] | None = None
    patch_first: bool = False
    moves: tuple[AnchoredObject, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    notices: tuple[Notice, ...] = field(default=())

    @property
    def is_empty(self) -> bool:
        """Whether nothing has to be written."""
        return not self.changes and self.patch is None


def plan_roles(
    request: RoleRequest, view: RolesView, inventory: Mapping[str, frozenset[Role]]
) -> RolesPlan:
    """Plan a request for this cluster.

    Args:
        request: as typed.
        view: as the cluster has it.
        inventory: node -> its roles by the inventory, to report differences.
    """
    names, notices = (_every(request, view), []) if request.every else (request.nodes, [])
    if request.every:
        notices = list(_left_out(request, view, names))
    refusals = list(_refusals(request, view, names))
    if refusals:
        return RolesPlan(refusals=tuple(refusals), notices=tuple(notices))
    present = request.verb == "set"
    changes = tuple(
        LabelChange(name, request.role, present)
        for name in names
        if (request.role in view.roles(name)) != present
    )
    for change in changes:
        if (change.role in inventory.get(change.node, frozenset())) != present:
            notices.append(_against_inventory(change))
    return _with_patch(changes, {request.role}, view, notices, allow_move=request.allow_move)


def plan_inventory(
    view: RolesView, inventory: Mapping[str, frozenset[Role]], *, allow_move: bool = False
) -> RolesPlan:
    """Plan the inventory's labels for the cluster; other nodes stay unchanged."""
    changes = tuple(
        LabelChange(name, role, role in roles)
        for name, roles in inventory.items()
        if name in view.labels
        for role in ROLES
        if (role in roles) != (role in view.roles(name))
    )
    return _with_patch(changes, set(ROLES), view, [], allow_move=allow_move)


def _every(request: RoleRequest, view: RolesView) -> tuple[str, ...]:
    """Return the nodes of ``--all``: workers except system nodes and those of the other role."""
    other = ONE_ANSWER.get(request.role)
    return tuple(
        sorted(
            node
            for node in view.labels
            if not view.is_control_plane(node)
            and "system" not in view.roles(node)
            and not (request.verb == "set" and other in view.roles(node))
        )
    )


def _left_out(request: RoleRequest, view: RolesView, names: Sequence[str]) -> Iterator[Notice]:
    for node in sorted(set(view.labels) - set(names)):
        if view.is_control_plane(node):
            why = "a control-plane node"
        elif "system" in view.roles(node):
            why = "a system node"
        else:
            other: Role = "cpu" if request.role == "gpu" else "gpu"
            why = f"{WORDS[other]} already"
        yield Notice(node, f"left out of --all: it is {why}")


def _refusals(request: RoleRequest, view: RolesView, names: Sequence[str]) -> Iterator[Refusal]:
    if request.every and request.role == "system":
        yield Refusal(
            "cluster",
            "role",
            "--all with --role system",
            "system nodes named one by one: --all never changes them",
            f"name them: appliance node role {request.verb} NODE... --role system",
        )
        return
    for name in names:
        if name not in view.labels:
            known = ", ".join(sorted(view.labels))
            yield Refusal(
                name, "role", "no node of this name", f"a node of the cluster: {known}",
                "appliance node role list",
            )  # fmt: skip
        elif request.verb == "set":
            yield from _may_not_have(request, view, name)


def _may_not_have(request: RoleRequest, view: RolesView, name: str) -> Iterator[Refusal]:
    if view.is_control_plane(name) and not (
        request.role == "system" and request.allow_control_plane
    ):
        hint = "choose a worker"
        if request.role == "system":
            hint += ", or accept the risk: runai.system_on_control_plane: true in site.yml"
        yield Refusal(
            name,
            "role",
            f"a control-plane node requested as {WORDS[request.role]}",
            "a worker: jobs and Run:ai's own pods take the API server's CPU, memory and port 443",
            hint,
        )
    other = ONE_ANSWER.get(request.role)
    if other in view.roles(name):
        yield Refusal(
            name,
            "role",
            f"{WORDS[other]} also requested as {WORDS[request.role]}",
            "only one of the two: the scheduler needs a single role",
            f"appliance node role remove {name} --role {other}",
        )


def _against_inventory(change: LabelChange) -> Notice:
    group = next(name for name, role in GROUP_ROLES.items() if role == change.role)
    if change.present:
        text = f"not in group {group} of hosts.yml: the next install removes the label"
    else:
        text = f"still in group {group} of hosts.yml: the next install sets the label"
    return Notice(change.node, text)


def _after(view: RolesView, changes: Sequence[LabelChange]) -> RolesView:
    labels = {node: dict(found) for node, found in view.labels.items()}
    for change in changes:
        if change.present:
            labels[change.node][change.key] = ""
        else:
            labels[change.node].pop(change.key, None)
    return RolesView(labels, view.affinity, view.anchored)


def wanted_affinity(view: RolesView) -> NodeAffinity:
    """Return the affinity in the RunaiConfig that fits a cluster's labels."""
    return NodeAffinity(
        restrict_scheduling=bool(view.having("gpu") | view.having("cpu")),
        restrict_system=bool(view.having("system")),
    )


def _with_patch(
    changes: tuple[LabelChange, ...],
    asked: set[Role],
    view: RolesView,
    notices: list[Notice],
    *,
    allow_move: bool,
) -> RolesPlan:
    after = _after(view, changes)
    wanted, patch, loosens = wanted_affinity(after), {}, False
    if view.affinity is None:
        if changes:
            notices.append(Notice("cluster", "there is no RunaiConfig yet: labels only"))
    else:
        if (
            asked & {"gpu", "cpu"}
            and wanted.restrict_scheduling != view.affinity.restrict_scheduling
        ):
            patch["restrictScheduling"] = wanted.restrict_scheduling
        if "system" in asked and wanted.restrict_system != view.affinity.restrict_system:
            patch["restrictRunaiSystem"] = wanted.restrict_system
        loosens = bool(patch) and not any(patch.values())
    moves = _moves(view, after)
    refusals = () if allow_move else tuple(_would_move(moves, view))
    return RolesPlan(
        changes=changes,
        patch={"spec": {"global": {"nodeAffinity": patch}}} if patch else None,
        patch_first=loosens,
        moves=moves,
        refusals=refusals,
        notices=tuple(notices),
    )


def _moves(view: RolesView, after: RolesView) -> tuple[AnchoredObject, ...]:
    """Return the services whose node allows them now, and would not after the change."""
    before, then = view.having("system"), after.having("system")
    restricted = view.affinity.restrict_system if view.affinity else bool(before)
    if not then:
        return ()
    return tuple(
        thing
        for thing in view.anchored
        if thing.node not in then and (not restricted or thing.node in before)
    )


def _would_move(moves: Sequence[AnchoredObject], view: RolesView) -> Iterator[Refusal]:
    for node in sorted({thing.node for thing in moves}):
        here = [str(thing) for thing in moves if thing.node == node]
        loses = "system" in view.roles(node)
        yield Refusal(
            node,
            "stateful service",
            f"{', '.join(here)} bound to {node}, which "
            + ("would no longer be a system node" if loses else "is not a system node"),
            f"a system node: the service has to leave other nodes, and its data stays on {node}",
            f"{TO_MOVE}; or accept the move with --allow-move",
        )
