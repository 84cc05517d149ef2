"""Draw progress: a live table on a terminal, plain lines elsewhere. Always on stderr."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING

import click

from appliance.cli.screen.colour import GREEN, RED, YELLOW, has_colour
from appliance.cli.screen.terminal import ShownStream, below, one_line
from appliance.errors import ApplianceError, Interrupted
from appliance.model.plan.steps import BY_NAME
from appliance.model.state.plan import Plan

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live
    from rich.table import Table

    from appliance.workflows.session.ports import Observer

# Characters per cell: a message may be a page long, and the table is drawn four times a second.
MANY = 500
# The widths of the live table, in characters; an interrupted step makes it wider.
LONGEST_STATE = len("verifying")
LONGEST_TIME = len("99 m 59 s")
LONGEST_NODES = 16
# A terminal has at least 24 rows, and the step, its title and notes need some.
MOST_NODE_ROWS = 14
_COLOURS = {"verified": GREEN, "failed": RED, "interrupted": YELLOW}


def _ended(error: ApplianceError | None) -> str:
    """The state of a step that ended; who pressed Ctrl-C caused no failure."""
    if error is None:
        return "verified"
    return "interrupted" if isinstance(error, Interrupted) else "failed"


def spoken(seconds: float) -> str:
    """A time in at most ``LONGEST_TIME`` characters: ``3.1 s``, ``12 m 04 s``, ``3 h 20 m``."""
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 100:
        return f"{minutes} m {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} m"


def few(names: Sequence[str], width: int) -> str:
    """As many whole names as fit, and how many more there are."""
    for count in range(len(names), 0, -1):
        more = f", +{len(names) - count}" if count < len(names) else ""
        said = ", ".join(names[:count]) + more
        if len(said) <= width or count == 1:
            return said
    return ""


class PlainProgress:
    """One line per event, with the seconds since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()
        self._changes: dict[str, int] = {}
        self._waiting = ""

    def planned(self, plan: Plan, durations: Mapping[str, float]) -> None:
        """Print the steps and, where the journal knows it, how long they took last time."""
        names = ", ".join(step.name for step in plan.steps)
        known = [durations[s.name] for s in plan.steps if s.name in durations]
        about = f" (about {sum(known):.0f} s)" if len(known) == len(plan.steps) else ""
        self.note(f"will run: {names}{about}")

    def step_started(self, step: str, nodes: Sequence[str]) -> None:
        """Print the step and its nodes."""
        self._changes.clear()
        self._waiting = ""
        summary = f"{BY_NAME[step].summary}: " if step in BY_NAME else ""
        self.note(f"{step}: {summary}{', '.join(nodes)}")

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        """Print a task if it changed something; without a playbook, what a node does now, too."""
        if changed:
            self._changes[node] = self._changes.get(node, 0) + 1
            self.note(f"{step}: {node}: changed: {task}")
        elif changed is None and step not in BY_NAME:
            self.note(f"{step}: {node}: {task}")

    def verifying(self, step: str, waiting_for: str) -> None:
        """Print once what the step waits for."""
        if waiting_for != self._waiting:
            self._waiting = waiting_for
            self.note(f"{step}: waiting: {waiting_for}")

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Print how the step ended, and how long it took."""
        word = _ended(error)
        self.note(f"{step}: {'FAILED' if word == 'failed' else word} after {took_seconds:.1f} s")

    def note(self, text: str) -> None:
        """Print one line; further lines of a node's text are indented."""
        text = text.replace("\n", "\n             ")
        click.echo(f"[{time.monotonic() - self._start:6.1f} s] {text}", err=True)


