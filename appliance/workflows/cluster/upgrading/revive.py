"""Go on where an upgrade was killed while it had stopped the only API server's kubelet.

Without an API nothing can be planned. The record on the control-plane nodes names the upgrade, so
the same command starts what it had stopped. What must not be here: what a mark on the cluster says
(:mod:`appliance.model.state.upgrade`), or another cure for an API that is away.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import read_typed
from appliance.model.plan.play import Play
from appliance.model.plan.steps import KUBERNETES_UPGRADE
from appliance.model.state.upgrade import UpgradeMark
from appliance.model.upgrade.inventory import revive_inventory
from appliance.model.upgrade.moves.steps import UpgradeStep
from appliance.model.upgrade.plan import UpgradePlan
from appliance.workflows.cluster.upgrading.look import UpgradeResult
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import look_patiently

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

RECORD: Final = "upgrade.json"
REVIVE: Final = "upgrade: start the kubelet"


def keep_record(session: Session, mark: UpgradeMark) -> None:
    """Write the mark where it can be read without an API.

    Raises:
        NodeUnreachable: it is on no majority of the control-plane nodes.
    """
    for sentence in session.archive.put(RECORD, mark.as_text()):
        session.observer.note(sentence)


def read_record(session: Session) -> UpgradeMark | None:
    """The mark as it was written last; None without one, or where it cannot be read.

    Raises:
        NodeUnreachable: no control-plane node answers.
    """
    text = session.archive.get(RECORD)
    try:
        return read_typed(text, UpgradeMark) if text is not None else None
    except Unreadable:
        return None


def revive(
    request: UpgradeRequest,
    session: Session,
    confirm: Callable[[UpgradeResult], bool],
    away: NodeUnreachable,
) -> None:
    """Start runtime and kubelet of control-plane nodes where this upgrade had stopped them.

    Args:
        request: what was asked for.
        session: with plays.
        confirm: asks the operator.
        away: the error without an API; it is raised where there is nothing to start.

    Raises:
        NodeUnreachable: ``away``; nothing was changed.
        Refused: not confirmed; nothing was changed.
        PlaybookFailed: a unit did not start.
        ClusterError: a node could not be reached.
    """
    site, to = request.desired.site, request.options.to
    look = look_patiently(session.nodes, site.control_plane)
    stopped = tuple(
        name
        for name, facts in look.node_facts.items()
        if facts.at("kubernetes.kubelet_active") is False
    )
    mark = read_record(session) if stopped else None
    if request.dry_run or mark is None or mark.over or mark.release != to:
        raise away
    why = tuple(f"{name}: its kubelet is stopped, and no API server answers" for name in stopped)
    step = UpgradeStep("revive", to, stopped, why)
    require_confirmed(confirm(UpgradeResult(UpgradePlan((request.hops[to],), (step,)), mark=mark)))
    with session.lock:
        recorder = Recorder(request.run, session)
        with recorder.run_step(REVIVE, stopped, why):
            _start(request, session, stopped)


def _start(request: UpgradeRequest, session: Session, stopped: tuple[str, ...]) -> None:
    inventory = revive_inventory(request.desired.site, stopped)

    def on_task(name: str, task: str, changed: bool | None) -> None:
        session.observer.task(REVIVE, name, task, changed=changed)

    try:
        play = Play(request.run.id, KUBERNETES_UPGRADE.name, stopped, inventory)
        session.playbooks.play(play, on_task)
    except NodeUnreachable as error:
        raise ClusterError(error.message, hint=error.hint or AGAIN) from error
