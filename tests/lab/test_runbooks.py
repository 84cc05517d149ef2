"""Every command under ``## Command`` of a runbook is typed, in the lab, in the page's order.

The names in the pages (``w1``, ``SITE``) are the lab's. What a page takes for granted (a machine
that went down, an empty one in the place of a broken one) is brought about before the command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.commands import succeed
from tests.lab.conftest import LabSite
from tests.lab.support import faults, faults_cluster
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.matrix import SECONDS, whole
from tests.lab.support.runbook import written

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def _nothing(lab: LabSite) -> None:
    """The command finds the lab as the one before left it."""


def _start_w1(lab: LabSite) -> None:
    """Somebody presses the button of the machine that the command before powered off."""
    faults_cluster.switch_on(lab.node("w1"))


def _lose_w1(lab: LabSite) -> None:
    """w1 goes down by itself, and the cluster has noticed."""
    faults_cluster.switch_off(lab.node("w1"))
    ready = f"{KUBECTL} get node {lab.node('w1')} --no-headers | grep -q NotReady"
    faults.wait("the cluster to notice", lab.node("cp1"), ready, 120)


def _empty_w2(lab: LabSite) -> None:
    """The machine comes from its repair with an empty disk."""
    faults.wipe(lab.directory, lab.node("w2"))


def _another_w2(lab: LabSite) -> None:
    """w2 was taken out, as the page's first command does, and another machine stands there."""
    succeed(*_words(lab, "appliance node remove w2"), timeout=SECONDS)
    faults.wipe(lab.directory, lab.node("w2"), serial="STANDIN-another")


@dataclass(frozen=True)
class Typed:
    """One command of a page: what is brought about before it."""

    command: str
    before: Callable[[LabSite], None] = _nothing


# Every command of a page's section "Command", in its order; what a page's lab cannot have is left
# out by name, with the reason.
PAGES: dict[str, tuple[Typed, ...]] = {
    "planned-maintenance": (
        Typed("appliance node maintain w1 --dry-run"),
        Typed('appliance node maintain w1 --reason "new riser, case 4711" --window 4h --shutdown'),
        Typed("appliance node return w1", _start_w1),
        # With nothing missing: what is acknowledged need not have happened.
        Typed("appliance node return w1 --acknowledge dimm:A1"),
    ),
    "unplanned-downtime": (
        Typed("appliance status", _lose_w1),
        Typed('appliance node maintain w1 --lost --reason "no power, case 4712"'),
        Typed("appliance node return w1", _start_w1),
        Typed('appliance node remove w1 --reason "mainboard, case 4712"'),
    ),
    "replace-a-gpu-worker": (
        Typed('appliance node remove w2 --reason "GPU 3 fails, case 4711"'),
        Typed("appliance node rejoin w2 --accept-host-keys", _empty_w2),
        Typed("appliance node add w2 --replace w2 --accept-host-keys", _another_w2),
        Typed("appliance node passport w2"),
    ),
    "keep-the-disks-clean": (
        Typed("appliance cluster cleanup --site SITE --dry-run"),
        Typed("appliance cluster cleanup --site SITE"),
    ),
    "patch-the-nodes": (
        Typed("appliance site packages --site SITE --out packages.json"),
        Typed("appliance bundle have --site SITE --out have.json"),
        Typed("appliance health --site SITE"),
    ),
    "hand-over-to-another-engineer": (
        Typed("appliance site check --site SITE"),
        Typed("appliance site adopt --site SITE"),
        Typed("appliance history --site SITE --last 10"),
        Typed("appliance plan --site SITE"),
        Typed("appliance install --site SITE"),
    ),
}
# test_node_roles.py types the first, on a lab that knows roles; the shared lab has no third worker,
# and no older packages.
LEFT_OUT = (
    "appliance node role set w2 --role system",
    "appliance node add w3 --replace w2 --accept-host-keys",
    "appliance bundle build --release k8s-1.23.5-r1 --os ubuntu-20.04 --updates-since 2024-11-01 "
    "--installed packages.json --without have.json DIR",
    "appliance node patch --bundle DIR --site SITE --dry-run",
    "appliance node patch --bundle DIR --site SITE",
)
ASKS = ("install", "maintain", "return", "remove", "rejoin", "add", "cleanup")


def _undo(lab: LabSite, page: str) -> None:
    """The lab as the next page expects it, with the machines that it began with."""
    if page == "unplanned-downtime":
        succeed(*_words(lab, "appliance node rejoin w1"), timeout=SECONDS)
    if page == "replace-a-gpu-worker":
        succeed(*_words(lab, "appliance node remove w2"), timeout=SECONDS)
        faults.wipe(lab.directory, lab.node("w2"))
        words = _words(lab, "appliance node add w2 --replace w2 --accept-host-keys")
        succeed(*words, timeout=SECONDS)


def _words(lab: LabSite, command: str) -> list[str]:
    """What is typed: the lab's names and its site, and --yes where a person would be asked."""
    words = [
        lab.node(word) if re.fullmatch(r"(cp|w)\d", word) else _file(lab, word)
        for word in shlex.split(command)[1:]
        if word not in ("--site", "SITE")
    ]
    words += ["--site", str(lab.directory)]
    looks = "--dry-run" in words
    if not looks and any(word in ASKS for word in words[:2]):
        words.append("--yes")
    if not looks and any(word in ("install", "rejoin", "add") for word in words[:2]):
        words += ["--bundle", str(lab.bundle)]
    return words


def _file(lab: LabSite, word: str) -> str:
    """A file that a command writes: beside the site, and replaced."""
    if not word.endswith(".json"):
        return word
    path = lab.directory.parent / word
    path.unlink(missing_ok=True)
    return str(path)


@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_a_runbook_does_what_it_says(installed_lab: LabSite, page: str) -> None:
    lab = installed_lab
    commands = [command for command in written(page) if command not in LEFT_OUT]
    assert commands == [typed.command for typed in PAGES[page]]
    whole(lab)
    for typed in PAGES[page]:
        typed.before(lab)
        succeed(*_words(lab, typed.command), timeout=2 * SECONDS)
    _undo(lab, page)
    whole(lab)
