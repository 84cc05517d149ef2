"""``reset``: nothing is taken apart until the site's name was typed."""

from __future__ import annotations

import sys

import click
import pytest

from appliance.cli.exits import run
from tests.cli import test_questions
from tests.cli.question_rack import Rack, has_the_product

rack = test_questions.rack
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def words(rack: Rack) -> list[str]:
    has_the_product(rack)
    return ["reset", "--site", str(rack.desired.site.directory)]


def test_yes_alone_is_refused_with_the_words_that_work(
    rack: Rack, words: list[str], capsys: Capture
) -> None:
    assert run([*words, "--yes"]) == 3
    assert "appliance reset --wipe rack --yes" in capsys.readouterr().err
    assert rack.plays == []


@pytest.mark.parametrize(("typed", "code"), [("rack", 0), ("rack8", 3), ("", 3)])
def test_the_name_is_asked_and_has_to_be_right(
    typed: str,
    code: int,
    *,
    rack: Rack,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "prompt", lambda *_, **__: typed)
    assert run(words) == code
    assert bool(rack.plays) is (code == 0)
    told = capsys.readouterr().err
    assert ("appliance reset --wipe rack" in told) is (code == 3), "the hint works as it is typed"


def test_another_sites_name_and_a_strange_node_are_refused(
    rack: Rack, words: list[str], capsys: Capture
) -> None:
    assert run([*words, "--wipe", "rack8", "--yes"]) == 3
    assert "this is the site rack, not rack8" in capsys.readouterr().err
    assert run([*words, "--wipe", "rack", "--without", "w9", "--yes"]) == 2
    assert rack.plays == []


def test_without_a_terminal_nothing_is_asked(rack: Rack, words: list[str], capsys: Capture) -> None:
    assert run(words) == 3
    assert "appliance reset --wipe rack --yes" in capsys.readouterr().err
    assert rack.plays == []
