"""The pages that this installation ships: their names, their titles, and what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from appliance.model.documents.pages import OPERATIONS

DOCS: Final = OPERATIONS.parent
DECISIONS: Final = "decisions"
HARDWARE: Final = "hardware"
# What begins a new part: a heading, an item, a row, or an empty line.
_BEGINS: Final = re.compile(r"\s*([-*#|>]|\d+\.\s|```|$)")
_FAILS: Final = re.compile(r"if it fails|symptom|error|fail", re.IGNORECASE)
# Numbers and names of one site say nothing to a page.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_-]{2,}")


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        name: as it is asked for, e.g. ``install``.
        title: its first heading.
        path: its file.
        kind: ``operations``, ``hardware``, ``decisions``, or empty for the others.
    """

    name: str
    title: str
    path: Path
    kind: str

    def text(self) -> str:
        """The whole page."""
        return self.path.read_text(encoding="utf-8")


@dataclass(frozen=True)
class Passage:
    """A paragraph, an item or a row of a page.

    Attributes:
        page: whose it is.
        line: where it begins, counted from 1.
        heading: the nearest heading above it.
        text: on one line.
    """

    page: Page
    line: int
    heading: str
    text: str


@cache
def pages() -> tuple[Page, ...]:
    """Every page: operations first, then hardware models, the others, and decisions."""
    found = []
    kinds = (
        *(("operations", OPERATIONS), (HARDWARE, DOCS / HARDWARE)),
        *(("", DOCS), (DECISIONS, DOCS / DECISIONS)),
    )
    for kind, folder in kinds:
        for path in sorted(folder.glob("*.md")):
            with path.open(encoding="utf-8") as stream:
                title = stream.readline().removeprefix("#").strip()
            found.append(Page(path.stem, title, path, kind))
    return tuple(found)


def find_page(name: str) -> Page | None:
    """The page of that name; a decision also by its number."""
    wanted = name.lower().removesuffix(".md").rpartition("/")[2]
    for page in pages():
        number = page.name.partition("-")[0].lstrip("0") if page.kind == DECISIONS else None
        if wanted in (page.name.lower(), page.name.lower().replace("-", "_")):
            return page
        if number is not None and wanted.lstrip("0") == number:
            return page
    return None


def search(text: str, within: Sequence[Page] = ()) -> tuple[list[Passage], bool]:
    """The passages that have every word of a text, the most useful first; and whether any has.

    Where none has every word, as for a whole error message, those that have most of them.

    Args:
        text: words, in any case.
        within: the pages; empty: all.
    """
    passages = [one for page in within or pages() for one in _passages(page)]
    words = text.casefold().split()
    whole = [one for one in passages if all(word in _all_of(one) for word in words)]
    if whole or not words:
        phrase = " ".join(words)
        return sorted(whole, key=lambda one: (phrase not in _all_of(one), _use(one))), True
    parts = {word.casefold() for word in _WORD.findall(text)}
    counted = [(sum(part in _all_of(one) for part in parts), one) for one in passages]
    most = max((count for count, _ in counted), default=0)
    near = [one for count, one in counted if count == most and count * 2 >= len(parts)]
    return sorted(near if most else [], key=_use), False


def _all_of(passage: Passage) -> str:
    return f"{passage.page.title} {passage.heading} {passage.text}".casefold()


def _use(passage: Passage) -> tuple[int, bool, str, int]:
    kinds = ("operations", "", DECISIONS)
    fails = bool(_FAILS.search(passage.heading))
    return kinds.index(passage.page.kind), not fails, passage.page.name, passage.line


def _passages(page: Page) -> Iterator[Passage]:
    heading, begun, lines = "", 1, list[str]()
    for number, line in enumerate([*page.text().splitlines(), ""], start=1):
        if _BEGINS.match(line) and lines:
            yield Passage(page, begun, heading, " ".join(lines))
            lines = []
        if line.startswith("#"):
            heading = line.lstrip("# ")
        elif line.strip(" |-`"):
            begun = begun if lines else number
            lines.append(line.strip())
