"""To which cluster does a machine belong? What proves that we may clean it, and what forbids it.

A machine is cleaned only with positive evidence: it names this cluster's API, and it has the
cluster's CA, or is by its serial, UUID or board the machine that was accepted under the node's
name; NICs alone are no such evidence. The module that empties it asks again by itself
(``roles/node_reset/module_utils/reset_evidence.py``). What must not be here: asking the machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from appliance.model.site.settings import Node, Site
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import (
    MachineIdentity,
    identity_of,
    likeness,
    without_shared,
)
from appliance.model.state.nodes.kubeadm_state import (
    CA,
    api_hosts,
    ca_of,
    containers_untold,
    is_member,
    kubeadm_signs,
    pod_containers,
    strange_servers,
)

if TYPE_CHECKING:
    from appliance.model.node.membership import Removal
    from appliance.model.state.observed import Observed

LOSE: Final = "--lose-machine"
_IDENTITY: Final = re.compile(r"CN=system:node:([^,/]+)")

# How it was proved, in the words of the role: "" where nothing proves it.
Vouched = Literal["", "ca", "serial", "machine", "removal", "operator"]


@dataclass(frozen=True)
class KnownNode:
    """What is known of the node, beside the machine that answers.

    Attributes:
        node: its name.
        url: the API that members of this cluster name.
        hosts: every name and address of that API.
        ca: sha256 of the cluster's CA as other control-plane nodes have it; None when they do not
            tell it, or do not agree.
        machine: accepted under the name.
        unfinished: that of a removal that was begun and did not get to its end.
        emptied: a removal emptied it before, and saw that it was.
        others: what the other machines of the site show: what is theirs too proves nothing.
    """

    node: str
    url: str
    hosts: frozenset[str]
    ca: str | None = None
    machine: MachineIdentity = field(default_factory=MachineIdentity)
    unfinished: MachineIdentity = field(default_factory=MachineIdentity)
    others: tuple[MachineIdentity, ...] = ()
    emptied: bool = False


@dataclass(frozen=True)
class Ownership:
    """The judgement.

    Attributes:
        bare: there is nothing of a member on it.
        vouched: what proves that it is this node; empty when nothing does.
        against: what speaks against it, one sentence part each.
        never: no word of an operator allows it to be emptied here: it holds data of another etcd.
    """

    bare: bool = False
    vouched: Vouched = ""
    against: tuple[str, ...] = ()
    never: bool = False

    @property
    def may_be_emptied(self) -> bool:
        """Whether it is bare, or proved to be this node and nothing speaks against it."""
        return self.bare or (bool(self.vouched) and not self.against)


def known_of(
    site: Site,
    node: Node,
    observed: Observed,
    removed: Removal | None,
    accepted: MachineIdentity,
) -> KnownNode:
    """Gather what speaks for a machine at a node's address."""
    others = {n: p for n, p in observed.node_facts.items() if n != node.name}
    control_plane_nodes = [others[n.name] for n in site.control_plane if n.name in others]
    cas = {ca for facts in control_plane_nodes if (ca := ca_of(facts))}
    endpoint = site.settings.control_plane_endpoint
    begun = removed.machine if removed and not removed.reset else MachineIdentity()
    return KnownNode(
        node.name,
        f"https://{endpoint.name}:{endpoint.port}",
        api_hosts(site),
        cas.pop() if len(cas) == 1 else None,
        accepted,
        begun,
        tuple(identity_of(facts) for facts in others.values()),
        removed is not None and removed.reset,
    )


def has_kubeadm_state(facts: NodeFacts) -> bool:
    """Whether a machine has any kubeadm state that a reset would remove."""
    begun = facts.at("kubernetes.reset_begun")
    return is_member(facts) or bool(kubeadm_signs(facts) or begun or pod_containers(facts))


def judge(facts: NodeFacts, known: KnownNode) -> Ownership:
    """Whether a machine may be cleaned as this node."""
    untold = containers_untold(facts) and not known.emptied
    if not has_kubeadm_state(facts) and not untold:
        return Ownership(bare=True)
    own_ca = ca_of(facts)
    no_ca = not any(entry.get("path") == CA for entry in facts.items("kubernetes.pki"))
    by_ca = known.ca is not None and known.ca == (_begun(facts, known) if no_ca else own_ca)
    goes_on = no_ca and _is_proved(known.unfinished, facts, known)
    vouched: Vouched = "ca" if by_ca else "removal" if goes_on else _by_machine(facts, known)
    against = tuple(_against(facts, known))
    etcd = bool(facts.at("kubernetes.etcd_data.present"))
    theirs = bool(own_ca and known.ca and own_ca != known.ca)
    if etcd and vouched not in ("ca", "removal"):
        whose = "of another CA" if theirs else "of an unknown cluster"
        against += (f"has etcd data {whose}",)
    never = etcd and (theirs or bool(_strange(facts, known)))
    return Ownership(False, vouched, against, never=never)


def _by_machine(facts: NodeFacts, known: KnownNode) -> Vouched:
    """By its serial; by its UUID or board where one side tells no serial."""
    if not _is_proved(known.machine, facts, known):
        return ""
    return "serial" if facts.serial and known.machine.serial else "machine"


def _is_proved(accepted: MachineIdentity, facts: NodeFacts, known: KnownNode) -> bool:
    """Whether it is that machine, also by what no other machine shows."""
    own = (accepted, without_shared(accepted, known.others))
    return all(likeness(one, identity_of(facts)) == "same" for one in own)


def _begun(facts: NodeFacts, known: KnownNode) -> object:
    """The CA of the cluster as whose member a reset of ours found this machine, and began."""
    mine = facts.at("kubernetes.reset_begun.node") == known.node
    return facts.at("kubernetes.reset_begun.ca_sha256") if mine else None


def _strange(facts: NodeFacts, known: KnownNode) -> tuple[str, ...]:
    return strange_servers(facts, known.hosts)


def _against(facts: NodeFacts, known: KnownNode) -> Iterator[str]:
    strange = _strange(facts, known)
    if strange:
        yield f"is a member of another cluster ({', '.join(strange)})"
    name = member_name_of(facts)
    if name and name != known.node:
        yield f"is the member {name}"


def member_name_of(facts: NodeFacts) -> str | None:
    """The name in the certificate with which a machine's kubelet calls the API."""
    subjects = [
        *(c.get("subject") for c in facts.items("kubernetes.pki") if "kubelet-client" in str(c)),
        *(
            c.get("subject")
            for c in facts.items("kubernetes.kubeconfigs")
            if str(c.get("path", "")).endswith("/kubelet.conf")
        ),
    ]
    found = (_IDENTITY.search(str(subject)) for subject in subjects if subject)
    return next((match.group(1) for match in found if match), None)


def in_words(ownership: Ownership, known: KnownNode) -> str:
    """Why a machine may not be cleaned, in words."""
    if ownership.against:
        return " and ".join(ownership.against)
    unknown = "" if known.ca else " (the cluster's own CA is not known)"
    return (
        "has kubeadm state, but neither its CA nor its serial, UUID or board proves that it is "
        f"{known.node}{unknown}"
    )
