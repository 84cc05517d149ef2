"""Add a new node to the cluster, or replace a node with another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import Refused
from appliance.workflows.node.joining import Confirm, JoinLook, JoinRequest, JoinResult, join, look

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND = "node add"


def node_add(request: JoinRequest, session: Session, confirm: Confirm) -> JoinResult:
    """Check that the name is free, and install the node.

    Raises:
        Refused: the place is taken; or what :func:`join` refuses. Nothing was changed.
        NodeUnreachable: the machine or the API does not answer; nothing was changed.
        what :func:`appliance.workflows.install.install` raises.
    """

    def see() -> JoinLook:
        seen = look(request, session)
        _require_free(request, seen)
        return seen

    return join(request, session, confirm, see)


def _require_free(request: JoinRequest, seen: JoinLook) -> None:
    """Refuse to add beside a member whose place is to be taken.

    Raises:
        Refused: the old node is still a member, or was never removed.
    """
    old = request.replace
    if old is None or old == request.node:
        return
    record = seen.records.get(old)
    if old in seen.cluster.nodes:
        raise Refused(
            f"{request.node}: cannot replace {old}, which is still a member of the cluster",
            hint=f"remove it first, reachable or not: appliance node remove {old}",
        )
    if record is None or record.removed is None:
        raise Refused(
            f"{request.node}: cannot replace {old}: no record says that {old} was removed",
            hint=f"to add {request.node} as a new node: appliance node add {request.node}",
        )
