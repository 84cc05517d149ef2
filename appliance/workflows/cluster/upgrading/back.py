"""Take back what an upgrade began on a node that is out of service, where there is a way back.

The upgrade stays under way: the same command without ``--back`` goes forward again. What must not
be here: whether there is a way back (:mod:`appliance.model.upgrade.moves.back`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified
from appliance.model.plan.play import Play
from appliance.model.plan.steps import KUBERNETES_UPGRADE
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Refusal
from appliance.model.upgrade.inventory import back_inventory
from appliance.model.upgrade.moves.back import Back, way_back
from appliance.model.upgrade.plan import UpgradePlan
from appliance.model.upgrade.proof import versions_of
from appliance.workflows.cluster.upgrading.look import Seen, UpgradeResult
from appliance.workflows.cluster.upgrading.request import UpgradeRequest
from appliance.workflows.node.return_ import ReturnRequest, node_return
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN, Recorder, begun
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

CRI_SOCKET: Final = "kubeadm.alpha.kubernetes.io/cri-socket"
BACK: Final = "upgrade: back"
PATIENCE_SECONDS: Final = 360.0
POLL_SECONDS: Final = 2.0


def take_back(
    request: UpgradeRequest,
    session: Session,
    confirm: Callable[[UpgradeResult], bool],
    look: Callable[[], Seen],
) -> UpgradeResult:
    """Refuse, or put back what ran before and return the node to service.

    Args:
        request: with the node's name in its options.
        session: with plays.
        confirm: asks the operator.
        look: what is seen now.

    Raises:
        PreflightFailed: there is no way back, and what to do; nothing was changed.
        Refused: not confirmed, or the node changed meanwhile; nothing was changed.
        PlaybookFailed: nothing of before is kept on the node, or it did not start.
        StepNotVerified: the node is not Ready with what ran before; it stays out of service.
        ClusterError: a node could not be reached, or refused its return; it stays out of service.
    """
    seen = look()
    back = _way_back(request, seen)
    if isinstance(back, Refusal):
        refuse([back])
        raise AssertionError("a refusal ends the command")
    hops = (back.hop,)
    result = UpgradeResult(UpgradePlan(hops, (back.step,)), mark=seen.mark)
    if request.dry_run:
        return result
    require_confirmed(confirm(result))
    with session.lock:
        recorder = Recorder(request.run, session)
        recorder.begin()
        now = _way_back(request, look())
        require_as_shown(back, now, "the node has changed since this was shown")
        with begun():
            with recorder.run_step(BACK, (back.node,), back.step.why):
                _play(request, session, back)
                _verify(request, session, seen.observed, back)
                _name_socket(request, session, back)
            _return(request, session, back)
    return replace(result, done=True)


def _way_back(request: UpgradeRequest, seen: Seen) -> Back | Refusal:
    name, to = request.options.back, request.options.to
    node = versions_of(request.desired.site, seen.observed).get(name)
    return way_back(node, name, seen.mark, seen.plan, to)


def _play(request: UpgradeRequest, session: Session, back: Back) -> None:
    inventory = back_inventory(request.desired.site, back)

    def on_task(name: str, task: str, changed: bool | None) -> None:
        session.observer.task(BACK, name, task, changed=changed)

    play = Play(request.run.id, KUBERNETES_UPGRADE.name, (back.node,), inventory)
    session.playbooks.play(play, on_task)


def _verify(request: UpgradeRequest, session: Session, before: Observed, back: Back) -> None:
    site, patience = request.desired.site, Patience(session.clock, PATIENCE_SECONDS)
    while True:
        look = session.nodes.look([site.node(back.node)])
        # A control-plane node says where the API is; the others' facts are those of before.
        facts = {**before.node_facts, **look.node_facts}
        for fault in look.faults:
            facts.pop(fault.node, None)
        seen = Observed(facts, session.cluster.read(facts), look.faults)
        left = back.open_points(versions_of(site, seen).get(back.node))
        if not left:
            return
        if patience.is_over():
            raise StepNotVerified(
                f"{left[0]}, though what ran before was put back",
                hint=f"see what is wrong: appliance node logs {back.node}; then {AGAIN}",
                details=(f"{back.node} stays out of service",),
            )
        session.observer.verifying(BACK, left[0])
        session.clock.sleep(POLL_SECONDS)


def _name_socket(request: UpgradeRequest, session: Session, back: Back) -> None:
    """Write the socket of the runtime of before on the Node, where kubeadm reads it.

    The change of the runtime writes the new one first.

    Raises:
        ClusterError: the API refused.
    """
    before = (request.hops[name] for name in back.hop.reached_from if name in request.hops)
    socket = next((hop.socket for hop in before if hop.runtime != back.hop.runtime), "")
    if back.part == "runtime" and socket:
        session.members.annotate((back.node,), CRI_SOCKET, socket)


def _return(request: UpgradeRequest, session: Session, back: Back) -> None:
    """Bring the node back into service, with the kubelet of the release before."""
    supply = request.supplies.get(back.hop.release)
    desired = supply.desired_of(request.desired) if supply else request.desired
    desired = replace(desired, lagging=frozenset({back.node}))
    node = desired.site.node(back.node)
    node_return(ReturnRequest(desired, node, request.run), session, lambda *_: True)
