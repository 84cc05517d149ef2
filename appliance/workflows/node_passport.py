"""Show what was accepted as a node and what differs today; accept it anew when asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable, Refused
from appliance.model.answering import answering_as
from appliance.model.cluster import Cluster
from appliance.model.passport import Passport, differences, passport_of
from appliance.model.traces import is_member
from appliance.workflows.passports import acceptance, read_passport
from appliance.workflows.recording import Recorder
from appliance.workflows.survey import observe

if TYPE_CHECKING:
    from appliance.model.answering import Answering
    from appliance.model.hardware_facts import Difference
    from appliance.model.journal import Run
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site
    from appliance.workflows.ports import Archive, Clock, ClusterApi, JournalPort, Nodes

COMMAND = "node passport"
ACKNOWLEDGED = "acknowledged"


@dataclass(frozen=True)
class PassportView:
    """One node: what was accepted, what differs, and what could not be looked at.

    Attributes:
        passport: None when it has none.
        unseen: why it could not be looked at; empty when it was.
    """

    node: str
    passport: Passport | None
    differences: tuple[Difference, ...] = ()
    unseen: str = ""

    @property
    def is_as_accepted(self) -> bool:
        """Whether there is a passport, and nothing seen differs from it."""
        return self.passport is not None and not self.differences and not self.unseen


@dataclass(frozen=True)
class PassportPorts:
    """Everything outside that is needed."""

    nodes: Nodes
    cluster: ClusterApi
    archive: Archive
    journal: JournalPort
    clock: Clock


def node_passport(site: Site, names: Sequence[str], ports: PassportPorts) -> list[PassportView]:
    """Look at nodes and compare them with their passports. Changes nothing.

    Raises:
        Refused: the inventory has no such member.
        NodeUnreachable: no control-plane node answers.
    """
    members = {node.name: node for node in site.cluster_members}
    for name in names:
        if name not in members:
            raise Refused(
                f"{name}: the inventory has no such member of the cluster",
                hint=f"it has {', '.join(members)}",
            )
    asked = [members[name] for name in names] or list(members.values())
    observed, look = observe(site, ports.nodes, ports.cluster)
    why = {fault.node: fault.reason for fault in look.faults}
    return [_view(node, observed, ports.archive, why.get(node.name, "")) for node in asked]


def _view(node: Node, observed: Observed, archive: Archive, unseen: str) -> PassportView:
    passport = read_passport(archive, node.name)
    members = observed.cluster.nodes if isinstance(observed.cluster, Cluster) else {}
    found = (
        differences(passport, observed.photographs.get(node.name), members.get(node.name))
        if passport
        else ()
    )
    return PassportView(node.name, passport, found, unseen)


def acknowledge(
    site: Site,
    name: str,
    run: Run,
    ports: PassportPorts,
    confirm: Callable[[PassportView, Answering], bool],
) -> PassportView:
    """Accept a node as it is now; nothing is written when nothing differs.

    Raises:
        Refused: no such member, not a Ready one, or not confirmed; nothing was changed.
        NodeUnreachable: the node or the API does not answer.
    """
    (view,) = node_passport(site, [name], ports)
    if view.unseen:
        raise NodeUnreachable(view.unseen, hint="a machine that cannot be seen is not accepted")
    if view.is_as_accepted:
        return view
    observed, _ = observe(site, ports.nodes, ports.cluster)
    photo = observed.photographs.get(name)
    member = observed.cluster.nodes.get(name) if isinstance(observed.cluster, Cluster) else None
    if photo is None or member is None or not is_member(photo):
        raise Refused(
            f"{name}: is no member of the cluster now, so nothing can be accepted",
            hint=f"appliance status; a machine that came back: appliance node rejoin {name}",
        )
    if not confirm(view, answering_as(site.node(name), photo)):
        raise Refused("not confirmed: nothing was changed", hint="answer yes, or pass --yes")
    recorder = Recorder(run, ports.journal, ports.clock)
    why = tuple(f"{name}: {one.sentence()}" for one in view.differences) or (
        f"{name}: had no passport",
    )
    with recorder.step("passport", (name,), why):
        accepted = passport_of(
            site.node(name), photo, member, acceptance(run, ports.clock, ACKNOWLEDGED)
        )
        ports.archive.put(accepted.document, accepted.text())
    return PassportView(name, accepted)
