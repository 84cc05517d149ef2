"""The observed state: one round over the nodes and the Kubernetes API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from appliance.model.state.cluster.cluster import ClusterState
from appliance.model.state.facts.facts import NodeFacts

# A cause: the host key was compared before.
LOGIN_REFUSED: Final = "authentication failed for user"


@dataclass(frozen=True)
class Fault:
    """Why a node's facts are missing: what was tried, what came back, what to do next.

    Attributes:
        answers: a machine answers at its address; False where nothing answered at all.
        deceives: it answered with something that is not a document of our probe.
        logged_in: the login succeeded, but there was no document of our probe.
        cause: the same words for each node that has this reason; empty: the reason without the
            node's name.
    """

    node: str
    reason: str
    hint: str
    answers: bool = False
    deceives: bool = False
    logged_in: bool = False
    cause: str = ""


@dataclass(frozen=True)
class Observed:
    """What was seen in one round.

    Attributes:
        node_facts: node name -> facts; every node of the site that could be reached.
        cluster: what the API said, with the same freshness.
        faults: why the other nodes could not be read.
    """

    node_facts: Mapping[str, NodeFacts]
    cluster: ClusterState
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True)
class Look:
    """The result of one round over the nodes.

    Attributes:
        node_facts: node name -> its facts.
        faults: the nodes without facts.
    """

    node_facts: Mapping[str, NodeFacts]
    faults: tuple[Fault, ...] = field(default=())

    def alive(self, node: str) -> str:
        """Return why an answering node gave no facts; empty where nothing answers."""
        return next((f.reason for f in self.faults if f.node == node and f.answers), "")

    def host_key_known(self, node: str) -> bool:
        """Whether what answers without facts has a host key that was confirmed: logins need it."""
        return any(
            fault.logged_in or LOGIN_REFUSED in fault.cause
            for fault in self.faults
            if fault.node == node
        )

    def deceiver(self, node: str) -> bool:
        """Whether the answer from there cannot be trusted."""
        return any(fault.node == node and fault.deceives for fault in self.faults)


@dataclass(frozen=True)
class GpuTestResult:
    """The GPUs that test pods saw.

    Attributes:
        listed: node -> the lines of ``nvidia-smi -L`` in its pod; none where every GPU was in use.
        faults: (node, sentence) of each fault.
    """

    listed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    faults: tuple[tuple[str, str], ...] = ()

    def faults_of(self, node: str) -> tuple[str, ...]:
        """Return the faults of one node."""
        return tuple(text for name, text in self.faults if name == node)


@dataclass(frozen=True)
class PodView:
    """The results of test pods, one on each node, for network and DNS.

    Attributes:
        asked: the nodes under test.
        faults: one sentence per fault, starting with the node that observed it.
        names: node -> name -> its addresses, as a pod on that node resolves it.
    """

    asked: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()
    names: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
