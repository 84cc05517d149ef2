"""A document of headings, paragraphs, lists and tables, written as Markdown or as one HTML page.

Text comes from nodes and people, and may be hostile: it is escaped here, in one place for each
form. The page loads nothing: it has no script, no link and no picture. What must not be here: what
a document says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

MOST_LETTERS: Final = 2000
# What Markdown may take for a mark of its own, also in the dialects that know HTML and tables.
_MARKS: Final = re.compile(r"([\\`*_\[\]<>#!|~$&])")
# What begins an item of a list or a line under a heading.
_BEGIN: Final = re.compile(r"^(\d+(?=[.)](?:\s|$))|(?=[-+=]))(.)")
_STYLE: Final = (
    "body{font:16px/1.5 sans-serif;max-width:72rem;margin:2rem auto;padding:0 1rem;color:#222}"
    "table{border-collapse:collapse;width:100%;margin:1rem 0}"
    "td,th{border:1px solid #bbb;padding:.3rem .6rem;text-align:left;vertical-align:top;"
    "overflow-wrap:anywhere}th{background:#eee}"
    "@media print{body{max-width:none;margin:0}}"
)


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the document's title."""

    level: int
    text: str


@dataclass(frozen=True)
class Paragraph:
    """One paragraph."""

    text: str


@dataclass(frozen=True)
class Items:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table; each row has as many cells as the head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Block = Heading | Paragraph | Items | Table


def plain(text: str) -> str:
    """One line without characters that nobody sees, and not without end."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= MOST_LETTERS else line[: MOST_LETTERS - 1] + "…"


def as_markdown(blocks: Iterable[Block]) -> str:
    """The document as Markdown."""
    return "\n\n".join("\n".join(_markdown(block)) for block in blocks) + "\n"


def _markdown(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"{'#' * block.level} {_marked(block.text)}"
    elif isinstance(block, Paragraph):
        yield _marked(block.text)
    elif isinstance(block, Items):
        yield from (f"- {_marked(item)}" for item in block.items)
    else:
        yield _row(block.head)
        yield _row(["---"] * len(block.head), marks=False)
        yield from (_row(row) for row in block.rows)


def _row(cells: Sequence[str], *, marks: bool = True) -> str:
    told = [_marked(cell) if marks else cell for cell in cells]
    return f"| {' | '.join(cell or ' ' for cell in told)} |"


def _marked(text: str) -> str:
    return _BEGIN.sub(r"\1\\\2", _MARKS.sub(r"\\\1", plain(text)))


def as_page(blocks: Sequence[Block]) -> str:
    """The document as one HTML page that needs nothing else."""
    title = next((block.text for block in blocks if isinstance(block, Heading)), "report")
    body = "\n".join(line for block in blocks for line in _html(block))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>{_told(title)}</title>\n<style>{_STYLE}</style>\n</head>\n"
        f"<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> Iterator[str]:
    if isinstance(block, Heading):
        yield f"<h{block.level}>{_told(block.text)}</h{block.level}>"
    elif isinstance(block, Paragraph):
        yield f"<p>{_told(block.text)}</p>"
    elif isinstance(block, Items):
        yield "<ul>"
        yield from (f"<li>{_told(item)}</li>" for item in block.items)
        yield "</ul>"
    else:
        yield "<table>"
        yield f"<tr>{''.join(f'<th>{_told(cell)}</th>' for cell in block.head)}</tr>"
        for row in block.rows:
            yield f"<tr>{''.join(f'<td>{_told(cell)}</td>' for cell in row)}</tr>"
        yield "</table>"


def _told(text: str) -> str:
    return escape(plain(text))
