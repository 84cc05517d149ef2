"""The pages of operations, read as what they promise: headings, pasted output, messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests import golden
from tests.contract import tree

OPERATIONS = tree.ROOT / "appliance" / "docs" / "operations"
HEADINGS = ["When", "Before you start", "Command", "What you will see", "If it fails", "Undo"]
SEEN, FAILS = HEADINGS[3], HEADINGS[4]
GAP = "…"  # in a page: lines, or a part of a line, that are left out
# Names of a golden file -> names that a reader knows; both stand for a place that differs.
KNOWN_AS = {
    "FOLDER": "SITE",
    "USER@HOST": "ada@laptop",
    "USER on HOST": "ada on laptop",
}
JOINED = 6  # a long line is folded into at most so many lines of a page
NUMBER = re.compile(r"\b\d[\w.:/%-]*")
HOLE = "\0"  # a value in a message of the code


@dataclass(frozen=True)
class Line:
    """A line of a page, counted from 1."""

    number: int
    text: str


@dataclass(frozen=True)
class Sample:
    """What one command printed in a test: its lines by stream, without what differs."""

    name: str
    streams: tuple[tuple[str, ...], ...]


def headings(text: str) -> list[str]:
    """The headings of the second level, in order; none from inside a block."""
    bare = re.sub(r"^ *```.*?^ *```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^## (.+)$", bare, re.MULTILINE)


def section(text: str, heading: str) -> list[Line]:
    """The lines under a heading, with their numbers in the page."""
    found, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("## "):
            inside = line == f"## {heading}"
        elif inside:
            found.append(Line(number, line))
    return found


def blocks(lines: list[Line]) -> Iterator[list[Line]]:
    """The fenced blocks among the lines, without their fences."""
    open_block: list[Line] | None = None
    for line in lines:
        if line.text.lstrip().startswith("```"):
            if open_block is not None:
                yield open_block
            open_block = [] if open_block is None else None
        elif open_block is not None:
            open_block.append(line)


def plain(text: str) -> str:
    """A line without what differs between runs, and with single spaces."""
    for name, known in KNOWN_AS.items():
        text = text.replace(name, known)
    return " ".join(golden.steady(text).split())


@cache
def samples() -> tuple[Sample, ...]:
    """Every command's output, and every text, that the golden files hold."""
    found = []
    for path in sorted(golden.GOLDEN.rglob("*.txt")):
        for title, text in golden.read(path).items():
            for part in re.split(r"^(?=\$ appliance )", text, flags=re.MULTILINE):
                first, lines = part.partition("\n")[0], part.splitlines()
                streams = [
                    tuple(plain(line[5:]) for line in lines if line.startswith(f"{name}| "))
                    for name in ("out", "err")
                ]
                kept = streams if any(streams) else [tuple(plain(line) for line in lines)]
                name = f"{path.stem}: {title}: {first}"
                found.append(Sample(name, tuple(kept)))
    return tuple(found)


@cache
def _wanted(shown: str) -> re.Pattern[str]:
    """What a line of a page stands for; ``…`` in it is any part of a line."""
    parts = [plain(part) for part in shown.split(GAP)]
    return re.compile(r"\s?.*\s?".join(map(re.escape, parts)))


def unheld(block: list[Line]) -> Line | None:
    """The first line that no test's output goes on with; None where one output has them all.

    A line of ``…`` alone leaves lines out. A long line may be folded. The two streams of a command
    are each in order; a terminal mixes them.
    """
    furthest = 0
    for sample in samples():
        reached = _reached(block, sample)
        if reached == len(block):
            return None
        furthest = max(furthest, reached)
    return block[furthest]


def _reached(block: list[Line], sample: Sample) -> int:
    """How many lines of the block the sample has, in order."""
    # A state: lines used, the place in each stream (-1: not begun), whether a gap comes before.
    begun = (0, (-1,) * len(sample.streams), False)
    open_states, seen, furthest = [begun], {begun}, 0
    while open_states:
        used, places, skips = open_states.pop()
        furthest = max(furthest, used)
        if used == len(block):
            return used
        if block[used].text.strip() == GAP:
            following = [(used + 1, places, True)]
        else:
            following = list(_steps(block, sample, used, places, skips))
        for state in following:
            if state not in seen:
                seen.add(state)
                open_states.append(state)
    return furthest


