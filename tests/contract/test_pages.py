"""Operators find their pages offline: --help says where, and each hint names one that is there."""

from __future__ import annotations

import re
from pathlib import Path

from click.testing import CliRunner

from appliance.cli.app import cli
from appliance.model.documents.pages import OPERATIONS, SECURITY, page
from tests.contract import tree

NAMED = re.compile(r"""\bpage\(["']([\w-]+)["']\)""")


def test_help_says_where_the_pages_are() -> None:
    assert str(OPERATIONS) in CliRunner().invoke(cli, ["--help"]).output
    assert {path.name for path in OPERATIONS.glob("*.md")} >= {
        "install.md",
        "unplanned-downtime.md",
    }


def test_help_and_readme_name_the_security_page_whose_evidence_is_there() -> None:
    assert str(SECURITY) in CliRunner().invoke(cli, ["--help"]).output
    assert "appliance/docs/security.md" in (tree.ROOT / "README.md").read_text(encoding="utf-8")
    text = SECURITY.read_text(encoding="utf-8")
    evidence = re.findall(r"`((?:tests|molecule)/[\w./]+)`", text)
    assert len(evidence) > 5
    assert [name for name in evidence if not (tree.ROOT / name).exists()] == []
    decided = {path.name[:4] for path in (SECURITY.parent / "decisions").glob("*.md")}
    named = {n for found in re.findall(r"\((\d\d(?:, \d\d)*)[;)]", text) for n in found.split(", ")}
    assert len(named) > 5
    assert {f"00{number}" for number in named} <= decided


def test_each_page_that_a_hint_names_is_there() -> None:
    named = {
        name
        for path in (tree.ROOT / "appliance").rglob("*.py")
        for name in NAMED.findall(path.read_text(encoding="utf-8"))
    }
    assert len(named) >= 3, "the premise: hints name pages"
    assert [name for name in sorted(named) if not Path(page(name)).is_file()] == []


def test_no_hint_names_a_page_by_a_path_that_only_a_checkout_has() -> None:
    found = [
        f"{path.relative_to(tree.ROOT)}: {line.strip()}"
        for path in (tree.ROOT / "appliance").rglob("*.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(docs|operations)/[\w/-]+\.md", line)
    ]
    assert found == []
