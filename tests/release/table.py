"""The table of outcomes, kept beside this file and committed: row, commit, outcome, seconds.

What a row that passed has opened is kept as well: a change elsewhere makes no outcome stale.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.release.rows import ROWS, Row

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("outcomes.json")
OPENED = Path(__file__).with_name("opened.json")
PASSED = "passed"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's, in every repository
# What only Python reads: the tool, Ansible, and tests.
BY_PYTHON = (".py", ".yml", ".yaml", ".j2")
# A lab and a bundle that are there already were made of these by an earlier process.
MADE_BEFORE = ("appliance/lab/", "appliance/releases/")


@dataclass(frozen=True)
class Outcome:
    """How a row ended last.

    Attributes:
        commit: what was tested, for people.
        covered: digest of the covered files' contents, which outlives a rebase.
        date: of the end, UTC.
        outcome: ``passed`` or ``failed``.
        told: pytest's closing line.
        seconds: of the whole row.
    """

    commit: str
    covered: str
    date: str
    outcome: str
    told: str
    seconds: int


def read() -> dict[str, Outcome]:
    """Row -> its outcome."""
    if not KEPT.exists():
        return {}
    return {name: Outcome(**kept) for name, kept in json.loads(KEPT.read_text()).items()}


def write(outcomes: Mapping[str, Outcome]) -> None:
    """Keep them, in the order of the rows."""
    _write(KEPT, {row.name: asdict(outcomes[row.name]) for row in ROWS if row.name in outcomes})


def read_opened() -> dict[str, frozenset[str]]:
    """Row -> the tree's files that its processes opened when it passed last."""
    opened: dict[str, set[str]] = defaultdict(set)
    for group in json.loads(OPENED.read_text()) if OPENED.exists() else ():
        for name in group["rows"].split():
            opened[name].update(group["files"])
    return {name: frozenset(files) for name, files in opened.items()}


def write_opened(opened: Mapping[str, Iterable[str]]) -> None:
    """Keep them, each file once, beside the rows that opened it."""
    rows: dict[str, list[str]] = defaultdict(list)
    for row in ROWS:
        for path in opened.get(row.name, ()):
            rows[path].append(row.name)
    groups: dict[str, list[str]] = defaultdict(list)
    for path in sorted(rows):
        groups[" ".join(rows[path])].append(path)
    _write(OPENED, [{"rows": names, "files": groups[names]} for names in sorted(groups)])


def _write(path: Path, value: object) -> None:
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps(value, indent=1) + "\n")
    partial.replace(path)


def git(*words: str) -> str:
    """What git says of this tree."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def uncommitted(row: Row) -> str:
    """What of the row's files differs from the commit; an outcome would speak for neither."""
    return git("status", "--porcelain", "--", *row.covers)


def tracked(paths: Iterable[str]) -> frozenset[str]:
    """Those of these paths that are committed."""
    return frozenset(paths) & {line.partition("\t")[2] for line in _listed()}


def covered(row: Row, opened: frozenset[str] | None = None) -> str:
    """A digest of what the row covers, as committed.

    Without ``opened`` that is all that it names. With them, of what only Python reads it is what
    was opened, wherever that is, and of the rest what the row names.
    """
    lines = _listed(*row.covers)
    if opened is not None:
        rest = {line for line in lines if not _is_judged_by_opening(line.partition("\t")[2])}
        lines = [line for line in _listed() if line in rest or line.partition("\t")[2] in opened]
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode()).hexdigest()[:16]


def _is_judged_by_opening(path: str) -> bool:
    return path.endswith(BY_PYTHON) and not path.startswith(MADE_BEFORE)


def _listed(*places: str) -> list[str]:
    """Mode, digest and, behind a tab, path of each committed file there."""
    # Not ``ls-tree``, which takes no pathspec that excludes.
    return git("diff-tree", "-r", EMPTY_TREE, "HEAD", "--", *places).splitlines()


def state(row: Row, outcome: Outcome | None, opened: frozenset[str] | None = None) -> str:
    """``passed``, ``failed``, ``stale`` (passed with other files) or ``never run``."""
    if outcome is None:
        return "never run"
    if outcome.outcome == PASSED and outcome.covered != covered(row, opened):
        return "stale"
    return outcome.outcome


def shown(outcomes: Mapping[str, Outcome]) -> str:
    """The table as text."""
    lines = [f"{'row':22}{'state':11}{'commit':9}{'date':12}{'seconds':>8}  what pytest said"]
    opened = read_opened()
    for row in ROWS:
        kept = outcomes.get(row.name)
        now = state(row, kept, opened.get(row.name))
        cells = (kept.commit[:7], kept.date[:10], kept.seconds, kept.told) if kept else ("",) * 4
        commit, date, seconds, told = cells
        lines.append(f"{row.name:22}{now:11}{commit:9}{date:12}{seconds:>8}  {told}".rstrip())
    return "\n".join(lines)
