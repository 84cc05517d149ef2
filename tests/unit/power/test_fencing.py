"""A lost node is powered off by its BMC before its pods are deleted, or its name is released."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from appliance.adapters.local.content import runtimes_after
from appliance.errors import (
    ApplianceError,
    BmcRefused,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.answering import AnsweringMachine
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.fence import Fence
from appliance.model.node.bmc.orders import BmcMachine
from appliance.model.node.bmc.report import BmcReport
from appliance.model.node.removal import RemovalPlan, RemovalRequest
from appliance.model.site.settings import Node, Site
from appliance.model.state.cluster.cluster import Cluster, ClusterNode
from appliance.model.state.nodes.maintenance import TAINT
from appliance.model.state.observed import Fault
from appliance.workflows.node.maintain import MaintainResult, node_maintain
from appliance.workflows.node.maintenance.again import MaintainRequest
from appliance.workflows.node.remove import NodeRemoveRequest, RemoveResult, node_remove
from appliance.workflows.session.session import Session
from tests import samples
from tests.fake_bmcs import RESETS, FakeDriver
from tests.fake_emptying import FakeEmptying
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeObserver, FakeRack, run
from tests.sessions import fake_session
from tests.unit.life.rack import FakeDrain, web

DEAD = "--i-know-it-is-dead"


class Power:
    """A node answers while its own machine is on, unless its SSH is broken."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver
        self.answering: set[str] = set()

    def answers(self, node: Node) -> bool:
        return node.name in self.answering


class Bmcs:
    """The same BMCs, for who only asks."""

    def __init__(self, driver: FakeDriver) -> None:
        self.driver = driver

    def report(self, node: Node) -> BmcReport | None:
        if node.bmc_address is None:
            return None
        if node.name in self.driver.fails:
            return BmcReport(reason=self.driver.fails[node.name].message)
        return self.driver.machines[node.name].report


class Bench:
    """w1 is lost: its Node is NotReady, and SSH does not answer; its machine is on."""

    def __init__(self, *, bmc: bool = True) -> None:
        self.desired = samples.desired(_with_bmc(samples.site(1)) if bmc else samples.site(1))
        self.node = self.desired.site.node("w1")
        self.rack = FakeRack(self.desired)
        self.rack.documents = {
            node.name: samples.converged(node, self.desired) for node in self.desired.site.nodes
        }
        self.rack.cluster = samples.cluster(self.desired)
        self.rack.faults["w1"] = Fault("w1", "w1: no SSH", "ping")
        self.member(ready=False)
        self.clock = FakeClock()
        self.drain = FakeDrain(self.clock, pods=[web()], ready=False)
        self.driver = FakeDriver(["w1", "w2"])
        self.power = Power(self.driver)
        self.archive = FakeArchive()
        self.archive.documents = {
            one.document: one.text() for one in (_passport("w1"), _passport("w2"))
        }
        self.journal = FakeJournal()
        self.observer = FakeObserver()
        self.shown: list[str] = []
        self.answer = True
        self.meanwhile: Callable[[], object] = int

    def member(self, **changes: Any) -> None:
        assert isinstance(self.rack.cluster, Cluster)
        nodes = dict(self.rack.cluster.nodes)
        nodes["w1"] = replace(nodes["w1"], **changes)
        self.rack.cluster = replace(self.rack.cluster, nodes=nodes)

    @property
    def steps(self) -> list[str]:
        return [record.step for record in self.journal.records]

    def _session(self) -> Session:
        return fake_session(
            self.rack,
            self.journal,
            drain=self.drain,
            driver=self.driver,
            bmcs=Bmcs(self.driver),
            power=self.power,
            archive=self.archive,
            clock=self.clock,
            observer=self.observer,
            emptying=FakeEmptying(),
        )

    def maintain(self, **more: Any) -> MaintainResult:
        request = MaintainRequest(
            self.desired.site, self.node, run("node maintain"), **{"lost": True, **more}
        )

        def confirm(_: object, __: str, ___: AnsweringMachine, fence: Fence | None) -> bool:
            self.shown += [fence.sentence()] if fence else []
            self.meanwhile()
            return self.answer

        return node_maintain(request, self._session(), confirm)

    def remove(self, *, dry_run: bool = False, **more: Any) -> RemoveResult:
        request = NodeRemoveRequest(
            self.desired.site,
            RemovalRequest("w1", **more),
            run("node remove"),
            runtimes_after(self.desired.release),
            dry_run=dry_run,
        )

        def confirm(plan: RemovalPlan, _: tuple[str, ...], __: AnsweringMachine) -> bool:
            self.shown += plan.sentences()
            self.meanwhile()
            return self.answer

        return node_remove(request, self._session(), confirm)

    def come_back(self) -> None:
        self.drain.ready = True
        self.member(ready=True)

    def nothing_was_deleted(self) -> bool:
        assert isinstance(self.rack.cluster, Cluster)
        kept = "members/w1.json" not in self.archive.documents and "w1" in self.rack.cluster.nodes
        return kept and self.drain.taints == ()


