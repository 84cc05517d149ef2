"""What a passport holds, and what of a node differs from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import NodeUnreachable
from appliance.model.node.baseline import (
    Acceptance,
    Passport,
    differences,
    document_of,
    parse_passport,
    passport_of,
)
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.node_metadata import metadata_of
from appliance.workflows.install import InstallRequest, install
from tests import samples
from tests.fakes import (
    FakeArchive,
    FakeObserver,
    FakeRack,
    run,
)
from tests.sessions import fake_session

NODE = samples.site().node("w2")
DIMM = {"locator": "A1", "size_bytes": 32 * 1024**3, "serial": "S1"}
DOCUMENT = {**samples.bare(NODE), "memory": {"dimms": [DIMM]}}
MEMBER = ClusterNode("w2", ready=True, labels={"run.ai/type": "dgx"}, taints=("a=b:NoSchedule",))
PASSPORT = passport_of(NODE, NodeFacts(DOCUMENT), MEMBER, Acceptance("ada@laptop", "now"))


def test_a_passport_is_read_as_it_was_written() -> None:
    assert parse_passport(PASSPORT.text()) == PASSPORT
    assert PASSPORT.document == document_of("w2") == "passports/w2.json"
    assert (PASSPORT.serial, PASSPORT.why) == ("SN-w2", "first verified")
    assert PASSPORT.facts["dimm:A1"] == "32 GiB serial S1"
    assert PASSPORT.belongings == metadata_of(MEMBER)


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_what_is_no_passport_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own and ours
        parse_passport(text)


@pytest.mark.parametrize(
    ("document", "member", "expected"),
    [
        ({}, MEMBER, []),
        ({"memory": {"dimms": []}}, MEMBER, ["dimm:A1"]),
        ({"dmi": {"serial": "SN-x"}}, MEMBER, ["machine"]),
        ({}, replace(MEMBER, labels={}), ["label:run.ai/type"]),
        ({}, replace(MEMBER, labels={"run.ai/type": "x"}), ["label:run.ai/type"]),
        ({}, replace(MEMBER, taints=()), ["taint:a=b:NoSchedule"]),
        ({}, replace(MEMBER, taints=(*MEMBER.taints, "runai=drain:NoExecute")), []),
        ({}, replace(MEMBER, annotations={"appliance.dev/maintenance": "{}"}), []),
        ({}, replace(MEMBER, annotations={"x/y": "z"}), ["annotation:x/y"]),
        ({}, None, []),
    ],
)
def test_what_differs_is_named(
    document: dict[str, object], member: ClusterNode | None, expected: list[str]
) -> None:
    found = differences(PASSPORT, NodeFacts({**DOCUMENT, **document}), member)
    assert [one.name for one in found] == expected


def test_of_what_cannot_be_seen_nothing_is_said() -> None:
    assert differences(PASSPORT, None, None) == ()


class Bench:
    """A bare rack, and the archive of its control plane."""

    def __init__(self) -> None:
        self.rack = FakeRack(samples.desired())
        self.archive, self.observer = FakeArchive(), FakeObserver()

    def install(self, accept: frozenset[str] = frozenset()) -> None:
        session = fake_session(self.rack, observer=self.observer, archive=self.archive)
        install(InstallRequest(self.rack.desired, run(), accept=accept), session, lambda _: True)

    def passport(self, name: str) -> Passport:
        return parse_passport(self.archive.documents[f"passports/{name}.json"])

    def break_something(self) -> None:
        """So that the next install has a step to do."""
        self.rack.documents["w1"]["clock"]["service"] = "systemd-timesyncd"


def test_an_install_writes_the_passport_of_each_member_once() -> None:
    bench = Bench()
    bench.install()
    assert set(bench.archive.documents) == {f"passports/{n}.json" for n in ("cp1", "w1", "w2")}
    assert bench.passport("w2").accepted_by == "ada@laptop"
    bench.rack.documents["w2"]["memory"] = {"dimms": [DIMM]}
    bench.archive.documents.pop("passports/w1.json")
    bench.break_something()
    bench.install()
    assert "dimm:A1" not in bench.passport("w2").facts, "changed by acknowledgement alone"
    assert bench.passport("w1").serial == "SN-w1"


def test_a_machine_that_replaces_another_is_accepted_again() -> None:
    bench = Bench()
    bench.install()
    old = replace(bench.passport("w1"), facts={"machine": "SN-old"})
    bench.archive.put(old.document, old.text())
    bench.break_something()
    bench.install(accept=frozenset({"w1"}))
    assert bench.passport("w1").serial == "SN-w1"


def test_an_install_does_not_fail_for_a_passport_that_cannot_be_kept() -> None:
    bench = Bench()
    bench.archive.away = NodeUnreachable("no control-plane node answers")
    bench.install()
    assert ("note", "no passport was written: no control-plane node answers") in bench.observer.said
