"""``node power``: what refuses, what is sent, what is observed, and who is held up by nobody."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    Interrupted,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.orders import BmcMachine, PowerOrder
from appliance.model.node.bmc.power import PowerOptions
from appliance.model.state.cluster.cluster import NoCluster, Unreachable
from appliance.model.state.nodes.maintenance import ANNOTATION
from appliance.workflows.node.power import (
    PowerRequest,
    PowerResult,
    node_power,
    node_power_status,
)
from tests import samples
from tests.fake_bmcs import FakeBmc, FakeDriver
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.life.rack import WEB, FakeDrain
from tests.unit.life.test_drain import pod

NAMES = ("cp1", "w1", "w2")


class Power:
    """Which nodes answer by SSH: those that are on, and those that only say so."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.answering: set[str] = set()

    def answers(self, node: Any) -> bool:
        return node.name in self.answering

    def shut_down(self, node: Any) -> None:
        raise NotImplementedError


class Bench:
    """A site whose nodes have BMCs and passports."""

    def __init__(self, power: str = "On") -> None:
        self.desired = samples.desired(samples.site(1))
        self.rack = FakeRack(self.desired)
        self.rack.documents = {
            node.name: samples.converged(node, self.desired) for node in self.desired.site.nodes
        }
        self.rack.cluster = samples.cluster(self.desired)
        self.clock = FakeClock()
        self.drain = FakeDrain(self.clock)
        self.driver = FakeDriver(NAMES, power)
        self.power = Power(self.driver)
        self.archive = FakeArchive()
        for name in NAMES:
            passport = Passport(name, {"machine": f"SN-{name}"})
            self.archive.documents[passport.document] = passport.text()
        self.journal = FakeJournal()
        self.asked: list[Sequence[str]] = []
        self.answer = True

    def switch(self, verb: Any, *names: str, dry_run: bool = False, **more: Any) -> PowerResult:
        nodes = tuple(self.desired.site.node(name) for name in names or ("w1",))
        options = PowerOptions(verb, **more)
        what = run(f"node power {verb}")
        request = PowerRequest(self.desired.site, nodes, options, what, dry_run=dry_run)

        def confirm(said: Sequence[str]) -> bool:
            self.asked.append(said)
            return self.answer

        return node_power(request, self._session(), self.driver, confirm)

    def _session(self) -> Any:
        return fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            power=self.power,
            archive=self.archive,
            clock=self.clock,
        )

    def status(self) -> Any:
        nodes = [self.desired.site.node(name) for name in NAMES]
        return node_power_status(nodes, self._session(), self.driver)

    def refused(self, verb: Any, error: type[ApplianceError], **more: Any) -> str:
        with pytest.raises(error) as caught:
            self.switch(verb, **more)
        assert self.driver.orders == []
        assert self.journal.records == []
        return f"{caught.value.message} | {caught.value.hint} | {caught.value.details}"


@pytest.mark.parametrize(
    ("verb", "hard", "before", "orders"),
    [
        ("on", False, "Off", ["on"]),
        ("on", False, "On", []),
        ("off", False, "On", ["off"]),
        ("off", True, "On", ["cut"]),
        ("off", True, "Off", []),
        ("cycle", False, "On", ["off", "on"]),
        ("cycle", True, "Off", ["cut", "on"]),
    ],
)
def test_the_orders_of_each_verb(verb: Any, hard: bool, before: str, orders: list[str]) -> None:
    bench = Bench(before)
    done = bench.switch(verb, hard=hard)
    assert [order for _, order in bench.driver.orders] == orders
    assert done.done is bool(orders)
    assert len(bench.asked) == len(bench.journal.records) == bool(orders)


def test_evidence_names_the_machine_and_the_power() -> None:
    bench = Bench()
    (found,) = bench.switch("off", hard=True).nodes
    assert found.evidence == (
        "its BMC (serial SN-w1) reports power Off; nothing answers at 198.18.7.21"
    )
    (record,) = bench.journal.records
    assert (record.step, record.nodes, record.outcome) == ("power: off", ("w1",), "verified")