def _passport(name: str) -> Passport:
    return Passport(name, {"machine": f"SN-{name}"})


def _with_bmc(site: Site) -> Site:
    address = IPv4Address("198.18.7.121")
    return replace(
        site,
        nodes=tuple(
            replace(one, bmc_address=address) if one.name == "w1" else one for one in site.nodes
        ),
    )


CUT = "w1: power off w1 by its BMC (serial SN-w1), which reports power On"
COMMANDS = pytest.mark.parametrize("command", ["maintain", "remove"])


def test_a_lost_nodes_power_is_cut_before_its_pods_are_deleted() -> None:
    bench = Bench()
    done = bench.maintain()
    assert bench.shown == [CUT]
    assert bench.driver.orders == [("w1", "cut")]
    assert bench.steps == ["maintain: cordon", "maintain: fence", "maintain: taint"]
    assert bench.drain.taints == (TAINT,)
    assert done.off == ("its BMC (serial SN-w1) reports power Off; nothing answers at 198.18.7.21")


def test_a_lost_nodes_power_is_cut_before_its_name_is_released() -> None:
    bench = Bench()
    done = bench.remove()
    assert bench.shown[0] == CUT
    assert bench.driver.orders == [("w1", "cut")]
    assert bench.steps == ["fence", "record", "node_object"]
    assert bench.rack.deleted == ["w1"]
    assert "reports power Off" in done.off
    why = next(record.why for record in bench.journal.records if record.step == "fence")
    assert any("by its BMC (serial SN-w1)" in line for line in why)


@COMMANDS
def test_a_dry_run_and_a_no_cut_nothing(command: str) -> None:
    bench = Bench()
    done = getattr(bench, command)(dry_run=True)
    planned = done.fence.sentence() if command == "maintain" else done.plan.sentences()[0]
    assert planned == CUT
    bench.answer = False
    with pytest.raises(Refused):
        getattr(bench, command)()
    assert bench.driver.orders == []
    assert bench.nothing_was_deleted()


@COMMANDS
@pytest.mark.parametrize(
    "fault",
    [
        StepNotVerified("w1: its BMC reports power On 180 s after the order cut"),
        BmcRefused("w1: HTTP 403"),
        NodeUnreachable("w1: the BMC does not answer"),
    ],
    ids=lambda fault: type(fault).__name__,
)
def test_where_the_bmc_does_not_confirm_nothing_is_deleted(
    command: str, fault: ApplianceError
) -> None:
    bench = Bench()
    bench.driver.order_fails["w1"] = fault
    with pytest.raises(StepNotVerified) as failed:
        getattr(bench, command)()
    assert failed.value.message == fault.message
    assert DEAD in (failed.value.hint or "")
    assert bench.nothing_was_deleted()
    assert not bench.drain.unschedulable
    bench.driver.order_fails.clear()
    getattr(bench, command)()
    assert bench.driver.orders == [("w1", "cut")], "the same command heals"


@COMMANDS
def test_a_machine_that_still_answers_is_not_off(command: str) -> None:
    bench = Bench()
    bench.power.answering.add("w1")
    with pytest.raises(StepNotVerified, match=r"reports power off, but 198\.18\.7\.21 still"):
        getattr(bench, command)()
    assert bench.nothing_was_deleted()


@COMMANDS
def test_a_node_that_came_back_keeps_its_power(command: str) -> None:
    bench = Bench()
    bench.meanwhile = bench.come_back
    with pytest.raises(StepNotVerified, match="Ready again"):
        getattr(bench, command)()
    assert bench.driver.orders == []
    assert bench.nothing_was_deleted()


@COMMANDS
def test_a_bmc_that_is_another_machines_by_the_time_of_the_order_is_sent_nothing(
    command: str,
) -> None:
    bench = Bench()
    other = BmcMachine("SN-x", power="On", resets=RESETS)
    bench.meanwhile = lambda: bench.driver.machines.update(w1=other)
    with pytest.raises(StepNotVerified, match="another machine"):
        getattr(bench, command)()
    assert bench.driver.orders == []
    assert bench.nothing_was_deleted()


OTHERS = {
    "another machine's": BmcMachine("SN-x", power="On", resets=RESETS),
    "another node's": BmcMachine("SN-w2", power="On", resets=RESETS),
    "nobody's": BmcMachine(power="On", resets=RESETS),
    "without a cut": BmcMachine("SN-w1", power="On", resets=("On", "PushPowerButton")),
    "off, and another's": BmcMachine("SN-x", power="Off", resets=RESETS),
}


