"""The reset of a whole appliance: its nodes in order, what is done to each, and what forbids it.

Positive evidence alone makes a machine this site's: the cluster's CA or the accepted serial for
what a member has, the site's CA for the rest. The modules ask again on the machine. What must not
be here: asking, or doing it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from appliance.model.components.base.component import all_but_jumpboxes
from appliance.model.node.accepted import accepted_of
from appliance.model.node.ownership import in_words, judge, known_of
from appliance.model.node.removal import Reset, is_same_machine
from appliance.model.plan.rack.order import down_stages
from appliance.model.plan.reset.remains import Remains
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.identity import MachineIdentity, identity_of
from appliance.model.state.nodes.kubeadm_state import ca_of, named
from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.node.baseline import Passport
    from appliance.model.site.settings import Node, Site
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed

WITHOUT: Final = "--without"


@dataclass(frozen=True)
class Known:
    """What is known beside the machines.

    Attributes:
        cluster_ca: sha256 of the CA of this site's cluster, by an earlier run's mark or by the
            kubeconfig on this machine; None: neither says.
        site_ca: sha256 of the site's CA file, as the vault has it; None: not opened.
        passports: node -> the machine that was accepted.
        remains: node -> what its machine says it has.
        unsaid: node -> why its machine did not say.
    """

    cluster_ca: str | None = None
    site_ca: str | None = None
    passports: Mapping[str, Passport] = field(default_factory=dict)
    remains: Mapping[str, Remains] = field(default_factory=dict)
    unsaid: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class NodeReset:
    """What is done to one machine.

    Attributes:
        machine: that was read at the node's address.
        machine_id: of the machine that was read; the modules change no other.
        reset: it is a member: kubeadm's reset, on this evidence; None: it is none.
        bare: it has packages, files or folders of the product.
        remains: what it says it has.
        loses_data: its data go too.
        last: documents and lock of the site are on it.
    """

    node: str
    machine: MachineIdentity
    machine_id: str
    reset: Reset | None = None
    bare: bool = False
    remains: Remains = field(default_factory=Remains)
    loses_data: bool = False
    last: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do before the end."""
        return not (self.reset or self.bare)

    def sentences(self) -> Iterator[str]:
        """What is done, what stays and what is lost, one line each."""
        who = f"{self.node} ({self.machine.words()})"
        if self.is_empty:
            yield f"{who}: is bare"
        if self.reset:
            yield f"{who}: is reset (kubeadm); its pods end, its cluster data is deleted"
        if self.bare:
            found = self.remains
            count = len(found.files) + len(found.own)
            yield f"{who}: packages to purge: {len(found.packages)}; paths to remove: {count}"
        for path, what in self.remains.data:
            yield f"{self.node}: {path} ({what}) {'IS DELETED' if self.loses_data else 'stays'}"
        for what, why in self.remains.stays:
            yield f"{self.node}: {what} stays: {why}"


@dataclass(frozen=True)
class ResetPlan:
    """What is to be done.

    Attributes:
        nodes: in order.
        left: node -> why it is left as it is.
        ca: sha256 of the cluster's CA; empty where none is known.
        refusals: what forbids all of it.
    """

    nodes: tuple[NodeReset, ...]
    left: Mapping[str, str]
    ca: str = ""
    refusals: tuple[Refusal, ...] = ()

    @property
    def work(self) -> tuple[NodeReset, ...]:
        """The nodes with something to do before the end."""
        return tuple(one for one in self.nodes if not one.is_empty)

    @property
    def last(self) -> tuple[NodeReset, ...]:
        """The nodes with documents or lock of the site."""
        return tuple(one for one in self.nodes if one.last)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.work or self.last)

    def lines(self) -> tuple[str, ...]:
        """The plan, one line for each thing."""
        left = (f"{name}: is left as it is: {why}" for name, why in self.left.items())
        return (*(text for one in self.nodes for text in one.sentences()), *left)


