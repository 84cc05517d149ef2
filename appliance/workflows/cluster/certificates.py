"""Renew the certificates of Kubernetes: one node after the other, each verified.

A second run renews only what is left, and finishes a node on which a run was killed. What must not
be here: which nodes are due and what forbids it
(:mod:`appliance.model.components.control_plane.renewal`), or how a node renews them (role
``kubernetes_certificates``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import StepNotVerified
from appliance.model.components.control_plane.kubeconfig_copies import CURE, KubeconfigCopy
from appliance.model.components.control_plane.renewal import (
    NodeRenewal,
    RenewalPlan,
    awaits_ready,
    open_points,
    plan_renewal,
    renewal_inventory,
)
from appliance.model.plan.play import Play
from appliance.model.plan.under_upgrade import under_way
from appliance.model.site.settings import Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.journal import Run
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import mark_of
from appliance.workflows.cluster.kubelets import KubeletWork
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe, refuse, require_evidence

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster certificates renew"
STEP: Final = "kubernetes_certificates"
# The kubelet waits up to five minutes before it starts a container again that often ended.
PATIENCE_SECONDS: Final = 360.0
POLL_SECONDS: Final = 2.0
# An upgrade that goes on refuses certificates that end within its window: most take hours.
SOON_DAYS: Final = 7.0


@dataclass(frozen=True)
class RenewalRequest:
    """What was asked for, by whom.

    Attributes:
        within_days: certificates with fewer days left are renewed.
        without: nodes that are left out, by name.
    """

    site: Site
    run: Run
    within_days: int
    without: tuple[str, ...] = ()
    dry_run: bool = False


@dataclass(frozen=True)
class RenewalResult:
    """How it ended: the plan, whether it was carried out, and which kubeconfigs were tested."""

    plan: RenewalPlan
    done: bool = False
    copies: tuple[KubeconfigCopy, ...] = ()


def renew_certificates(
    request: RenewalRequest, session: Session, confirm: Callable[[RenewalPlan], bool]
) -> RenewalResult:
    """Inspect, refuse or renew, and verify.

    Raises:
        NodeUnreachable: a node told too little of itself; nothing was changed.
        PreflightFailed: another control-plane node is not well; nothing was changed.
        Refused: the operator did not confirm, or the site changed meanwhile; nothing was changed.
        PlaybookFailed: kubeadm failed, or a program does not run with the new files.
        StepNotVerified: a certificate was not renewed, the API does not answer, or it does not
            accept a kubeconfig that was written.
    """
    plan = _planned(request, session)
    if request.dry_run or not plan.work:
        return RenewalResult(plan)
    require_confirmed(confirm(plan))
    with session.lock:
        # Another node may have failed meanwhile: etcd would lose its majority.
        now = _planned(request, session)
        require_as_shown(plan.work, now.work, "the certificates changed since this was planned")
        _carry_out(request, session, plan)
    return RenewalResult(plan, done=True, copies=_tested(request, session, plan))


def _under_way(site: Site, observed: Observed, plan: RenewalPlan) -> tuple[Refusal, ...]:
    """An upgrade renews them itself; where one ends in its window, it needs this command first."""
    mark = mark_of(observed.cluster)
    soon = max(SOON_DAYS, mark.window_days if mark else 0.0)
    # A kubelet's is due only in its last days.
    urgent = plan.kubelets or any(one.ends_within(soon) for one in plan.renewals)
    return under_way(site, observed.cluster) if plan.renewals and not urgent else ()


def _planned(request: RenewalRequest, session: Session) -> RenewalPlan:
    """Inspect, plan, and refuse."""
    observed, look = observe(request.site, session.nodes, session.cluster)
    require_evidence(observed.node_facts)
    plan = plan_renewal(request.site, observed, look, request.within_days, request.without)
    refuse((*_under_way(request.site, observed, plan), *plan.refusals))
    return plan


def _carry_out(request: RenewalRequest, session: Session, plan: RenewalPlan) -> None:
    recorder = Recorder(request.run, session)
    kubelets = KubeletWork(request.site, request.run.id, request.without, session, recorder)
    first = [one for one in plan.kubelets if one.comes_first]
    # Without a kubelet no program of its control plane starts again.
    expired = any(one.has_expired for one in plan.renewals)
    kubelets.renew(first, await_ready=False)
    if first and not expired:
        _verify_api(request, session)
    _renew_kubeadms(request, session, plan, recorder)
    kubelets.renew([one for one in plan.kubelets if not one.comes_first])


def _renew_kubeadms(
    request: RenewalRequest, session: Session, plan: RenewalPlan, recorder: Recorder
) -> None:
    renewed: list[str] = []
    for renewal in plan.renewals:
        renewed.append(renewal.node)
        why = tuple(f"{renewal.node}: {text}" for text in renewal.reasons())
        with recorder.run_step(STEP, (renewal.node,), why):
            ready = awaits_ready(request.site, plan, renewed)
            _renew(request, session, renewal, await_ready=ready)
            _verify(request, session, renewal)
            # Whatever was left out: the command does not end well without an API.
            if ready or renewal is plan.renewals[-1]:
                _verify_api(request, session)


def _renew(
    request: RenewalRequest, session: Session, renewal: NodeRenewal, *, await_ready: bool
) -> None:
    node = request.site.node(renewal.node)
    inventory = renewal_inventory(request.site, node, request.within_days, await_ready=await_ready)

    def on_task(name: str, task: str, changed: bool | None) -> None:
        session.observer.task(STEP, name, task, changed=changed)

    session.playbooks.play(Play(request.run.id, STEP, (node.name,), inventory), on_task)


def _tested(
    request: RenewalRequest, session: Session, plan: RenewalPlan
) -> tuple[KubeconfigCopy, ...]:
    """The copies that were written: each is accepted by the API.

    Its Node may be Ready, and the API server there not yet: the others told of the Node.
    """
    if not plan.renewals:
        return ()
    nodes = [request.site.node(renewal.node) for renewal in plan.renewals]
    patience, copies = Patience(session.clock, PATIENCE_SECONDS), session.try_kubeconfigs(nodes)
    while any(one.may_pass for one in copies) and not patience.is_over():
        session.clock.sleep(POLL_SECONDS)
        copies = session.try_kubeconfigs(nodes)
    faulty = [f"{one.place}: {one.problem}" for one in copies if one.problem]
    if faulty:
        raise StepNotVerified(
            f"certificates were renewed, but a kubeconfig does not work: {faulty[0]}",
            hint=f"write the copies again: {CURE}",
            details=faulty[1:],
        )
    return copies


def _verify(request: RenewalRequest, session: Session, renewal: NodeRenewal) -> None:
    node = request.site.node(renewal.node)
    look = session.nodes.look([node])
    left = open_points(node, look.node_facts.get(node.name), request.within_days)
    if left:
        raise StepNotVerified(
            f"{node.name}: certificates were renewed, but {left[0]}",
            hint="run the same command again: it resumes here",
            details=left[1:],
        )


def _verify_api(request: RenewalRequest, session: Session) -> None:
    """Wait until the API answers, and every control-plane node that was not left out is Ready."""
    patience = Patience(session.clock, PATIENCE_SECONDS)
    asked = [node for node in request.site.control_plane if node.name not in request.without]
    while True:
        look = session.nodes.look(asked)
        cluster = session.cluster.read(look.node_facts)
        fault = _fault(cluster, [node.name for node in asked])
        if not fault:
            return
        if patience.is_over():
            raise StepNotVerified(
                f"certificates were renewed, but {fault}",
                hint="see what is wrong: appliance status; then run the same command again",
            )
        session.observer.verifying(STEP, fault)
        session.clock.sleep(POLL_SECONDS)


def _fault(cluster: object, names: list[str]) -> str:
    if not isinstance(cluster, Cluster):
        return "no API server answers"
    late = [name for name in names if name not in cluster.nodes or not cluster.nodes[name].ready]
    return f"not Ready: {', '.join(late)}" if late else ""
