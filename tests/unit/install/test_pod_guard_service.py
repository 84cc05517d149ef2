"""The program that loads the rules, and who runs it before a pod can start."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.contract import focal

KUBELET = "/etc/systemd/system/kubelet.service.d/20-pod-guard.conf"
PROGRAM = "/usr/local/sbin/appliance-pod-guard"
RULES = "/etc/appliance/pod-guard.rules"
# Notes how it was called, and fails where it is called with one of these words.
IPTABLES = """#!/bin/sh
echo "${0##*/} $*" >> "${0%/*}/called"
case "$*" in WORDS) exit 1; esac
"""


@pytest.fixture(scope="module")
def files() -> dict[str, str]:
    written = [each for each in focal.written() if each.role.name == "kubernetes_node"]
    given = {"kubernetes_node_packages": {}, "kubernetes_node_runtime": "docker"}
    return dict(each.rendered(given) for each in written)


def load(files: dict[str, str], folder: Path, restore: str, call: str) -> tuple[int, list[str]]:
    """Run the program where these calls fail; return its exit code and what it called."""
    for name, words in (("iptables-restore", restore), ("iptables", call)):
        (folder / name).write_text(IPTABLES.replace("WORDS", words))
        (folder / name).chmod(0o755)
    (folder / "rules").write_text(files[RULES])
    text = files[PROGRAM].replace(RULES, str(folder / "rules"))
    path = {"PATH": f"{folder}:{os.environ['PATH']}"}
    done = subprocess.run(["/bin/sh", "-c", text], env=path, check=False)
    return done.returncode, (folder / "called").read_text().splitlines()


def test_the_kubelet_loads_the_rules_before_it_starts(files: dict[str, str]) -> None:
    lines = files[KUBELET].splitlines()
    assert [line for line in lines if "=" in line] == [f"ExecStartPre=/bin/sh {PROGRAM}"]
    # A leading "-" would let a failure pass; the others of the kubelet must not take this one back.
    others = [text for path, text in files.items() if "kubelet.service" in path and path != KUBELET]
    assert len(others) == 2
    assert not any("ExecStartPre" in text for text in others)


def test_the_program_is_there_before_the_kubelet_is_told_of_it(files: dict[str, str]) -> None:
    order = list(files)
    assert order.index(RULES) < order.index(PROGRAM) < order.index(KUBELET)


def test_no_stop_of_the_guard_stops_the_kubelet(files: dict[str, str]) -> None:
    bonds = ("Requires", "BindsTo", "PartOf", "Requisite", "Conflicts")
    for path, text in files.items():
        if path.startswith("/etc/systemd/"):
            assert not [line for line in text.splitlines() if line.startswith(bonds)], path


def test_the_rules_are_loaded_and_called_from_where_they_are_not_yet(
    files: dict[str, str], tmp_path: Path
) -> None:
    done, called = load(files, tmp_path, "none", "*-C*INPUT*")
    assert (done, called) == (
        0,
        [
            "iptables-restore --wait 10 --noflush",
            "iptables --wait 10 -t mangle -C FORWARD -j APPLIANCE-PODS",
            "iptables --wait 10 -t mangle -C INPUT -j APPLIANCE-PODS",
            "iptables --wait 10 -t mangle -I INPUT -j APPLIANCE-PODS",
        ],
    )


@pytest.mark.parametrize(
    ("restore", "call"), [("*noflush*", "none"), ("none", "*"), ("none", "*INPUT*")]
)
def test_rules_that_cannot_be_loaded_are_a_failure(
    files: dict[str, str], tmp_path: Path, restore: str, call: str
) -> None:
    assert load(files, tmp_path, restore, call)[0] != 0
