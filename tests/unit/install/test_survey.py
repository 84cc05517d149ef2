"""A node that answered too late is looked at once more; what stays silent is said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from appliance.errors import NodeUnreachable
from appliance.model.checks.preflight import preflight
from appliance.model.site.settings import Node
from appliance.model.state.observed import Look
from appliance.workflows.session.survey import Survey, look_patiently, survey
from tests import samples
from tests.fakes import FakeRack
from tests.unit.preflight import machines

SILENT = {"section": "runtime", "reason": "/run/docker.sock/containers/json?all=1: timed out"}
LATE = [
    {"section": "registry", "reason": "https://registry.rack.test:5000/v2/: no answer in time"},
    {"section": "services", "reason": "systemctl show --no-pager: no answer in time"},
    {"section": "gpus", "reason": "no answer before the deadline"},
]
SLOW = {"section": "runtime", "reason": "/run/docker.sock/info: timed out"}


class BusyRack(FakeRack):
    """Node w1 is too busy for the first looks, in one way or the other."""

    def __init__(self, spoil: Callable[[dict[str, Any]], None], late_looks: int) -> None:
        super().__init__(samples.desired(samples.site(1, 2)))
        self.documents = {node.name: machines.bare(node) for node in self.desired.site.nodes}
        self.spoil = spoil
        self.late_looks = late_looks
        self.asked: list[list[str]] = []

    def look(self, nodes: Sequence[Node]) -> Look:
        self.asked.append([node.name for node in nodes])
        whole = self.documents["w1"]
        if self.looks < self.late_looks:
            self.documents["w1"] = dict(whole)
            self.spoil(self.documents["w1"])
        try:
            return super().look(nodes)
        finally:
            self.documents["w1"] = whole

    def survey(self) -> Survey:
        checks = partial(preflight, models={}, minima={})
        return survey(self.desired, self, self, checks)


def hang(document: dict[str, Any]) -> None:
    document["unreadable"] = [SILENT]


def slow(document: dict[str, Any]) -> None:
    document["unreadable"] = [SLOW]


def not_reached(document: dict[str, Any]) -> None:
    document["kubernetes"] = None


def refusals(found: Survey) -> list[str]:
    return [refusal.check for refusal in found.plan.refusals]


def late(note: dict[str, str]) -> Callable[[dict[str, Any]], None]:
    return lambda document: document.update(unreadable=[note])


@pytest.mark.parametrize("spoil", [hang, slow, not_reached, *map(late, LATE)])
def test_one_late_answer_is_no_fault(spoil: Callable[[dict[str, Any]], None]) -> None:
    rack = BusyRack(spoil, late_looks=1)
    assert refusals(rack.survey()) == []
    assert rack.asked == [["cp1", "w1", "w2"], ["w1"]]


def test_a_docker_that_hangs_refuses_and_is_not_asked_forever() -> None:
    rack = BusyRack(hang, late_looks=100)
    assert refusals(rack.survey()) == ["docker_answers"]
    assert len(rack.asked) == 2


def test_a_docker_that_lists_its_containers_is_no_hung_one_and_is_not_judged() -> None:
    rack = BusyRack(slow, late_looks=100)
    with pytest.raises(NodeUnreachable, match=r"w1: .* before it read the Docker state"):
        rack.survey()
    assert len(rack.asked) == 2


def test_a_node_that_never_tells_is_unreachable() -> None:
    with pytest.raises(NodeUnreachable, match="w1: the probe timed out"):
        BusyRack(not_reached, late_looks=100).survey()


def test_a_node_that_answers_is_looked_at_once() -> None:
    rack = BusyRack(hang, late_looks=0)
    rack.survey()
    assert len(rack.asked) == 1


def test_what_could_not_be_read_in_good_time_is_not_looked_at_again() -> None:
    refused = {"section": "host", "reason": "product_uuid: in a container the DMI is the host's"}
    rack = BusyRack(late(refused), late_looks=1)
    rack.survey()
    assert len(rack.asked) == 1


def test_a_late_answer_that_stays_late_is_no_hung_docker() -> None:
    rack = BusyRack(late(LATE[1]), late_looks=100)
    assert refusals(rack.survey()) == []
    assert len(rack.asked) == 2


def test_a_second_look_that_tells_less_does_not_count() -> None:
    rack = FakeRack(samples.desired(samples.site(1, 2)))
    rack.documents["w1"]["unreadable"] = [LATE[0]]
    look = rack.look

    def busier(nodes: Sequence[Node]) -> Look:
        found = look(nodes)
        rack.documents["w1"] = {**rack.documents["w1"], "kubernetes": None}
        return found

    rack.look = busier  # type: ignore[method-assign]
    found = look_patiently(rack, rack.desired.site.nodes)
    assert rack.looks == 2
    assert found.node_facts["w1"].at("kubernetes") is not None
