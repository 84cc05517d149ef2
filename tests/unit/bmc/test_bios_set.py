"""``hardware bios set``: what is sent, what refuses, what is believed, and how it is resumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    NodeUnreachable,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.node.baseline import Passport
from appliance.model.node.bmc.bios import BiosState, Wish
from appliance.model.node.bmc.restart import RestartOptions
from appliance.model.site.groups import SERVICES
from appliance.model.state.cluster.cluster import NoCluster, Unreachable
from appliance.model.state.observed import Fault
from appliance.workflows.hardware.bios import BiosResult, hardware_bios_set
from appliance.workflows.hardware.bios_look import BiosRequest, see
from tests import samples
from tests.fakes import FakeArchive, FakeClock, FakeJournal, FakeRack, run
from tests.sessions import fake_session
from tests.unit.bmc.fake_bios import BEFORE, FakeBiosDriver, Killed
from tests.unit.life.rack import WEB, FakeDrain
from tests.unit.life.test_drain import pod

IOMMU = Wish("IOMMU", "Enabled", "GPUs in virtual machines")
SMT = Wish("SMT", False)
CORDON = "node.kubernetes.io/unschedulable:NoSchedule"


class Bench:
    """Nodes with BMCs and passports, in maintenance, whose model asks for settings."""

    def __init__(self, power: str = "On") -> None:
        self.desired = samples.desired(samples.site(1))
        self.rack = FakeRack(self.desired)
        self.rack.documents = {
            node.name: samples.converged(node, self.desired) for node in self.desired.site.nodes
        }
        self.rack.cluster = samples.cluster(self.desired)
        self.clock = FakeClock()
        self.drain = FakeDrain(self.clock)
        self.driver = FakeBiosDriver(("cp1", "w1", "w2"), power)
        self.archive = FakeArchive()
        for name in self.driver.machines:
            passport = Passport(name, {"machine": f"SN-{name}"})
            self.archive.documents[passport.document] = passport.text()
        self.journal = FakeJournal()
        self.asked: list[Sequence[str]] = []
        self.answer = True
        self.wishes: tuple[Wish, ...] = (IOMMU, SMT)
        for name in ("w1", "w2"):
            self.member(name, taints=(CORDON,))
            if power == "Off":
                self.silence(name)

    def silence(self, name: str) -> None:
        """It answers nothing, as a machine that is off."""
        self.rack.faults[name] = Fault(name, f"{name}: no answer", "ping")

    def member(self, name: str, **changes: Any) -> None:
        cluster: Any = self.rack.cluster
        nodes = {**cluster.nodes, name: replace(cluster.nodes[name], **changes)}
        self.rack.cluster = replace(cluster, nodes=nodes)

    def set(self, *names: str, options: RestartOptions | None = None, **more: Any) -> BiosResult:
        nodes = tuple(self.desired.site.node(name) for name in names or ("w1",))
        request = BiosRequest(
            self.desired.site,
            nodes,
            {node.name: self.wishes for node in nodes},
            run("hardware bios set"),
            options or RestartOptions(),
            **more,
        )

        return hardware_bios_set(request, self.session, self.driver, self.agree)

    def agree(self, said: Sequence[str]) -> bool:
        self.asked.append(said)
        return self.answer

    @property
    def session(self) -> Any:
        return fake_session(
            self.rack, self.journal, drain=self.drain, archive=self.archive, clock=self.clock
        )

    def refused(self, error: type[ApplianceError] = PreflightFailed, **more: Any) -> str:
        with pytest.raises(error) as caught:
            self.set(**more)
        assert (self.driver.orders, self.driver.sent, self.journal.records) == ([], [], [])
        return f"{caught.value.message} | {caught.value.hint} | {caught.value.details}"


def test_settings_are_sent_the_node_is_restarted_and_they_are_seen_in_force() -> None:
    bench = Bench()
    done = bench.set()
    assert bench.driver.sent == [("w1", {"IOMMU": "Enabled", "SMT": False})]
    assert bench.driver.orders == [("w1", "off"), ("w1", "on")]
    assert bench.asked[0] == (
        "w1: its BMC (serial SN-w1) reports power On; will set 2 BIOS settings, then send "
        "GracefulShutdown, then On",
        "w1:   IOMMU: Disabled -> Enabled (GPUs in virtual machines)",
        "w1:   SMT: true -> false",
    )
    assert [one.state for one in done.nodes[0].settings] == ["as wanted", "as wanted"]
    (record,) = bench.journal.records
    assert (record.step, record.outcome) == ("bios: set", "verified")
    again = bench.set()
    assert (again.done, len(bench.driver.sent)) == (False, 1)
    assert again.planned == ("w1: nothing to do: BIOS settings: as its model asks for",)


@pytest.mark.parametrize(
    ("power", "options", "orders"),
    [
        ("On", RestartOptions(hard=True), ["cut", "on"]),
        ("Off", RestartOptions(), ["on"]),
        ("Off", RestartOptions(hard=True), ["on"]),
    ],
)
def test_the_orders_fit_the_power(power: str, options: RestartOptions, orders: list[str]) -> None:
    bench = Bench(power)
    bench.set(options=options)
    assert [order for _, order in bench.driver.orders] == orders


def test_a_dry_run_and_a_no_change_nothing() -> None:
    bench = Bench()
    assert bench.set(dry_run=True).planned[0].startswith("w1: its BMC")
    bench.answer = False
    bench.refused(Refused)


@pytest.mark.parametrize(
    ("prepare", "expected"),
    [
        (lambda b: b.drain.pods.append(pod("web-1", owner=WEB)), "appliance node maintain w1"),
        (lambda b: b.member("w1", taints=()), "found a node that takes pods"),
        (lambda b: setattr(b.rack, "cluster", Unreachable("no route")), "(no route)"),
    ],
)
def test_a_node_that_carries_or_takes_pods_is_never_restarted(
    prepare: Callable[[Bench], None], expected: str
) -> None:
    bench = Bench()
    prepare(bench)
    assert expected in bench.refused()
    assert expected in bench.refused(options=RestartOptions(allow_outage=True, hard=True))


def test_a_machine_that_is_off_carries_nothing() -> None:
    bench = Bench("Off")
    bench.rack.cluster = Unreachable("no route")
    assert bench.set().done


def test_a_machine_that_answers_is_not_off_whatever_its_bmc_reports() -> None:
    bench = Bench("Off")
    del bench.rack.faults["w1"]
    assert "power Off, but 198.18.7.21 answers" in bench.refused()


def test_a_bare_node_needs_neither_maintenance_nor_passport() -> None:
    bench = Bench()
    bench.rack.cluster, bench.archive.documents = NoCluster(), {}
    bench.rack.documents["w1"] = samples.bare(bench.desired.site.node("w1"))
    assert bench.set().done
    assert bench.asked[0][0].endswith("; it is no member of the cluster")


def test_a_registry_that_is_no_member_is_not_restarted_unasked() -> None:
    bench = Bench()
    cluster: Any = bench.rack.cluster
    others = {name: one for name, one in cluster.nodes.items() if name != "w1"}
    bench.rack.cluster = replace(cluster, nodes=others)
    bench.rack.documents["w1"] = samples.bare(bench.desired.site.node("w1"))
    site = bench.desired.site
    nodes = [replace(one, groups=frozenset({SERVICES})) if one.name == "w1" else one
             for one in site.nodes]  # fmt: skip
    bench.desired = replace(bench.desired, site=replace(site, nodes=tuple(nodes)))
    assert "it serves the registry: no node could pull an image" in bench.refused()
    assert bench.set(options=RestartOptions(allow_outage=True)).done


def test_in_a_site_that_had_no_cluster_nobody_is_asked_for_pods() -> None:
    bench = Bench()
    bench.rack.cluster, bench.archive.documents = Unreachable("no system there"), {}
    bench.rack.documents["w1"] = samples.bare(bench.desired.site.node("w1"))
    assert "(no system there)" in bench.refused()
    assert bench.set(founded=False).done


def test_a_node_that_does_not_answer_is_not_bare_where_nobody_knows_the_cluster() -> None:
    """A new copy of the site on a laptop without the SSH key knows of no cluster."""
    bench = Bench()
    bench.rack.cluster, bench.archive.documents = Unreachable("cp1: not read"), {}
    for name in ("cp1", "w1", "w2"):
        bench.silence(name)
    for options in (RestartOptions(), RestartOptions(hard=True), RestartOptions(allow_outage=True)):
        said = bench.refused(founded=False, options=options)
        assert "does not tell which pods run on it (cp1: not read)" in said
    both = RestartOptions(hard=True, allow_outage=True)
    assert bench.set(founded=False, options=both).done
    assert "it does not answer, and no cluster is known here" in bench.asked[-1][0]


def test_after_a_late_answer_the_nodes_are_looked_at_under_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another laptop returns the node to service until it gives the lock away."""
    bench = Bench()
    lock = bench.journal.require

    def require() -> tuple[str, ...]:
        bench.member("w1", taints=())
        return lock()

    def confirm(_: Sequence[str]) -> bool:
        bench.clock.sleep(3600)
        return True

    monkeypatch.setattr(bench.journal, "require", require)
    monkeypatch.setattr(bench, "agree", confirm)
    assert "found a node that takes pods" in bench.refused()


