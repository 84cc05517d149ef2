"""``node return`` switches a node on: only the accepted machine, only when off, only if agreed."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Address
from typing import Any

import pytest

from appliance.errors import NodeUnreachable, StepNotVerified
from appliance.model.state.observed import Fault
from appliance.workflows.node.maintenance.switch_on import switch_on
from appliance.workflows.node.return_ import ReturnRequest, node_return
from tests.fake_bmcs import FakeDriver
from tests.fakes import run
from tests.unit.life.rack import Bench


class Sleeper(Bench):
    """w1 is in maintenance and off; switching it on lets it answer."""

    def __init__(self) -> None:
        super().__init__()
        self.maintain()
        self.driver = FakeDriver(["w1"], "Off")
        self.rack.faults["w1"] = Fault("w1", "w1: port 22 did not answer", "ping")
        self.agreed: list[str] = []

    def wake(self, node: Any) -> None:
        node = replace(node, bmc_address=IPv4Address("198.18.7.121"))
        switch_on(node, self._session(), self.driver, self.agree)
        if self.driver.machines["w1"].power == "On":
            self.rack.faults.clear()

    def agree(self, said: str) -> bool:
        self.agreed.append(said)
        return self.answer

    def come_back(self, **more: Any) -> None:
        request = ReturnRequest(
            self.desired, self.node, run("node return"), wait_seconds=10, **more
        )
        node_return(request, self._session(), lambda *_: True, wake=self.wake)

    def notes(self) -> list[str]:
        return [said[1] for said in self.observer.said if said[0] == "note"]


def test_a_node_that_is_off_is_switched_on_and_returned() -> None:
    bench = Sleeper()
    bench.come_back()
    assert bench.agreed == ["w1: its BMC (serial SN-w1) reports power off"]
    assert bench.driver.orders == [("w1", "on")]


def test_a_node_that_answers_is_not_asked_about() -> None:
    bench = Sleeper()
    bench.rack.faults.clear()
    bench.come_back()
    assert (bench.agreed, bench.driver.orders) == ([], [])


@pytest.mark.parametrize("how", ["dry run", "no"])
def test_without_consent_nothing_is_sent(how: str) -> None:
    bench = Sleeper()
    bench.answer = how != "no"
    with pytest.raises(NodeUnreachable, match="port 22"):
        bench.come_back(dry_run=how == "dry run")
    assert bench.driver.orders == []


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"serial": "SN-else"}, "its BMC reports power Off (serial SN-else)"),
        ({"power": "On"}, "its BMC reports power On (serial SN-w1)"),
        ({"serial": None}, "its BMC reports power Off (serial unknown)"),
    ],
)
def test_another_machine_or_one_that_is_on_gets_no_order(
    changes: dict[str, Any], note: str
) -> None:
    bench = Sleeper()
    bench.driver.machines["w1"] = replace(bench.driver.machines["w1"], **changes)
    if changes.get("power") == "On":
        bench.come_back()
    else:
        with pytest.raises(NodeUnreachable):
            bench.come_back()
    assert (bench.agreed, bench.driver.orders) == ([], [])
    assert any(note in said for said in bench.notes())


def test_a_bmc_that_is_away_leaves_the_button() -> None:
    bench = Sleeper()
    bench.driver.fails["w1"] = NodeUnreachable("w1: the BMC at x: timed out")
    with pytest.raises(NodeUnreachable, match="port 22"):
        bench.come_back()
    assert any("timed out" in said for said in bench.notes())


def test_a_node_that_cannot_be_switched_on_is_an_error() -> None:
    bench = Sleeper()
    bench.driver.order_fails["w1"] = StepNotVerified("w1: its BMC reports power Off 180 s after")
    with pytest.raises(StepNotVerified, match="180 s"):
        bench.come_back()
