"""Give nodes Run:ai's roles or take them: labels and the RunaiConfig's patch, nothing else.

A second run heals one that was killed: the plan follows from what the cluster has. What must not
be here: which change is allowed (that is :mod:`appliance.model.node_roles`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import Refused, StepNotProven
from appliance.model.inventory_roles import inventory_roles
from appliance.model.node_roles import plan_roles
from appliance.workflows.recording import Recorder
from appliance.workflows.survey import refuse

if TYPE_CHECKING:
    from appliance.model.journal import Run
    from appliance.model.node_roles import RoleRequest, RolesPlan, RolesView
    from appliance.model.site import Site
    from appliance.workflows.ports import Clock, ClusterApi, JournalPort


@dataclass(frozen=True)
class NodeRoleRequest:
    """What was asked for, by whom, with which tool."""

    site: Site
    wish: RoleRequest
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class NodeRolePorts:
    """Everything outside that a change of roles needs."""

    cluster: ClusterApi
    journal: JournalPort
    clock: Clock
    confirm: Callable[[RolesPlan], bool]


@dataclass(frozen=True)
class RolesChanged:
    """How it ended: the plan, and the roles as they were seen last."""

    plan: RolesPlan
    view: RolesView


def node_role(request: NodeRoleRequest, ports: NodeRolePorts) -> RolesChanged:
    """Look, plan, refuse or write, and look again.

    Raises:
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: the change is not allowed; nothing was changed.
        Refused: the operator did not confirm; nothing was changed.
        ClusterError: the API refused a write.
        StepNotProven: what was written is not observed.
    """
    view = ports.cluster.roles()
    plan = plan_roles(request.wish, view, inventory_roles(request.site))
    refuse(plan.refusals)
    if request.dry_run or plan.is_empty:
        return RolesChanged(plan, view)
    if not ports.confirm(plan):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    recorder = Recorder(request.run, ports.journal, ports.clock)
    nodes = tuple(dict.fromkeys(change.node for change in plan.changes))
    with recorder.step("node_roles", nodes, describe(plan)):
        ports.cluster.write_roles(plan)
        view = ports.cluster.roles()
        left = plan_roles(request.wish, view, {})
        if not left.is_empty:
            raise StepNotProven(
                "the roles were written, and the cluster has others",
                hint="somebody else may be at work: appliance node role list; then run it again",
                details=describe(left),
            )
    return RolesChanged(plan, view)


def describe(plan: RolesPlan) -> tuple[str, ...]:
    """One sentence for each thing that is written."""
    said = [
        f"{change.node}: label {change.key} {'is set' if change.present else 'is removed'}"
        for change in plan.changes
    ]
    affinity = plan.patch["spec"]["global"]["nodeAffinity"] if plan.patch else {}
    said += [f"RunaiConfig: {key} becomes {str(value).lower()}" for key, value in affinity.items()]
    return tuple(said)