class LiveProgress:
    """A live table of steps: state, nodes, current tasks, elapsed and remaining time.

    Nothing is drawn before the first step: a question may come first on the same terminal.
    A step that is no playbook's and has several nodes has a row for each: each goes its own way.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._start = time.monotonic()
        self._rows: dict[str, dict[str, str]] = {}
        self._started: dict[str, float] = {}
        self._durations: Mapping[str, float] = {}
        self._tasks: dict[str, str] = {}
        self._order: list[str] = []
        self._notes: list[str] = []
        self._live: Live | None = None
        self._last: Group = self._drawing()
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
        self._order = list(nodes)
        self._rows[step] = {"state": "running", "nodes": ", ".join(nodes)}
        self._draw()

    def task(self, step: str, node: str, task: str, *, changed: bool | None) -> None:
        """Show the current task of each node."""
        if changed is None or (changed and step not in BY_NAME):
            if step not in BY_NAME:
                # Of many nodes, those are shown that moved last.
                self._tasks.pop(node, None)
            self._tasks[node] = task.partition(" : ")[2] or task
            self._draw()

    def verifying(self, step: str, waiting_for: str) -> None:
        """Show what the step waits for."""
        self._row(step)["state"] = "verifying"
        self._tasks = {"": waiting_for}
        self._draw()

    def step_ended(self, step: str, took_seconds: float, error: ApplianceError | None) -> None:
        """Mark a step as verified, failed or interrupted."""
        self._row(step).update(state=_ended(error), took=spoken(took_seconds))
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
            self._live.update(self._drawing(), refresh=True)
        elif self._notes:
            click.echo(self._notes[-1], err=True)

    def _begin(self) -> Live:
        from rich.console import Console
        from rich.live import Live

        console = Console(file=below(sys.stderr), no_color=not has_colour(sys.stderr))
        live = Live(
            self._drawing(),
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
        """Stop drawing; the last table stays on the terminal."""
        live, self._live = self._live, None
        self._until_end.close()
        if live is not None:
            live.stop()

    def _picture(self) -> Group:
        """The table for rich's thread; the last one if a step changes it at that moment."""
        with suppress(RuntimeError):  # a row was added meanwhile
            self._last = self._drawing()
        return self._last

    def _drawing(self) -> Group:
        """The table, and an empty line below it: there a terminal echoes Ctrl-C as ``^C``.

        Rows of the table are as wide as the terminal: after one, the echo would begin a new row,
        and the next drawing would be a row too low.
        """
        from rich.console import Group
        from rich.text import Text

        return Group(self.table(), Text())

    def table(self) -> Table:
        """The table: one row per step, with the tasks of the running step's nodes.

        The columns step, state and took are never cut. At 80 columns the nodes are named as far
        as they fit, and what runs now is cut at its end.
        Text from nodes is never markup: a pod's message may hold brackets.
        """
        from rich.table import Table
        from rich.text import Text

        elapsed = time.monotonic() - self._start
        title = f"{self._title}   {elapsed:.0f} s{self._left()}"
        table = Table(
            title=Text(one_line(title)), title_justify="left", title_style="", caption_style="",
            caption_justify="left", expand=True, box=None, pad_edge=False,
        )  # fmt: skip
        widest = max([LONGEST_STATE, *(len(row["state"]) for row in self._rows.values())])
        for name, width in (("step", None), ("state", widest), ("nodes", None)):
            table.add_column(name, width=width, no_wrap=True, header_style="")
        table.add_column("now", ratio=1, overflow="ellipsis", no_wrap=True, header_style="")
        table.add_column("took", width=LONGEST_TIME, no_wrap=True, header_style="")
        for step, row in self._rows.items():
            state = row["state"]
            nodes = few(one_line(row["nodes"][:MANY]).split(", "), LONGEST_NODES)
            took = row.get("took", "")
            if not took and step in self._started:
                took = spoken(float(int(time.monotonic() - self._started[step]))).replace(".0", "")
            own = self._rows_of_nodes(step, state)
            now = "" if own else one_line(self._now(state)[:MANY])
            words = (Text(nodes), Text(now), Text(one_line(took)))
            table.add_row(Text(one_line(step)), Text(state, style=_COLOURS.get(state, "")), *words)
            for node, task in own:
                table.add_row("", "", Text(one_line(node)), Text(one_line(task[:MANY])), "")
        table.caption = Text("\n".join(one_line(note[:MANY]) for note in self._notes))
        return table

    def _rows_of_nodes(self, step: str, state: str) -> list[tuple[str, str]]:
        """Node and what it does, in the order of the step's nodes; those that moved last."""
        if state != "running" or step in BY_NAME or len(self._tasks) < 2:
            return []
        told = [(node, task) for node, task in self._snapshot() if task]
        place = {node: number for number, node in enumerate(self._order)}
        shown = sorted(told[-MOST_NODE_ROWS:], key=lambda one: place.get(one[0], len(place)))
        more = len(told) - len(shown)
        return [*shown, ("", f"and {more} more")] if more else shown

    def _snapshot(self) -> list[tuple[str, str]]:
        """The tasks at one moment: threads of nodes move them while others draw."""
        return list(self._tasks.items())

    def _now(self, state: str) -> str:
        """The current tasks of a step that runs: each once, with its nodes if they differ."""
        if state not in ("running", "verifying"):
            return ""
        nodes: dict[str, list[str]] = {}
        for node, task in self._snapshot():
            if task:
                nodes.setdefault(task, []).append(node)
        if len(nodes) == 1 and len(self._tasks) > 1:
            return next(iter(nodes))
        return "; ".join(
            f"{few(names, LONGEST_NODES)}: {task}".removeprefix(": ")
            for task, names in nodes.items()
        )

    def _left(self) -> str:
        open_steps = [name for name, row in self._rows.items() if row["state"] not in _COLOURS]
        if not open_steps or any(name not in self._durations for name in open_steps):
            return ""
        spent = sum(
            time.monotonic() - self._started.get(name, time.monotonic()) for name in open_steps
        )
        left = max(0.0, sum(self._durations[name] for name in open_steps) - spent)
        return f", about {left:.0f} s left"


def _print_above(console: Console, text: str) -> None:
    """Print other output above the table; its control characters were escaped before."""
    from rich.text import Text

    if text.strip():
        console.print(Text(text.rstrip("\n")), soft_wrap=True)


class GuardedProgress:
    """A display that never ends a run: if it fails, plain lines replace it."""

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
        """Stop the live table, if there is one."""
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
            reason = f"{error.__class__.__name__}: {error}"
            self._display.note(f"the display failed ({reason}); continuing with plain lines")
            act(self._display)


@contextmanager
def progress(*, plain: bool = False, title: str | None = None) -> Iterator[Observer]:
    """A live table if stderr is a terminal, else plain lines.

    Args:
        plain: lines also on a terminal.
        title: of the table; None: the command as it was typed, without options.
    """
    lines = plain or not sys.stderr.isatty()
    context = click.get_current_context(silent=True)
    typed = context.command_path if context else "appliance"
    display = GuardedProgress(PlainProgress() if lines else LiveProgress(title or typed))
    try:
        yield display
    finally:
        display.end()
