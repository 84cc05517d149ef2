"""What a burn-in shows, what is unknown of it, and what a hostile node may not do."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.model.checks.hardware.found import NotHardware
from appliance.model.checks.hardware.page import page
from appliance.model.checks.hardware.reading import Reading, qualifications
from appliance.model.checks.hardware.record import plain
from appliance.model.checks.hardware.trials.burn_in import (
    BurnInRecord,
    Look,
    document_of,
    read_look,
    record_of,
    ring,
)
from appliance.model.checks.hardware.trials.burn_in_judged import burn_in
from appliance.model.checks.hardware.trials.stream import Stream, read_side
from appliance.model.state.facts.identity import MachineIdentity, identity
from tests import golden
from tests.unit.hardware.burning import look, record, state
from tests.unit.hardware.made_up import DATA, expectation, machine, side

CASES = yaml.safe_load((DATA / "burn_in_cases.yml").read_text(encoding="utf-8"))
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_each_burn_in_gives_exactly_its_findings(case: Mapping[str, Any]) -> None:
    found = burn_in(record(case.get("change"), **case.get("look", {})))
    shown = {one.fact: one.verdict.value for one in found if one.verdict.value != "pass"}
    assert shown == case.get("find", {})
    assert all(one.action for one in found if one.verdict.value in ("fail", "unknown"))


def test_a_record_is_read_as_it_was_written() -> None:
    one = record()
    assert record_of(one.text()) == one
    assert record_of(one.text()[:-9]) is None
    assert record_of(None) is None
    assert record_of(one.text().replace('"schema": 1', '"schema": 2')) is None
    assert record_of("x" * 300_000) is None


def test_a_report_of_the_machine_shows_its_burn_in() -> None:
    (one,) = qualifications(
        {"w1": Reading(machine())},
        {"w1": expectation()},
        burnt_in={"w1": record({"work/cpu/errors": 1})},
    )
    assert one.verdict.value == "fail"
    text = page("rack", [one], "USER@HOST", "2026-01-02T09:00:00+00:00", "9.9.9")
    assert "8.0 h of 8.0 h, 480 samples" in text
    assert "coretemp.hwmon3.Package id 0</td><td>71" in text
    (bare,) = qualifications({"w1": Reading(machine())}, {"w1": expectation()})
    assert "none is recorded" in page("rack", [bare], "USER@HOST", "now", "9.9.9")


def test_the_signed_report_shows_streams_and_burn_in_as_it_always_did() -> None:
    sides = {name: read_side(json.dumps(side(role)))
             for name, role in (("w1", "connect"), ("w2", "serve"))}  # fmt: skip
    cut: dict[str, Any] = {"w1": read_side(json.dumps(side(reason="no answer", sent_bytes=None))),
           "w3": "no answer on port 22"}  # fmt: skip
    found = qualifications(
        {name: Reading(machine({"identity.serial": f"SN-{name}"})) for name in ("w1", "w2", "w3")},
        dict.fromkeys(("w1", "w2", "w3"), expectation()),
        (Stream("w1", "w2", sides), Stream("w1", "w3", cut)),
        {"w1": record({"counters/ecc.corrected": [3, 5], "log": ["<b>hostile</b>"]})},
    )
    text = page("rack", found[:1], "USER@HOST", "2026-01-02T09:00:00+00:00", "9.9.9")
    assert "&lt;b&gt;hostile" in text
    golden.agree("hardware/report", "streams and a burn-in", text.replace("</tr>", "</tr>\n"))
    told = json.dumps([plain(one) for one in found[:1]], indent=1)
    golden.agree("hardware/report", "the same as JSON", told)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        (identity("SN-1"), "burn-in/SN-1.json"),
        (identity(None, "4C4C4544-0042"), "burn-in/4c4c4544-0042.json"),
        (identity("To be filled by O.E.M."), "burn-in/node.w1.json"),
        (MachineIdentity(), "burn-in/node.w1.json"),
    ],
)
def test_a_record_is_named_by_serial(told: MachineIdentity, name: str) -> None:
    assert document_of(told, "w1") == name


@given(st.text(min_size=1, max_size=80))
def test_no_serial_leads_out_of_the_folder(serial: str) -> None:
    name = document_of(identity(serial), "w1")
    assert re.fullmatch(r"burn-in/[A-Za-z0-9][A-Za-z0-9._-]{0,70}\.json", name)
    assert ".." not in name or "/" not in name.removeprefix("burn-in/")


def test_each_node_has_one_neighbour_on_either_side() -> None:
    names = ("a", "b", "c")
    assert [ring(names, number) for number in range(3)] == [("c", "b"), ("a", "c"), ("b", "a")]
    assert [ring(("a", "b"), number) for number in range(2)] == [("b", "b"), ("a", "a")]
    assert ring(("a",), 0) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=10,
)
PLACES = [(), *((key,) for key in state()), *(("work", key) for key in state()["work"]),
          *(("counters", key) for key in state()["counters"]),
          *(("highest", key) for key in state()["highest"])]  # fmt: skip


def refused_or_judged(told: Any) -> None:
    try:
        read = read_look(json.dumps(told))
    except (NotHardware, ValueError) as error:
        words = str(error)
    else:
        judged(read)
        words = ""
    assert not CONTROL.search(words)


def judged(read: Look) -> None:
    if read.state is None or read.status is None:
        return
    one = BurnInRecord(schema=1, node="w1", at="", tool_version="9", status=read.status,
                       burn_in=read.state)  # fmt: skip
    for fact in burn_in(one):
        assert not CONTROL.search(f"{fact.fact}{fact.expected}{fact.found}{fact.action}")
    assert record_of(one.text()) == one


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_any_value_in_any_place_is_refused_or_judged(path: tuple[str, ...], value: Any) -> None:
    told = copy.deepcopy(look())
    place: Any = told
    for key in ("state", *path)[:-1]:
        place = place[key]
    place[("state", *path)[-1]] = value
    refused_or_judged(told)


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_any_answer_is_refused_or_judged(value: Any) -> None:
    refused_or_judged(value)


@settings(max_examples=100, deadline=None)
@given(st.integers(min_value=0, max_value=len(json.dumps(look())) - 1))
def test_a_cut_answer_is_refused(end: int) -> None:
    with pytest.raises(NotHardware):
        read_look(json.dumps(look())[:end])


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "not JSON"),
        ("null", "not a JSON object"),
        ('{"schema": 1, "kind": "burn-in"}', "not a report of a burn-in"),
        (json.dumps({**look(), "pad": "x" * 300_000}), "larger than"),
        (json.dumps(look({"counters": {str(n): [0, 0] for n in range(500)}})), "counters"),
        (json.dumps(look({"counters": {"mce": [0, -1]}})), "mce"),
        (json.dumps(look({"sample_seconds": 0})), "sample_seconds"),
    ],
)
def test_what_is_wrong_is_said(content: str, reason: str) -> None:
    with pytest.raises(NotHardware, match=reason):
        read_look(content)
