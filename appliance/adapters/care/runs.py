"""The folders of runs, and the size of the rest of a site's state on this machine.

What must not be here: what may go (:mod:`appliance.model.upkeep.care.records`).
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from appliance.model.upkeep.care.records import KeptRun, StateSizes

_RUN: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
# What a run writes: its inventory, the commands that repeat it, and a folder for each step.
_FILES: Final = ("inventory.json", "commands.log")
_STEP: Final = re.compile(r"[a-z][a-z_]{0,60}")
_NODE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}")


class RunFiles:
    """The state of one site.

    Args:
        state_directory: the site's ``.appliance``.
    """

    def __init__(self, state_directory: Path) -> None:
        self._state = state_directory

    def runs(self) -> tuple[KeptRun, ...]:
        """The folders of runs, the oldest first; what else is there is none."""
        return tuple(
            KeptRun(path.name, _begun(path.name), _size(path)[1], _steps(path))
            for path in _entries(self._state / "runs")
            if _is_run(path)
        )

    def sizes(self) -> StateSizes:
        """How much the rest is."""
        folder = self._state / "facts" / "nodes"
        facts = {
            path.stem: path.lstat().st_size
            for path in _entries(folder)
            if path.suffix == ".json" and _NODE.fullmatch(path.stem) and path.is_file()
        }
        journal, reports = self._state / "journal", self._state / "reports"
        return StateSizes(_size(journal), facts, _size(reports))

    def remove_facts(self, name: str) -> None:
        """Remove the kept facts of a node.

        Raises:
            OSError: there are none, or they could not be removed.
        """
        path = self._state / "facts" / "nodes" / f"{name}.json"
        if not _NODE.fullmatch(name) or path.is_symlink() or not path.is_file():
            raise FileNotFoundError(2, "no facts of a node", str(path))
        path.unlink()

    def remove_run(self, run: str) -> None:
        """Remove the folder of a run; one that is there in part goes as well.

        Raises:
            OSError: it is no folder of a run, or could not be removed.
        """
        path = self._state / "runs" / run
        if not _is_run(path):
            raise NotADirectoryError(20, "not the folder of a run", str(path))
        shutil.rmtree(path)


def _is_run(path: Path) -> bool:
    """Whether a folder has the name of a run, and nothing in it that no run writes."""
    if not _RUN.fullmatch(path.name) or path.is_symlink() or not path.is_dir():
        return False
    return all(
        one.name in _FILES or (_STEP.fullmatch(one.name) is not None and one.is_dir())
        for one in _entries(path)
    )


def _steps(path: Path) -> tuple[str, ...]:
    """The steps that began, by their folders."""
    return tuple(one.name for one in _entries(path) if one.name not in _FILES)


def _begun(run: str) -> float:
    """When a run began: the first 48 bits of its id are milliseconds."""
    return int(run.replace("-", "")[:12], 16) / 1000


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []


def _size(folder: Path) -> tuple[int, int]:
    """How many files are below a folder, and their bytes; links are not followed."""
    sizes = list(_sizes(folder))
    return len(sizes), sum(sizes)


def _sizes(folder: Path) -> Iterator[int]:
    for root, _, names in os.walk(folder):
        for name in names:
            path = Path(root) / name
            try:
                if not path.is_symlink():
                    yield path.lstat().st_size
            except OSError:
                continue
