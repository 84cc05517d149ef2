"""The network between nodes: who is paired, who is at fault, and what is no measurement."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.adapters.hardware.streams import Streams
from appliance.adapters.ssh.call import Answer
from appliance.errors import NodeUnreachable
from appliance.model.checks.hardware.found import NotHardware
from appliance.model.checks.hardware.trials.network import least_mbps, network
from appliance.model.checks.hardware.trials.stream import Stream, read_side, rounds
from appliance.model.site.settings import Node
from tests import samples
from tests.unit.hardware.made_up import DATA, expectation, side

CASES = yaml.safe_load((DATA / "streams.yml").read_text(encoding="utf-8"))


def streams(case: Mapping[str, Any]) -> tuple[Stream, ...]:
    changes = case.get("pairs", {})
    found = []
    for first, second in itertools.combinations(case["nodes"], 2):
        change = changes.get(f"{first}-{second}", {})
        sides = {
            name: read_side(json.dumps(side(role, **change.get(name, {}))))
            for name, role in ((first, "connect"), (second, "serve"))
        }
        found.append(Stream(first, second, sides))
    return tuple(found)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_batch_gives_exactly_its_findings(case: Mapping[str, Any]) -> None:
    found = network(streams(case), dict.fromkeys(case["nodes"], expectation()))
    shown = {
        node: {one.fact: one.verdict.value for one in facts if one.verdict.value != "pass"}
        for node, facts in found.items()
    }
    assert {node: facts for node, facts in shown.items() if facts} == case.get("find", {})
    assert all(one.found for facts in found.values() for one in facts)
    words = " ".join(one.found for facts in found.values() for one in facts)
    assert case.get("words", "") in words


@pytest.mark.parametrize("count", range(9))
def test_each_pair_is_measured_once_and_no_node_twice_at_a_time(count: int) -> None:
    names = tuple(f"n{number}" for number in range(count))
    found = rounds(names)
    pairs = [frozenset(pair) for pairs in found for pair in pairs]
    assert sorted(map(sorted, pairs)) == sorted(map(sorted, itertools.combinations(names, 2)))
    for together in found:
        at_once = [name for pair in together for name in pair]
        assert len(at_once) == len(set(at_once))
    assert len(found) <= max(count, 0)


@pytest.mark.parametrize(
    ("speed", "least"), [(1000, 800), (10_000, 8000), (25_000, 12_000), (100_000, 12_000)]
)
def test_one_stream_has_to_fill_a_link_up_to_10_gbit(speed: int, least: float) -> None:
    assert least_mbps(speed) == least


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([*side()]), JSON)
def test_any_report_of_a_side_is_refused_or_judged(key: str, value: Any) -> None:
    try:
        told = read_side(json.dumps(side(**{key: value}) if key != "role" else {**side(), key: 1}))
    except (NotHardware, ValueError):
        return
    one = Stream("a", "b", {"a": told, "b": read_side(json.dumps(side("serve")))})
    facts = network((one,), dict.fromkeys("ab", expectation()))
    assert not any(ord(letter) < 32 for fact in facts["a"] for letter in fact.found)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("[]", "not a JSON object"),
        ('{"schema": 1, "kind": "hardware"}', "not a report of a stream"),
        ("[" * 9000, "deeper|not JSON"),
        (json.dumps({**side(), "firewall": ["x"] * 99}), "firewall"),
        ('"' + "x" * 70_000 + '"', "larger than"),
        (json.dumps(side())[:-9], "not JSON"),
    ],
)
def test_what_is_wrong_with_a_report_is_said(content: str, reason: str) -> None:
    with pytest.raises(NotHardware, match=reason):
        read_side(content)


class Rack:
    """Nodes that answer with a side; None: no answer. ``slow``: the first time each."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self.answers, self.scripts = answers, list[tuple[str, str]]()

    def run_as_root(self, node: Node, script: str, **_: Any) -> Answer:
        told = self.answers.get(node.name, {})
        self.scripts.append((node.name, script))
        if told is None:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        if isinstance(told, str):
            return Answer(3, "", told)
        role = "serve" if '"role":"serve"' in script else "connect"
        return Answer(0, json.dumps(side(role, **told)), "")


def measured(answers: Mapping[str, Any], slow: bool = False) -> tuple[Rack, tuple[Stream, ...]]:
    site, rack = samples.site(workers=3), Rack(answers)
    tester = Streams(site, rack)  # type: ignore[arg-type]
    return rack, tester.measure(site.nodes, lambda one: slow and "w3" in (one.first, one.second))


def test_both_sides_are_told_one_word_and_each_others_address() -> None:
    rack, found = measured({})
    assert len(found) == 6
    assert all(one.reason == "" for one in found)
    words = [json.loads(s[s.index('{"role') : s.index("}") + 1])["word"] for _, s in rack.scripts]
    assert sorted(words.count(word) for word in set(words)) == [2] * 6


def test_a_node_that_does_not_answer_spoils_its_own_pairs_only() -> None:
    _, found = measured({"w3": None, "w2": "Traceback: no such option"})
    bad = {(one.first, one.second): one.reason for one in found if one.reason}
    assert {name for pair in bad for name in pair} == {"cp1", "w1", "w2", "w3"}
    assert any("w3: no answer on port 22" in reason for reason in bad.values())
    assert any("the probe exited with 3: Traceback" in reason for reason in bad.values())
    assert [one.reason for one in found if {one.first, one.second} == {"cp1", "w1"}] == [""]


def test_a_slow_pair_is_measured_again_alone() -> None:
    rack, found = measured({}, slow=True)
    assert len(found) == 6
    assert sum(name == "w3" for name, _ in rack.scripts) == 6
