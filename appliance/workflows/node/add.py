"""Add a node that is new to the cluster, or let a machine take the place of another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import Refused
from appliance.workflows.node.joining import Confirm, JoinLook, JoinRequest, JoinResult, join, look

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND = "node add"


def node_add(request: JoinRequest, session: Session, confirm: Confirm) -> JoinResult:
    """Check that the place is free, and install the node.

    Raises:
        Refused: the place is taken; or what :func:`join` refuses. Nothing was changed.
        NodeUnreachable: the machine or the API does not answer; nothing was changed.
        what :func:`appliance.workflows.install.install` raises.
    """
    seen = look(request, session)
    _require_free(request, seen)
    return join(request, session, confirm, seen)


def _require_free(request: JoinRequest, seen: JoinLook) -> None:
    """Refuse to add beside a member whose place is to be taken.

    Raises:
        Refused: the old node is still a member, or was never removed.
    """
    old = request.replace
    if old is None or old == request.node:
        return
    record = request.records.get(old)
    if old in seen.cluster.nodes:
        raise Refused(
            f"{request.node}: {old}, whose place it is to take, is still a member of the cluster",
            hint=f"take it out first, dead or alive: appliance node remove {old}",
        )
    if record is None or record.removed is None:
        raise Refused(
            f"{request.node}: nothing is written down of {old}, whose place it is to take",
            hint=f"a new node: appliance node add {request.node}",
        )
