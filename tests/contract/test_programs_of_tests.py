"""Tests that start a program of this machine ask for it first: a fresh one has nothing of ours."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.contract.tree import ROOT
from tests.prerequisites import OF_TESTS

FOLDERS = ("unit", "cli", "contract", "standins", "fuzz", "terminal")
# Of what such tests start in place of the product; the README asks for git.
ASKED_FOR = {
    *OF_TESTS,
    *("apt-config", "gcc", "go", "gpg", "mmdebstrap", "podman", "rsync", "runc", "skopeo"),
    *("ssh", "ssh-keygen"),
}
STARTERS = {"subprocess", "appliance.adapters.local.processes"}


def started(text: str) -> Iterator[str]:
    """Programs that begin a list of words, in a file that starts programs."""
    tree = ast.parse(text)
    imported = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    imported |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    if not imported & STARTERS:
        return
    for node in ast.walk(tree):
        first = node.elts[:1] if isinstance(node, ast.List) else []
        for word in first:
            if isinstance(word, ast.Constant) and word.value in ASKED_FOR:
                yield word.value


def required(text: str) -> Iterator[str]:
    """Programs that a file asks for."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
            yield from (str(a.value) for a in node.args if isinstance(a, ast.Constant))


def test_a_program_that_a_test_starts_is_asked_for() -> None:
    texts = {
        str(path.relative_to(ROOT)): path.read_text()
        for folder in FOLDERS
        for path in sorted((ROOT / "tests" / folder).rglob("*.py"))
    }
    missing = {p: lack for p, t in texts.items() if (lack := {*started(t)} - {*required(t)})}
    assert missing == {}, "call tests.prerequisites.require"
    assert any(started(text) for text in texts.values())


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("import subprocess\nsubprocess.run(['openssl', 'req'])\n", {"openssl"}),
        ("import subprocess\nargv = ['ssh-keygen']\n", {"ssh-keygen"}),
        ("import subprocess\nrequire('openssl')\nargv = ['openssl']\n", set()),
        ("from appliance.adapters.local.processes import run\nrun(['go', 'env'])\n", {"go"}),
        ("run(['openssl', 'req'])\n", set()),
    ],
)
def test_one_that_is_not_asked_for_is_found(text: str, lacks: set[str]) -> None:
    assert {*started(text)} - {*required(text)} == lacks
