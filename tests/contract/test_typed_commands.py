"""Each command of a runbook is typed by a lab as it stands there, or says why no lab can.

The runbooks are those of upgrades, of bare servers, and of backup and recovery. A lab takes a
command from its page by :class:`tests.lab.support.runbook.Runbook`; its calls are read here, so a
page that changes is found without a lab.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.contract import tree
from tests.contract.untyped_commands import UNTYPED
from tests.lab.support.runbook import Runbook, written
from tests.lab.test_runbooks import LEFT_OUT, PAGES

UPGRADES = (
    "patch-the-nodes", "rehearse-an-upgrade", "renew-kubernetes-certificates",
    "upgrade-kubernetes", "upgrade-runai", "upgrade-that-failed", "upgrade-the-gpu-stack",
)  # fmt: skip
BARE_SERVERS = (
    "burn-in-the-hardware", "change-bmc-passwords", "install-bare-servers", "power-of-nodes",
    "power-the-rack-down-and-up", "qualify-hardware", "set-the-bios",
)  # fmt: skip
NOTHING_IS_LOST = (
    "ask-for-support", "back-up-the-appliance", "back-up-the-control-plane",
    "keep-the-disks-clean", "recover-the-cluster", "rehearse-a-restore", "reset-an-appliance",
    "see-what-ends",
)  # fmt: skip
RUNBOOKS = (*UPGRADES, *BARE_SERVERS, *NOTHING_IS_LOST)
LABS = tree.ROOT / "tests" / "lab"
MARKER = "pytest.mark.lab"
# They change nothing, so that typed for one page they are typed for all.
LOOKS = {
    "appliance health --site SITE",
    "appliance history --site SITE",
    "appliance plan --site SITE",
    "appliance status --site SITE",
}


@dataclass(frozen=True)
class Typed:
    """A command that a module of the labs types: of which page, and in which module."""

    page: str
    command: str
    module: Path


@cache
def typed() -> tuple[Typed, ...]:
    """What all labs type."""
    runbooks = LABS / "test_runbooks.py"
    found = [Typed(page, one.command, runbooks) for page, ones in PAGES.items() for one in ones]
    for path in sorted(LABS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found += [Typed(page, command, path) for page, command in calls(text)]
    return tuple(found)


def calls(text: str) -> Iterator[tuple[str, str]]:
    """Page and command of each call of ``words`` of a Runbook of a module.

    Raises:
        AssertionError: a command is not to be read without running the module.
    """
    module = ast.parse(text)
    texts = _texts(module, {})
    pages = dict(_runbooks(module))
    for function in ast.walk(module):
        if isinstance(function, ast.FunctionDef):
            inside = _texts(function, texts)
            for node in ast.walk(function):
                page = _page_of(node, pages)
                if page is not None and isinstance(node, ast.Call):
                    command = _read(node.args[0], inside)
                    assert command is not None, f"{page}: line {node.lineno} is not to be read"
                    yield page, command


def _runbooks(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Name and page of each Runbook that a module makes."""
    for node in module.body:
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            pairs = (
                zip(target.elts, node.value.elts, strict=True)
                if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)
                else [(target, node.value)]
            )
            for name, value in pairs:
                if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
                    made = value.func.id == Runbook.__name__
                    if made and isinstance(name, ast.Name):
                        yield name.id, ast.literal_eval(value.args[0])


def _page_of(node: ast.AST, pages: dict[str, str]) -> str | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if node.func.attr != "words" or not isinstance(node.func.value, ast.Name):
        return None
    return pages.get(node.func.value.id)


def _texts(
    scope: ast.Module | ast.FunctionDef, outer: dict[str, str | None]
) -> dict[str, str | None]:
    """Name -> text of what a scope assigns; None where it has two."""
    found = dict(outer)
    mine: set[str] = set()
    nodes = scope.body if isinstance(scope, ast.Module) else ast.walk(scope)
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            found[name] = None if name in mine else _read(node.value, found)
            mine.add(name)
    return found


def _read(node: ast.expr, texts: dict[str, str | None]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.Name):
        return texts.get(node.id)
    if isinstance(node, ast.JoinedStr):
        parts = [
            _read(one.value if isinstance(one, ast.FormattedValue) else one, texts)
            for one in node.values
        ]
        return None if None in parts else "".join(map(str, parts))
    return None


@pytest.mark.parametrize("page", RUNBOOKS)
def test_each_command_is_typed_by_a_lab_or_says_why_not(page: str) -> None:
    of_page = {one.command for one in typed() if one.page == page}
    looks = {one.command for one in typed()} & LOOKS
    known = of_page | looks | set(UNTYPED.get(page, {}))
    assert written(page), "the premise: the page has commands"
    assert [command for command in written(page) if command not in known] == []


def test_a_lab_types_only_what_its_page_has() -> None:
    wrong = [one for one in typed() if one.command not in written(one.page)]
    assert wrong == []


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_is_typed_whole_is_typed_in_its_order(page: str) -> None:
    here = [command for command in written(page) if command not in LEFT_OUT]
    assert [one.command for one in PAGES[page]] == here


def test_what_types_a_command_is_a_test_of_a_lab() -> None:
    tests = {path: path.read_text(encoding="utf-8") for path in LABS.rglob("test_*.py")}
    marked = {path: text for path, text in tests.items() if MARKER in text}
    assert {one.module for one in typed()} - marked.keys() == {LABS / "support" / "imaged.py"}
    assert any("lab.support.imaged import" in text for text in marked.values())


def test_no_reason_is_left_for_what_is_typed_or_not_there() -> None:
    of_labs = {(one.page, one.command) for one in typed()}
    reasons = [(page, command) for page, ones in UNTYPED.items() for command in ones]
    assert [one for one in reasons if one in of_labs or one[1] not in written(one[0])] == []
    assert set(UNTYPED) <= set(RUNBOOKS)


def test_a_test_that_a_reason_names_is_there() -> None:
    named = {
        name
        for ones in UNTYPED.values()
        for reason in ones.values()
        for name in re.findall(r"(?:tests|molecule)/[\w./]+\w", reason)
    }
    assert named
    assert [name for name in sorted(named) if not (tree.ROOT / name).exists()] == []


def test_the_reading_of_calls_finds() -> None:
    text = (
        'FILE = "a.backup"\nPAGE, OTHER = Runbook("p"), Runbook("o")\n'
        'def one():\n    page = f"appliance x {FILE} "\\\n        "--y"\n'
        "    return PAGE.words(page, {})\n"
        'def two():\n    OTHER.words("appliance z", {})\n    words("appliance no", {})\n'
    )
    assert list(calls(text)) == [("p", "appliance x a.backup --y"), ("o", "appliance z")]
    with pytest.raises(AssertionError, match="line 4"):
        list(
            calls(
                'PAGE = Runbook("p")\ndef one():\n    for x in "ab":\n        PAGE.words(x, {})\n'
            )
        )


def test_a_command_that_its_page_has_not_is_not_typed() -> None:
    page = Runbook("see-what-ends")
    assert page.words("appliance horizon --site SITE", {"SITE": "s"}) == ["horizon", "--site", "s"]
    with pytest.raises(AssertionError, match=re.escape("see-what-ends.md has no")):
        page.words("appliance horizon --every", {})
