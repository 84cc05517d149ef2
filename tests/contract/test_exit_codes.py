"""Exit codes: one table in the code, which help prints and the page repeats."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from appliance import errors
from appliance.cli import exits
from appliance.cli.app import cli
from appliance.cli.exit_codes import EXIT_CODES, TERMINATED
from appliance.cli.options import Place
from tests.contract import tree

PAGE = tree.ROOT / "appliance/docs/operations/exit-codes.md"
SITE = ("--site", "inventories/example")
NOWHERE = "/nowhere/at-all"
# One mistake, a path that is not there, at commands of every kind.
NOT_THERE = [
    ("bundle", "verify", NOWHERE),
    ("bundle", "show", NOWHERE),
    ("bundle", "sign", "--key", NOWHERE, "."),
    ("bundle", "verify", "--allowed-signers", NOWHERE, "."),
    ("bundle", "build", "--release", "r", "--os", "o", "--site", NOWHERE, "b"),
    ("bundle", "have", NOWHERE),
    ("bundle", "have", "--site", NOWHERE),
    ("bundle", "join", NOWHERE, "--to", "b"),
    ("bundle", "build", "--release", "r", "--os", "o", "--without", NOWHERE, "b"),
    ("runai", "inspect", NOWHERE),
    ("site", "init", f"{NOWHERE}/s", "--control-plane", "m=198.51.100.1/24",
     "--vault-password-file", NOWHERE),
    ("plan", "--site", NOWHERE),
    ("status", "--site", NOWHERE),
    ("history", "--site", NOWHERE),
    ("site", "check", "--site", NOWHERE),
    ("install", *SITE, "--bundle", NOWHERE),
    ("health", *SITE, "--run-vendor-diagnostics", NOWHERE),
]  # fmt: skip


def _meanings(text: str) -> set[int]:
    return {int(found) for found in re.findall(r"(?m)^\| (\d+) \|", text)}


def test_help_prints_the_table() -> None:
    said = CliRunner().invoke(cli, ["--help"]).stdout
    for code, meaning in EXIT_CODES.items():
        assert f"{code:>3}  {meaning}\n" in said
    assert max(map(len, said.splitlines()[:-5])) <= 80


def test_the_page_has_the_same_codes() -> None:
    assert _meanings(PAGE.read_text(encoding="utf-8")) == set(EXIT_CODES)


def test_every_error_of_the_product_has_a_code_of_the_table() -> None:
    codes = {
        found.exit_code
        for found in vars(errors).values()
        if isinstance(found, type) and issubclass(found, errors.ApplianceError)
    }
    assert codes <= set(EXIT_CODES)
    assert {0, 2, TERMINATED} | codes == set(EXIT_CODES)


@pytest.mark.parametrize("words", NOT_THERE, ids=" ".join)
def test_a_path_that_is_not_there_is_refused_by_every_command(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tree.ROOT)
    assert exits.run(list(words)) == 3
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "hint: " in said


def test_every_path_of_the_command_line_follows_that_rule() -> None:
    others = [
        (path, parameter.name)
        for path, command in tree.walk(cli)
        for parameter in command.params
        if isinstance(parameter.type, click.Path) and not isinstance(parameter.type, Place)
    ]
    assert others == []
