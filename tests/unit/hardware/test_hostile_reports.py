"""An empty, cut or hostile report is refused with a sentence, or gets through every judgement."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from appliance.model.checks.hardware.found import (
    Machine,
    NotHardware,
    check_machine,
    read_machine,
    together,
)
from appliance.model.checks.hardware.outliers import outliers
from appliance.model.checks.hardware.qualification import qualify
from tests.unit.hardware.made_up import MODEL, document, expectation, machine

GOOD = document()
WANTED = expectation()
WHOLE = machine()
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


def use(read: Machine) -> None:
    """Everything that is done with a report; nothing that it shows has a control character."""
    batch = dict.fromkeys(("a", "b"), (MODEL, read)) | {"c": (MODEL, WHOLE)}
    findings = [*qualify(WANTED, read), *(one for all_ in outliers(batch).values() for one in all_)]
    findings += qualify(WANTED, together(read, WHOLE))
    for one in findings:
        shown = f"{one.fact}{one.expected}{one.found}{one.action}"
        assert not CONTROL.search(shown), repr(shown)


def refused_or_judged(document: Any) -> None:
    try:
        read = check_machine(document)
    except NotHardware as error:
        words = str(error)
    else:
        use(read)
        words = ""
    assert not CONTROL.search(words)


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in items:
        yield (*path, key)
        if isinstance(inner, dict | list):
            yield from leaves(inner, (*path, key))


def replaced(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(GOOD)
    place: Any = changed
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return changed


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list(leaves(GOOD))), JSON)
def test_any_value_in_any_place_is_refused_or_judged(path: tuple[Any, ...], value: Any) -> None:
    refused_or_judged(replaced(path, value))


@settings(max_examples=200, deadline=None)
@given(JSON)
def test_any_document_is_refused_or_judged(value: Any) -> None:
    for given_ in (value, {"schema": 1, "kind": "hardware", "source": "probe", "dimms": value}):
        refused_or_judged(given_)


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=len(json.dumps(GOOD)) - 1), st.binary(max_size=8))
def test_a_cut_report_is_refused(end: int, more: bytes) -> None:
    with pytest.raises(NotHardware):
        read_machine(json.dumps(GOOD).encode()[:end] + b"\xff" + more)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"{}", "not a report of hardware"),
        (b'{"schema": 2, "kind": "hardware"}', "not a report of hardware"),
        (b"[" * 100_000, "deeper than"),
        (b'{"a": "' + b"x" * (5 << 20) + b'"}', "larger than"),
        (json.dumps({**GOOD, "dimms": [GOOD["dimms"][0]] * 600}).encode(), "dimms"),
        (json.dumps({**GOOD, "source": "hearsay"}).encode(), "source"),
        (json.dumps(replaced(("dimms", 0, "size_bytes"), -1)).encode(), r"dimms\.0\.size_bytes"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, reason: str) -> None:
    with pytest.raises(NotHardware, match=reason):
        read_machine(content)


def test_control_characters_do_not_reach_a_terminal() -> None:
    read = check_machine(replaced(("disks", 0, "serial"), "\x1b]0;evil\x07\u202e"))
    assert read.disks is not None
    assert read.disks[0].serial == "\ufffd]0;evil\ufffd\ufffd"
    use(read)
