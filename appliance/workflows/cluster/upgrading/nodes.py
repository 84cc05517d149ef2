"""A batch of nodes: out of service, renewed, and back, by the code of maintain and return.

What must not be here: which nodes are a batch, or what is renewed. An upgrade of Kubernetes, one of
the GPU stack, and a patch of packages say both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from appliance.errors import ApplianceError, ClusterError, Interrupted, LeaseLost
from appliance.model.node.drain import forecast
from appliance.model.state.nodes.maintenance import Maintenance, timestamp
from appliance.workflows.node.maintain import node_maintain, nodes_maintain
from appliance.workflows.node.maintenance.again import MaintainRequest
from appliance.workflows.node.maintenance.marks import Marks
from appliance.workflows.node.return_ import ReturnRequest, nodes_return
from appliance.workflows.session.patience import Patience
from appliance.workflows.session.recording import AGAIN

if TYPE_CHECKING:
    from appliance.model.node.drain import DrainView
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

# How long a PodDisruptionBudget may hold up one node of an upgrade.
BUDGET_SECONDS: Final = 300.0
# After a play that failed on one node, the others of its batch may still start their kubelet.
SETTLES_SECONDS: Final = 120.0
POLL_SECONDS: Final = 5.0


class Batch(Protocol):
    """A step that names its nodes."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Their names, in order."""


Step = TypeVar("Step", bound=Batch)


