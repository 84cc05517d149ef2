"""See the BIOS settings of nodes by their BMCs, and decide; changes nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError, PreflightFailed
from appliance.model.node.bmc.bios import BiosState, Setting, Wish, settings, to_send
from appliance.model.node.bmc.bios import refusals as of_settings
from appliance.model.node.bmc.orders import BmcMachine, reset_of
from appliance.model.node.bmc.restart import RestartOptions, RestartSeen
from appliance.model.node.bmc.restart import refusals as of_restart
from appliance.model.state.nodes.kubeadm_state import is_member
from appliance.workflows.node.maintenance.at_once import at_once
from appliance.workflows.node.maintenance.surroundings import Surroundings, known_machines

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.journal import Run
    from appliance.model.state.plan import Refusal
    from appliance.workflows.hardware.ports import BiosDriver
    from appliance.workflows.session.session import Session

UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


@dataclass(frozen=True)
class BiosRequest:
    """What was asked for.

    Attributes:
        wishes: node -> what its model's file asks for.
        founded: whether the site's own state says that it had a cluster.
        unchecked: values may be sent that no registry was read for.
    """

    site: Site
    nodes: tuple[Node, ...]
    wishes: Mapping[str, tuple[Wish, ...]]
    run: Run
    options: RestartOptions = field(default_factory=RestartOptions)
    founded: bool = True
    unchecked: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class NodeBios:
    """One node's BIOS settings.

    Attributes:
        state: as its BMC tells them; None where they were not read.
        settings: those that its model asks for.
        reason: why it was not read, or not set; empty where it was.
        evidence: what was observed after the change; empty where there was none.
    """

    node: str
    machine: BmcMachine | None = None
    state: BiosState | None = None
    settings: tuple[Setting, ...] = ()
    reason: str = ""
    evidence: str = ""

    @property
    def is_done(self) -> bool:
        """Whether nothing has to be changed."""
        return all(one.state == "as wanted" for one in self.settings)


def see(
    nodes: Sequence[Node], wishes: Mapping[str, tuple[Wish, ...]], driver: BiosDriver
) -> tuple[NodeBios, ...]:
    """The BIOS settings of nodes, all at once. Never raises for a BMC."""

    def look(node: Node, _: object) -> NodeBios:
        try:
            with driver.open(node) as bmc:
                machine, state = bmc.machine(), bmc.bios()
        except ApplianceError as error:
            return NodeBios(node.name, reason=error.message)
        found = settings(state, wishes.get(node.name, ()))
        return NodeBios(node.name, machine, state, found)

    return at_once(nodes, look)


class Look:
    """What was seen of the nodes, and what is to be done.

    Attributes:
        states: each node, in the order that was asked.
        seen: node -> what is known of it before its restart; only of those to be changed.
        is_lockable: whether the site's lock can be taken.
        is_new_copy: the site has a cluster, and its state on this machine knows nothing of it.

    Raises:
        PreflightFailed: something forbids the change.
    """

    def __init__(self, request: BiosRequest, session: Session, driver: BiosDriver) -> None:
        self._request = request
        self.states = see(request.nodes, request.wishes, driver)
        todo = [one for one in self.states if not one.reason and not one.is_done]
        around = Surroundings(*known_machines(session))
        nodes = [request.site.node(one.node) for one in todo]
        if todo:
            around.look(request.site, nodes, session)
        self.is_lockable = not around.unknown or not request.founded
        self.is_new_copy = bool(around.members) and not request.founded
        self.seen = {
            one.node: self._seen(node, one.machine or BmcMachine(), around)
            for one, node in zip(todo, nodes, strict=True)
        }
        self._refuse(around.unread)

    def _seen(self, node: Node, machine: BmcMachine, around: Surroundings) -> RestartSeen:
        # A machine that was read over SSH is on, whatever its BMC reports.
        lies = machine.power == "Off" and node.name in around.facts
        power = around.seen(self._request.site, node, machine, str(node.ip) if lies else "")
        member = around.members.get(node.name)
        if member is not None:
            taints = [taint.partition(":")[0].partition("=")[0] for taint in member.taints]
            return RestartSeen(power, cordoned=UNSCHEDULABLE in taints)
        facts = around.facts.get(node.name)
        if facts is not None and is_member(facts):
            other = "its kubelet is a member of a cluster that does not list it"
            return RestartSeen(replace(power, unknown=power.unknown or other))
        if not around.unknown:
            return RestartSeen(power, bare="it is no member of the cluster")
        return RestartSeen(power, bare=self._bare_without_cluster(facts))

    def _bare_without_cluster(self, facts: NodeFacts | None) -> str:
        """Why a node is bare in a site without a cluster; empty where that is not known.

        A new copy of a site's files knows of no cluster, so the node itself has to say it.
        """
        options = self._request.options
        if self._request.founded or (facts is not None and facts.kubernetes_untold):
            return ""
        if facts is not None:
            return "this site has had no cluster"
        # Only a person knows that it has no system.
        accepted = options.hard and options.allow_outage
        return "it does not answer, and no cluster is known here" if accepted else ""

    def _refuse(self, unread: str) -> None:
        found: list[Refusal] = []
        for one in self.states:
            if one.state is None:
                continue
            wishes = self._request.wishes.get(one.node, ())
            found += of_settings(one.node, one.state, wishes, unchecked=self._request.unchecked)
            if one.node in self.seen:
                found += of_restart(self.seen[one.node], self._request.options)
        if found:
            first, *others = found
            raise PreflightFailed(
                first.sentence(),
                hint=first.hint,
                details=[
                    *([f"no passport was read: {unread}"] if unread else []),
                    *(f"{other.sentence()}  hint: {other.hint}" for other in others),
                ],
            )

    @property
    def lines(self) -> tuple[str, ...]:
        """What will be done, for the question: of each node, then of each of its settings."""
        return tuple(line for one in self.states for line in self.lines_of(one))

    def lines_of(self, one: NodeBios) -> tuple[str, ...]:
        """The same of one node."""
        if one.reason:
            return (f"{one.node}: left out: {one.reason}",)
        seen = self.seen.get(one.node)
        if seen is None or one.state is None:
            why = "as its model asks for" if one.settings else "its model asks for none"
            return (f"{one.node}: nothing to do: BIOS settings: {why}",)
        machine = seen.power.machine
        orders = [
            str(reset_of(order, machine.resets)) for order in seen.orders(self._request.options)
        ]
        sends = to_send(one.state, self._request.wishes[one.node])
        first = f"will set {len(sends)} BIOS settings, then" if sends else "will"
        head = (
            f"{one.node}: its BMC ({machine.identity.words()}) reports power "
            f"{machine.power or 'unknown'}; {first} send {', then '.join(orders)}"
        )
        outages = [seen.power.serves] if seen.power.serves and not seen.is_off else []
        beside = [text for text in (seen.bare, *outages) if text]
        return (
            "; ".join((head, *beside)),
            *(
                f"{one.node}:   {setting.words()}"
                + (" (it waits for a start already)" if setting.state == "pending" else "")
                for setting in one.settings
                if setting.state != "as wanted"
            ),
        )
