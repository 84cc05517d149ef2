"""``hardware burn-in``: what is started where, what is refused, and what a later look finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.adapters.hardware.burn_ins import BurnIns
from appliance.errors import (
    ApplianceError,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.state.cluster.cluster import NoCluster, Unreachable
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance
from appliance.workflows.hardware.burn_in import BurnInRequest, BurnInResult, burn_in, collect
from appliance.workflows.site.adopt import FOLDERS
from tests import samples
from tests.fake_documents import FakeDocuments
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.hardware.burning import Burning, state
from tests.unit.life.rack import FakeDrain
from tests.unit.life.test_drain import pod

STARTER = f"{run('x').operator}@{run('x').host}"
NAMES = ("cp1", "w1", "w2")
MARK = Maintenance(
    *("r", "ada", "laptop", "2026-01-01T00:00:00+00:00"),
    mode="cordon",
    phase="out of service",
    cordoned=True,
    tainted=False,
    photograph="photographs/w1-r",
)


class Bench:
    """Bare machines: a site before its first install."""

    def __init__(self) -> None:
        self.desired = samples.desired(samples.site(2))
        self.rack = FakeRack(self.desired)
        self.rack.documents = {n.name: samples.bare(n) for n in self.desired.site.nodes}
        self.rack.cluster = NoCluster()
        self.clock, self.journal = FakeClock(), FakeJournal()
        self.drain = FakeDrain(self.clock)
        self.archive, self.documents = FakeArchive(), FakeDocuments()
        self.burning = Burning()
        self.asked: list[Sequence[str]] = []
        self.answer = True
        self.confirm: Callable[[Sequence[str]], bool] = self.agree

    def installed(self) -> None:
        self.rack.documents = {
            node.name: samples.converged(node, self.desired) for node in self.desired.site.nodes
        }
        self.rack.cluster = samples.cluster(self.desired)

    def maintained(self, name: str) -> None:
        cluster: Any = self.rack.cluster
        node = replace(cluster.nodes[name], annotations={ANNOTATION: MARK.as_text()})
        self.rack.cluster = replace(cluster, nodes={**cluster.nodes, name: node})

    def session(self) -> Any:
        return fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            archive=self.archive,
            documents=self.documents,
            clock=self.clock,
        )

    def request(self, *names: str, **more: Any) -> BurnInRequest:
        nodes = tuple(self.desired.site.node(name) for name in names or NAMES)
        return BurnInRequest(self.desired.site, nodes, run("hardware burn-in"), **more)

    def burn(self, *names: str, **more: Any) -> BurnInResult:
        nodes: Any = BurnIns(self.desired.site, self.burning)  # type: ignore[arg-type]

        return burn_in(self.request(*names, **more), self.session(), nodes, self.confirm)

    def agree(self, said: Sequence[str]) -> bool:
        self.asked.append(said)
        return self.answer

    def look(self, *names: str) -> BurnInResult:
        nodes: Any = BurnIns(self.desired.site, self.burning)  # type: ignore[arg-type]
        return collect(self.request(*names), self.session(), nodes)

    def refused(self, error: type[ApplianceError], *names: str, **more: Any) -> str:
        with pytest.raises(error) as caught:
            self.burn(*names, **{"hours": 8.0, **more})
        assert self.burning.orders == {}
        assert self.journal.records == []
        return f"{caught.value.message} | {caught.value.hint} | {caught.value.details}"


def test_all_nodes_start_and_stream_in_a_ring() -> None:
    bench = Bench()
    done = bench.burn(hours=8.0)
    assert done.done
    assert [one.record.status for one in done.nodes if one.record] == ["running"] * 3
    orders = bench.burning.orders
    addresses = [bench.desired.site.node(name).ip for name in NAMES]
    assert [orders[name]["connects"] for name in NAMES] == [*addresses[1:], addresses[0]]
    assert [orders[name]["serves"] for name in NAMES] == [addresses[2], *addresses[:2]]
    assert len({order["word"] for order in orders.values()}) == 1
    assert {order["seconds"] for order in orders.values()} == {28800.0}
    assert [record.step for record in bench.journal.records] == ["burn-in: start"]
    assert list(bench.documents.texts) == [f"burn-in/SN-{name}.json" for name in NAMES]


def test_one_node_alone_has_no_network() -> None:
    bench = Bench()
    bench.burn("w1", hours=1.0)
    assert "serves" not in bench.burning.orders["w1"]


def test_the_memory_can_be_bounded() -> None:
    bench = Bench()
    done = bench.burn("w1", hours=1.0, memory_gib=0.5)
    assert "at most 0.5 GiB of memory" in done.planned[0]
    assert bench.burning.orders["w1"]["most_memory"] == 1 << 29


def test_a_dry_run_and_a_no_start_nothing() -> None:
    bench = Bench()
    done = bench.burn(hours=8.0, dry_run=True)
    assert [text.partition(":")[0] for text in done.planned] == [*NAMES]
    assert not done.done
    assert bench.burning.orders == {}
    bench.burning.states["w1"] = state()
    bench.burn(hours=8.0, dry_run=True)
    assert bench.documents.texts == {}
    del bench.burning.states["w1"]
    bench.answer = False
    bench.refused(Refused)


def test_without_hours_it_only_looks() -> None:
    bench = Bench()
    done = bench.burn()
    assert (done.done, done.planned, bench.asked) == (False, (), [])
    assert [one.record for one in done.nodes] == [None] * 3
    assert {verb for _, verb in bench.burning.asked} == {"look"}
    assert bench.documents.texts == {}


def test_the_same_command_again_collects_and_starts_only_what_has_none() -> None:
    bench = Bench()
    bench.burn("w1", hours=8.0)
    done = bench.burn(hours=8.0)
    assert [text.partition(":")[0] for text in done.planned] == ["cp1", "w2"]
    assert bench.burning.asked.count(("w1", "start")) == 1
    for name in NAMES:
        bench.burning.finish(name)
    done = bench.burn(hours=8.0)
    assert (done.done, done.planned) == (False, ())
    assert [one.record.status for one in done.nodes if one.record] == ["ended"] * 3
    assert bench.burn(hours=2.0, again=True).done
    assert bench.burning.asked.count(("w1", "start")) == 2


def test_again_leaves_alone_what_runs() -> None:
    bench = Bench()
    bench.burn("w1", hours=8.0)
    assert bench.burn("w1", hours=8.0, again=True).planned == ()


def test_from_another_laptop_the_record_is_the_same() -> None:
    bench = Bench()
    bench.burn(hours=8.0)
    bench.burning.finish("w1")
    bench.documents = FakeDocuments()
    done = bench.look("w1")
    assert done.nodes[0].record is not None
    assert done.nodes[0].record.status == "ended"
    assert json.loads(bench.documents.texts["burn-in/SN-w1.json"])["burn_in"]["samples"] == 480


def test_machines_that_tell_one_serial_do_not_overwrite_each_others_record() -> None:
    bench = Bench()
    bench.burn(hours=8.0)
    for name in NAMES:
        bench.burning.finish(name)
    bench.look()
    before = dict(bench.documents.texts)
    bench.burning.states["w1"]["identity"] = {"serial": "SN-w2"}
    bench.burning.states["w1"]["faults"] = ["of another machine"]
    done = bench.look()
    assert bench.documents.texts == before
    (said,) = done.missed
    assert (
        said == "the burn-ins of w1 and w2 are not kept: they tell the same machine, serial SN-w2"
    )


def test_a_node_that_tells_anothers_serial_does_not_replace_its_record() -> None:
    """Asked alone, nothing but the record shows that the machine has another name."""
    bench = Bench()
    bench.burn("w2", hours=8.0)
    bench.burning.finish("w2")
    bench.look("w2")
    before = dict(bench.documents.texts)
    bench.burn("w1", hours=8.0)
    bench.burning.states["w1"]["identity"] = {"serial": "SN-w2"}
    bench.burning.finish("w1")
    done = bench.look("w1")
    assert bench.documents.texts["burn-in/SN-w2.json"] == before["burn-in/SN-w2.json"]
    (said,) = done.missed
    assert said.startswith("the burn-in of w1 is not kept: its machine, serial SN-w2, is recorded")
    assert "as that of w2" in said


def test_a_record_that_says_the_same_is_not_written_again() -> None:
    bench = Bench()
    bench.burn("w1", hours=8.0)
    bench.burning.finish("w1")
    bench.look("w1")
    before = bench.documents.texts["burn-in/SN-w1.json"]
    bench.clock.sleep(600)
    bench.look("w1")
    assert bench.documents.texts["burn-in/SN-w1.json"] == before


def test_a_node_that_started_again_is_found() -> None:
    bench = Bench()
    bench.burn("w1", "w2", hours=8.0)
    bench.burning.running.clear()
    bench.burning.boots["w1"] = "99999999-0000-4000-8000-000000000000"
    statuses = [one.record.status for one in bench.look("w1", "w2").nodes if one.record]
    assert statuses == ["restarted", "lost"]


def test_it_is_ended_and_what_was_counted_stays() -> None:
    bench = Bench()
    bench.burn(hours=8.0)
    bench.burning.finish("cp1")
    done = bench.burn(end=True)
    assert [text.partition(":")[0] for text in done.planned] == ["w1", "w2"]
    # It may be a colleague's.
    assert done.planned[0] == f"w1: end the burn-in that {STARTER} started, after 0 s"
    assert [one.record.burn_in.ended for one in done.nodes if one.record] == [
        "done", "stopped", "stopped",
    ]  # fmt: skip
    assert bench.burn(end=True).planned == ()


def test_a_silent_node_stops_a_start_before_any_change() -> None:
    bench = Bench()
    bench.burning.answers["w2"] = None
    assert "w2: no answer on port 22" in bench.refused(NodeUnreachable)
    done = bench.look()
    assert [one.reason for one in done.nodes] == ["", "", "no answer on port 22"]


def test_a_silent_node_does_not_stop_the_end_of_the_others() -> None:
    bench = Bench()
    bench.burn(hours=8.0)
    bench.burning.answers["w2"] = None
    with pytest.raises(StepNotVerified) as caught:
        bench.burn(end=True)
    assert caught.value.message == "w2: no answer on port 22"
    assert caught.value.details == ("done: cp1", "done: w1")
    assert bench.burning.running == {"w2"}
    with pytest.raises(NodeUnreachable, match="w2: no answer on port 22"):
        bench.burn(end=True)


@pytest.mark.parametrize("answer", ["{", "[]", '{"schema": 1}', "x" * 400_000])
def test_a_node_that_lies_is_named(answer: str) -> None:
    bench = Bench()
    bench.burning.answers["w1"] = answer
    assert "w1: the output of its probe is not valid" in bench.refused(NodeUnreachable)


def test_a_node_that_refuses_is_named_and_the_others_run() -> None:
    bench = Bench()
    bench.burning.refused["w1"] = "not tried, because the node carries 3 pods"
    with pytest.raises(StepNotVerified) as caught:
        bench.burn(hours=8.0)
    assert caught.value.message == "w1: not tried, because the node carries 3 pods"
    assert caught.value.details == ("done: cp1", "done: w2")
    assert [record.outcome for record in bench.journal.records] == ["not verified"]


def test_a_member_is_refused_until_it_is_maintained_and_empty() -> None:
    bench = Bench()
    bench.installed()
    said = bench.refused(PreflightFailed, "w1")
    assert "w1: it is a member of the cluster" in said
    assert bench.refused(PreflightFailed, "w1", dry_run=True) == said
    assert "appliance node maintain w1" in said
    bench.maintained("w1")
    bench.drain.pods = [pod("web")]
    assert "w1: 1 pods still run on it" in bench.refused(PreflightFailed, "w1")
    bench.drain.pods = []
    assert bench.burn("w1", hours=8.0).done
    assert bench.burning.orders["w1"]["maintained"] is True


def test_a_node_that_was_returned_while_the_question_waited_is_refused() -> None:
    bench = Bench()
    bench.installed()
    members = bench.rack.cluster
    bench.maintained("w1")

    def confirm(_: Sequence[str]) -> bool:
        bench.clock.sleep(3600)
        bench.rack.cluster = members
        return True

    bench.confirm = confirm
    assert "w1: it is a member of the cluster" in bench.refused(PreflightFailed, "w1")


def test_a_control_plane_node_of_a_cluster_is_refused_even_in_maintenance() -> None:
    bench = Bench()
    bench.installed()
    bench.maintained("cp1")
    assert "cp1: the cluster needs it: it carries etcd" in bench.refused(PreflightFailed, "cp1")


def test_without_an_answer_of_the_api_nothing_is_started() -> None:
    bench = Bench()
    bench.installed()
    bench.rack.cluster = Unreachable("6443 does not answer")
    assert "whether it carries pods is unknown" in bench.refused(PreflightFailed, "w1")


def test_with_a_passport_the_record_is_kept_beside_it() -> None:
    bench = Bench()
    for name, serial in (("w1", "SN-w1"), ("w2", "SN-other")):
        passport = Passport(name, {"machine": serial})
        bench.archive.documents[passport.document] = passport.text()
    done = bench.burn("w1", "w2", hours=8.0)
    assert "burn-in/SN-w1.json" in bench.archive.documents
    assert "burn-in/SN-w2.json" not in bench.archive.documents
    (said,) = done.missed
    assert said.startswith("w2: its burn-in is kept on this machine alone: it was not of the")
    bench.archive.away = NodeUnreachable("no control-plane node answers")
    bench.burning.finish("w1")
    (said,) = bench.look("w1").missed
    assert "kept on this machine alone: no control-plane node answers" in said


def test_another_laptop_adopts_records_of_burn_ins() -> None:
    assert "burn-in" in FOLDERS
