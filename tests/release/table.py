"""The table of outcomes, kept beside this file and committed: row, commit, outcome, seconds."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.release.rows import ROWS, Row

ROOT = Path(__file__).parents[2]
KEPT = Path(__file__).with_name("outcomes.json")
PASSED = "passed"
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's, in every repository


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
    kept = {row.name: asdict(outcomes[row.name]) for row in ROWS if row.name in outcomes}
    partial = KEPT.with_suffix(".partial")
    partial.write_text(json.dumps(kept, indent=1) + "\n")
    partial.replace(KEPT)


def git(*words: str) -> str:
    """What git says of this tree."""
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


def uncommitted(row: Row) -> str:
    """What of the row's files differs from the commit; an outcome would speak for neither."""
    return git("status", "--porcelain", "--", *row.covers)


def covered(row: Row) -> str:
    """A digest of what the row covers, as committed."""
    # Not ``ls-tree``, which takes no pathspec that excludes.
    listed = git("diff-tree", "-r", EMPTY_TREE, "HEAD", "--", *row.covers)
    return hashlib.sha256(listed.encode()).hexdigest()[:16]


def state(row: Row, outcome: Outcome | None) -> str:
    """``passed``, ``failed``, ``stale`` (passed with other files) or ``never run``."""
    if outcome is None:
        return "never run"
    if outcome.outcome == PASSED and outcome.covered != covered(row):
        return "stale"
    return outcome.outcome


def shown(outcomes: Mapping[str, Outcome]) -> str:
    """The table as text."""
    lines = [f"{'row':22}{'state':11}{'commit':9}{'date':12}{'seconds':>8}  what pytest said"]
    for row in ROWS:
        kept = outcomes.get(row.name)
        cells = (kept.commit[:7], kept.date[:10], kept.seconds, kept.told) if kept else ("",) * 4
        commit, date, seconds, told = cells
        lines.append(
            f"{row.name:22}{state(row, kept):11}{commit:9}{date:12}{seconds:>8}  {told}".rstrip()
        )
    return "\n".join(lines)
