"""Displays: what nodes and pods say is text, and a display never ends a run."""

from __future__ import annotations

import io
import itertools
import re
import sys

import click
import pytest
from rich.console import Console

from appliance.cli.screen.progress import GuardedProgress, LiveProgress, PlainProgress, progress
from appliance.cli.screen.terminal import shown_streams
from appliance.model.state.plan import Plan, PlannedStep, Reason

MESSAGES = [
    "w1: pod x is not ready: agent: CreateContainerError exec [/bin/agent] failed",
    "w1: [preflight] Some fatal errors occurred: [ERROR Swap]",
    "w1: [/] [bold [link=file:///etc/passwd]x[/link] \\[ ]] [[",
    "w1: \x1b[2K\x1b]0;owned\x07\x9b31m\u202e",
]
PLAN = Plan((PlannedStep("workers", ("w[/1]",), (Reason("w1", "x"),)),), ())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(display: LiveProgress) -> str:
    console = Console(file=io.StringIO(), width=400)
    console.print(display.table())
    return console.file.getvalue()  # type: ignore[attr-defined, no-any-return]


def live() -> LiveProgress:
    """A display on a terminal that shows nothing to anybody."""
    display = LiveProgress("[/install]")
    display.planned(PLAN, {})
    display.step_started("workers", ["w[/1]"])
    return display


def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What a test's display draws on; pytest has its own at each phase, so a test asks for it."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    return found


@pytest.mark.parametrize("message", MESSAGES)
def test_a_kubernetes_message_is_drawn_unchanged(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch)
    display = live()
    display.verifying("workers", message)
    display.note(message)
    picture = drawn(display)
    display.end()
    safe = re.sub(r"[\x00-\x1f\x7f-\x9f\u202e]", lambda m: f"\\{ascii(m[0])[2:-1]}", message)
    assert picture.count(safe) == 2
    assert "[/install]" in picture
    assert "w[/1]" in picture


def test_brackets_never_break_the_display(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch)
    display = live()
    parts = ("[", "]", "[/", "\\", "b", "=", "@click", "#", "[/]")
    texts = ["".join(words) for words in itertools.product(parts, repeat=2)]
    display.end()
    display._rows |= {text: {"state": "running", "nodes": text, "took": text} for text in texts}
    display._tasks = {"w1": " ".join(texts)}
    display._notes = texts[:3]
    picture = drawn(display)
    assert all(text in picture for text in texts)


def test_other_output_is_escaped_and_printed_above_the_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = terminal(monkeypatch)
    with shown_streams():
        display = live()
        click.echo("note: \x1b]0;owned\x07[/x]", err=True)
        display.end()
        click.echo("after \x1b[2K", err=True)
    said = there.getvalue()
    assert "note: \\x1b]0;owned\\x07[/x]" in said
    assert "\x1b]0" not in said
    assert said.endswith("after \\x1b[2K\n")


def test_plain_lines_replace_a_display_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = terminal(monkeypatch)

    class Failing(LiveProgress):
        def verifying(self, step: str, waiting_for: str) -> None:
            raise ValueError(f"cannot draw {step} {waiting_for}")

    display = GuardedProgress(Failing("appliance install"))
    for number in range(3):
        display.verifying("workers", f"pod {number}")
    display.step_ended("workers", 1.0, None)
    display.end()
    said = there.getvalue()
    assert said.count("the display failed (ValueError: cannot draw workers pod 0)") == 1
    assert [f"pod {n}" in said for n in range(3)] == [True] * 3
    assert "workers: verified" in said


def test_a_terminal_that_hangs_up_does_not_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone(Terminal):
        def write(self, _text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    with shown_streams(), progress() as display:
        display.step_started("workers", ["w1"])
        display.verifying("workers", "x")
        display.note("y")
        display.step_ended("workers", 1.0, None)


def test_a_node_cannot_forge_a_line_of_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = terminal(monkeypatch)
    PlainProgress().verifying("workers", "w1: a\n[ 99.0 s] workers: verified after 1.0 s")
    lines = there.getvalue().splitlines()
    assert len(lines) == 2
    assert lines[1].startswith("       ")


@pytest.mark.parametrize(
    ("step", "changed", "printed"),
    [
        ("workers", True, True),
        ("workers", False, False),
        # A task of a playbook that begins; there are hundreds.
        ("workers", None, False),
        # What runs no playbook says what it does, and may take an hour for it.
        ("image", None, True),
    ],
)
def test_plain_lines_say_what_a_node_does_where_no_playbook_runs(
    step: str, changed: bool | None, printed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    PlainProgress().task(step, "w1", "insert the medium", changed=changed)
    assert ("w1" in capsys.readouterr().err) == printed
