"""The removal of a node from the cluster: its steps, and its refusals.

What must not be here: doing it, and asking etcd (that is a port's).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.node.accepted import accepted_of
from appliance.model.node.bmc.fence import Fence
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.etcd_quorum import EtcdMember, QuorumVerdict, may_go
from appliance.model.node.fencing import DEAD, FencingEvidence, check_fenced
from appliance.model.node.ownership import (
    LOSE,
    KnownNode,
    Ownership,
    Vouched,
    has_kubeadm_state,
    in_words,
    judge,
    known_of,
)
from appliance.model.site import groups
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster, ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity, identity_of, likeness
from appliance.model.state.nodes.kubeadm_state import named
from appliance.model.state.nodes.maintenance import ANNOTATION
from appliance.model.state.plan import Notice, Refusal

if TYPE_CHECKING:
    from appliance.model.node.membership import Removal
    from appliance.model.state.observed import Observed

# What a machine that missed its own removal still has, should it ever come back.
TO_CLEAN: Final = (
    "the kubelet's identity and PKI (/etc/kubernetes, /var/lib/kubelet)",
    "the pod network (links cni0 and flannel.1, /etc/cni/net.d, /var/lib/cni, /run/flannel)",
    "the rules of kube-proxy and flannel in iptables",
    "keys and passwords, if it was the services node or ran Run:ai's installer "
    "(/etc/appliance/tls, /etc/appliance/registry, /etc/appliance/runai)",
)
TO_CLEAN_CONTROL_PLANE: Final = (
    "etcd's data (/var/lib/etcd): etcd must never start with these data again",
    "snapshots of etcd, with every Secret of the cluster (/var/lib/appliance/etcd-snapshots)",
    "keepalived and haproxy: they would claim the API's address",
)


@dataclass(frozen=True)
class RemovalRequest:
    """What an operator asks for.

    Attributes:
        sworn: the operator confirms that the machine is off.
        allow_move: stateful services may be cut off from the node they are bound to.
        lose_machine: what a machine calls itself that is to be emptied although nothing proves
            that it is this node; empty for none.
    """

    node: str
    reason: str = ""
    sworn: bool = False
    allow_move: bool = False
    lose_machine: str = ""


@dataclass(frozen=True)
class Answers:
    """What was said of the node by others.

    Attributes:
        members: etcd's, each asked for its health; none for a worker.
        bmc: what its BMC says; None where it was not asked, or the inventory knows none.
        alive: why it was not read although something answers there; else empty.
        passport: the machine that was accepted under the node's name by its passport, if any.
        deceives: what answers there said something that is no document of our probe.
        fence: what its BMC can do about it; None where it was not asked.
    """

    members: Sequence[EtcdMember] = ()
    bmc: BmcReport | None = None
    alive: str = ""
    passport: MachineIdentity | None = None
    deceives: bool = False
    fence: Fence | None = None


@dataclass(frozen=True)
class Reset:
    """What the module that empties the machine is told, to ask again by itself.

    Attributes:
        machine_id: of the machine that was judged; no other may be emptied in its place.
        hosts: under which a member knows this cluster's API.
        ca: sha256 of this cluster's CA, or empty where it is not known.
        vouched: what proved that it is ours.
    """

    machine_id: str
    hosts: tuple[str, ...]
    ca: str
    vouched: Vouched


@dataclass(frozen=True)
class RemovalPlan:
    """What is to be done, in this order.

    Attributes:
        fence: its BMC cuts its power before all else; None where nothing has to be cut.
        drain: its pods are evicted first.
        record: that it was removed on purpose is still to be written.
        etcd: the member to take out, or None.
        reset: the machine is emptied, on this evidence; None leaves it alone.
        delete: the Node object is deleted.
        to_clean: what must be done to the machine should it come back, when it is not emptied.
        machine: the one that was accepted; where nobody told, the one that is emptied.
    """

    node: str
    drain: bool = False
    record: bool = False
    etcd: EtcdMember | None = None
    reset: Reset | None = None
    delete: bool = False
    refusals: tuple[Refusal, ...] = ()
    notices: tuple[Notice, ...] = ()
    to_clean: tuple[str, ...] = ()
    machine: MachineIdentity = field(default_factory=MachineIdentity)
    fence: Fence | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to do."""
        return not (self.drain or self.record or self.etcd or self.reset or self.delete)

    def sentences(self) -> tuple[str, ...]:
        """One for each thing that will be done."""
        etcd = self.etcd
        named = f"the etcd member {etcd.name or etcd.id} is removed" if etcd else ""
        found = (
            (self.drain, "the node is cordoned, and its pods are evicted"),
            (self.record, "the removal is recorded: no install adds the node again"),
            (etcd is not None, named),
            (
                self.reset is not None,
                "the machine is reset (kubeadm) and cleaned; the container runtime and images stay",
            ),
            (
                self.delete,
                "the Node object is deleted; labels and taints are kept for a rejoin",
            ),
        )
        said = tuple(f"{self.node}: {text}" for wanted, text in found if wanted)
        return (self.fence.sentence(), *said) if self.fence else said