def test_a_copy_of_the_site_that_does_not_know_its_cluster_takes_no_lock_of_its_own() -> None:
    bench = Bench()
    assert "appliance site adopt" in bench.refused(Refused, founded=False)
    assert bench.set(founded=False, dry_run=True).planned


def test_a_member_of_another_cluster_is_not_bare() -> None:
    bench = Bench()
    cluster: Any = bench.rack.cluster
    others = {name: one for name, one in cluster.nodes.items() if name != "w1"}
    bench.rack.cluster = replace(cluster, nodes=others)
    assert "a cluster that does not list it" in bench.refused()


def test_the_bmc_of_another_machine_is_refused() -> None:
    bench = Bench()
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], serial="SN-w2")
    assert "a BMC of a machine with serial SN-w2" in bench.refused()


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (Wish("Iommu", "Enabled"), "no such attribute"),
        (Wish("IOMMU", "On"), "expected one of Enabled, Disabled"),
        (Wish("IOMMU", True), "expected one of Enabled, Disabled"),
        (Wish("SMT", "false"), "expected true or false"),
        (Wish("SMT", 0), "expected true or false"),
        (Wish("Retries", 11), "expected a whole number from 0 to 10"),
        (Wish("Retries", "3"), "expected a whole number from 0 to 10"),
        (Wish("Retries", True), "expected a whole number from 0 to 10"),
        (Wish("Text", "12345"), "expected a text from 0 to 4 characters"),
        (Wish("Cores", 64), "32, which is read-only"),
        (Wish("Secret", "x"), "a password"),
    ],
)
def test_a_setting_that_the_registry_does_not_allow_is_refused(wish: Wish, expected: str) -> None:
    bench = Bench()
    bench.wishes = (IOMMU, wish)
    said = bench.refused()
    assert f"bios:{wish.name}" in said
    assert expected in said
    assert "hunter22" not in said