def test_the_question_says_what_is_sent_to_which_machine() -> None:
    bench = Bench()
    bench.switch("cycle", hard=True)
    assert bench.asked == [
        ("w1: its BMC (serial SN-w1) reports power On; will send ForceOff, then On",)
    ]


@pytest.mark.parametrize("verb", ["on", "off", "cycle"])
def test_a_dry_run_and_a_no_send_nothing(verb: Any) -> None:
    bench = Bench("Off" if verb == "on" else "On")
    assert not bench.switch(verb, dry_run=True).done
    bench.answer = False
    assert "not confirmed" in bench.refused(verb, Refused)


@pytest.mark.parametrize("verb", ["on", "off", "cycle"])
@pytest.mark.parametrize(
    ("serial", "said"),
    [
        ("SN-other", "found a BMC of a machine with serial SN-other, expected serial SN-w1"),
        ("SN-w2", "found a BMC of a machine with serial SN-w2, expected serial SN-w1"),
    ],
)
def test_a_wrong_machine_is_refused(verb: Any, serial: str, said: str) -> None:
    bench = Bench("Off" if verb == "on" else "On")
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial=serial)
    assert said in bench.refused(verb, PreflightFailed)


def test_without_a_passport_another_nodes_machine_is_refused_and_an_unknown_one_not_cut() -> None:
    bench = Bench()
    bench.archive.documents.pop("passports/w1.json")
    bench.rack.cluster = NoCluster()
    assert "no passport to compare it with" in bench.refused("off", PreflightFailed)
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-w2")
    assert "the BMC of w2 (serial SN-w2)" in bench.refused("off", PreflightFailed)


def test_a_serial_that_the_operator_read_stands_in_for_a_passport() -> None:
    bench = Bench()
    bench.archive.away = NodeUnreachable("no control-plane node answers")
    bench.rack.cluster = NoCluster()
    said = bench.refused("off", PreflightFailed)
    assert "--serial SERIAL" in said
    assert "no control-plane node answers" in said
    wrong = bench.refused("off", PreflightFailed, serial="SN-else")
    assert "expected serial SN-else" in wrong
    assert bench.switch("off", serial="SN-w1").done


def test_pods_keep_a_node_on() -> None:
    bench = Bench()
    bench.drain.pods = [pod(f"web-{number}", owner=WEB) for number in range(7)]
    said = bench.refused("off", PreflightFailed)
    assert "7 pods: " in said
    assert "and 2 more" in said
    assert "appliance node maintain w1 --shutdown" in said
    assert bench.switch("off", allow_outage=True).done


def test_a_node_in_maintenance_without_pods_is_switched_off() -> None:
    bench = Bench()
    bench.drain.annotations[ANNOTATION] = "{}"
    assert bench.switch("off").done


def test_the_only_control_plane_node_is_kept_on() -> None:
    bench = Bench()
    bench.drain.nodes = tuple(
        replace(node, control_plane=node.name == "cp1")
        for node in bench.rack.cluster.nodes.values()  # type: ignore[union-attr]
    )
    with pytest.raises(PreflightFailed, match="the API would be down"):
        bench.switch("off", "cp1")
    assert bench.switch("off", "cp1", allow_outage=True).done


def test_a_cluster_that_does_not_answer_keeps_a_node_on() -> None:
    bench = Bench()
    bench.rack.cluster = Unreachable("port 6443 is closed")
    assert "port 6443 is closed" in bench.refused("off", PreflightFailed)
    done = bench.switch("off", allow_outage=True)
    assert done.done
    assert bench.journal.begun == 0, "the lock is on nodes that may be off"


