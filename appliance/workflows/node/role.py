"""Set or remove Run:ai's node roles: labels and the RunaiConfig's patch, nothing else.

The same command completes a killed run: the plan follows from the state of the cluster. What must
not be here: which change is allowed (``node_roles.py`` of the component).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import StepNotVerified
from appliance.model.components.node_metadata.node_roles import RoleRequest, RolesPlan, plan_roles
from appliance.model.site.settings import Site
from appliance.model.state.journal import Run
from appliance.model.state.nodes.roles import RolesView, inventory_roles
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class NodeRoleRequest:
    """What was asked for, by whom, with which tool."""

    site: Site
    roles: RoleRequest
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class RoleResult:
    """How it ended: the plan, and the roles as they were seen last."""

    plan: RolesPlan
    view: RolesView


def node_role(
    request: NodeRoleRequest, session: Session, confirm: Callable[[RolesPlan], bool]
) -> RoleResult:
    """Inspect, plan, refuse or write, and verify.

    Raises:
        NodeUnreachable: no API server answers; nothing was changed.
        PreflightFailed: the change is not allowed; nothing was changed.
        Refused: the operator did not confirm; nothing was changed.
        ClusterError: the API refused a write.
        StepNotVerified: the cluster does not have the written roles.
    """
    view = session.cluster.roles()
    plan = plan_roles(request.roles, view, inventory_roles(request.site))
    refuse(plan.refusals)
    if request.dry_run or plan.is_empty:
        return RoleResult(plan, view)
    require_confirmed(confirm(plan))
    recorder = Recorder(request.run, session)
    nodes = tuple(dict.fromkeys(change.node for change in plan.changes))
    with session.lock, recorder.step("node_roles", nodes, describe(plan)):
        session.cluster.write_roles(plan)
        view = session.cluster.roles()
        left = plan_roles(request.roles, view, {})
        if not left.is_empty:
            raise StepNotVerified(
                "the node roles in the cluster differ from those just written",
                hint="another person may be changing them: appliance node role list; then run the "
                "same command again",
                details=describe(left),
            )
    return RoleResult(plan, view)


def describe(plan: RolesPlan) -> tuple[str, ...]:
    """One sentence for each thing that is written."""
    said = [
        f"{change.node}: label {change.key} {'is set' if change.present else 'is removed'}"
        for change in plan.changes
    ]
    affinity = plan.patch["spec"]["global"]["nodeAffinity"] if plan.patch else {}
    said += [f"RunaiConfig: {key} becomes {str(value).lower()}" for key, value in affinity.items()]
    return tuple(said)