def test_every_fault_of_every_node_is_told_at_once() -> None:
    bench = Bench()
    bench.wishes = (Wish("A", 1), Wish("B", 2))
    with pytest.raises(PreflightFailed) as caught:
        bench.set("w1", "w2")
    assert len(caught.value.details) == 3


@pytest.mark.parametrize(
    ("pending", "words"),
    [
        ({"Retries": 5}, "Retries = 5"),
        ({"IOMMU": "Auto"}, "IOMMU = Auto"),
        ({"Secret": "hunter22"}, "Secret = (not shown)"),
    ],
)
def test_settings_of_somebody_else_that_wait_are_refused(pending: Any, words: str) -> None:
    bench = Bench()
    bench.driver.bios["w1"] = replace(bench.driver.bios["w1"], pending=pending)
    said = bench.refused()
    assert f"wait for the next start: {words}" in said
    assert "hunter22" not in said


def test_without_a_registry_values_are_sent_only_if_that_is_said() -> None:
    bench = Bench()
    bench.driver.bios["w1"] = BiosState(BEFORE, {}, None, "the BMC has none")
    assert "no attribute registry (the BMC has none)" in bench.refused()
    bench.wishes = (Wish("IOMMU", True),)
    assert "expected a value of its type" in bench.refused(unchecked=True)
    bench.wishes = (IOMMU,)
    assert bench.set(unchecked=True).done


