"""Is the machine that had a name dead? What proves it, and what is only a guess.

A Node object, an etcd member and a host key may be let go only when the machine they stand for
cannot come back and act under them. What must not be here: asking the machine.
"""

from __future__ import annotations

from dataclasses import dataclass

from appliance.model.bmc import BmcReport
from appliance.model.cluster import ClusterNode
from appliance.model.photograph import Photograph
from appliance.model.plan import Refusal
from appliance.model.traces import is_member

DEAD = "--i-know-it-is-dead"


@dataclass(frozen=True)
class Witness:
    """What is known of the machine behind a name.

    Attributes:
        member: its Node object; None when the cluster has none.
        photo: what answers at its address; None when nothing does.
        accepted_serial: of the machine the cluster accepted (Node, record or passport), or None.
        sworn: the operator says that it is dead.
        bmc: what the BMC at the inventory's address says; None when the inventory knows none.
        alive: why there is no photograph although something answers at its address; empty where
            nothing does.
        deceives: what answers at a worker's address is not to be believed.
        foreign: what answers is no member of this cluster, whatever its serial.
    """

    name: str
    member: ClusterNode | None
    photo: Photograph | None
    accepted_serial: str | None = None
    sworn: bool = False
    bmc: BmcReport | None = None
    alive: str = ""
    foreign: bool = False
    deceives: bool = False


@dataclass(frozen=True)
class Proof:
    """That the old machine is dead, in words for the operator and the journal."""

    text: str


def prove_dead(witness: Witness) -> Proof | Refusal:
    """The proof that nothing acts under the name any more, or what is in its way.

    Proofs, strongest first: no Node object; the same machine, empty; its BMC, known by the
    machine's serial, says that it is off; NotReady and no SSH; the operator's word.
    """
    name, member, photo = witness.name, witness.member, witness.photo
    same = bool(photo and photo.serial and photo.serial == witness.accepted_serial)
    same = same and not witness.foreign
    found = _seen_dead(witness, same=same)
    if found is not None:
        return Proof(found)
    if member is not None and member.ready:
        return Refusal(
            name,
            "identity",
            "its Node is Ready: a machine acts under this name",
            "one that is NotReady, or the same machine wiped",
            f"find it: kubectl get node {name} -o wide; if it was powered off just now, wait a "
            f"minute until the API notices{_unasked(witness)}",
        )
    nameless = witness.accepted_serial is None and not witness.foreign
    if photo is not None and is_member(photo) and (same or nameless):
        return Refusal(
            name,
            "identity",
            "a machine that is NotReady and still has its identity as a member",
            "one that is dead or empty",
            f"mend it: appliance install; or take it out: appliance node remove {name}",
        )
    if photo is None:
        return Refusal(
            name,
            "identity",
            f"a Node that is NotReady, and {_life_sign(witness)}",
            f"proof that the machine with serial {witness.accepted_serial or 'unknown'} is dead: "
            "its containers may still run and write",
            f"mend what keeps us out; or power it off and see that it is off, then the same "
            f"command with {DEAD}{_unasked(witness)}",
        )
    return Refusal(
        name,
        "identity",
        f"another machine (serial {(photo and photo.serial) or 'unknown'}) at the address, and a "
        "Node that is NotReady: the old machine may come back",
        f"proof that the machine with serial {witness.accepted_serial or 'unknown'} is dead",
        f"power it off and see that it is off; then the same command with {DEAD}"
        f"{_unasked(witness)}",
    )


def _life_sign(witness: Witness) -> str:
    """What speaks against its death, in words."""
    if witness.alive:
        return f"something that answers at its address ({witness.alive})"
    return "a BMC that says that this machine is not off"


def _is_on(witness: Witness) -> bool:
    """Whether the BMC of this very machine says that it runs."""
    bmc = witness.bmc
    if bmc is None or bmc.reason or bmc.powered_off:
        return False
    return bool(bmc.serial) and bmc.serial == witness.accepted_serial


def _unasked(witness: Witness) -> str:
    """Why the BMC's word proved nothing."""
    bmc = witness.bmc
    if bmc is None:
        return ""
    if bmc.reason:
        return f" (its BMC could not be asked: {bmc.reason})"
    if not bmc.powered_off:
        return " (its BMC says that the machine is not off)"
    return f" (the BMC speaks of serial {bmc.serial or 'unknown'})"


def _seen_dead(witness: Witness, *, same: bool) -> str | None:
    """What proves it, in words; None when nothing does."""
    member, photo = witness.member, witness.photo
    if member is None:
        return "the cluster has no such Node"
    if photo and same and not is_member(photo):
        return f"the same machine (serial {photo.serial}) answers, and it is empty"
    if witness.bmc and witness.bmc.proves_off(witness.accepted_serial) and not same:
        return f"the BMC of its machine (serial {witness.bmc.serial}) says that it is powered off"
    silent = photo is None and not witness.alive and not _is_on(witness)
    if silent and not member.ready:
        return "its Node is NotReady, and nothing answers by SSH at its address"
    alive_member = member.ready or (photo is not None and is_member(photo) and same)
    # What a liar says proves nothing, the readiness of its Node least of all.
    lies = witness.deceives and not member.control_plane
    if witness.sworn and (lies or not alive_member):
        seen = "what answers is not to be believed" if lies else "NotReady"
        return f"{seen}, and the operator says that the old machine is dead"
    return None


def same_machine(witness: Witness, *, replaces: bool) -> Refusal | None:
    """Refuse other hardware under an old name, unless it is said to replace it."""
    photo = witness.photo
    if photo is None or replaces or not (photo.serial and witness.accepted_serial):
        return None
    if photo.serial == witness.accepted_serial:
        return None
    return Refusal(
        witness.name,
        "passport",
        f"DMI serial {photo.serial}",
        f"{witness.accepted_serial}, which this node had when it joined",
        "put the right machine there; or, if this one takes its place: "
        f"appliance node add {witness.name} --replace {witness.name}",
    )
