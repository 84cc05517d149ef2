"""A version means something: one place, a section of the changelog, and fragments for the next."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.version import Version

from appliance import __version__
from tests.contract import tree

DOCS = tree.ROOT / "appliance/docs"
PROJECT = tomllib.loads(tree.read(Path("pyproject.toml")))
TYPES = [one["directory"] for one in PROJECT["tool"]["towncrier"]["type"]]
FRAGMENTS = sorted(set((DOCS / "changelog.d").iterdir()) - {DOCS / "changelog.d/README.md"})


def _sections() -> list[Version]:
    text = (DOCS / "changelog.md").read_text(encoding="utf-8")
    return [Version(found) for found in re.findall(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", text, re.M)]


def fault_of(version: Version, sections: list[Version]) -> str:
    """What is wrong with a version beside the sections of the changelog; empty if nothing is."""
    if sections != sorted(set(sections), reverse=True):
        return "sections are not in the order of versions, the newest first"
    newest = sections[0]
    if version.is_devrelease:
        return "" if Version(version.base_version) > newest else "it leads to a version that is out"
    return "" if version == newest else "it has no section, or a newer version has one"


def test_the_version_is_in_one_place_and_has_three_numbers() -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "appliance/__init__.py"}
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", __version__)


def test_a_version_that_is_out_has_its_section_and_a_later_one_none_yet() -> None:
    assert fault_of(Version(__version__), _sections()) == ""


@pytest.mark.parametrize(
    ("version", "sections", "is_right"),
    [
        ("0.2.0", ["0.2.0", "0.1.0"], True),
        ("0.2.0", ["0.1.0"], False),
        ("0.1.0", ["0.2.0", "0.1.0"], False),
        ("0.2.0.dev0", ["0.1.0"], True),
        ("0.2.0.dev0", ["0.2.0", "0.1.0"], False),
        ("0.2.0", ["0.1.0", "0.2.0"], False),
        ("0.2.0", ["0.2.0", "0.2.0", "0.1.0"], False),
    ],
)
def test_the_check_of_a_version_finds_a_missing_section(
    version: str, sections: list[str], is_right: bool
) -> None:
    found = fault_of(Version(version), [Version(one) for one in sections])
    assert (found == "") is is_right


@pytest.mark.parametrize("path", FRAGMENTS, ids=lambda path: path.name)
def test_a_fragment_has_a_known_type_and_a_text(path: Path) -> None:
    name = re.fullmatch(r"[a-z0-9-]+\.([a-z]+)\.md", path.name)
    assert name is not None
    assert name[1] in TYPES
    assert path.read_text(encoding="utf-8").strip()


def test_the_fragments_become_one_section() -> None:
    """The draft of the next section has the first line of every fragment below its type."""
    base = Version(__version__).base_version
    argv = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", base]
    done = subprocess.run(argv, cwd=tree.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"## {base} (" in done.stdout
    first = {path.read_text(encoding="utf-8").strip().splitlines()[0] for path in FRAGMENTS}
    items = set(re.findall(r"^- (.*)$", done.stdout, re.MULTILINE))
    assert first - items == set()
