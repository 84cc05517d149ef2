"""Draw progress: a live table on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import click

from appliance.cli.terminal import ShownStream, below, one_line
from appliance.model.steps import BY_NAME

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table

    from appliance.errors import ApplianceError
    from appliance.model.plan import Plan
    from appliance.workflows.ports import Observer

# Characters of a cell: a message may be a page long, and the table is drawn four times a second.
MANY = 500


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
        """One line; what a node says on further ones is set in."""
        text = text.replace("\n", "\n             ")
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
        self._last: Table = self.table()
        self._until_end = ExitStack()

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
        self._row(step)["state"] = "proving"
        self._tasks = {"": waiting_for}
        self._draw()

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Mark a step as proven or failed."""
        self._row(step).update(
            state="failed" if error else "proven",
            took=f"{took_seconds:.1f} s",
        )
        self._tasks = {}
        self._draw()

    def note(self, text: str) -> None:
        """Keep the last three notes under the table."""
        self._notes = [*self._notes[-2:], text]
        self._draw()

    def _row(self, step: str) -> dict[str, str]:
        return self._rows.setdefault(step, {"state": "running", "nodes": ""})

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

        console = Console(file=below(sys.stderr))
        live = Live(
            self.table(),
            console=console,
            refresh_per_second=4,
            get_renderable=self._picture,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start(refresh=True)
        if isinstance(sys.stderr, ShownStream):
            above = sys.stderr.above(lambda text: _print_above(console, text))
            self._until_end.enter_context(above)
        return live

    def end(self) -> None:
        """Leave the last picture on the terminal."""
        live, self._live = self._live, None
        self._until_end.close()
        if live is not None:
            live.stop()

    def _picture(self) -> Table:
        """The table, asked for by a thread of its own while steps go on; else the last one."""
        with suppress(RuntimeError):  # a row was added meanwhile
            self._last = self.table()
        return self._last

    def table(self) -> Table:
        """The picture: one row a step, then what the running step's nodes do.

        What comes from nodes is text, never markup: a pod's message may hold brackets.
        """
        from rich.table import Table
        from rich.text import Text

        elapsed = time.monotonic() - self._start
        title = f"{self._title}   {elapsed:.0f} s{self._left()}"
        table = Table(title=Text(one_line(title)), expand=True)
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
            words = (Text(one_line(word[:MANY])) for word in (row["nodes"], now, took))
            colour = colours.get(state, "dim")
            table.add_row(Text(one_line(step)), Text(state, style=colour), *words)
        table.caption = Text("\n".join(one_line(note[:MANY]) for note in self._notes))
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


def _print_above(console: Console, text: str) -> None:
    """What others write meanwhile, above the table; it was made safe on its way here."""
    from rich.text import Text

    if text.strip():
        console.print(Text(text.rstrip("\n")), soft_wrap=True)


class GuardedProgress:
    """A display that never ends a run: when it fails, that is said once, and lines take over."""

    def __init__(self, display: Observer) -> None:
        self._display = display

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:
        """Pass it on."""
        self._tell(lambda display: display.planned(plan, durations))

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        """Pass it on."""
        self._tell(lambda display: display.step_started(step, nodes))

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        """Pass it on."""
        self._tell(lambda display: display.task(step, node, task, changed=changed))

    def verifying(self, step: str, waiting_for: str) -> None:
        """Pass it on."""
        self._tell(lambda display: display.verifying(step, waiting_for))

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Pass it on."""
        self._tell(lambda display: display.step_ended(step, took_seconds, error))

    def note(self, text: str) -> None:
        """Pass it on."""
        self._tell(lambda display: display.note(text))

    def end(self) -> None:
        """Leave the last picture, if there is one."""
        if isinstance(self._display, LiveProgress):
            with suppress(Exception):
                self._display.end()

    def _tell(self, act: Callable[[Observer], None]) -> None:
        try:
            act(self._display)
        except Exception as error:  # whatever it is, it is only the display
            failed, self._display = self._display, PlainProgress()
            if isinstance(failed, LiveProgress):
                with suppress(Exception):
                    failed.end()
            said = f"{error.__class__.__name__}: {error}"
            self._display.note(f"the display failed ({said}); the work goes on, told in lines")
            act(self._display)


@contextmanager
def progress(*, plain: bool = False, title: str = "appliance install") -> Iterator[Observer]:
    """The display that fits where stderr goes."""
    lines = plain or not sys.stderr.isatty()
    display = GuardedProgress(PlainProgress() if lines else LiveProgress(title))
    try:
        yield display
    finally:
        display.end()
