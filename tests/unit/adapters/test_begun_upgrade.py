"""Whether a node keeps the kubelet of before an upgrade; no answer is no "no"."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.adapters.control_plane.begun_upgrade import began_on
from appliance.model.upgrade.evidence import Silence
from tests import samples
from tests.unit.adapters.shell_nodes import ShellNodes

(CP1,) = samples.site(1).control_plane
WORD = "20260101T0000000000"


@pytest.fixture
def nodes(tmp_path: Path) -> ShellNodes:
    found = ShellNodes(tmp_path)
    found.state("cp1").mkdir(parents=True)
    return found


def test_only_a_folder_of_this_upgrade_says_that_it_began(nodes: ShellNodes) -> None:
    assert began_on(nodes, CP1, WORD) is False
    kept = nodes.state("cp1") / "kubelet-before"
    (kept / "v1.23.5-20250101T0000000000").mkdir(parents=True)
    assert began_on(nodes, CP1, WORD) is False
    (kept / f"v1.23.17-{WORD}").mkdir()
    assert began_on(nodes, CP1, WORD) is True


def test_a_folder_that_was_moved_to_another_disk_is_found(
    nodes: ShellNodes, tmp_path: Path
) -> None:
    (tmp_path / "disk" / f"v1.23.17-{WORD}").mkdir(parents=True)
    (nodes.state("cp1") / "kubelet-before").symlink_to(tmp_path / "disk")
    assert began_on(nodes, CP1, WORD) is True


@pytest.mark.parametrize("word", ["", "*", "a b", "a-b", "x" * 41, "../x"])
def test_a_word_of_another_form_is_not_asked_for(nodes: ShellNodes, word: str) -> None:
    assert isinstance(began_on(nodes, CP1, word), Silence)
    assert nodes.asked == []


def test_who_does_not_answer_or_has_no_such_folder_is_unknown(nodes: ShellNodes) -> None:
    nodes.state("cp1").rmdir()
    assert isinstance(began_on(nodes, CP1, WORD), Silence)
    nodes.away.add("cp1")
    assert began_on(nodes, CP1, WORD) == Silence("cp1: no answer")