def test_a_bmc_that_only_shows_settings_is_refused() -> None:
    bench = Bench()
    state = bench.driver.bios["w1"]
    bench.driver.bios["w1"] = replace(state, cannot="a BMC that only shows BIOS settings")
    assert "a BMC that only shows BIOS settings" in bench.refused()


@pytest.mark.parametrize("fault", ["ignores", "forgets"])
def test_a_bios_that_ignores_the_settings_is_named(fault: str) -> None:
    bench = Bench()
    getattr(bench.driver, fault).add("w1")
    with pytest.raises(StepNotVerified) as caught:
        bench.set("w1", "w2")
    said = caught.value.message
    assert "w1: 2 BIOS settings are not in force 900 s after the restart" in said
    assert "its BIOS ignored them: IOMMU: found Disabled, expected Enabled" in said
    assert any(text.startswith("done: w2:") for text in caught.value.details)
    assert [one.outcome for one in bench.journal.records] == ["not verified"]


def test_a_machine_that_started_without_them_is_not_waited_for_long() -> None:
    bench = Bench()
    bench.driver.ignores.add("w1")
    bench.driver.bios["w1"] = replace(bench.driver.bios["w1"], started=True, messages=("too old",))
    with pytest.raises(StepNotVerified, match=r"120 s after .* the BMC says: too old"):
        bench.set()


def test_a_silent_bmc_holds_nobody_up_and_is_named_at_the_end() -> None:
    bench = Bench()
    bench.driver.fails["w2"] = NodeUnreachable("w2: no answer")
    with pytest.raises(StepNotVerified, match="w2: no answer"):
        bench.set("w1", "w2")
    assert bench.driver.bios["w1"].attributes["IOMMU"] == "Enabled"
    assert "w2: left out: w2: no answer" in bench.asked[0]
    with pytest.raises(NodeUnreachable, match="w2: no answer"):
        bench.set("w1", "w2")


@pytest.mark.parametrize("moment", ["set", "off", "on"])
def test_killed_at_any_moment_the_same_command_ends_it(moment: str) -> None:
    bench = Bench()
    bench.driver.killed = moment
    with pytest.raises(Killed):
        bench.set()
    if bench.driver.machines["w1"].power == "Off":
        bench.silence("w1")
    bench.set()
    assert bench.driver.bios["w1"].attributes["IOMMU"] == "Enabled"
    assert bench.driver.machines["w1"].power == "On"
    assert len(bench.driver.sent) == 1


def test_showing_never_raises_and_shows_no_password() -> None:
    bench = Bench()
    bench.driver.fails["w2"] = NodeUnreachable("w2: no answer")
    nodes = [bench.desired.site.node(name) for name in ("w1", "w2")]
    shown, silent = see(nodes, {"w1": (Wish("Secret", "x"), IOMMU)}, bench.driver)
    assert silent.reason == "w2: no answer"
    assert [(one.found, one.state) for one in shown.settings] == [
        ("(not shown)", "differs"),
        ("Disabled", "differs"),
    ]
