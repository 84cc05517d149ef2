"""A batch of nodes: out of service, patched, and back, by the code of maintain and return.

What must not be here: which nodes are a batch (:mod:`appliance.model.patch.plan`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, LeaseLost
from appliance.model.patch.state import REASON
from appliance.model.state.nodes.maintenance import Maintenance, timestamp
from appliance.workflows.cluster.upgrade_nodes import BUDGET_SECONDS, outages
from appliance.workflows.node.maintain import node_maintain
from appliance.workflows.node.maintenance.again import MaintainRequest
from appliance.workflows.node.maintenance.marks import Marks
from appliance.workflows.node.return_ import ReturnRequest, node_return
from appliance.workflows.session.recording import AGAIN

if TYPE_CHECKING:
    from appliance.model.patch.plan import PatchStep
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

# The kernel is another one afterwards, which the patch itself verifies.
CHANGED: Final = frozenset({"kernel"})


@dataclass(frozen=True)
class PatchBatches:
    """How batches of nodes are patched.

    Attributes:
        converge: runs the play of a step on its nodes, and verifies it.
        is_patched: whether a node has what the step brings.
        guard: makes sure that the site is ours still.
    """

    desired: Desired
    run: Run
    session: Session
    converge: Callable[[PatchStep], None]
    is_patched: Callable[[str], bool]
    guard: Callable[[], object]
    allow_outage: bool = False

    def carry_out(self, step: PatchStep) -> None:
        """Take the nodes out, patch them, and bring them back.

        Raises:
            LeaseLost: another command took the site over; the nodes are left as they are.
            ApplianceError: of the first node that failed; it stays out of service, the others of
                the batch are back. Where its pods could not be moved, it is back as well.
        """
        self._empty(step)
        error: ApplianceError | None = None
        try:
            self.converge(step)
        except LeaseLost:
            raise
        except ApplianceError as failed:
            error = failed
        left = []
        for name in step.nodes:
            if error is not None and not self.is_patched(name):
                left.append(name)
                continue
            try:
                self._bring_back(name)
            except LeaseLost:
                raise
            except ApplianceError as failed:
                error = error or failed
                left.append(name)
        if error is not None:
            words = f"{', '.join(left)} stays out of service" if left else "every node is back"
            error.details = (*error.details, f"{words}; {AGAIN}")
            raise error

    def _empty(self, step: PatchStep) -> None:
        """Cordon the batch, so that no pod moves twice; then empty one node after the other.

        Where that fails the nodes that this run took out are given back: nothing was changed there.
        One that was out before is not: an earlier run may have left it half patched.
        """
        begun: list[str] = []
        out = [n for n in step.nodes if self.session.drain.view(n).maintenance is not None]
        try:
            for name in step.nodes if len(step.nodes) > 1 else ():
                begun.append(name)
                self._cordon(name)
            for name in step.nodes:
                self._take_out(name)
                begun += [] if name in begun else [name]
        except LeaseLost:
            raise
        except (Exception, KeyboardInterrupt) as stopped:
            ours = [name for name in begun if name not in out]
            back = [sentence for name in ours if (sentence := self._give_back(name))]
            back += [f"{name} stays out of service, as it was before; {AGAIN}" for name in out]
            if isinstance(stopped, ApplianceError):
                stopped.details = (*stopped.details, *back)
            raise

    def _cordon(self, name: str) -> None:
        view = self.session.drain.view(name)
        if view.maintenance is None:
            mark = Maintenance(
                run=self.run.id,
                by=self.run.operator,
                host=self.run.host,
                since=timestamp(self.session.clock.now()),
                mode="cordon",
                phase="cordon",
                cordoned=not view.unschedulable,
                tainted=False,
                reason=REASON,
            )
            Marks(self.session.drain, self.guard, name, None).write(mark, cordon=True)

    def _take_out(self, name: str) -> None:
        view = self.session.drain.view(name)
        request = MaintainRequest(
            self.desired.site,
            self.desired.site.node(name),
            self.run,
            reason=REASON,
            mode="cordon",
            allow_outage=self.allow_outage or not outages(view),
            budget_seconds=BUDGET_SECONDS,
        )
        node_maintain(request, self.session, lambda *_: True)

    def _bring_back(self, name: str) -> None:
        node = self.desired.site.node(name)
        request = ReturnRequest(self.desired, node, self.run, acknowledged=CHANGED)
        node_return(request, self.session, lambda *_: True)

    def _give_back(self, name: str) -> str:
        """Undo the marks of a node on which nothing was changed yet; why not, or empty."""
        try:
            mark = self.session.drain.view(name).maintenance
            if mark is not None and mark.reason == REASON:
                marks = Marks(self.session.drain, self.guard, name, mark)
                marks.clear(uncordon=mark.cordoned)
        except ApplianceError as error:
            return f"{name} stays cordoned ({error.message}): appliance node return {name}"
        return ""