@pytest.mark.parametrize("machine", OTHERS.values(), ids=OTHERS)
def test_a_bmc_of_no_use_is_refused_until_somebody_looked(machine: BmcMachine) -> None:
    bench = Bench()
    bench.driver.machines["w1"] = machine
    for dry_run in (True, False):
        with pytest.raises(PreflightFailed) as refused:
            bench.maintain(dry_run=dry_run)
        assert "host_vars/w1.yml" in (refused.value.hint or "")
        assert DEAD in (refused.value.hint or "")
    assert (bench.driver.orders, bench.drain.log) == ([], [])
    assert bench.maintain(sworn=True).off == ""
    assert (bench.driver.orders, bench.drain.taints) == ([], (TAINT,))


def test_a_bmc_that_reports_off_while_the_machine_answers_is_not_believed() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = BmcMachine("SN-w1", power="Off", resets=RESETS)
    bench.power.answering.add("w1")
    with pytest.raises(PreflightFailed, match="power Off, but"):
        bench.maintain()
    assert bench.drain.log == []


def test_the_bmc_of_another_machine_is_never_sent_an_order_by_a_removal() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = OTHERS["another machine's"]
    bench.member(kubelet_speaks=True, not_ready_reason="PLEG is not healthy")
    with pytest.raises(PreflightFailed, match="PLEG"):
        bench.remove()
    assert bench.driver.orders == []


@COMMANDS
def test_a_machine_that_is_off_is_sent_nothing(command: str) -> None:
    bench = Bench()
    bench.driver.machines["w1"] = BmcMachine("SN-w1", power="Off", resets=RESETS)
    done = getattr(bench, command)()
    assert bench.driver.orders == []
    assert not bench.nothing_was_deleted()
    if command == "maintain":
        assert done.off == "its BMC (serial SN-w1) reports power off"


@COMMANDS
def test_the_operators_word_is_enough_and_sends_nothing(command: str) -> None:
    bench = Bench()
    getattr(bench, command)(sworn=True)
    assert bench.driver.orders == []
    assert not bench.nothing_was_deleted()


@COMMANDS
@pytest.mark.parametrize("bmc", ["none", "silent"])
def test_without_a_bmc_that_answers_all_is_as_it_was(command: str, bmc: str) -> None:
    bench = Bench(bmc=bmc == "silent")
    bench.driver.fails["w1"] = NodeUnreachable("w1: the BMC at x: timed out")
    getattr(bench, command)()
    assert bench.driver.orders == []
    assert not bench.nothing_was_deleted()
    if command == "maintain":
        words = {"none": "has no BMC for it", "silent": "(the BMC at x: timed out)"}
        assert words[bmc] in bench.shown[0]


def test_signs_of_life_are_told_before_the_power_is_cut() -> None:
    bench = Bench()
    bench.rack.faults.clear()
    bench.drain.nodes = (
        ClusterNode("w1", False, kubelet_speaks=True, not_ready_reason="PLEG is not healthy"),
        ClusterNode("w2", True),
    )
    bench.maintain()
    (said,) = bench.shown
    assert said.startswith(f"{CUT}; warning: it is not dead: a machine answers at 198.18.7.21 (")
    assert said.endswith("serial SN-w1); its kubelet reports: PLEG is not healthy")


def test_a_ready_node_is_never_cut() -> None:
    bench = Bench()
    bench.come_back()
    for command in (bench.maintain, bench.remove):
        with pytest.raises(PreflightFailed, match="Ready"):
            command()
    assert bench.driver.orders == []
    assert bench.nothing_was_deleted()


def test_a_machine_that_told_its_facts_is_cut_by_no_removal() -> None:
    bench = Bench()
    bench.rack.faults.clear()
    plan = bench.remove(dry_run=True).plan
    assert plan.fence is None
    assert plan.reset is not None


def test_what_was_shown_is_what_is_cut_after_a_late_answer() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = BmcMachine("SN-w1", power="Off", resets=RESETS)

    def wakes() -> None:
        bench.clock.sleep(3600)
        bench.driver.machines["w1"] = BmcMachine("SN-w1", power="On", resets=RESETS)

    bench.meanwhile = wakes
    with pytest.raises(Refused, match="the plan"):
        bench.maintain()
    assert bench.driver.orders == []
    assert bench.nothing_was_deleted()


def test_a_node_that_nobody_can_identify_is_not_cut() -> None:
    bench = Bench()
    bench.archive.documents.clear()
    bench.member(serial=None, system_uuid=None)
    bench.driver.machines["w1"] = BmcMachine("SN-w1", power="On", resets=RESETS)
    with pytest.raises(PreflightFailed, match="no passport to compare it with"):
        bench.maintain()
    bench.remove()
    assert bench.driver.orders == []
