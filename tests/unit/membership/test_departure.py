"""What proves that the machine that had a name is dead, and what is only a guess."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.fencing import FencingEvidence, FencingProof, check_fenced, same_machine
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import identity
from appliance.model.state.plan import Refusal
from tests import samples

SITE = samples.site()
W2 = SITE.node("w2")


@dataclass(frozen=True)
class Case:
    """Node: none, ready, away. Machine: none, blank, member. Its serial: same, other, unknown."""

    node: str
    machine: str
    serial: str = "same"
    sworn: bool = False
    proof: str = ""
    refusal: str = ""
    bmc: BmcReport | None = None
    hint: str = ""
    alive: str = ""
    deceives: bool = False
    internal_ip: str | None = W2.ip
    speaks: bool = False
    containers: int | None = None
    docker_hangs: bool = False

    def evidence(self) -> FencingEvidence:
        """As the workflow gathers it."""
        serials = {"same": "SN-w2", "other": "SN-x", "unknown": None}
        document = None
        if self.machine != "none":
            make = samples.converged(W2, samples.desired(SITE))
            document = make if self.machine == "member" else samples.bare(W2)
            document["dmi"]["serial"] = serials[self.serial]
        member = ClusterNode(
            "w2",
            ready=self.node == "ready",
            serial="SN-w2",
            internal_ip=self.internal_ip,
            kubelet_speaks=self.speaks,
            not_ready_reason="KubeletNotReady: runtime is down" if self.speaks else "",
            ready_since="2026-01-01T00:00:00+00:00",
        )
        if document and self.containers is not None:
            document["runtime"]["docker"] = {"containers_of_pods": self.containers}
        if document and self.docker_hangs:
            document["unseen"] = {"runtime.docker.containers_of_pods": "no answer in time"}
        return FencingEvidence(
            "w2",
            None if self.node == "none" else member,
            NodeFacts(document) if document else None,
            identity("SN-w2"),
            self.sworn,
            self.bmc,
            self.alive,
            deceives=self.deceives,
            address=W2.ip,
        )


OFF = BmcReport("SN-w2", powered_off=True)
ON = BmcReport("SN-w2")
ANOTHER = BmcReport("SN-x", powered_off=True)
NAMELESS = BmcReport(None, powered_off=True)
SILENT = BmcReport(reason="no route to host")

CASES = [
    Case("none", "none", proof="no Node of this name"),
    Case("none", "blank", proof="no Node of this name"),
    Case("none", "blank", "other", proof="no Node of this name"),
    Case("ready", "none", refusal="a Ready Node"),
    Case("ready", "none", sworn=True, refusal="a Ready Node"),
    Case("ready", "blank", proof="the same machine (serial SN-w2) answers, and it is empty"),
    Case("ready", "blank", "other", refusal="a Ready Node"),
    Case("ready", "blank", "other", sworn=True, refusal="a Ready Node"),
    Case("ready", "blank", "unknown", refusal="a Ready Node"),
    Case("ready", "member", refusal="a Ready Node"),
    Case("away", "none", proof="NotReady since 2026-01-01T00:00:00+00:00, and SSH does not answer"),
    Case("away", "none", internal_ip="198.18.7.99", hint="host_vars/w2.yml",
         refusal="no answer at 198.18.7.22, the address in host_vars/w2.yml, while "
         "its Node has 198.18.7.99"),
    Case("away", "none", internal_ip=None, refusal="its Node has no address"),
    Case("away", "none", internal_ip="198.18.7.99", sworn=True, proof="the operator confirmed"),
    Case("away", "none", internal_ip="198.18.7.99", bmc=OFF, proof="reports power off"),
    Case("away", "none", internal_ip="198.18.7.99", bmc=ON, refusal="a BMC that reports power on"),
    Case("away", "blank", internal_ip="198.18.7.99", proof="the same machine"),
    Case("away", "none", speaks=True, hint="wait a minute",
         refusal="a kubelet that reports this itself (KubeletNotReady: runtime is down)"),
    Case("away", "none", speaks=True, sworn=True, proof="the operator confirmed"),
    Case("away", "none", speaks=True, bmc=OFF, proof="reports power off"),
    Case("away", "blank", proof="the same machine"),
    Case("away", "blank", "other", refusal="another machine (serial SN-x)"),
    Case("away", "blank", "other", sworn=True, proof="the operator confirmed"),
    Case("away", "blank", "unknown", refusal="another machine (serial unknown, UUID uuid-w2)"),
    Case("away", "blank", "unknown", sworn=True, proof="the operator confirmed"),
    Case("away", "blank", containers=0, proof="the same machine"),
    Case("away", "blank", containers=7, refusal="the same machine, and 7 containers of pods",
         hint="appliance node remove w2"),
    Case("ready", "blank", containers=7, refusal="a Ready Node"),
    Case("away", "blank", docker_hangs=True, refusal="a Docker that does not report whether"),
    Case("away", "member", refusal="a NotReady machine that still has its identity"),
    Case("away", "member", sworn=True, refusal="a NotReady machine that still has its identity"),
    Case("away", "member", "other", refusal="another machine (serial SN-x)"),
    Case("ready", "none", bmc=OFF, proof="(serial SN-w2) reports power off"),
    Case("ready", "blank", "other", bmc=OFF, proof="reports power off"),
    Case("away", "blank", "other", bmc=OFF, proof="reports power off"),
    Case("away", "member", "other", bmc=OFF, proof="reports power off"),
    Case("away", "member", bmc=OFF, refusal="a NotReady machine that still has its identity"),
    Case("ready", "member", bmc=OFF, refusal="a Ready Node"),
    Case("ready", "none", bmc=ON, refusal="a Ready Node", hint="reports power on"),
    Case("away", "blank", "other", bmc=ON, refusal="another machine", hint="reports power on"),
    Case("away", "blank", "other", bmc=ANOTHER, refusal="another machine", hint="serial SN-x"),
    Case("away", "blank", "other", bmc=NAMELESS, refusal="another machine", hint="serial unknown"),
    Case("away", "blank", "other", bmc=SILENT, refusal="another machine", hint="no route to host"),
    Case("away", "none", bmc=SILENT, proof="SSH does not answer at 198.18.7.22"),
    Case("away", "none", bmc=NAMELESS, proof="SSH does not answer at 198.18.7.22"),
    Case("away", "none", bmc=ON, refusal="a BMC that reports power on"),
    Case("away", "none", bmc=ON, sworn=True, proof="the operator confirmed"),
    Case("away", "none", bmc=OFF, alive="wrong host key", proof="reports power off"),
    Case("away", "none", alive="No space left", refusal="answers at its address (No space left)"),
    Case("away", "none", alive="No space left", sworn=True, proof="the operator confirmed"),
    Case("ready", "none", alive="No space left", sworn=True, refusal="a Ready Node"),
    Case("ready", "none", alive="a flood", deceives=True, refusal="cannot be trusted (a flood)",
         hint="--i-know-it-is-dead"),
    Case("away", "none", alive="a flood", deceives=True, refusal="cannot be trusted",
         hint="verify that it is off"),
    Case("ready", "none", alive="a flood", deceives=True, sworn=True, proof="cannot be trusted"),
    Case("ready", "none", alive="a flood", deceives=True, bmc=OFF, proof="reports power off"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_a_name_is_released_only_with_proof_that_its_machine_is_off(case: Case) -> None:
    found = check_fenced(case.evidence())
    if case.proof:
        assert isinstance(found, FencingProof)
        assert case.proof in found.text
    else:
        assert isinstance(found, Refusal)
        assert case.refusal in found.seen
        assert found.hint
        assert case.hint in found.hint


def test_the_way_out_of_a_missing_proof_is_named() -> None:
    found = check_fenced(Case("away", "blank", "other").evidence())
    assert isinstance(found, Refusal)
    assert "--i-know-it-is-dead" in found.hint


@pytest.mark.parametrize(
    ("serial", "replaces", "refused"),
    [
        ("same", False, False),
        ("other", False, True),
        ("other", True, False),
        ("unknown", False, False),
    ],
)
def test_other_hardware_under_an_old_name_must_be_said(
    serial: str, replaces: bool, refused: bool
) -> None:
    found = same_machine(Case("away", "blank", serial).evidence(), replaces=replaces)
    assert (found is not None) == refused
    if found:
        assert found.sentence() == (
            "w2: passport: found DMI serial SN-x, expected SN-w2, which this node had when it "
            "joined"
        )
        assert "appliance node add w2 --replace w2" in found.hint
