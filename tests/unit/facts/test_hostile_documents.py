"""Every leaf of a document, in the hands of whoever answers there: refused, or good for all uses.

What is refused is a fault of that node; what is read must then get through everything that looks
at facts, without one unexpected exception.
"""

from __future__ import annotations

import copy
import json
import random
import traceback
from collections.abc import Iterator
from typing import Any

import pytest

from appliance.cli.commands.status import view
from appliance.model.checks.health import stages
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.preflight import preflight
from appliance.model.node.baseline import KINDS, Acceptance, differences, passport_of
from appliance.model.node.left_behind import left_behind
from appliance.model.plan.inventory import run_inventory
from appliance.model.plan.planner import plan
from appliance.model.state.facts.facts import NodeFacts, facts_digest
from appliance.model.state.facts.facts import differences as changed
from appliance.model.state.facts.hardware import compare, hardware_facts
from appliance.model.state.facts.reader import NotFacts, check_facts
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan
from tests import samples
from tests.unit.probe.recorded import DATA, look

SITE = samples.site(
    workers=1,
    gpu={},
    nfs={"server": "cp1", "path": "/srv/runai"},
    runai={},
)
DESIRED = samples.desired(SITE)
CLUSTER = samples.cluster(DESIRED)


def merged(base: Any, over: Any) -> Any:
    if isinstance(base, dict) and isinstance(over, dict):
        # In one order: a set's is another in each process, and so were the inputs of a seed.
        keys = [*base, *(key for key in over if key not in base)]
        return {key: merged(base.get(key), over.get(key, base.get(key))) for key in keys}
    return over


# What a real machine tells beside what the sample site needs: certificates, mounts, units, jobs.
RECORDED = {
    **look(DATA / "control-plane-debian-12/root", DATA / "control-plane-debian-12/outputs"),
    "took_seconds": 0.5,
}
PARTS = {
    "memory": {"dimms": [{"locator": "A1", "size_bytes": 1 << 34, "speed_mts": 3200}]},
    "disks": [{"name": "sda", "size_bytes": 1 << 40, "serial": "S1", "rotational": False}],
    "dmi": {"vendor": "Quanta", "product": "S5SP", "board": "S5SP", "serial": "SN-1"},
}
DOCUMENTS = {
    node.name: merged(merged(RECORDED, PARTS), samples.converged(node, DESIRED))
    for node in SITE.nodes
}
GOOD = samples.node_facts(DOCUMENTS)
VALUES: tuple[Any, ...] = (
    None, True, 5, -1, 1e300, "", "x", "{{ lookup('pipe', 'id') }}", "\x1b]0;owned\x07",
    "\ud800", "a" * 70_000, [], [[]], [None], {}, {"": None}, {"a": {"b": [1]}}, 1 << 80,
)  # fmt: skip


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each value of a document, to its objects and lists too."""
    if path:
        yield path
    inside: Any = ()
    if isinstance(value, dict):
        inside = value.items()
    elif isinstance(value, list):
        inside = list(enumerate(value))[:2]
    for key, item in inside:
        yield from leaves(item, (*path, key))


def changed_at(document: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    made = copy.deepcopy(document)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return made


def without(document: dict[str, Any], path: tuple[Any, ...]) -> dict[str, Any]:
    made = copy.deepcopy(document)
    place: Any = made
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    return made


def use(name: str, facts: NodeFacts) -> Plan:
    """Everything that is done with facts before a change."""
    observed = Observed({**GOOD, name: facts}, CLUSTER)
    findings = preflight(DESIRED, observed.node_facts, observed)
    found = plan(DESIRED, observed, findings)
    run_inventory(DESIRED, observed, found.choice, bundle_directory=None)
    stages.health(HealthInputs(DESIRED, observed))
    node, member = SITE.node(name), CLUSTER.nodes[name]
    accepted = passport_of(node, facts, member, Acceptance("o@h", "2026-01-01T00:00:00Z"))
    differences(accepted, GOOD[name], member)
    differences(passport_of(node, GOOD[name], member, Acceptance("", "")), facts, member)
    compare(hardware_facts(GOOD[name], KINDS), hardware_facts(facts, KINDS))
    changed(GOOD[name], facts)
    facts_digest(facts).encode()
    left_behind(facts)
    seen = Look(observed.node_facts)
    json.dumps(view.status_as_json(SITE, observed, seen, found))
    return found


def _mutants(name: str, share: float, each: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """A share of the places of a document: without its value, and with so many others there."""
    chance = random.Random(name)  # noqa: S311 - the same ones each time
    for path in leaves(DOCUMENTS[name]):
        if path != ("schema",) and chance.random() < share:
            where = ".".join(map(str, path))
            yield where, without(DOCUMENTS[name], path)
            for value in chance.sample(VALUES, each):
                yield where, changed_at(DOCUMENTS[name], path, value)


def _line(error: Exception) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{error!r} at {last.filename}:{last.lineno}"


def _check(name: str, share: float, each: int) -> None:
    outcomes = {"refused": 0, "used": 0}
    failures: dict[str, str] = {}
    for where, document in _mutants(name, share, each):
        try:
            facts = check_facts(document)
        except NotFacts:
            outcomes["refused"] += 1
            continue
        outcomes["used"] += 1
        try:
            use(name, facts)
        except Exception as error:
            failures[_line(error)] = where
    assert failures == {}
    assert min(outcomes.values()) > 20, "the premise: both were tried"


@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_no_leaf_of_a_document_stops_a_command(name: str) -> None:
    _check(name, 0.1, 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(DOCUMENTS))
def test_no_value_at_any_leaf_of_a_document_stops_a_command(name: str) -> None:
    _check(name, 1, len(VALUES))
