"""Show the accepted state of a node and the differences today; accept it again on request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused
from appliance.model.node.answering import AnsweringMachine, answering_as
from appliance.model.node.baseline import Passport, differences, passport_of
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.hardware import Difference
from appliance.model.state.journal import Run
from appliance.model.state.nodes.node_state import node_states
from appliance.model.state.observed import Fault, Observed
from appliance.workflows.node.baselines import acceptance, read_passport
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.workflows.session.ports import Archive
    from appliance.workflows.session.session import Session

COMMAND = "node passport"
ACKNOWLEDGED = "acknowledged"


@dataclass(frozen=True)
class PassportView:
    """One node: what was accepted, what differs, and what could not be looked at.

    Attributes:
        passport: None when it has none.
        unseen: why it could not be looked at, with its name; empty when it was.
        hint: what makes it readable; empty when it was read.
    """

    node: str
    passport: Passport | None
    differences: tuple[Difference, ...] = ()
    unseen: str = ""
    hint: str = ""

    @property
    def is_as_accepted(self) -> bool:
        """Whether there is a passport, and nothing seen differs from it."""
        return self.passport is not None and not self.differences and not self.unseen


def node_passport(site: Site, names: Sequence[str], session: Session) -> list[PassportView]:
    """Look at nodes and compare them with their passports. Changes nothing.

    Raises:
        Refused: the inventory has no such member.
        NodeUnreachable: no control-plane node answers.
    """
    members = {node.name: node for node in site.cluster_members}
    for name in names:
        if name not in members:
            raise Refused(
                f"{name}: the inventory has no cluster node of this name",
                hint=f"the inventory has: {', '.join(members)}",
            )
    asked = [members[name] for name in names] or list(members.values())
    observed, look = observe(site, session.nodes, session.cluster)
    faults = {fault.node: fault for fault in look.faults}
    return [_view(node, observed, session.archive, faults.get(node.name)) for node in asked]


def _view(node: Node, observed: Observed, archive: Archive, fault: Fault | None) -> PassportView:
    passport = read_passport(archive, node.name)
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    found = (
        differences(passport, observed.node_facts.get(node.name), members.get(node.name))
        if passport
        else ()
    )
    if fault is None:
        return PassportView(node.name, passport, found)
    return PassportView(node.name, passport, found, fault.reason, fault.hint)


def acknowledge(
    site: Site,
    name: str,
    run: Run,
    session: Session,
    confirm: Callable[[PassportView, AnsweringMachine], bool],
) -> PassportView:
    """Accept a node as it is now; write nothing if nothing differs.

    Raises:
        Refused: no such member, not a Ready one, or not confirmed; nothing was changed.
        NodeUnreachable: the node or the API does not answer.
    """
    (view,) = node_passport(site, [name], session)
    if view.unseen:
        raise NodeUnreachable(
            view.unseen, hint="only a node that answers can be accepted: appliance status"
        )
    if view.is_as_accepted:
        return view
    observed, _ = observe(site, session.nodes, session.cluster)
    facts, state = observed.node_facts.get(name), node_states(site, observed)[name]
    member = state.member
    if facts is None or member is None or not state.is_joined:
        raise Refused(
            f"{name}: is not a member of the cluster now, so it cannot be accepted",
            hint=f"see its state: appliance status; to rejoin a removed or reinstalled node: "
            f"appliance node rejoin {name}",
        )
    require_confirmed(confirm(view, answering_as(site.node(name), facts)))
    recorder = Recorder(run, session)
    why = tuple(f"{name}: {one.sentence()}" for one in view.differences) or (
        f"{name}: had no passport",
    )
    with session.lock, recorder.step("passport", (name,), why):
        accepted = passport_of(
            site.node(name), facts, member, acceptance(run, session.clock, ACKNOWLEDGED)
        )
        session.archive.put(accepted.document, accepted.text())
    return PassportView(name, accepted)
