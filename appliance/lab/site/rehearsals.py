"""What a lab that is like a site writes down of the upgrades that were run in it, and the report.

What must not be here: what the report says (:mod:`appliance.model.upgrade.rehearsal.report`).
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.lab.site.site import STATE
from appliance.lab.site.sites import likeness_file
from appliance.model.upgrade.rehearsal.likeness import MOST_BYTES as MOST_OF_LIKENESS
from appliance.model.upgrade.rehearsal.likeness import Likeness, read_likeness
from appliance.model.upgrade.rehearsal.report.blocks import as_markdown, as_page
from appliance.model.upgrade.rehearsal.report.rehearsed import (
    MOST_BYTES,
    RehearsedRun,
    read_rehearsed,
)
from appliance.model.upgrade.rehearsal.report.report import Rehearsal, report

RUNS: Final = STATE / "rehearsal"
# Not beside the site's own files: Ansible would read them as an inventory.
MARKDOWN, PAGE = RUNS / "report.md", RUNS / "report.html"


class RehearsalFiles:
    """The files of one lab's site."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def likeness(self) -> Likeness | None:
        """Which site the lab is like; None: it is no such lab.

        Raises:
            Unreadable, OSError: it is, and its file cannot be read.
        """
        try:
            content = read_plain(likeness_file(self._directory), most_bytes=MOST_OF_LIKENESS)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return read_likeness(content)

    def keep(self, run: RehearsedRun) -> None:
        """Write down one run.

        Raises:
            OSError: it could not be written.
        """
        text = json.dumps(run.as_json(), indent=1, sort_keys=True)
        replace_file(self._directory / RUNS / f"{run.run}.json", text + "\n")

    def runs(self) -> tuple[RehearsedRun, ...]:
        """Every run that was written down, the oldest first; what cannot be read is left out."""
        found = []
        for path in sorted((self._directory / RUNS).glob("*.json")):
            with suppress(OSError, ValueError):
                found.append(read_rehearsed(read_plain(path, most_bytes=MOST_BYTES)))
        return tuple(found)

    def write(self, found: Rehearsal) -> tuple[Path, Path]:
        """Write the report as Markdown and as one page; return where.

        Raises:
            OSError: it could not be written.
        """
        blocks = report(found)
        markdown, page = self._directory / MARKDOWN, self._directory / PAGE
        replace_file(markdown, as_markdown(blocks))
        replace_file(page, as_page(blocks))
        return markdown, page
