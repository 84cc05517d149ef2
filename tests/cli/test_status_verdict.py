"""The last line of ``status``, ``status --watch``, and why a step of the history failed."""

from __future__ import annotations

import errno
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import journal_of
from appliance.cli.app import Application
from appliance.cli.commands.status.verdict import Verdict
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.journal import Record
from appliance.model.state.observed import Fault
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fakes import FakeArchive, FakeRack

RUN = "018f0000-0000-7000-8000-000000000001"


class Rack(FakeRack):
    closed = 0

    def close(self) -> None:
        self.closed += 1


class Site(FakedSite):
    archive = FakeArchive()  # type: ignore[assignment]

    def preflight(self, *_: Any) -> Any:
        return ()


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Rack:
    """An installed rack, on which everything is well."""
    desired = samples.desired(replace(samples.site(), directory=tmp_path))
    found = Rack(desired)
    whole = installed(desired)
    found.cluster, found.documents = whole.cluster, whole.documents
    monkeypatch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)

    def connect(_self: Application, *_: Any, **__: Any) -> SiteSession:
        return Site(desired.site, desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr("appliance.workflows.status.find_lost_nodes", lambda *_: ())
    return found


def typed(rack: Rack, *words: str) -> list[str]:
    return [*words, "--site", str(rack.desired.site.directory)]


def away(rack: Rack, *names: str) -> None:
    for name in names:
        cause = "no SSH on port 22: No route to host"
        rack.faults[name] = Fault(name, f"{name} (198.18.7.1): {cause}", "ping it", cause=cause)


@pytest.mark.parametrize(
    ("verdict", "word", "sentence"),
    [
        (Verdict(), "healthy", "healthy"),
        (Verdict(("w1: a",), next="appliance plan"), "faults",
         "1 fault: w1: a; next: appliance plan"),
        (Verdict(("w1: a", "w2: b", "w3: c", "w4: d"), ("x",), "ping it"), "faults",
         "4 faults: w1: a; w2: b; 2 more; next: ping it"),
        (Verdict((), ("w1: gpus is unknown",), "appliance status"), "unknown",
         "not fully checked: 1 fact is unknown: w1: gpus is unknown; next: appliance status"),
    ],
)  # fmt: skip
def test_the_verdict_is_one_line_with_the_next_command(
    verdict: Verdict, word: str, sentence: str
) -> None:
    assert (verdict.word, verdict.sentence()) == (word, sentence)


def test_the_last_line_of_a_healthy_appliance_says_so(
    rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(typed(rack, "status")) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "healthy"
    assert run(typed(rack, "status", "-o", "json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["verdict"], found["faults"], found["next"]) == ("healthy", [], "")


def test_nodes_that_are_away_are_counted_and_named_once_with_one_hint(
    rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    away(rack, "w1", "w2")
    assert run(typed(rack, "status")) == 0
    said = capsys.readouterr().out
    assert "unreachable: 2 nodes, no SSH on port 22: No route to host: w1, w2" in said
    assert said.count("hint: ping it") == 1
    assert said.splitlines()[-1].startswith("2 faults: w1 (198.18.7.1): no SSH on port 22")
    assert said.splitlines()[-1].endswith("; next: ping it")


def test_a_step_is_not_satisfied_where_nobody_observed_it(
    rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    away(rack, "cp1", "w1", "w2")
    rack.documents.clear()
    rack.cluster = Unreachable("no node answered")
    assert run(typed(rack, "status", "-o", "json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["satisfied"] == []
    assert "node_metadata" in {one["step"] for one in found["unseen"]}
    assert found["verdict"] == "faults"


def test_what_is_written_to_an_api_that_did_not_answer_is_not_satisfied(
    rack: Rack, capsys: pytest.CaptureFixture[str]
) -> None:
    rack.cluster = Unreachable("no API server answers")
    run(typed(rack, "status", "-o", "json"))
    found = json.loads(capsys.readouterr().out)
    assert set(found["satisfied"]) == {"host", "artifacts", "runtime", "registry"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def ending_after(looks: int) -> Callable[[float], None]:
    """A wait that is Ctrl-C at the end of so many looks."""
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == looks:
            raise KeyboardInterrupt

    return sleep


def test_a_watch_prints_a_block_for_each_look_until_ctrl_c(
    rack: Rack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("appliance.cli.commands.status.command.time.sleep", ending_after(3))
    assert run(typed(rack, "status", "--watch", "5")) == 130
    said = capsys.readouterr()
    assert said.out.count("\nhealthy\n") == 3
    assert said.out.count(", every 5 s; Ctrl-C ends this") == 3
    assert "\x1b" not in said.out
    assert said.err.strip() == ""
    assert rack.closed == 3


def test_a_watch_draws_a_terminal_again(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.cli.commands.status.command.time.sleep", ending_after(2))
    there = Terminal()
    monkeypatch.setattr(sys, "stdout", there)
    assert run(typed(rack, "status", "--watch")) == 130
    assert there.getvalue().count("\x1b[2J\x1b[H") == 2
    assert ", every 10 s; " in there.getvalue()


def test_a_watch_ends_when_its_reader_does(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    class Unread(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

        def fileno(self) -> int:
            raise OSError(errno.EBADF, "none")

    monkeypatch.setattr("appliance.cli.commands.status.command.time.sleep", ending_after(3))
    monkeypatch.setattr(sys, "stdout", Unread())
    assert run(typed(rack, "status", "--watch")) == 0
    assert rack.closed == 1


@pytest.mark.parametrize("words", [("--watch", "1"), ("--watch", "4000"), ("--watch", "x")])
def test_an_interval_out_of_bounds_is_a_usage_error(rack: Rack, words: tuple[str, ...]) -> None:
    assert run(typed(rack, "status", *words)) == 2


def test_a_watch_has_no_exit_code_of_the_state(rack: Rack) -> None:
    assert run(typed(rack, "status", "--exit-code", "--watch")) == 2


def record(outcome: Any, sequence: int = 1, error: str | None = None) -> Record:
    return Record(
        run=RUN, sequence=sequence, command="install", step="runtime", nodes=("w1",), why=("x",),
        started="2026-11-22T08:40:57.123+00:00", took_seconds=4.0, outcome=outcome,
        operator="ops", tool_version="0.1.0", error=error, host="laptop-1",
    )  # fmt: skip


def test_history_says_why_a_step_failed_and_where_its_log_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = journal_of(tmp_path)
    journal.append(record("verified"))
    journal.append(record("failed", 2, "w1: no space left\non /var"))
    assert run(["history", "--site", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    failed = "failed: 2026-11-22 08:40:57 install, runtime: w1: no space left\\non /var"
    assert lines[-2:] == [failed, "   log: none on this machine; the command ran on laptop-1"]
    folder = tmp_path / ".appliance/runs" / RUN / "runtime"
    folder.mkdir(parents=True)
    run(["history", "--site", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[-1] == f"   log: {folder.parent}"
    (folder / "ansible.log").touch()
    run(["history", "--site", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[-1] == f"   log: {folder / 'ansible.log'}"


def test_history_without_runs_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / ".appliance/journal").mkdir(parents=True)
    assert run(["history", "--site", str(tmp_path)]) == 0
    assert capsys.readouterr().out.startswith("nothing ran here yet; ")
    assert run(["history", "--site", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
