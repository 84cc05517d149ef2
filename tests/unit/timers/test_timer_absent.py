"""A timer is taken off a node: ours, whole, and resumed after a kill."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.modules.loading import load

MODULE = load("node_timer_absent", role="node_timers")


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(MODULE, "UNITS", tmp_path)
    monkeypatch.setattr(MODULE, "SETTINGS", tmp_path / "settings")
    (tmp_path / "settings").mkdir()
    for kind in ("timer", "service"):
        path = tmp_path / f"appliance-timed-backup.{kind}"
        path.write_text("# Written by appliance; changes are overwritten.\n[Unit]\n")
    (tmp_path / "settings/backup.json").write_text("{}")
    return tmp_path


def left(node: Path) -> list[str]:
    return sorted(path.name for path in node.rglob("*") if path.is_file())


def test_units_and_settings_go_and_systemd_is_told(node: Path) -> None:
    called: list[list[str]] = []

    def call(argv: list[str]) -> tuple[int, str, str]:
        called.append(argv)
        return 0, "", ""

    (node / "settings/certificates.json").write_text("{}")
    MODULE.take_off("backup", MODULE.there("backup"), call)
    assert left(node) == ["certificates.json"]
    assert called == [
        ["systemctl", "disable", "--now", "appliance-timed-backup.timer"],
        ["systemctl", "daemon-reload"],
    ]
    assert MODULE.there("backup") == []


@pytest.mark.parametrize("kills_at", range(4))
def test_killed_at_any_file_the_same_run_ends_it(node: Path, kills_at: int) -> None:
    files = MODULE.there("backup")
    for path in list(reversed(files))[:kills_at]:
        path.unlink()
    MODULE.take_off("backup", MODULE.there("backup"), lambda _: (0, "", ""))
    assert left(node) == []


def test_a_timer_that_does_not_stop_keeps_its_files(node: Path) -> None:
    with pytest.raises(MODULE.AbsentError, match="does not stop: no answer"):
        MODULE.take_off("backup", MODULE.there("backup"), lambda _: (1, "", "no answer"))
    assert len(left(node)) == 3


@pytest.mark.parametrize("kind", ["text", "link"])
def test_a_unit_of_somebody_else_stays(node: Path, kind: str) -> None:
    path = node / "appliance-timed-backup.service"
    path.unlink()
    if kind == "text":
        path.write_text("[Unit]\nDescription=ours\n")
    else:
        path.symlink_to("/dev/null")
    with pytest.raises(MODULE.AbsentError, match="is not ours"):
        MODULE.there("backup")
