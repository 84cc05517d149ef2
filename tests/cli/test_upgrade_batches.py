"""``appliance cluster upgrade --max-unavailable``: a batch that finds no room is smaller."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.model.state.cluster.resources import Resources
from tests.cli.test_upgrade import Capture, connected, typed
from tests.unit.upgrade.rack import Bench, web


def test_a_batch_that_finds_no_room_is_smaller_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Capture
) -> None:
    found = connected(Bench(workers=3), monkeypatch, tmp_path)
    most = Resources(50_000, 8 << 30, 1)
    for name in ("w1", "w2", "w3"):
        found.drain.pods[name] = [web(name, f"large-{name}", requests=most)]
    assert typed(tmp_path, "--dry-run", "--max-unavailable", "2") == 0
    assert "batch of 1 instead of 2: with 2 out, their pods ask for" in capsys.readouterr().out
