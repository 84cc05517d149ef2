"""Run what is slow, row by row; a row that passed and is not stale is left out.

python -m tests.release            all that has not passed with these files, in the fixed order
python -m tests.release --list     the table, and run nothing
python -m tests.release gpu vendor these rows, whatever the table says
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from tests import this_run
from tests.release.rows import ROWS, Row
from tests.release.table import (
    PASSED,
    ROOT,
    Outcome,
    covered,
    git,
    read,
    read_opened,
    shown,
    state,
    tracked,
    uncommitted,
    write,
    write_opened,
)
from tests.release.trace import traced, tracing


def main() -> int:
    """Run rows; 1 when one failed, 2 when one cannot be run as it is."""
    names = {row.name: row for row in ROWS}
    parser = argparse.ArgumentParser(prog="python -m tests.release", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(names))
    parser.add_argument("--list", action="store_true", help="print the table, run nothing")
    given = parser.parse_args()
    if unknown := [name for name in given.rows if name not in names]:
        parser.error(f"no such row: {', '.join(unknown)}; there are {', '.join(names)}")
    if given.list:
        print(shown(read()))  # noqa: T201 - a program for people
        return 0
    return run([names[name] for name in given.rows] or due())


def due() -> list[Row]:
    """The rows that have not passed with the files as they are."""
    outcomes, opened = read(), read_opened()
    return [
        row for row in ROWS if state(row, outcomes.get(row.name), opened.get(row.name)) != PASSED
    ]


def run(rows: Sequence[Row]) -> int:
    """Run rows one after the other, and keep each outcome as it ends."""
    if changed := "".join(uncommitted(row) for row in rows):
        _say(f"commit first: an outcome speaks for a commit\n{changed}")
        return 2
    this_run.begin()
    os.environ[this_run.OF_RELEASE] = "1"
    this_run.end_by_signals()
    try:
        failed = [row.name for row in rows if not play(row)]
    except KeyboardInterrupt:
        _say("interrupted; the same command goes on with this row")
        return 130
    finally:
        if not os.environ.get("APPLIANCE_TEST_KEEP"):
            this_run.end()
    _say(shown(read()))
    return 1 if failed else 0


def play(row: Row) -> bool:
    """Run one row and keep how it ended, and what its processes opened."""
    _say(f"== {row.name}: {row.promise}")
    began = time.monotonic()
    # One folder for all rows of a run: a lab that is up was made by the rows before.
    folder = this_run.folder() / "opened"
    with tracing(ROOT, folder):
        code, told = _pytest(row)
    outcome = PASSED if code == 0 else "failed"
    if outcome != PASSED and not os.environ.get("APPLIANCE_TEST_KEEP"):
        this_run.lab_down(this_run.story_name())  # what it broke
    opened = tracked(traced(folder)) if outcome == PASSED and not row.elsewhere else None
    seconds = round(time.monotonic() - began)
    commit, date = git("rev-parse", "HEAD").strip(), datetime.now(UTC).isoformat("T", "seconds")
    kept = Outcome(commit, covered(row, opened), date, outcome, told, seconds)
    others = {name: files for name, files in read_opened().items() if name != row.name}
    write_opened(others if opened is None else {**others, row.name: opened})
    write({**read(), row.name: kept})
    return outcome == PASSED


def _pytest(row: Row) -> tuple[int, str]:
    """Run the row's slow tests; the exit code and the closing line."""
    options = ["-m", "slow", "--durations=15", *(["-s"] if row.figures else [])]
    argv = [sys.executable, "-m", "pytest", *options, *row.tests]
    told = ""
    live = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(argv, cwd=ROOT, env=live, stdout=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stdout or ():
                _say(line.rstrip("\n"))
                told = line.strip("= \n") or told
        except KeyboardInterrupt:
            process.terminate()  # it takes its labs down
            process.wait()
            raise
    return process.returncode, told


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a program for people


if __name__ == "__main__":
    raise SystemExit(main())
