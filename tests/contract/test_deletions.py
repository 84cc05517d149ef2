"""Whatever deletes is listed with the evidence that it asks for; a new place must be, too."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.contract import deletion_search
from tests.contract.deletion_table import PLACES, Evidence
from tests.contract.tree import ROOT


def test_every_place_that_deletes_is_listed_with_its_evidence() -> None:
    listed = {
        file: Counter(
            {place: 1 if isinstance(told, Evidence) else told[1] for place, told in here.items()}
        )
        for file, here in PLACES.items()
    }
    found = deletion_search.places()
    new = {f: dict(here - listed.get(f, Counter())) for f, here in found.items()}
    gone = {f: dict(here - found.get(f, Counter())) for f, here in listed.items()}
    assert {f: here for f, here in new.items() if here} == {}, (
        "deletes, and asks for what evidence?"
    )
    assert {f: here for f, here in gone.items() if here} == {}, "does not delete any more"


def test_the_tests_that_hold_the_evidence_exist() -> None:
    kinds = {
        told if isinstance(told, Evidence) else told[0]
        for h in PLACES.values()
        for told in h.values()
    }
    for kind in kinds:
        assert kind.asks
        if kind.test:
            file, _, name = kind.test.partition("::")
            tree = ast.parse((ROOT / file).read_text())
            assert name in {n.name for n in tree.body if isinstance(n, ast.FunctionDef)}, kind.test


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("def f(p):\n    p.unlink()\n", "f: unlink"),
        ("def f(p, q):\n    p.replace(q)\n", "f: replace"),
        ("import shutil\nshutil.rmtree('x')\n", "module: rmtree"),
        ("run(['podman', 'volume', 'rm', name])\n", "module: argv rm"),
        ("podman('rm', name)\n", "module: argv rm"),
        ("S = 'kubeadm reset --force'\n", "module: shell kubeadm reset"),
        ("S = '''\nset -e\nrm -rf \"$x\"\n'''\n", "module: shell rm -"),
        ("core.delete_namespaced_pod(name)\n", "module: delete_namespaced_pod"),
    ],
)
def test_a_new_place_in_python_is_found(text: str, found: str) -> None:
    assert found in set(deletion_search.of_python(text))


@pytest.mark.parametrize(
    "line",
    [
        "    state: absent",
        "      - --delete",
        "      rm -rf /x",
        "  - kubeadm reset -f",
        "    - reset",
    ],
)
def test_a_new_place_in_a_task_or_a_script_is_found(line: str) -> None:
    assert list(deletion_search.of_lines(f"- name: x\n{line}\n")) == [line.strip()]


@pytest.mark.parametrize("text", ["text.replace('a', 'b')\n", "items.remove(x)\n", "x.pop()\n"])
def test_what_deletes_nothing_is_not_listed(text: str) -> None:
    assert list(deletion_search.of_python(text)) == []
