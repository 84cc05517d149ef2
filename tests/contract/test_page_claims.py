"""What pages claim is there: links, commands in sentences, options, files, exit codes, messages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from tests.contract import tree
from tests.contract.page_words import (
    DOCS,
    GAP,
    OPERATIONS,
    README,
    blocks,
    code,
    codes_of,
    links,
    options,
    prose,
    recorded,
    section,
    spans,
    table,
    unsaid,
)
from tests.contract.test_docs import parse

ALL = [README, *sorted(DOCS.glob("*.md")), *sorted(OPERATIONS.glob("*.md"))]
HEADINGS = ["When", "Before you start", "Command", "What you will see", "If it fails", "Undo"]
INDEX = OPERATIONS / "index.md"
# Pages whose section "If it fails" quotes this tool; the others quote kubectl, ssh and pip as well.
STRICT = (
    "acceptance-protocol", "admin-host", "ask-for-support", "carry-a-bundle", "exit-codes",
    "not-supported-yet", "overview", "power-the-rack-down-and-up", "requirements",
    "upgrade-this-tool",
)  # fmt: skip
# Options in sentences that are another program's.
FOREIGN = {
    "--control-plane-endpoint", "--entrypoint", "--import", "--require-hashes",
    "--skip-hash-check", "--user", "--userns",
    "-J", "-e", "-i", "-it", "-m", "-p", "-v",
}  # fmt: skip
FOLDERS = ("appliance/", "tests/", "roles/", "playbooks/", "inventories/example", "hardware/",
           "molecule/")  # fmt: skip


def _name(path: Path) -> str:
    return str(path.relative_to(tree.ROOT))


def test_every_link_of_a_page_leads_to_a_file() -> None:
    dead = [
        f"{_name(path)}: {target}"
        for path in ALL
        for target in links(path)
        if not (path.parent / target).exists()
    ]
    assert dead == []


def test_every_short_link_of_the_readme_has_its_target() -> None:
    text = prose(README)
    used = set(re.findall(r"\]\[([\w-]+)\]", text))
    assert used == set(re.findall(r"(?m)^\[([\w-]+)\]: ", text))
    assert len(used) >= 5


def test_the_readme_begins_with_output_that_tests_recorded() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    assert "recorded output of the tests" in " ".join(first.split())
    shown = [line for block in blocks(first) for line in block.splitlines()]
    assert len(shown) > 5
    lines = set(recorded().splitlines())
    assert [line for line in shown if f"out| {line}" not in lines] == []


def test_the_readme_says_what_is_not_supported_yet_and_where_to_read_on() -> None:
    first = README.read_text(encoding="utf-8").partition("\n## ")[0]
    for word in ("projects", "quotas", "MLflow", "Kubeflow", "fleets", "operating systems"):
        assert word in first
    page = (OPERATIONS / "not-supported-yet.md").read_text(encoding="utf-8")
    for word in ("projects", "quotas", "MLflow", "Kubeflow", "fleets"):
        assert word in page


def test_every_file_of_the_repository_that_a_page_names_is_there() -> None:
    named = {
        (path, span)
        for path in ALL
        for span in spans(prose(path))
        if span.startswith(FOLDERS) and re.fullmatch(r"[\w./*-]+", span)
    }
    assert len(named) > 10
    gone = [
        f"{_name(path)}: {span}"
        for path, span in sorted(named)
        if not list(tree.ROOT.glob(span.rstrip("/")))
    ]
    assert gone == []


def test_every_command_in_a_sentence_exists_with_its_options() -> None:
    wrong, seen = [], 0
    for path in ALL:
        for span in spans(prose(path)):
            if not span.startswith("appliance "):
                continue
            seen += 1
            try:
                parse(shlex.split(span.translate({ord("["): None, ord("]"): None}))[1:])
            except (AssertionError, ValueError, click.ClickException) as error:
                wrong.append(f"{_name(path)}: {span}: {error}")
    assert wrong == []
    assert seen > 50


def test_every_option_in_a_sentence_is_one_of_a_command() -> None:
    known = options() | FOREIGN
    wrong = [
        f"{_name(path)}: {span}"
        for path in ALL
        for span in spans(prose(path))
        if (word := re.match(r"--?[a-z][\w-]*", span)) and word.group() not in known
    ]
    assert wrong == []


def test_every_exit_code_that_a_page_names_is_in_the_table() -> None:
    known = {row[0] for row in table(OPERATIONS / "exit-codes.md", "exit")}
    named = [
        (path, code)
        for path in ALL
        for code in re.findall(
            r"\b[Ee]xits? (?:code )?(?:is )?(?:with )?(\d+)\b", " ".join(prose(path).split())
        )
    ]
    assert len(named) > 20
    assert [f"{_name(path)}: {code}" for path, code in named if code not in known] == []


def test_every_page_of_the_folder_is_in_the_index() -> None:
    tasks = section(INDEX, "By task")
    listed = re.findall(r"\]\(([\w-]+\.md)\)", tasks)
    assert sorted(set(listed)) == sorted(
        path.name for path in OPERATIONS.glob("*.md") if path != INDEX
    )


def test_every_symptom_of_the_index_is_a_message_of_the_code() -> None:
    rows = table(INDEX, "message")
    assert len(rows) > 30
    wrong = []
    for message, *_ in rows:
        (quoted,) = spans(message)
        assert len(quoted.replace(GAP, "").strip()) > 8, f"too short to be found: {quoted}"
        wrong += [f"{quoted}: {part!r}" for part in unsaid(quoted)]
    assert wrong == []


def test_every_symptom_has_the_exit_code_of_the_error_that_says_it() -> None:
    wrong, found = [], 0
    for message, exits, _ in table(INDEX, "message"):
        (quoted,) = spans(message)
        codes = codes_of(quoted)
        found += bool(codes)
        if not codes <= set(map(int, exits.split(" or "))):
            wrong.append(f"{quoted}: {exits}, but the code says {sorted(codes)}")
    assert wrong == []
    assert found > 20, "the premise: most symptoms are messages of errors"


@pytest.mark.parametrize("name", [*STRICT, "emergency-card"])
def test_a_page_has_the_sections_of_a_runbook_in_their_order(name: str) -> None:
    text = (OPERATIONS / f"{name}.md").read_text(encoding="utf-8")
    found = [title for title in re.findall(r"^## (.+)$", text, re.MULTILINE) if title in HEADINGS]
    assert found == HEADINGS


def test_the_emergency_card_fits_on_one_sheet() -> None:
    lines = (OPERATIONS / "emergency-card.md").read_text(encoding="utf-8").splitlines()
    first, last, *_ = (number for number, line in enumerate(lines) if line == "```")
    card = lines[first + 1 : last]
    assert len(card) <= 60
    assert max(map(len, card)) <= 80


@pytest.mark.parametrize("name", STRICT)
def test_a_page_quotes_messages_of_the_code(name: str) -> None:
    """A point below "If it fails" that begins with code in a sentence quotes a message."""
    text = section(OPERATIONS / f"{name}.md", "If it fails")
    quoted = re.findall(r"^- `([^`]+)`", text, re.MULTILINE)
    assert [f"{one}: {part!r}" for one in quoted for part in unsaid(one)] == []


@pytest.mark.parametrize(
    "invented",
    ["the flux capacitor of … is empty", "… has allowed no disruption for ever and a day"],
)
def test_a_message_that_nothing_prints_is_found(invented: str) -> None:
    assert unsaid(invented) != []


def test_every_name_with_underscores_is_one_of_the_code() -> None:
    """Checks, steps, groups, settings, variables of roles and of the vault."""
    words = set(re.findall(r"\w+", code()))
    unknown = [
        f"{_name(path)}: {span}"
        for path in ALL
        for span in spans(prose(path))
        if re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", span) and span not in words
    ]
    assert unknown == []
