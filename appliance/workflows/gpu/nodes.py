"""One node: out of service, renewed, and back, by the code of ``node maintain`` and ``return``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.errors import ApplianceError, LeaseLost
from appliance.model.upgrade.gpu.observed import REASON
from appliance.workflows.cluster.upgrade_nodes import BUDGET_SECONDS, outages
from appliance.workflows.node.maintain import node_maintain
from appliance.workflows.node.maintenance.again import MaintainRequest
from appliance.workflows.node.return_ import ReturnRequest, node_return
from appliance.workflows.session.recording import AGAIN

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

# The driver is another one afterwards, which the upgrade itself verifies.
CHANGED: Final = frozenset({"driver"})


@dataclass(frozen=True)
class OneNode:
    """How one node is renewed.

    Attributes:
        desired: with the bundle to upgrade to.
        words: the target, for the reason on the Node.
        renew: runs the plays on the node, and verifies them.
        allow_outage: a service may be away.
    """

    desired: Desired
    run: Run
    session: Session
    words: str
    renew: Callable[[str], None]
    allow_outage: bool = False

    def carry_out(self, name: str) -> None:
        """Take the node out, renew it, and bring it back.

        Raises:
            LeaseLost: another command took the site over; the node is left as it is.
            ApplianceError: it failed; the node stays out of service. Where its pods could not be
                moved it is back as it was.
        """
        self._take_out(name)
        try:
            self.renew(name)
            self._bring_back(name)
        except LeaseLost:
            raise
        except ApplianceError as error:
            error.details = (*error.details, f"{name} stays out of service; {AGAIN}")
            raise

    def _take_out(self, name: str) -> None:
        view = self.session.drain.view(name)
        request = MaintainRequest(
            self.desired.site,
            self.desired.site.node(name),
            self.run,
            reason=REASON + self.words,
            mode="cordon",
            allow_outage=self.allow_outage or not outages(view),
            budget_seconds=BUDGET_SECONDS,
        )
        node_maintain(request, self.session, lambda *_: True)

    def _bring_back(self, name: str) -> None:
        node = self.desired.site.node(name)
        request = ReturnRequest(self.desired, node, self.run, acknowledged=CHANGED)
        node_return(request, self.session, lambda *_: True)