def _steps(
    block: list[Line], sample: Sample, used: int, places: tuple[int, ...], skips: bool
) -> Iterator[tuple[int, tuple[int, ...], bool]]:
    for folded in range(1, min(JOINED, len(block) - used) + 1):
        shown = " ".join(line.text.strip() for line in block[used : used + folded])
        wanted = _wanted(shown)
        for index, stream in enumerate(sample.streams):
            place = max(places[index], 0)
            anywhere = skips or places[index] < 0
            for at in range(place, len(stream) if anywhere else min(place + 1, len(stream))):
                if wanted.fullmatch(stream[at]):
                    moved = (*places[:index], at + 1, *places[index + 1 :])
                    yield used + folded, moved, False


def symptoms(lines: list[Line]) -> Iterator[Line]:
    """The message that begins each point of the list: what is between its first backticks."""
    text, number = "", 0
    for line in [*lines, Line(0, "- ")]:
        if line.text.startswith("- ") or not line.text.startswith("  "):
            for quoted in re.findall(r"^- (?:\*\*)?((?:`[^`]+`(?:,? (?:or|and) )?)+)", text):
                for message in re.findall(r"`([^`]+)`", quoted):
                    yield Line(number, message)
            text, number = (line.text, line.number) if line.text.startswith("- ") else ("", 0)
        elif text:
            text += " " + line.text.strip()


class _Messages(ast.NodeVisitor):
    """Every text of a module, with a hole where a value goes."""

    def __init__(self) -> None:
        self.found: set[str] = set()

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.found.add(_text(node))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add):
            self.found.add(_text(node))
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.found.add(re.sub(r"\{[\w.!:\[\]]*\}|%[sdr]", HOLE, node.value))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return HOLE


@cache
def messages() -> tuple[str, ...]:
    """Every text of the product's code, playbooks and roles; a hole is where a value goes."""
    found: set[str] = set()
    for folder in ("appliance", "roles", "playbooks"):
        for path in (tree.ROOT / folder).rglob("*"):
            if path.suffix == ".py" and "__pycache__" not in path.parts:
                visitor = _Messages()
                visitor.visit(ast.parse(path.read_text(encoding="utf-8")))
                found |= visitor.found
            elif path.suffix in {".yml", ".j2", ".sh"}:
                found.add(re.sub(r"\{\{.*?\}\}", HOLE, path.read_text(encoding="utf-8")))
    return tuple(sorted({" ".join(text.split()) for text in found}))


def is_said(quoted: str) -> bool:
    """Whether the code can print the quoted words, or a test's output has them.

    ``…`` stands for values. A message may also be quoted with the values of an example: numbers,
    or others if at least half of the message is the code's own words. ``CHECK: found X, expected
    Y`` is put together from texts that the code has apart.
    """
    parts = [part for part in re.split(r"(?:^|: )found |, expected ", quoted) if part.strip(GAP)]
    return all(_is_said(part) or _is_said(NUMBER.sub(GAP, part)) for part in parts)


@cache
def _is_said(quoted: str) -> bool:
    parts = [part for part in (" ".join(p.split()) for p in quoted.split(GAP)) if part]
    wanted = re.compile(".*".join(re.escape(part) for part in parts))
    if any(wanted.search(text) for text in messages()):
        return True
    steady = re.compile(".*".join(re.escape(plain(part)) for part in parts))
    if any(steady.search(line) for one in samples() for said in one.streams for line in said):
        return True
    return GAP not in quoted and any(_filled(" ".join(quoted.split()), text) for text in messages())


def _filled(quoted: str, text: str) -> bool:
    """Whether the quoted words are the text, or the end or the start of it, with values in it."""
    own = [part for part in text.split(HOLE) if part.strip()]
    if HOLE not in text or sum(map(len, own)) * 2 < len(quoted):
        return False
    return re.search(".+".join(map(re.escape, own)), quoted) is not None


def long_lines(path: Path) -> list[int]:
    """The numbers of the lines above 120 columns."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > 120]
