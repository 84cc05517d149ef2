"""Proof that nodes were not touched: stable digests of their facts, and the journal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from appliance.cli.app import Application
from appliance.model.state.facts.facts import NodeFacts, differences, facts_digest
from tests.lab.conftest import LabSite

LOOKS = 5


@dataclass(frozen=True)
class Scene:
    """Every node that answers, the journal's records and the runs, at one moment."""

    node_facts: dict[str, NodeFacts]
    records: int
    runs: int
    known_hosts: bytes

    @property
    def digests(self) -> dict[str, str]:
        """Node -> digest of its stable fields."""
        return {name: facts_digest(facts) for name, facts in self.node_facts.items()}


def scene(lab: LabSite) -> Scene:
    """Read every node's facts as the product does; again where a busy node answered too late."""
    connected = Application().connect(lab.directory)
    try:
        for _ in range(LOOKS):
            observed, _, _ = connected.look()
            if not any(_was_late(facts) for facts in observed.node_facts.values()):
                break
    finally:
        connected.nodes.close()
    state = lab.directory / ".appliance"
    return Scene(
        dict(observed.node_facts),
        len(list((state / "journal").glob("**/*.json"))),
        len(list((state / "runs").glob("*"))),
        (lab.directory / "known_hosts").read_bytes(),
    )


def _was_late(facts: NodeFacts) -> bool:
    reasons = [entry["reason"] for entry in facts.items("unreadable")]
    return any("no answer" in reason or "timed out" in reason for reason in reasons)


def assert_still(before: Scene, after: Scene, nodes: Collection[str] = ()) -> None:
    """Assert equal digests (of these nodes, or of all) and, for all, no new record or run."""
    for name in nodes or before.node_facts:
        changed = differences(before.node_facts[name], after.node_facts[name])
        assert before.digests[name] == after.digests[name], f"{name}: {changed}"
    if not nodes:
        assert before.node_facts.keys() == after.node_facts.keys()
        assert (before.records, before.runs) == (after.records, after.runs)
        assert before.known_hosts == after.known_hosts
