"""``appliance docs``: an index, a page, a search by word and by symptom, and typos."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from appliance.adapters.local import pages as adapter
from appliance.cli.exits import run
from appliance.model.documents.pages import OPERATIONS

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Three pages of this test."""
    page = adapter.Page
    written = {
        "downtime": "# A node is lost\n\n## When\n\nA node is gone, or its host\nkey differs.\n\n"
        "## If it fails\n\n- `wrong host key: found`: compare the key.\n- ends with 4: reach it.\n",
        "keys": "# Keys of hosts\n\nA key of a host is kept.\n\n```\nssh-keygen -R HOST KEY\n```\n",
        "0060-one-at-a-time": "# 60. One at a time\n\nOne command holds the lock.\n",
    }
    found = []
    for name, text in written.items():
        path = tmp_path / f"{name}.md"
        path.write_text(text)
        kind = "decisions" if name[0] == "0" else "operations" if name == "downtime" else ""
        found.append(page(name, text.splitlines()[0].removeprefix("# "), path, kind))
    monkeypatch.setattr(adapter, "pages", lambda: tuple(found))
    return tmp_path


@pytest.mark.usefixtures("small")
def test_without_a_page_there_is_a_list_of_them(capsys: Capture) -> None:
    assert run(["docs"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"^  downtime +A node is lost$", shown, re.MULTILINE)
    assert "Decisions: 1 pages" in shown
    assert run(["docs", "decisions"]) == 0
    assert capsys.readouterr().out == "  0060-one-at-a-time  60. One at a time\n"


@pytest.mark.parametrize("name", ["downtime", "DOWNTIME.md", "operations/downtime.md"])
def test_a_page_is_printed_as_it_is(small: Path, name: str, capsys: Capture) -> None:
    assert run(["docs", name]) == 0
    assert capsys.readouterr().out == (small / "downtime.md").read_text()


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", ["60", "0060", "0060-one-at-a-time"])
def test_a_decision_is_found_by_its_number(number: str, capsys: Capture) -> None:
    assert run(["docs", number]) == 0
    assert "# 60. One at a time" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_words_are_searched_in_paragraphs_and_symptoms_come_first(capsys: Capture) -> None:
    assert run(["docs", "--search", "Host key"]) == 0
    rows = re.findall(r"^  (\d+)", capsys.readouterr().out, re.MULTILINE)
    assert rows == ["10", "5", "6", "3"], "phrases first, of those the symptom first"
    assert run(["docs", "keys", "--search", "key"]) == 0
    assert "downtime" not in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_a_whole_error_message_finds_its_symptom(capsys: Capture) -> None:
    said = "gpu1 (198.51.100.21): wrong host key: found ssh-ed25519 SHA256:abc"
    assert run(["docs", "--search", said]) == 0
    shown = capsys.readouterr()
    assert "the nearest" in shown.err
    assert shown.out.splitlines()[1].strip().startswith("10  - `wrong host key: found`")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("downtme", "Did you mean: appliance docs downtime"),
        ("compare", "These have the word: downtime"),
        ("xyzzy", "The list of the pages: appliance docs"),
    ],
)
def test_a_page_that_is_not_there_is_answered(name: str, said: str, capsys: Capture) -> None:
    assert run(["docs", name]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.usefixtures("small")
def test_a_search_that_finds_nothing_says_so(capsys: Capture) -> None:
    assert run(["docs", "--search", "xyzzy plugh"]) == 0
    assert "no page has 'xyzzy plugh'" in capsys.readouterr().err


def test_every_shipped_page_has_a_name_of_its_own_and_a_title() -> None:
    found = adapter.pages()
    assert {one.path for one in found} >= set(OPERATIONS.glob("*.md"))
    assert len({one.name for one in found}) == len(found) > 50
    assert [one.name for one in found if not one.title or adapter.find_page(one.name) != one] == []


def test_on_a_terminal_a_page_goes_through_the_pager(tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho paged\nhead -n 1\n")
    pager.chmod(0o755)
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "appliance", "docs", "install"],
            stdin=theirs, stdout=theirs, stderr=theirs, check=False, timeout=60,
            env={**os.environ, "PAGER": str(pager), "TERM": "xterm"},
        )  # fmt: skip
        shown = os.read(ours, 65536).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert (done.returncode, shown.splitlines()[0]) == (0, "paged")
    assert "# Install an appliance" in shown
