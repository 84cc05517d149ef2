"""A log that was made to keep the search for symptoms busy takes no longer than another."""

from __future__ import annotations

from time import process_time

import pytest

from appliance.adapters.support.reader import LONGEST_LINE
from appliance.model.support.causes import SYMPTOMS
from appliance.model.support.judgement import Symptoms

PIECES = {
    "pods/a/b/c.log": ("took too long ", "lookup a on b", "XFS "),
    "nodes/w1/kernel.log": ("nvme1: XFS EDAC ", "NVRM: Xid (", "nfs: server ", "XFS "),
    "cluster/events.txt": (
        *("pull /v2/ registry ", "failed to find plugin ", "MountVolume.SetUp failed "),
        *("eviction manager: ", 'secret "', "dial tcp "),
    ),
    "nodes/w1/kubelet.log": ("x509: ", 'node "', "dial tcp a", "pull ", "failed to find plugin "),
}


@pytest.mark.parametrize(
    ("name", "piece"), [(name, piece) for name, pieces in PIECES.items() for piece in pieces]
)
def test_a_line_made_to_keep_the_search_busy_does_not(name: str, piece: str) -> None:
    line = (piece * LONGEST_LINE)[:LONGEST_LINE]
    symptoms = Symptoms()
    begun = process_time()
    for _ in range(5):
        symptoms.line(name, line)
    # With the square of the length, five lines took three seconds.
    assert process_time() - begun < 0.8


def test_no_pattern_has_a_part_without_a_bound_before_another() -> None:
    assert [one.name for one in SYMPTOMS if ".*" in one.pattern] == []