def plan_reset(
    site: Site,
    observed: Observed,
    known: Known,
    *,
    without: Collection[str] = (),
    lose_data: bool = False,
) -> ResetPlan:
    """What resetting a site means.

    Args:
        site: all nodes of the inventory.
        observed: the facts of all that answer; the API need not.
        known: beside that.
        without: nodes that are left as they are, because they do not answer.
        lose_data: data that no install makes again go too.
    """
    allowed = {node.name for node in all_but_jumpboxes(site)}
    order = [n for stage in down_stages(site) for n in stage.nodes if n in allowed]
    order.sort(key=lambda name: site.node(name) == site.services_node)
    ca = known.cluster_ca or _agreed_ca(site, observed)
    nodes, left, refusals = [], {}, []
    for name in order:
        silence = _silence(name, observed, known)
        if silence and name in without:
            left[name] = silence
        elif silence:
            refusals.append(_silent(name, silence))
        elif name in without:
            refusals.append(_answers(name))
        else:
            one, refusal = _of_node(site, site.node(name), observed, known, ca)
            nodes.append(_with_data(one, lose=lose_data))
            refusals += [refusal] if refusal else []
    return ResetPlan(tuple(nodes), left, ca or "", tuple(refusals))


def _with_data(one: NodeReset, *, lose: bool) -> NodeReset:
    loses = lose and bool(one.remains.data)
    return replace(one, loses_data=loses, bare=one.bare or loses)


def _agreed_ca(site: Site, observed: Observed) -> str | None:
    facts = (observed.node_facts.get(node.name) for node in site.control_plane)
    found = {ca for one in facts if one is not None and (ca := ca_of(one))}
    return found.pop() if len(found) == 1 else None


def _silence(name: str, observed: Observed, known: Known) -> str:
    """Why nothing is known of a machine; empty where it was read."""
    if name not in observed.node_facts:
        fault = next((one for one in observed.faults if one.node == name), None)
        return fault.reason if fault else "it was not read"
    return known.unsaid.get(name, "")


def _silent(name: str, why: str) -> Refusal:
    return Refusal(
        name,
        "answer",
        why,
        "a machine that answers, so that it can be reset",
        f"repair it: appliance status; to leave it as it is: {WITHOUT} {name}",
    )


def _answers(name: str) -> Refusal:
    return Refusal(
        name,
        "answer",
        f"{name} answers",
        f"a machine that does not answer, because of {WITHOUT}",
        f"leave out {WITHOUT} {name}, or cut it off first: a member without its control plane "
        "belongs to no cluster",
    )


def _of_node(
    site: Site, node: Node, observed: Observed, known: Known, ca: str | None
) -> tuple[NodeReset, Refusal | None]:
    facts = observed.node_facts[node.name]
    state = observed.cluster
    member = state.nodes.get(node.name) if isinstance(state, Cluster) else None
    passport = known.passports.get(node.name)
    accepted = accepted_of(node.name, member, passport.machine if passport else None)
    knows = replace(known_of(site, node, observed, None, accepted.machine), ca=ca)
    ownership, remains = judge(facts, knows), known.remains[node.name]
    machine_id = str(facts.at("host.machine_id") or "")
    found = NodeReset(
        node.name,
        identity_of(facts),
        machine_id,
        reset=None
        if ownership.bare
        else Reset(machine_id, tuple(sorted(knows.hosts)), ca or "", ownership.vouched),
        bare=bool(remains.goes),
        remains=remains,
        last=bool(remains.last),
    )
    if found.is_empty and not found.last:
        return found, None
    if not is_same_machine(accepted.machine, facts):
        expected = f"{node.name} ({accepted.machine.words()})"
        return found, _stranger(node.name, f"{named(facts)} answers", expected)
    if not ownership.may_be_emptied:
        seen = f"{named(facts)}, which {in_words(ownership, knows)}"
        return found, _stranger(node.name, seen, f"a member of {knows.url}")
    return found, _of_the_site_ca(node.name, facts, remains, known.site_ca)


def _of_the_site_ca(
    name: str, facts: NodeFacts, remains: Remains, expected: str | None
) -> Refusal | None:
    if not expected or not remains.ca_sha256 or remains.ca_sha256 == expected:
        return None
    return _stranger(
        name, f"{named(facts)}, which has the CA of another site", "the CA of this site's vault"
    )


def _stranger(name: str, seen: str, expected: str) -> Refusal:
    return Refusal(
        name,
        "identity",
        seen,
        expected,
        f"check the address in host_vars/{name}.yml, and whose machine this is; this command never "
        "changes it",
    )