def plan_removal(
    site: Site,
    observed: Observed,
    removal: RemovalRequest,
    answers: Answers,
    *,
    removed: Removal | None,
) -> RemovalPlan:
    """What removing a node means for this cluster.

    Args:
        site: with the node in it.
        observed: with the node's facts, if it answers; the API answered.
        removal: as typed.
        answers: of those who were asked beside the nodes and the API.
        removed: what is written down of its removal, if it was removed before.
    """
    assert isinstance(observed.cluster, Cluster)  # noqa: S101  (for the type checker)
    node = site.node(removal.node)
    member = observed.cluster.nodes.get(node.name)
    facts = observed.node_facts.get(node.name)
    accepted = accepted_of(node.name, member, answers.passport, removed)
    known = known_of(site, node, observed, removed, accepted.machine)
    ownership = judge(facts, known) if facts else Ownership(bare=True)
    same = facts is not None and is_same_machine(accepted.machine, facts)
    joined = member is not None or accepted.machine.is_told
    nameless = joined and facts is not None and is_nameless(accepted.machine, facts)
    is_named = bool(facts and removal.lose_machine and removal.lose_machine == facts.hostname)
    may_be_emptied = ownership.may_be_emptied or (is_named and not ownership.never)
    ours = facts if same and not nameless and may_be_emptied else None
    stranger = same and not nameless and ours is None
    verdict = may_go(answers.members, node.ip, node.name)
    refusals = [
        *_of_the_site(site, node, observed.node_facts),
        *_of_etcd(node, verdict),
        *_of_services(observed.cluster, removal),
    ]
    confirmed: list[Notice] = []
    fence: Fence | None = None
    # Emptied by us before, and maybe somebody else's since: nothing of this cluster is left on it.
    reset_before = removed is not None and removed.reset
    settled = (stranger or nameless) and reset_before and not (member and member.ready)
    if facts and stranger and not (removal.sworn or settled):
        refusals.append(accepted.tell(_of_a_stranger(facts, ownership, known)))
    elif member is not None and ours is None and not settled:
        bmc, alive = answers.bmc, answers.alive
        fenced = check_fenced(
            FencingEvidence(
                node.name,
                member,
                facts,
                accepted.machine,
                removal.sworn,
                bmc,
                alive,
                stranger,
                answers.deceives,
                node.ip,
            )
        )
        if isinstance(fenced, Refusal):
            if _may_fence(answers.fence, member, facts):
                fence = answers.fence
            else:
                refusals.append(accepted.tell(fenced))
        else:
            confirmed.append(Notice(node.name, f"the machine is taken as off: {fenced.text}"))
    stays = ""
    if facts is not None and nameless:
        stays = "" if settled else _left_alone(facts, node)
    elif facts is not None and ours is None:
        stays = f"another machine ({identity_of(facts).words()}) answers at its address, and is "
        stays += "not touched" + (f": it {in_words(ownership, known)}" if stranger else "")
    # A member that this removal took out before is missed by nobody.
    taken_out = removed is not None and removed.etcd_member
    missed = verdict.member is not None or (member is not None and not taken_out)
    of_etcd = verdict.notice if missed else ""
    reset = None
    if ours is not None and not ownership.bare:
        hosts, ca = tuple(sorted(known.hosts)), known.ca or ""
        vouched = ownership.vouched if ownership.may_be_emptied else "operator"
        reset = Reset(str(ours.at("host.machine_id") or ""), hosts, ca, vouched)
    return RemovalPlan(
        node.name,
        # A node that is not Ready never confirms an eviction.
        drain=bool(member and member.ready and reset),
        record=removed is None,
        etcd=verdict.member,
        reset=reset,
        delete=member is not None,
        refusals=tuple(refusals),
        notices=(
            *([Notice(node.name, accepted.doubt)] if accepted.doubt else []),
            *confirmed,
            *_notices(node, member, of_etcd, stays, reset),
        ),
        to_clean=_to_clean(node) if ours is None and not settled else (),
        machine=identity_of(ours) if ours and not accepted.machine.is_told else accepted.machine,
        fence=fence,
    )


