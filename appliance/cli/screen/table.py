"""The layout of a table in a given width, as text: no column is cut, words stay whole.

A table that is too wide is narrowed in this order, as far as it needs:

1. cells are wrapped between words;
2. columns with one value in all rows become one line below the table;
3. columns that the caller can spare are left out, and a line names them;
4. long paths and addresses are broken after ``/``, ``,``, ``:``, ``@``, ``.``, ``=`` or ``-``;
5. each row becomes a block with a line for each column.

What must not be here: the terminal, and colours (:mod:`appliance.cli.screen.render`).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence

Paint = Callable[[str, str, str], str]
Cells = Sequence[Sequence[str]]
# Headings, cells, and lines that say what is not among them.
Narrower = tuple[Sequence[str], Cells, list[str]]

GAP = 2
# Columns that are never broken inside a word: what an operator reads first, or copies.
WHOLE = frozenset(
    {"node", "state", "status", "outcome", "took", "started", "step", "check", "address", "from",
     "lab", "kind", "MB", "seconds"}
)  # fmt: skip
_SOFT = re.compile(r"[^/,:@.=-]*[/,:@.=-]?")
# Words up to this length are never broken: names, groups, models, versions.
_SHORT = 20
# Nor are dates, and lines of files, up to that length.
_KEPT = re.compile(r"\d{4}-\d\d-\d\d[T ]\S*|\S+:\d+")
_LONG = 40


def table_lines(
    columns: Sequence[str],
    rows: Cells,
    width: int,
    *,
    spare: Sequence[str] = (),
    paint: Paint = lambda _column, _cell, text: text,
) -> list[str]:
    """The lines of a table, none of them longer than ``width`` characters.

    Args:
        columns: the headings.
        rows: a cell for each heading, without control characters.
        width: of the terminal, in characters.
        spare: headings that are left out, one after the other, where the table is too wide.
        paint: (heading, cell, padded text of a line of it) -> the text with its colour.
    """
    said: list[str] = []
    widths = None
    for narrower in (_as_it_is, _without_constants, *map(_without, spare)):
        columns, rows, more = narrower(columns, rows)
        said += more
        if widths := _widths(columns, rows, width, _longest_word):
            break
    widths = widths or _widths(columns, rows, width, _longest_piece)
    if widths is None:
        return [*_blocks(columns, rows, width, paint), *_wrapped_all(said, width)]
    lines = [_line(columns, columns, widths, lambda _column, _cell, text: text)]
    lines += [_line(columns, row, widths, paint) for row in rows]
    return [line for several in lines for line in several] + _wrapped_all(said, width)


def text_width(text: str) -> int:
    """How many places of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(one) else 2 if unicodedata.east_asian_width(one) in "WF" else 1
        for one in text
    )


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most ``width``; only a word that is longer is broken."""
    lines: list[str] = [""]
    for word in text.split(" "):
        joined = f"{lines[-1]} {word}" if lines[-1] else word
        if text_width(joined) <= width:
            lines[-1] = joined
            continue
        pieces = list(_broken(word, width))
        lines += pieces if lines[-1] else [lines.pop() + pieces[0], *pieces[1:]]
    return lines


def _broken(word: str, width: int) -> Iterator[str]:
    line = ""
    for piece in _SOFT.findall(word):
        if text_width(line + piece) <= width:
            line += piece
            continue
        if line:
            yield line
        line = piece
        while text_width(line) > width:
            head = line[:width]
            while text_width(head) > width:
                head = head[:-1]
            head = head or line[0]
            yield head
            line = line[len(head) :]
    yield line


def _as_it_is(columns: Sequence[str], rows: Cells) -> Narrower:
    return columns, rows, []


def _without(heading: str) -> Callable[[Sequence[str], Cells], Narrower]:
    def narrower(columns: Sequence[str], rows: Cells) -> Narrower:
        if heading not in columns:
            return columns, rows, []
        columns, rows = _cut(columns, rows, {heading})
        return columns, rows, [f"not shown at this width: {heading} (--output json has it)"]

    return narrower


def _without_constants(columns: Sequence[str], rows: Cells) -> Narrower:
    """Without the columns that say the same in each row; states, and the first column, stay."""
    same = {
        name: rows[0][at]
        for at, name in enumerate(columns)
        if at and name not in WHOLE and len(rows) > 1 and len({row[at] for row in rows}) == 1
    }
    said = ["in every row: " + ", ".join(f"{k} {v}" for k, v in same.items())] if same else []
    return *_cut(columns, rows, same), said


def _cut(
    columns: Sequence[str], rows: Cells, left_out: Collection[str]
) -> tuple[Sequence[str], Cells]:
    kept = [at for at, name in enumerate(columns) if name not in left_out]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _widths(
    columns: Sequence[str], rows: Cells, total: int, least_of: Callable[[str, str], int]
) -> list[int] | None:
    """The width of each column; None where the table does not fit."""
    by_column = list(zip(columns, *rows, strict=True))
    wanted = [max(map(text_width, cells)) for cells in by_column]
    room = total - GAP * (len(columns) - 1)
    if sum(wanted) <= room:
        return wanted
    widths = [
        max(least_of(name, cell) for cell in cells)
        for name, cells in zip(columns, by_column, strict=True)
    ]
    if sum(widths) > room:
        return None
    _grow(widths, wanted, room)
    # A column that wraps may need less than it got: the others get the rest.
    wrapped_to = [
        max(text_width(line) for cell in cells for line in wrapped(cell, width))
        for cells, width in zip(by_column, widths, strict=True)
    ]
    wanted = [
        used if used < got else want
        for used, got, want in zip(wrapped_to, widths, wanted, strict=True)
    ]
    _grow(wrapped_to, wanted, room)
    return wrapped_to


def _grow(widths: list[int], wanted: Sequence[int], room: int) -> None:
    """Give the narrowest columns what they want first: the longest texts are the ones to wrap."""
    while sum(widths) < min(room, sum(wanted)):
        growing = [at for at, width in enumerate(widths) if width < wanted[at]]
        widths[min(growing, key=lambda one: widths[one])] += 1


def _longest_word(_name: str, cell: str) -> int:
    return max(map(text_width, cell.split(" ")))


def _longest_piece(name: str, cell: str) -> int:
    """The same where long words may be broken, in columns that may."""
    if name in WHOLE:
        return _longest_word(name, cell)
    return max(map(_least_of_word, cell.split(" ")))


def _least_of_word(word: str) -> int:
    length = text_width(word)
    if length <= _SHORT or (length <= _LONG and _KEPT.fullmatch(word)):
        return length
    return min(length, max(_SHORT, *map(text_width, _SOFT.findall(word))))


def _line(
    columns: Sequence[str], row: Sequence[str], widths: Sequence[int], paint: Paint
) -> list[str]:
    parts = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
    lines = []
    for number in range(max(map(len, parts))):
        texts = [part[number] if number < len(part) else "" for part in parts]
        last = max(at for at, text in enumerate(texts) if text) if any(texts) else 0
        painted = [
            paint(name, cell, text) + (" " * (width - text_width(text) + GAP) if at < last else "")
            for at, (name, cell, text, width) in enumerate(
                zip(columns, row, texts, widths, strict=True)
            )
            if at <= last
        ]
        lines.append("".join(painted))
    return lines


def _blocks(columns: Sequence[str], rows: Cells, width: int, paint: Paint) -> list[str]:
    """Each row as lines ``heading: cell``, with an empty line between rows."""
    indent = max(map(len, columns)) + 2
    lines: list[str] = []
    for row in rows:
        lines += [""] if lines else []
        for name, cell in zip(columns, row, strict=True):
            first, *others = wrapped(cell, max(1, width - indent))
            lines.append(f"{name + ':':<{indent}}{paint(name, cell, first)}".rstrip())
            lines += [" " * indent + paint(name, cell, text) for text in others]
    return lines


def _wrapped_all(sentences: Sequence[str], width: int) -> list[str]:
    return [line for sentence in sentences for line in wrapped(sentence, width)]
