"""A page of operations has the one form; what it quotes, the product prints."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import tree
from tests.contract.runbooks import (
    FAILS,
    HEADINGS,
    OPERATIONS,
    SEEN,
    Line,
    blocks,
    headings,
    is_said,
    long_lines,
    section,
    symptoms,
    unheld,
)
from tests.contract.test_docs import commands_in

# Pages to look something up: they have no command of their own, and need not exist yet.
REFERENCE = frozenset({"index"})
PAGES = [path for path in sorted(OPERATIONS.glob("*.md")) if path.stem not in REFERENCE]
# Message -> the program that prints it.
OTHER_PROGRAMS = {
    "THESE PACKAGES DO NOT MATCH THE HASHES": "pip",
    "No user exists for uid": "ssh",
    "permission denied": "docker",
}
named = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


def _at(path: Path, line: Line) -> str:
    return f"{path.relative_to(tree.ROOT)}:{line.number}: {line.text}"


@named
def test_a_page_has_the_one_form(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert headings(text)[: len(HEADINGS)] == HEADINGS, path.name
    assert text.startswith("# ")
    empty = [heading for heading in HEADINGS if not any(x.text for x in section(text, heading))]
    assert empty == [], path.name


@named
def test_no_line_of_a_page_is_above_120_columns(path: Path) -> None:
    assert [f"{path.name}:{number}" for number in long_lines(path)] == []


@named
def test_a_page_shows_output_that_a_test_holds(path: Path) -> None:
    shown = list(blocks(section(path.read_text(encoding="utf-8"), SEEN)))
    assert shown, f"{path.name}: no output under ## {SEEN}"
    missing = [_at(path, line) for block in shown if (line := unheld(block))]
    assert missing == [], "no golden file goes on so; see tests/cli/test_page_samples.py"


@named
def test_each_message_under_if_it_fails_is_one_of_the_product(path: Path) -> None:
    quoted = list(symptoms(section(path.read_text(encoding="utf-8"), FAILS)))
    unknown = [line for line in quoted if line.text not in OTHER_PROGRAMS]
    assert [_at(path, line) for line in unknown if not is_said(line.text)] == []


def test_messages_of_other_programs_are_still_quoted() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in PAGES)
    assert [message for message in OTHER_PROGRAMS if f"`{message}`" not in text] == []


def _lines(*texts: str) -> list[Line]:
    return [Line(number, text) for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize(
    ("block", "missing"),
    [
        (["nothing to do: the node is already removed"], None),
        (["node: w2, 198.18.7.22", "…", "[  7.5 s] record: verified after 1.2 s"], None),
        (["node: w2, 198.18.7.22", "[ 7.5 s] record: verified after 1.2 s"], 2),
        (
            [
                "error: confirmation needed,",
                "  but stdin is not a terminal:",
                "nothing was changed",
            ],
            None,
        ),
        (["w2: the node is corduned, and its pods are evicted"], 1),
    ],
    ids=["a line", "a gap", "lines left out", "folded", "another word"],
)
def test_the_check_of_pasted_output_finds(block: list[str], missing: int | None) -> None:
    found = unheld(_lines(*block))
    assert (found and found.number) == missing


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("cannot be evicted: … has allowed no disruption", True),
        ("found 1 of etcd's 3 members healthy", True),
        ("found a Ready Node", True),
        ("cannot be evicted: no disruption has been allowed", False),
        ("is a coffee machine", False),
    ],
)
def test_the_check_of_messages_finds(message: str, said: bool) -> None:
    assert is_said(message) is said


def test_a_symptom_is_what_a_point_begins_with() -> None:
    lines = _lines("- `a b` or `c`: do `x`.", "- Text: `d`.", "- `e …", "  f`: g", "", "`h`")
    assert [line.text for line in symptoms(lines)] == ["a b", "c", "e … f"]


def test_a_command_of_a_page_is_under_command() -> None:
    for path in PAGES:
        shown = section(path.read_text(encoding="utf-8"), "Command")
        block = "\n".join(line.text for line in shown)
        assert list(commands_in(block)) or "```" in block, f"{path.name}: no command"