def _may_fence(fence: Fence | None, member: ClusterNode, facts: NodeFacts | None) -> bool:
    """Whether the power of a node that is not proved off is cut.

    A Ready Node has a kubelet that lives, or died just now; a machine that told its facts can be
    emptied or repaired.
    """
    return fence is not None and fence.is_ordered and not member.ready and facts is None


def _of_a_stranger(facts: NodeFacts, ownership: Ownership, known: KnownNode) -> Refusal:
    """Refuse to clean a machine that is not proved to be this node."""
    told = known.machine
    accepted = told.serial or (told.words() if told.is_told else "serial unknown")
    leave = f"check the address in host_vars/{known.node}.yml: it may be another machine's; if "
    leave += f"{known.node} is off for good and this machine must not be touched: {DEAD}"
    lose = f"; to clean this machine and lose its membership and data: {LOSE} {facts.hostname}"
    by_hand = f"; this command never cleans it: find out on {facts.hostname} whose etcd data it has"
    return Refusal(
        known.node,
        "identity",
        f"{named(facts)}, which {in_words(ownership, known)}",
        f"{known.node} ({accepted}), a member of {known.url}",
        leave + (by_hand if ownership.never else lose),
    )


def is_same_machine(accepted: MachineIdentity, facts: NodeFacts) -> bool:
    """Whether the machine that answers is the accepted one, as far as is known."""
    return likeness(accepted, identity_of(facts)) != "another"


def is_nameless(accepted: MachineIdentity, facts: NodeFacts) -> bool:
    """Whether an empty machine answers that cannot be identified as the accepted one.

    A member proves its cluster with its CA; an empty machine has only its hardware identity.
    """
    return not has_kubeadm_state(facts) and likeness(accepted, identity_of(facts)) == "unknown"


def _left_alone(facts: NodeFacts, node: Node) -> str:
    return (
        f"an empty machine ({identity_of(facts).words()}) answers at its address, and is not "
        f"touched: nothing shows whether it is {node.name}"
    )


def _to_clean(node: Node) -> tuple[str, ...]:
    more = TO_CLEAN_CONTROL_PLANE if groups.CONTROL_PLANE in node.groups else ()
    return (*TO_CLEAN, *more)


def _of_the_site(site: Site, node: Node, node_facts: Mapping[str, NodeFacts]) -> Iterator[Refusal]:
    serving = [
        name for name, facts in node_facts.items() if facts.at("registry.configured") is True
    ]
    if node.name in serving and site.services_node.name not in {*serving, node.name}:
        yield Refusal(
            node.name,
            "role in the site",
            f"the only node with a registry: {site.services_node.name} does not serve it yet",
            f"a registry on {site.services_node.name}, the services node in hosts.yml",
            "install the registry there first: appliance install",
        )
    if node == site.services_node:
        yield Refusal(
            node.name,
            "role in the site",
            "the services node, which serves the bundle and the registry to all others",
            "another node in the group services",
            "put another node into the group services of hosts.yml, then: appliance install",
        )
    if site.control_plane == (node,):
        yield Refusal(
            node.name,
            "role in the site",
            "the only control-plane node",
            "a cluster that still works without this node",
            "add two more control-plane nodes first: appliance node add",
        )


def _of_etcd(node: Node, verdict: QuorumVerdict) -> Iterator[Refusal]:
    if not verdict.may_go:
        yield Refusal(
            node.name,
            "etcd",
            verdict.seen,
            verdict.expected,
            verdict.hint,
        )


def _of_services(cluster: Cluster, removal: RemovalRequest) -> Iterator[Refusal]:
    anchored = cluster.roles.anchored if cluster.roles else ()
    here = [str(thing) for thing in anchored if thing.node == removal.node]
    if here and not removal.allow_move:
        yield Refusal(
            removal.node,
            "stateful service",
            f"{', '.join(here)} bound to this node",
            "a node without bound services: their data stay on this node",
            "move the service by hand first; or continue without its data: --allow-move",
        )


def _notices(
    node: Node,
    member: ClusterNode | None,
    of_etcd: str,
    stays: str,
    reset: Reset | None,
) -> Iterator[Notice]:
    if of_etcd:
        yield Notice(node.name, of_etcd)
    if member and ANNOTATION in member.annotations:
        yield Notice(node.name, "is in maintenance; a rejoin does not restore that")
    if stays:
        yield Notice(node.name, stays)
    elif member and not member.ready and reset:
        yield Notice(node.name, "its kubelet does not answer: the reset stops its pods")
