"""Every slow test is in one row of the release, and every row says what is there."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from tests.release import table
from tests.release.rows import ROWS, Row
from tests.release.table import Outcome, covered, state
from tests.release.trace import traced, tracing

ROOT = Path(__file__).parents[2]
SLOW = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "tests").rglob("test_*.py")
    if "mark.slow" in path.read_text() and path != Path(__file__)
)


@pytest.mark.parametrize("path", SLOW)
def test_a_slow_test_is_in_exactly_one_row(path: str) -> None:
    rows = [
        row.name
        for row in ROWS
        if any(path == place or path.startswith(f"{place}/") for place in row.tests)
    ]
    assert len(rows) == 1, f"{path} is in the rows {rows}: see tests/release/rows.py"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_names_what_is_there_and_has_slow_tests(row: Row) -> None:
    places = [place for place in row.covers if not place.startswith(":")]
    assert all((ROOT / place).exists() for place in (*row.tests, *places))
    assert any(
        path == place or path.startswith(f"{place}/") for place in row.tests for path in SLOW
    )


def test_kept_outcomes_are_of_rows_that_exist() -> None:
    assert set(table.read()) <= {row.name for row in ROWS}


def test_an_outcome_is_stale_once_what_it_covers_has_changed() -> None:
    row = ROWS[0]
    passed = Outcome("c" * 40, covered(row), "2026-01-01T00:00:00+00:00", "passed", "1 passed", 1)
    assert state(row, passed) == "passed"
    assert state(row, replace(passed, covered="of other files")) == "stale"
    assert state(row, replace(passed, outcome="failed", covered="x")) == "failed"
    assert state(row, None) == "never run"
    assert covered(row) != covered(replace(row, covers=("README.md",)))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_of_the_docs_a_row_covers_only_the_runbooks_that_it_types(row: Row) -> None:
    listed = table.git("ls-files", "--", *row.covers).splitlines()
    docs = {Path(path).parent.as_posix() for path in listed if path.startswith("appliance/docs/")}
    assert docs == ({"appliance/docs/operations"} if row.name == "life" else set())


def test_what_a_row_leaves_out_is_not_in_its_digest() -> None:
    row = Row("docs", "", (), ("appliance/docs",))
    without = replace(row, covers=("appliance/docs", ":(exclude)appliance/docs/changelog.d"))
    listed = table.git("ls-files", "--", "appliance/docs").splitlines()
    rest = [path for path in listed if not path.startswith("appliance/docs/changelog.d/")]
    assert covered(without) != covered(row)
    assert covered(without) == covered(replace(row, covers=tuple(rest)))


def test_what_only_python_reads_is_stale_only_where_it_was_opened() -> None:
    row = Row("status", "", (), ("appliance/workflows", "appliance/releases", "README.md"))
    opened = frozenset({"appliance/workflows/status.py", "tests/commands.py"})
    digest = covered(row, opened)
    other = frozenset({*opened, "appliance/workflows/node/add.py"})
    assert digest not in (covered(row), covered(row, other), covered(row, frozenset()))
    without_rest = replace(row, covers=("appliance/workflows",))
    assert covered(without_rest, opened) != digest
    without_package = replace(row, covers=("appliance/releases", "README.md"))
    assert covered(without_package, opened) == digest


def test_what_rows_opened_is_kept_once_and_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "OPENED", tmp_path / "opened.json")
    assert table.read_opened() == {}
    opened = {ROWS[0].name: frozenset({"a.py", "b.py"}), ROWS[1].name: frozenset({"b.py"})}
    table.write_opened(opened)
    assert table.read_opened() == opened
    assert (tmp_path / "opened.json").read_text().count("b.py") == 1


def test_a_traced_process_says_what_it_opened_however_it_was_started(tmp_path: Path) -> None:
    folder = tmp_path / "opened"
    program = "import appliance.errors; open('pyproject.toml').close(); open('/etc/passwd').close()"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {program!r}], env={{}})"
    with tracing(ROOT, folder):
        subprocess.run([sys.executable, "-c", child], cwd=ROOT, check=True)
    opened = table.tracked(traced(folder))
    assert {"pyproject.toml", "appliance/errors.py", "appliance/__init__.py"} == opened
    subprocess.run([sys.executable, "-c", "import appliance.errors"], cwd=ROOT, check=True)
    assert traced(folder) >= opened
    assert len(list(folder.iterdir())) == 1


def test_two_traces_at_a_time_do_not_meet_and_leave_nothing(tmp_path: Path) -> None:
    packages = Path(sysconfig.get_paths()["purelib"])
    before = {path.name for path in packages.iterdir()}
    one, other = tmp_path / "one", tmp_path / "other"
    command = [sys.executable, "-c", "import appliance.errors"]
    with tracing(ROOT, one):
        with tracing(ROOT, other):
            subprocess.run(command, cwd=ROOT, check=True)
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stderr == ""
    assert "appliance/errors.py" in traced(other)
    assert len(list(other.iterdir())) == 1
    assert len(list(one.iterdir())) == 2
    left = {path.name for path in packages.iterdir()} - before
    assert not [name for name in left if name.startswith("appliance_release_trace")]


def test_a_trace_ends_no_call_of_a_process_whose_folder_is_gone(tmp_path: Path) -> None:
    program = "import os; os.mkdir('x'); os.chdir('x'); os.rmdir('../x'); open('/dev/null').close()"
    with tracing(ROOT, tmp_path / "opened"):
        subprocess.run([sys.executable, "-c", program], cwd=tmp_path, check=True)
