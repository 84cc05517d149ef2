"""Whatever deletes is listed with the evidence that it asks for; a new place must be, too."""

from __future__ import annotations

import ast
from collections import Counter

import pytest

from tests.contract import deletion_search
from tests.contract.deletion_evidence import Evidence
from tests.contract.deletion_table import PLACES as DELETIONS
from tests.contract.disturbance_table import PLACES as DISTURBANCES
from tests.contract.tree import ROOT

PLACES = {
    file: {**DELETIONS.get(file, {}), **DISTURBANCES.get(file, {})}
    for file in {*DELETIONS, *DISTURBANCES}
}


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
        ("p.write_text('')\n", "module: write_text"),
        ("p.write_bytes(b'')\n", "module: write_bytes"),
        ("open(p, 'w')\n", "module: open w"),
        ("open(p, mode='wb')\n", "module: open w"),
        ("p.open('w')\n", "module: open w"),
        ("os.open(p, os.O_WRONLY | os.O_TRUNC)\n", "module: open w"),
        ("os.ftruncate(h, 0)\n", "module: ftruncate"),
        ("os.truncate(p, 0)\n", "module: truncate"),
        ("os.chown(p, 1, 1)\n", "module: chown"),
        ("p.chmod(0o777)\n", "module: chmod"),
        ("run([k, '--kubeconfig', c, '--x', '-n', 'y', 'delete', 'ns'])\n", "module: argv delete"),
        ("run(k, '--kubeconfig', '/c', '-n', 'y', 'delete', 'ns')\n", "module: argv delete"),
        ("run(['systemctl', 'disable', '--now', n])\n", "module: argv disable"),
        ("run('systemctl poweroff')\n", "module: shell systemctl poweroff"),
        ("run(['iptables-restore'], data=x)\n", "module: shell iptables-restore"),
        ("run(['iptables', '-F'])\n", "module: argv -F"),
        ("S = 'iptables -t mangle -F X'\n", "module: shell iptables -t mangle -F"),
        ("run(['apt-get', '-y', 'remove', 'x'])\n", "module: argv remove"),
        ("run(['docker', 'kill', i])\n", "module: argv kill"),
        ("run(['mv', a, b])\n", "module: argv mv"),
        ("core.patch_node(n, {'spec': {'taints': None}})\n", "module: patch_node"),
        ("self._write('patch_node', n, body)\n", "module: patch_node"),
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
        "    state: stopped",
        "    cmd: docker rm x",
        "    cmd: docker kill x",
        "      mv /a /b",
        '      mv "$a" /b',
        "    cmd: systemctl disable --now x",
        "    cmd: systemctl poweroff",
        "      iptables-restore < /rules",
        "      iptables -w -F",
        "      apt-get -y remove x",
        "      kubectl --kubeconfig /c -n y delete ns z",
        "    purge: true",
    ],
)
def test_a_new_place_in_a_task_or_a_script_is_found(line: str) -> None:
    assert list(deletion_search.of_lines(f"- name: x\n{line}\n")) == [line.strip()]


@pytest.mark.parametrize(
    "text",
    [
        *("text.replace('a', 'b')\n", "items.remove(x)\n", "x.pop()\n", "p.open('rb')\n"),
        "os.fdopen(h, 'w')\n",
        "M = 'move this away. Then remove it'\n",
    ],
)
def test_what_deletes_nothing_is_not_listed(text: str) -> None:
    assert list(deletion_search.of_python(text)) == []


def test_of_a_file_that_is_written_and_put_in_place_the_place_is_listed() -> None:
    text = "def f(p, q):\n    p.write_text('x')\n    p.chmod(0o600)\n    p.replace(q)\n"
    assert list(deletion_search.of_python(text)) == ["f: replace"]
