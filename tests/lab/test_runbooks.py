"""Every command under ``## Command`` of a runbook is typed, in the lab, in the page's order.

The names in the pages (``w1``, ``SITE``) are the lab's. What a page takes for granted (a machine
that went down, an empty one in the place of a broken one) is brought about before the command.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tests.lab import faults
from tests.lab.conftest import LabSite
from tests.lab.matrix import KUBECTL

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def _nothing(lab: LabSite) -> None:
    """The command finds the lab as the one before left it."""


def _start_w1(lab: LabSite) -> None:
    """Somebody presses the button of the machine that the command before powered off."""
    faults.power_on(lab.node("w1"))


def _lose_w1(lab: LabSite) -> None:
    """w1 goes down by itself, and the cluster has noticed."""
    faults.power_off(lab.node("w1"))
    ready = f"{KUBECTL} get node {lab.node('w1')} --no-headers | grep -q NotReady"
    faults.wait("the cluster to notice", lab.node("cp1"), ready, 120)


def _empty_w2(lab: LabSite) -> None:
    """The machine comes from its repair with an empty disk."""
    faults.wipe(lab.directory, lab.node("w2"))


def _another_w2(lab: LabSite) -> None:
    """Another machine stands in w2's place, and w2 is off for good."""
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
        Typed('appliance node maintain w1 --reason "new riser" --window 4h --shutdown'),
        Typed("appliance node return w1", _start_w1),
    ),
    "unplanned-downtime": (
        Typed('appliance node maintain w1 --lost --reason "power supply"', _lose_w1),
    ),
    "replace-a-gpu-worker": (
        Typed('appliance node remove w2 --reason "GPU 3 fails, case 4711"'),
        Typed("appliance node rejoin w2 --accept-host-keys", _empty_w2),
        Typed("appliance node add w2 --replace w2 --accept-host-keys", _another_w2),
        Typed("appliance node passport w2"),
    ),
    "hand-over-to-another-engineer": (
        Typed("appliance site check --site SITE"),
        Typed("appliance site adopt --site SITE"),
        Typed("appliance history --site SITE --last 10"),
        Typed("appliance plan --site SITE"),
        Typed("appliance install --site SITE"),
    ),
}
LEFT_OUT = {
    "appliance node role set w2 --role system --allow-move": "the shared lab has no Run:ai; "
    "tests/lab/test_node_roles.py types it",
    "appliance node add w3 --replace w2 --accept-host-keys": "the shared lab has no third worker",
}
"""test_three_control_planes.py types the commands of replace-the-first-control-plane-node."""
