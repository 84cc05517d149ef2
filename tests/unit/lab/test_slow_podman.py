"""A machine that is slow is no fault: podman is given time, and a run ends all the same."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from appliance.adapters.local.processes import CompletedProcess
from appliance.errors import CommandFailed
from appliance.lab.layout import RunningNode
from appliance.lab.machine import podman as adapter
from appliance.lab.machine.podman import Podman
from tests import this_run

SLOW = CommandFailed("podman did not finish within 300 s")
Look = Callable[[], tuple[RunningNode, ...]]


def test_podman_has_minutes_to_answer_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[float | None] = []

    def run(argv: list[str], *, timeout: float | None = None, **_: object) -> CompletedProcess:
        limits.append(timeout)
        return CompletedProcess(tuple(argv), 0, "[]", "", 0.1)

    monkeypatch.setattr(adapter, "run", run)
    assert (Podman().nodes(), Podman().subnets()) == ((), {})
    assert len(limits) == 2
    for limit in limits:
        assert limit is not None
        assert 300 <= limit <= 900


@pytest.fixture
def ours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A run that has a token of its own, so that nothing of the real one is touched."""
    folder = tmp_path / "run"
    folder.mkdir()
    monkeypatch.setenv(this_run.TOKEN, secrets.token_hex(8))
    monkeypatch.setenv(this_run.FOLDER, str(folder))
    monkeypatch.setattr(this_run, "find_program", lambda name: f"/usr/bin/{name}")
    return folder


def answers(monkeypatch: pytest.MonkeyPatch, *found: bool) -> None:
    """What podman says each time: True for a lab of this run, False for no answer in time."""
    said = iter(found)

    def nodes(_self: Podman, _lab: str | None = None) -> tuple[RunningNode, ...]:
        if not next(said):
            raise SLOW
        mine, theirs = f"x-{this_run.token()}", "somebody-else"
        return tuple(RunningNode(f"{n}-cp1", n, "running", "", "") for n in (mine, theirs))

    monkeypatch.setattr(Podman, "nodes", nodes)


def downs(monkeypatch: pytest.MonkeyPatch, *codes: int | Exception) -> list[tuple[str, ...]]:
    """What ``lab down`` ends with each time; returns the list of how it was called."""
    called: list[tuple[str, ...]] = []
    ends = iter(codes)

    def appliance(*words: str) -> subprocess.CompletedProcess[str]:
        called.append(words)
        end = next(ends)
        if isinstance(end, Exception):
            raise end
        return subprocess.CompletedProcess(words, end, "", "it does not go")

    monkeypatch.setattr(this_run, "appliance", appliance)
    return called


def test_one_slow_answer_is_asked_for_again(ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(monkeypatch, False, True)
    called = downs(monkeypatch, 0)
    this_run.end()
    assert called == [("lab", "down", "--name", f"x-{this_run.token()}", "--yes")]
    assert not ours.exists()


def test_a_podman_that_stays_silent_is_said_and_fails_nothing(
    ours: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, False, False)
    called = downs(monkeypatch)
    this_run.end()
    assert called == []
    assert "did not finish within 300 s: labs of this run may be left" in capsys.readouterr().err
    assert not ours.exists()


def test_a_lab_that_is_slow_to_go_is_said_with_what_removes_it(
    ours: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    answers(monkeypatch, True)
    downs(monkeypatch, subprocess.TimeoutExpired("appliance", 900))
    this_run.end()
    name = f"x-{this_run.token()}"
    assert f"lab {name} was not down in 900 s: appliance lab down --name {name} --yes" in (
        capsys.readouterr().err
    )
    assert not ours.exists()


def test_a_lab_that_does_not_go_is_a_fault_and_the_folder_goes_all_the_same(
    ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers(monkeypatch, True)
    called = downs(monkeypatch, 1, 1)
    with pytest.raises(AssertionError, match="it does not go"):
        this_run.end()
    assert len(called) == this_run.TRIES
    assert not ours.exists()