@dataclass(frozen=True)
class Batches(Generic[Step]):
    """How batches of nodes are renewed.

    Attributes:
        desired: with what the step brings, without the nodes that are left out.
        reason: of each maintenance.
        is_ours: whether a maintenance with this reason is of such a command.
        converge: runs the plays of a step on its nodes, and verifies them.
        is_renewed: whether a node has what the step brings; None: only a step that ended well says.
        guard: makes sure that the site is ours still.
        acknowledged: names of facts that may differ when a node returns.
        has_way_back: whether ``--back`` may take a failed node back.
        agreed: what ends for good, as it was shown before the run; None: nothing was shown.
    """

    desired: Desired
    reason: str
    is_ours: Callable[[str], bool]
    run: Run
    session: Session
    converge: Callable[[Step], None]
    is_renewed: Callable[[str], bool] | None
    guard: Callable[[], object]
    allow_outage: bool = False
    acknowledged: frozenset[str] = frozenset()
    has_way_back: bool = False
    agreed: frozenset[str] | None = None

    def carry_out(self, step: Step) -> None:
        """Take the nodes out, renew them, and bring them back.

        Raises:
            LeaseLost: another command took the site over; the nodes are left as they are.
            ApplianceError: of the first node that failed; it stays out of service, the others of
                the batch are back. Where its pods could not be moved, it is back as well.
        """
        self._empty(step)
        error: ApplianceError | None = None
        renewed: Sequence[str] = step.nodes
        try:
            self.converge(step)
        except LeaseLost:
            raise
        except Interrupted as stopped:
            # Nobody who stops it waits for nodes to settle, and for their tests.
            error, renewed = stopped, ()
        except ApplianceError as failed:
            error, renewed = failed, self._renewed(step)
        out = nodes_return([self._return_of(name) for name in renewed], self.session)
        left = [name for name in step.nodes if name in out or name not in renewed]
        error = error or next((out[name] for name in left), None)
        if error is not None:
            words = f"{', '.join(left)} stays out of service" if left else "every node is back"
            error.details = (*error.details, f"{words}; {AGAIN}{self._way_back(left)}")
            raise error

    def _renewed(self, step: Step) -> Sequence[str]:
        """The nodes of a batch that failed that have all of it, once those others have settled."""
        if self.is_renewed is None:
            return ()
        patience = Patience(self.session.clock, SETTLES_SECONDS)
        while True:
            found = [name for name in step.nodes if self.is_renewed(name)]
            # A single node is the one that failed.
            if len(found) == len(step.nodes) or len(step.nodes) == 1 or patience.is_over():
                return found
            self.session.clock.sleep(POLL_SECONDS)

    def _way_back(self, left: Sequence[str]) -> str:
        if not left or not self.has_way_back:
            return ""
        return f"; where there is a way back: --back {left[0]}"

    def _empty(self, step: Step) -> None:
        """Cordon the batch, so that no pod moves twice; then empty its nodes at the same time.

        Where that fails the nodes that this run took out are given back: nothing was changed there.
        One that was out before is not: an earlier run may have left it half renewed.
        """
        begun: list[str] = []
        out = [n for n in step.nodes if self.session.drain.view(n).maintenance is not None]
        try:
            for name in step.nodes if len(step.nodes) > 1 else ():
                begun.append(name)
                self._cordon(name)
            requests = [self._request_of(name) for name in step.nodes]
            if len(requests) > 1:
                nodes_maintain(requests, self.session)
            else:
                node_maintain(requests[0], self.session, lambda *_: True)
            begun += [name for name in step.nodes if name not in begun]
        except LeaseLost:
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            ours = [name for name in begun if name not in out]
            back = [sentence for name in ours if (sentence := self._give_back(name))]
            back += [
                f"{name} stays out of service, as it was before; {AGAIN}"
                for name in out
                if self._is_out(name)
            ]
            if isinstance(stopped, ApplianceError):
                stopped.details = (*stopped.details, *back)
            raise

    def _is_out(self, name: str) -> bool:
        """Whether a node is in maintenance still: one whose pods only moved is given back."""
        try:
            return self.session.drain.view(name).maintenance is not None
        except ApplianceError:
            return True

    def _cordon(self, name: str) -> None:
        view = self.session.drain.view(name)
        if view.maintenance is None:
            run = self.run
            mark = Maintenance(
                run=run.id,
                by=run.operator,
                host=run.host,
                since=timestamp(self.session.clock.now()),
                mode="cordon",
                phase="cordon",
                cordoned=not view.unschedulable,
                tainted=False,
                reason=self.reason,
            )
            Marks(self.session.drain, self.guard, name, None).write(mark, cordon=True)

    def _require_agreed(self, view: DrainView) -> None:
        """Refuse to end work that began after the plan was shown; hours may have passed since.

        Raises:
            ClusterError: names it; this node was not emptied.
        """
        ended = forecast(view.node, view.pods, view.budgets, view.nodes).ended
        new = [line for line in ended if self.agreed is not None and line not in self.agreed]
        if new:
            raise ClusterError(
                f"{view.node} was not emptied: {new[0]}; it was not in the plan that was shown",
                hint="wait for it or ask its owner, then run the same command again: it shows a "
                "new plan, and goes on",
                details=new[1:],
            )

    def _request_of(self, name: str) -> MaintainRequest:
        view = self.session.drain.view(name)
        self._require_agreed(view)
        return MaintainRequest(
            self.desired.site,
            self.desired.site.node(name),
            self.run,
            reason=self.reason,
            mode="cordon",
            allow_outage=self.allow_outage or not outages(view),
            budget_seconds=BUDGET_SECONDS,
        )

    def _return_of(self, name: str) -> ReturnRequest:
        node = self.desired.site.node(name)
        return ReturnRequest(self.desired, node, self.run, acknowledged=self.acknowledged)

    def _give_back(self, name: str) -> str:
        """Undo the marks of a node on which nothing was changed yet; why not, or empty."""
        try:
            mark = self.session.drain.view(name).maintenance
            if mark is not None and self.is_ours(mark.reason):
                marks = Marks(self.session.drain, self.guard, name, mark)
                marks.clear(uncordon=mark.cordoned)
        except ApplianceError as error:
            return f"{name} stays cordoned ({error.message}): appliance node return {name}"
        return ""


def outages(view: DrainView) -> Sequence[str]:
    """What an upgrade of the node would stop; it only restarts, so etcd's quorum comes back."""
    foreseen = forecast(view.node, view.pods, view.budgets, view.nodes)
    return [one.sentence() for one in foreseen.by("refuses") if not one.quorum]
