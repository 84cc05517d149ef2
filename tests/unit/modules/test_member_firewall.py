"""A member's firewall rules go by name, from real tables, in a network namespace of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.prerequisites import require
from tests.unit.modules.loading import ROOT

PROGRAM = "tests.unit.modules.firewall_in_namespace"


def test_rules_of_others_stay_also_one_that_came_after_the_look() -> None:
    require("unshare", "iptables-nft")
    rights = [] if os.geteuid() == 0 else ["--map-root-user"]
    unshared = ["unshare", *rights, "--net"]
    done = subprocess.run(
        [*unshared, sys.executable, "-m", PROGRAM],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "before": 10,
        "left": ["-A INPUT -s 192.0.2.9/32 -j DROP", "-A POSTROUTING -s 10.0.0.0/8 -j RETURN"],
        "removed": ["9 rules of iptables-nft"],
    }
