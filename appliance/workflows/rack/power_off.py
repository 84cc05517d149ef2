"""Powers nodes off by SSH, and verifies each by silence, and by its BMC where it has one.

Each order is recorded on this machine before it is sent: a run that was killed leaves no node of
which nobody knows whether it was asked. What must not be here: the order of the stages.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final

from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.plan.rack.mark import RackMark
from appliance.model.plan.rack.order import NodeOff, Stage
from appliance.model.state.facts.identity import MachineIdentity
from appliance.model.state.nodes.maintenance import timestamp
from appliance.workflows.node.maintenance.power_off import (
    POLL_SECONDS,
    SHUTDOWN_SECONDS,
    PowerWatch,
)
from appliance.workflows.session.patience import Patience

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.workflows.session.session import Session

MOST_AT_ONCE: Final = 64


class PowerOff:
    """The power-off of a rack, stage by stage.

    Args:
        site: the whole site.
        session: the session.
        mark: as it is recorded on this machine.

    Attributes:
        mark: the same, with the orders of this run.
        seen: what was seen of each node so far.
    """

    def __init__(self, site: Site, session: Session, mark: RackMark) -> None:
        self._site, self._session = site, session
        self.mark = mark
        self.seen: dict[str, NodeOff] = {}
        self._refused: dict[str, str] = {}

    def record(self, mark: RackMark) -> None:
        """Write the mark on this machine."""
        self._session.rack_record.write(mark)
        self.mark = mark

    def stage(self, stage: Stage, step: str) -> tuple[NodeOff, ...]:
        """Power the nodes of a stage off; what was seen of each.

        Raises:
            OSError: an order could not be recorded; it was not sent.
        """
        groups = [(name,) for name in stage.nodes] if stage.one_by_one else [stage.nodes]
        found: list[NodeOff] = []
        for names in groups:
            for name in names:
                self._order(name)
            others = self._others(names)
            with ThreadPoolExecutor(max_workers=MOST_AT_ONCE) as pool:
                seen = list(pool.map(partial(self._watch, others, step), names))
            self.seen |= {one.node: one for one in seen}
            found += seen
            if stage.one_by_one and any(one.answers for one in seen):
                break
        return tuple(found)

    def _others(self, names: Sequence[str]) -> Site:
        """The nodes that can show that this machine's network works: not what goes off now.

        None where none of them answers, as of a rack that is off; then the words say so.
        """
        others = self._site.without([*self.seen, *names])
        answer = any(self._session.power.answers(n) for n in (*others.control_plane, *others.nodes))
        return others if answer else others.without([node.name for node in others.nodes])

    def _order(self, name: str) -> None:
        node, session = self._site.node(name), self._session
        if not session.power.answers(node):
            return
        self.record(self.mark.about_to_ask(name, timestamp(session.clock.now())))
        try:
            session.power.shut_down(node)
        except ClusterError as error:
            self.record(self.mark.refused(name))
            self._refused[name] = error.message
        except NodeUnreachable as error:
            # The connection may have ended with the machine: it counts as asked.
            session.observer.note(f"{name}: {error.message}")
        else:
            self.record(self.mark.accepted(name, timestamp(session.clock.now())))

    def _watch(self, others: Site, step: str, name: str) -> NodeOff:
        node, session = self._site.node(name), self._session
        accepted = self.mark.machines.get(name, MachineIdentity())
        watch = PowerWatch(
            others,
            node,
            session.power,
            session.bmcs,
            session.clock,
            session.observer,
            lambda: accepted,
        )
        ordered = self.mark.order_of(name)
        patience = Patience(session.clock, SHUTDOWN_SECONDS if ordered else 0)
        while True:
            seen = watch.look(ordered)
            if seen.off or patience.is_over():
                why = self._refused.get(name)
                words = f"{seen.words}; it refused the shutdown: {why}" if why else seen.words
                words += "" if others.nodes else "; no other node of the rack answers any more"
                return NodeOff(name, seen.off, seen.answers, words)
            session.observer.verifying(step, f"the power-off of {name}")
            session.clock.sleep(POLL_SECONDS)