def test_without_a_cluster_a_machine_is_switched_off() -> None:
    bench = Bench()
    bench.rack.cluster = NoCluster()
    assert bench.switch("off").done


def test_switching_on_takes_no_lock_and_off_does() -> None:
    bench = Bench("Off")
    bench.switch("on")
    assert bench.journal.begun == 0
    bench.switch("off")
    assert bench.journal.begun > 0


def test_a_bmc_that_lies_is_found_out() -> None:
    bench = Bench()
    bench.power.answering = {"w1"}
    with pytest.raises(StepNotVerified, match=r"reports power off, but 198.18.7.21 still answers"):
        bench.switch("off", hard=True)
    assert bench.journal.records[0].outcome == "not verified"


@pytest.mark.parametrize("verb", ["on", "off", "cycle"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_node_that_answers_although_its_bmc_reports_off_is_refused(
    verb: Any, dry_run: bool
) -> None:
    bench = Bench("Off")
    bench.power.answering = {"w1"}
    said = bench.refused(verb, PreflightFailed, dry_run=dry_run, allow_outage=True)
    assert "found power Off, but 198.18.7.21 answers" in said
    assert "bmc_address or bmc_system in host_vars/w1.yml" in said


def test_one_node_that_fails_holds_up_no_other() -> None:
    bench = Bench("Off")
    bench.driver.order_fails["w1"] = StepNotVerified("w1: its BMC reports power Off 180 s after")
    with pytest.raises(StepNotVerified) as caught:
        bench.switch("on", "cp1", "w1", "w2")
    assert caught.value.message.startswith("w1: ")
    assert [one[:9] for one in caught.value.details] == ["done: cp1", "done: w2:"]
    assert sorted(bench.driver.orders) == [("cp1", "on"), ("w2", "on")]


def test_a_bmc_that_is_away_stops_the_command_before_the_first_order() -> None:
    bench = Bench("Off")
    bench.driver.fails["w2"] = NodeUnreachable("w2: the BMC at x: timed out")
    with pytest.raises(NodeUnreachable, match="timed out"):
        bench.switch("on", "w1", "w2")
    assert bench.driver.orders == []


def test_a_bmc_without_a_clean_shutdown_is_told_before() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], resets=("On", "ForceOff"))
    assert "--hard" in bench.refused("off", PreflightFailed)


def test_status_reports_every_node_whatever_the_others_do() -> None:
    bench = Bench()
    bench.driver.fails["w2"] = NodeUnreachable("w2: the BMC at x: timed out")
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-else")
    found = bench.status()
    assert [(one.node, one.like, one.reason) for one in found] == [
        ("cp1", "same", ""),
        ("w1", "another", ""),
        ("w2", "unknown", "w2: the BMC at x: timed out"),
    ]


def test_after_ctrl_c_no_order_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    def power(
        self: FakeBmc,
        order: PowerOrder,
        _seconds: float | None = None,
        wanted: Callable[[], bool] = lambda: True,
    ) -> BmcMachine:
        if self._name == "w1":
            raise KeyboardInterrupt
        self._driver.orders.append((self._name, order))
        while wanted():
            time.sleep(0.01)
        return self._becomes(power="Off")

    monkeypatch.setattr(FakeBmc, "power", power)
    bench = Bench()
    with pytest.raises(Interrupted):
        bench.switch("cycle", "w1", "w2", hard=True)
    assert ("w2", "on") not in bench.driver.orders
    assert [one.outcome for one in bench.journal.records] != ["verified"]


def test_a_bmc_that_hangs_does_not_hold_up_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, hang = FakeDriver.open, 2.0

    def slow(self: FakeDriver, node: Any) -> Any:
        if node.name == "cp1":
            raise KeyboardInterrupt
        time.sleep(hang)
        return opened(self, node)

    monkeypatch.setattr(FakeDriver, "open", slow)
    bench, began = Bench(), time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        bench.status()
    assert time.monotonic() - began < hang
