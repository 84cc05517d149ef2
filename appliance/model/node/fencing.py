"""Fencing: is the old machine of a name off? What proves it, and what does not.

A Node object, an etcd member and a host key may be deleted only when their machine cannot come
back and use them. What must not be here: asking the machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity, identity_of, is_same, likeness
from appliance.model.state.nodes.kubeadm_state import containers_untold, is_member, pod_containers
from appliance.model.state.plan import Refusal

DEAD = "--i-know-it-is-dead"


@dataclass(frozen=True)
class FencingEvidence:
    """What is known of the machine behind a name.

    Attributes:
        member: its Node object; None when the cluster has none.
        facts: those of what answers at its address; None when nothing does.
        accepted: the machine that the cluster accepted (:mod:`appliance.model.node.accepted`).
        sworn: the operator says that it is dead.
        bmc: what the BMC at the inventory's address says; None when the inventory knows none.
        alive: why its facts were not read although something answers at its address; empty where
            nothing does.
        deceives: what answers at a worker's address is not to be believed.
        address: of the node in the inventory: where nothing answers.
        foreign: what answers is no member of this cluster, whatever it tells of itself.
    """

    name: str
    member: ClusterNode | None
    facts: NodeFacts | None
    accepted: MachineIdentity = field(default_factory=MachineIdentity)
    sworn: bool = False
    bmc: BmcReport | None = None
    alive: str = ""
    foreign: bool = False
    deceives: bool = False
    address: str = ""

    @property
    def seen(self) -> MachineIdentity:
        """What the machine that answers tells of itself; nothing where none does."""
        return identity_of(self.facts) if self.facts else MachineIdentity()

    @property
    def is_joined(self) -> bool:
        """Whether the machine that answers has a kubelet's identity, of whichever cluster."""
        return self.facts is not None and is_member(self.facts)


@dataclass(frozen=True)
class FencingProof:
    """The proof that the old machine is off, in words for the operator and the journal."""

    text: str


def check_fenced(evidence: FencingEvidence) -> FencingProof | Refusal:
    """The proof that no machine runs under this name any more, or a refusal.

    Proofs, strongest first: no Node object; the same machine, empty; its BMC, identified by the
    machine's serial or UUID, reports power off; NotReady because the kubelet stopped reporting, and
    no SSH at the node's InternalIP; the operator's word.
    """
    name, member, facts = evidence.name, evidence.member, evidence.facts
    same = facts is not None and is_same(evidence.accepted, evidence.seen) and not evidence.foreign
    found = _seen_dead(evidence, same=same)
    if found is not None:
        return FencingProof(found)
    if member is not None and _lies(evidence, member):
        return Refusal(
            name,
            "identity",
            f"a machine at its address whose answers cannot be trusted ({evidence.alive})",
            f"proof that the machine with {evidence.accepted.words()} is off: "
            "its containers may still run and write",
            f"power it off and verify that it is off; then rerun the command with {DEAD}"
            f"{_unasked(evidence)}",
        )
    if member is not None and member.ready:
        return Refusal(
            name,
            "identity",
            "a Ready Node: a machine is running under this name",
            "a Node that is NotReady, or the same machine, reinstalled",
            f"find that machine: kubectl get node {name} -o wide; if it was just powered off, wait "
            f"a minute until the Node is NotReady{_unasked(evidence)}",
        )
    alike = likeness(evidence.accepted, evidence.seen)
    nameless = alike == "unknown" and not evidence.foreign
    if evidence.is_joined and (same or nameless):
        return Refusal(
            name,
            "identity",
            "a NotReady machine that still has its identity as a member",
            "a machine that is off or empty",
            f"repair it: appliance install; or remove it: appliance node remove {name}",
        )
    if facts is not None and same:
        return Refusal(
            name,
            "identity",
            f"the same machine, and {_pods_left(facts)}",
            "a machine on which no pod of the node runs any more",
            f"remove it first: appliance node remove {name}; or reboot it",
        )
    return _missing(evidence)


def _missing(evidence: FencingEvidence) -> Refusal:
    """Refuse: nothing proves that the old machine is off (no answer, or another machine)."""
    name = evidence.name
    if evidence.facts is None:
        return Refusal(
            name,
            "identity",
            f"a Node that is NotReady, and {_life_sign(evidence)}",
            f"proof that the machine with {evidence.accepted.words()} is off: "
            "its containers may still run and write",
            f"{_way_in(evidence)}; or power it off, verify that it is off, and rerun the command "
            f"with {DEAD}{_unasked(evidence)}",
        )
    return Refusal(
        name,
        "identity",
        f"another machine ({evidence.seen.words()}) at its address, and a "
        "Node that is NotReady: the old machine may come back",
        f"proof that the machine with {evidence.accepted.words()} is off",
        f"power the old machine off and verify that it is off; then rerun the command with {DEAD}"
        f"{_unasked(evidence)}",
    )


