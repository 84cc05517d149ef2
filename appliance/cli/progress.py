"""Draw progress: a live table on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from appliance.model.steps import BY_NAME

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

    from appliance.errors import ApplianceError
    from appliance.model.plan import Plan
    from appliance.workflows.ports import Observer


class PlainProgress:
    """One line per thing worth knowing, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._changes: dict[str, int] = {}
        self._waiting = ""

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:
        """Say what will run and, where the journal knows, how long it took last time."""
        names = ", ".join(step.name for step in plan.steps)
        known = [durations[s.name] for s in plan.steps if s.name in durations]
        about = f" (about {sum(known):.0f} s)" if len(known) == len(plan.steps) else ""
        self.note(f"will run: {names}{about}")

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        """A step begins."""
        self._changes.clear()
        self._waiting = ""
        summary = f"{BY_NAME[step].summary}: " if step in BY_NAME else ""
        self.note(f"{step}: {summary}{', '.join(nodes)}")

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        """Only changes are worth a line."""
        if changed:
            self._changes[node] = self._changes.get(node, 0) + 1
            self.note(f"{step}: {node}: changed: {task}")

    def verifying(self, step: str, waiting_for: str) -> None:
        """Say once what is waited for."""
        if waiting_for != self._waiting:
            self._waiting = waiting_for
            self.note(f"{step}: waiting: {waiting_for}")

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Proven, or not."""
        word = "FAILED" if error else "proven"
        self.note(f"{step}: {word} after {took_seconds:.1f} s")

    def note(self, text: str) -> None:
        """One line."""
        click.echo(f"[{time.monotonic() - self._start:6.1f} s] {text}", err=True)


class LiveProgress:
    """A table of steps that redraws itself: state, nodes, what is going on, elapsed, left.

    Nothing is drawn before the first step, so that a question can be asked on the same terminal.
    """

    def __init__(self, title: str = "appliance install") -> None:
        self._title = title
        self._start = time.monotonic()
        self._rows: dict[str, dict[str, str]] = {}
        self._started: dict[str, float] = {}
        self._durations: Mapping[str, float] = {}
        self._tasks: dict[str, str] = {}
        self._notes: list[str] = []
        self._live: Live | None = None

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:
        """Show every step as waiting."""
        self._durations = durations
        for step in plan.steps:
            self._rows[step.name] = {"state": "waiting", "nodes": ", ".join(step.nodes)}
        self._draw()

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        """Mark a step as running."""
        self._started[step] = time.monotonic()
        self._tasks = dict.fromkeys(nodes, "")
        self._rows[step] = {"state": "running", "nodes": ", ".join(nodes)}
        self._draw()

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:  # noqa: ARG002
        """Show what each node is doing."""
        if changed is None:
            self._tasks[node] = task.partition(" : ")[2] or task
            self._draw()

    def verifying(self, step: str, waiting_for: str) -> None:
        """Show what is waited for."""
        self._rows[step]["state"] = "proving"
        self._tasks = {"": waiting_for}
        self._draw()

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Mark a step as proven or failed."""
        self._rows[step] |= {
            "state": "failed" if error else "proven",
            "took": f"{took_seconds:.1f} s",
        }
        self._tasks = {}
        self._draw()

    def note(self, text: str) -> None:
        """Keep the last three notes under the table."""
        self._notes = [*self._notes[-2:], text]
        self._draw()

    def _draw(self) -> None:
        if self._live is None and self._rows:
            self._live = self._begin()
        if self._live is not None:
            self._live.update(self.table(), refresh=True)
        elif self._notes:
            click.echo(self._notes[-1], err=True)

    def _begin(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        live = Live(
            self.table(),
            console=Console(stderr=True),
            refresh_per_second=4,
            get_renderable=self.table,
        )
        live.start(refresh=True)
        return live

    def end(self) -> None:
        """Leave the last picture on the terminal."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def table(self) -> Table:
        """The picture: one row a step, then what the running step's nodes do."""
        from rich.table import Table

        elapsed = time.monotonic() - self._start
        table = Table(title=f"{self._title}   {elapsed:.0f} s{self._left()}", expand=True)
        for name, ratio in (("step", 2), ("state", 1), ("nodes", 3), ("now", 6), ("took", 1)):
            table.add_column(name, ratio=ratio, overflow="ellipsis", no_wrap=True)
        colours = {"proven": "green", "failed": "red", "running": "cyan", "proving": "yellow"}
        for step, row in self._rows.items():
            state = row["state"]
            now = ""
            if state in ("running", "proving"):
                now = "; ".join(
                    f"{node}: {task}".removeprefix(": ")
                    for node, task in self._tasks.items()
                    if task
                )
            took = row.get("took", "")
            if not took and step in self._started:
                took = f"{time.monotonic() - self._started[step]:.0f} s"
            colour = colours.get(state, "dim")
            table.add_row(step, f"[{colour}]{state}[/]", row["nodes"], now, took)
        table.caption = "\n".join(self._notes)
        return table

    def _left(self) -> str:
        open_steps = [
            name for name, row in self._rows.items() if row["state"] not in ("proven", "failed")
        ]
        if not open_steps or any(name not in self._durations for name in open_steps):
            return ""
        spent = sum(
            time.monotonic() - self._started.get(name, time.monotonic()) for name in open_steps
        )
        left = max(0.0, sum(self._durations[name] for name in open_steps) - spent)
        return f", about {left:.0f} s left"


@contextmanager
def progress(*, plain: bool = False, title: str = "appliance install") -> Iterator[Observer]:
    """The display that fits where stderr goes."""
    if plain or not sys.stderr.isatty():
        yield PlainProgress()
        return
    display = LiveProgress(title)
    try:
        yield display
    finally:
        display.end()
