"""The annotation and the lock, which nodes write: read within limits, or not ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.model.control.lock import Holder, read_holder, read_vote
from appliance.model.node.fencing import DEAD, FencingEvidence, FencingProof, check_fenced
from appliance.model.state.facts.identity import identity
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance, maintenance_of
from appliance.model.state.plan import Refusal
from tests import samples

MARK = Maintenance(
    "r1", "ada", "laptop", "2026-01-01T00:00:00+00:00", "taint", "evict", True, False
)
DOCUMENT = json.loads(MARK.as_text())


def test_the_annotation_is_read_as_it_was_written() -> None:
    assert maintenance_of({ANNOTATION: MARK.as_text()}) == MARK


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"a":' * 100_000,
        "5",
        "null",
        "{}",
        json.dumps({**DOCUMENT, "until": 5}),
        json.dumps({**DOCUMENT, "until": "soon"}),
        json.dumps({**DOCUMENT, "mode": "x"}),
        json.dumps({**DOCUMENT, "phase": []}),
        json.dumps({**DOCUMENT, "cordoned": "no"}),
        json.dumps({**DOCUMENT, "reason": "x" * 200_000}),
    ],
    ids=lambda text: text[:20],
)
def test_what_a_kubelet_writes_into_the_annotation_stops_nothing(text: str) -> None:
    assert maintenance_of({ANNOTATION: text}) is None


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "[]", "5", '{"origin": 5}', '{"command": [], "origin": {}}', "{" * 99_999],
    ids=lambda text: text[:20],
)
def test_a_foreign_lock_keeps_only_the_name_it_holds_by(value: str) -> None:
    assert read_holder(f"r9 {value}") == Holder("r9")


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "x"])
def test_an_uptime_that_is_no_number_is_no_vote(value: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        read_vote(f"now boot {value}\nholder r1 {{}}\nbeat boot 1\n")


def _witness(**changes: Any) -> FencingEvidence:
    desired = samples.desired(samples.site(workers=1))
    member = samples.cluster(desired).nodes["w1"]
    return FencingEvidence("w1", member, None, identity("SN-w1"), alive="it lies", **changes)


def test_a_worker_that_lies_is_removed_on_the_operators_word_alone() -> None:
    assert isinstance(check_fenced(_witness(deceives=True)), Refusal)
    assert isinstance(check_fenced(_witness(sworn=True)), Refusal), DEAD
    assert isinstance(check_fenced(_witness(deceives=True, sworn=True)), FencingProof)
