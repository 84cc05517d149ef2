"""Rejoin a former member: reinstalled, repaired, or removed on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from appliance.errors import Refused
from appliance.workflows.node.joining import Confirm, JoinLook, JoinRequest, JoinResult, join, look

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND = "node rejoin"


def node_rejoin(request: JoinRequest, session: Session, confirm: Confirm) -> JoinResult:
    """Verify that no machine runs under the name, delete stale objects, and install the node.

    Raises:
        Refused: it never was a member; or what :func:`join` refuses. Nothing was changed.
        NodeUnreachable: the machine or the API does not answer; nothing was changed.
        what :func:`appliance.workflows.install.install` raises.
    """

    def see() -> JoinLook:
        seen = look(request, session)
        _require_known(request, seen)
        return seen

    return join(request, session, confirm, see)


def _require_known(request: JoinRequest, seen: JoinLook) -> None:
    """Refuse a name that was never one of a member.

    Raises:
        Refused: nothing says that it was.
    """
    record = seen.records.get(request.node)
    known = seen.member is not None or seen.passport or (record and record.removed)
    # A rejoin that was killed after the old Node object went left what it had.
    if not known and not (record and record.kept):
        raise Refused(
            f"{request.node}: was never a member of this cluster",
            hint=f"to add it as a new node: appliance node add {request.node}",
        )
