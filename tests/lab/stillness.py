"""Proof that nodes were not touched: stable digests of their photographs, and the journal."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from appliance.cli.app import Application
from appliance.model.state.facts.facts import Photograph, differences, photograph_digest
from tests.lab.conftest import LabSite

LOOKS = 5


@dataclass(frozen=True)
class Scene:
    """Every node that answers, the journal's records and the runs, at one moment."""

    photographs: dict[str, Photograph]
    records: int
    runs: int
    known_hosts: bytes

    @property
    def digests(self) -> dict[str, str]:
        """Node -> digest of its stable fields."""
        return {name: photograph_digest(photo) for name, photo in self.photographs.items()}


def scene(lab: LabSite) -> Scene:
    """Photograph everything, as the product does; again where a busy node answered too late."""
    connected = Application().connect(lab.directory)
    try:
        for _ in range(LOOKS):
            observed, _, _ = connected.look()
            if not any(_was_late(photo) for photo in observed.photographs.values()):
                break
    finally:
        connected.nodes.close()
    state = lab.directory / ".appliance"
    return Scene(
        dict(observed.photographs),
        len(list((state / "journal").glob("**/*.json"))),
        len(list((state / "runs").glob("*"))),
        (lab.directory / "known_hosts").read_bytes(),
    )


def _was_late(photo: Photograph) -> bool:
    reasons = [entry["reason"] for entry in photo.items("unreadable")]
    return any("no answer" in reason or "timed out" in reason for reason in reasons)


def assert_still(before: Scene, after: Scene, nodes: Collection[str] = ()) -> None:
    """Assert equal digests (of these nodes, or of all) and, for all, no new record or run."""
    for name in nodes or before.photographs:
        changed = differences(before.photographs[name], after.photographs[name])
        assert before.digests[name] == after.digests[name], f"{name}: {changed}"
    if not nodes:
        assert before.photographs.keys() == after.photographs.keys()
        assert (before.records, before.runs) == (after.records, after.runs)
        assert before.known_hosts == after.known_hosts