def _pods_left(facts: NodeFacts) -> str:
    """That pods' containers run, or may run, on a machine that is no longer a member; or empty."""
    if is_member(facts):
        return ""
    if containers_untold(facts):
        return "a Docker that does not report whether containers of pods run on it"
    count = pod_containers(facts)
    return f"{count} containers of pods that still run on it" if count else ""


def _life_sign(evidence: FencingEvidence) -> str:
    """Why the machine may still be on, in words."""
    if evidence.alive:
        return f"a machine that answers at its address ({evidence.alive})"
    if _is_on(evidence):
        return "a BMC that reports power on"
    member = evidence.member
    if member is not None and member.kubelet_speaks:
        return f"a kubelet that reports this itself ({member.not_ready_reason})"
    known = member.internal_ip if member else None
    here = f"no answer at {evidence.address}, the address in host_vars/{evidence.name}.yml"
    return f"{here}, while its Node has {known or 'no address'}"


def _way_in(evidence: FencingEvidence) -> str:
    """What to do about a machine that does not answer and is not proved off."""
    member = evidence.member
    if member is None or evidence.alive or _is_on(evidence):
        return "restore SSH access to it"
    if member.kubelet_speaks:
        soon = "if it was just powered off, wait a minute until its kubelet is reported silent"
        return f"restore SSH access to it; {soon}"
    return f"correct the address in host_vars/{evidence.name}.yml, then run the same command again"


def _lies(evidence: FencingEvidence, member: ClusterNode) -> bool:
    """Whether a worker's own answers cannot be trusted."""
    return evidence.deceives and not member.control_plane


def _is_on(evidence: FencingEvidence) -> bool:
    """Whether the BMC of exactly this machine reports power on."""
    bmc = evidence.bmc
    if bmc is None or bmc.reason or bmc.powered_off:
        return False
    return bmc.speaks_of(evidence.accepted)


def _unasked(evidence: FencingEvidence) -> str:
    """Why the BMC's report proved nothing."""
    bmc = evidence.bmc
    if bmc is None:
        return ""
    if bmc.reason:
        return f" (its BMC could not be read: {bmc.reason})"
    if not bmc.powered_off:
        return " (its BMC reports power on)"
    return f" (its BMC reports another machine: {bmc.machine.words()})"


def _seen_dead(evidence: FencingEvidence, *, same: bool) -> str | None:
    """The proof in words; None without one."""
    member, facts = evidence.member, evidence.facts
    if member is None:
        return "safe to join: the cluster has no Node of this name"
    if facts and same and not evidence.is_joined and not _pods_left(facts):
        return f"the same machine ({evidence.seen.words()}) answers, and it is empty"
    if evidence.bmc and evidence.bmc.confirms_off(evidence.accepted) and not same:
        words = evidence.bmc.machine.words()
        return f"the BMC of its machine ({words}) reports power off"
    silent = facts is None and not evidence.alive and not _is_on(evidence)
    # Silence at an address that the cluster does not know it by is somebody else's.
    there = bool(evidence.address) and member.internal_ip == evidence.address
    if silent and there and not member.ready and not member.kubelet_speaks:
        since = f" since {member.ready_since}" if member.ready_since else ""
        return f"its Node is NotReady{since}, and SSH does not answer at {evidence.address}"
    alive_member = member.ready or (evidence.is_joined and same)
    # What a liar says proves nothing, the readiness of its Node least of all.
    lies = _lies(evidence, member)
    if evidence.sworn and (lies or not alive_member):
        seen = "the answers from its address cannot be trusted" if lies else "its Node is NotReady"
        return f"{seen}, and the operator confirmed that the old machine is off ({DEAD})"
    return None


def same_machine(evidence: FencingEvidence, *, replaces: bool) -> Refusal | None:
    """Refuse other hardware under an old name, unless it replaces the old machine."""
    accepted, seen = evidence.accepted, evidence.seen
    if replaces or likeness(accepted, seen) != "another":
        return None
    by_serial = accepted.serial and seen.serial
    return Refusal(
        evidence.name,
        "passport",
        f"DMI serial {seen.serial}" if by_serial else f"a machine with {seen.words()}",
        f"{accepted.serial if by_serial else accepted.words()}, which this node had when it joined",
        "connect the right machine; or, if this machine replaces it: "
        f"appliance node add {evidence.name} --replace {evidence.name}",
    )
