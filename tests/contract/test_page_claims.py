"""What pages claim is there: links, commands in sentences, options, files, exit codes, messages."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from tests.contract import tree
from tests.contract.page_words import (
    DOCS,
    README,
    code,
    codes_of,
    commands,
    links,
    options,
    prose,
    spans,
    table,
)
from tests.contract.runbooks import GAP, OPERATIONS, Line, blocks, is_said, section, unheld
from tests.contract.test_docs import parse

# It tells of older versions: their commands and options need not be there any more.
CHANGELOG = DOCS / "changelog.md"
ALL = [
    README,
    *sorted(path for path in DOCS.glob("*.md") if path != CHANGELOG),
    *sorted(OPERATIONS.glob("*.md")),
]
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
# Commands that "not supported yet" says are missing.
MISSING = {"fleet", "support-bundle"}
INDEX = OPERATIONS / "index.md"
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
        for path in [*ALL, *DECISIONS]
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
    shown = list(blocks([Line(number, line) for number, line in enumerate(first.splitlines(), 1)]))
    assert len(shown) >= 2
    assert [line for block in shown if (line := unheld(block))] == []


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
        for path in [*ALL, *DECISIONS]
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
    tasks = section(INDEX.read_text(encoding="utf-8"), "By task")
    listed = re.findall(r"\]\(([\w-]+\.md)\)", "\n".join(line.text for line in tasks))
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
        wrong += [] if is_said(quoted) else [quoted]
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


def test_the_emergency_card_fits_on_one_sheet() -> None:
    lines = (OPERATIONS / "emergency-card.md").read_text(encoding="utf-8").splitlines()
    first, last, *_ = (number for number, line in enumerate(lines) if line == "```")
    card = lines[first + 1 : last]
    assert len(card) <= 60
    assert max(map(len, card)) <= 80


def test_every_name_with_underscores_is_one_of_the_code() -> None:
    """Checks, steps, groups, settings, variables of roles and of the vault."""
    words = set(re.findall(r"\w+", code()))
    named = [
        (path, name)
        for path in [README, *sorted(OPERATIONS.glob("*.md"))]
        for span in spans(prose(path))
        for name in re.findall(r"(?<![\w/.-])[a-z]+(?:_[a-z0-9]+)+(?![\w/-])", span)
    ]
    assert len(named) > 100
    assert [f"{_name(path)}: {name}" for path, name in named if name not in words] == []


def test_what_the_acceptance_protocol_must_show_is_what_the_code_prints() -> None:
    text = (OPERATIONS / "acceptance-protocol.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| [A-C]\d \| (.+?) \| (.+?) \| _+ \|$", text)
    assert len(rows) >= 12
    shown = [span for _, must_show in rows for span in spans(must_show)]
    assert [span for span in shown if not is_said(span)] == []


def test_what_is_not_supported_yet_is_no_command() -> None:
    """When one of them arrives, the page has to say so."""
    assert MISSING & commands() == set()
