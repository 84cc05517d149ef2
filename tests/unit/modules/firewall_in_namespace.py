"""Runs in a network namespace of its own: the rules of a member go, and a late one stays.

Takes the kind of iptables (nft, legacy); prints as JSON how many rules were there, what is left,
and what the module said.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.unit.modules.loading import load

OURS = """*nat
:KUBE-SERVICES - [0:0]
:KUBE-MARK-MASQ - [0:0]
-A PREROUTING -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A POSTROUTING -s 10.244.0.0/16 -d 10.244.0.0/16 -m comment --comment "flanneld masq" -j RETURN
-A KUBE-SERVICES -d 10.96.0.1/32 -p tcp -m tcp --dport 443 -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
*filter
:KUBE-FORWARD - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
COMMIT
"""


def main(kind: str) -> None:
    """Have rules of ours and of others, add one late, and take ours away."""
    save = f"iptables-{kind}-save"

    def run(argv: list[str], data: str | None = None) -> tuple[int, str, str]:
        if argv[0].endswith("-restore"):
            late = [f"iptables-{kind}", "-A", "INPUT", "-s", "192.0.2.9/32", "-j", "DROP"]
            subprocess.run(late, check=True)
        done = subprocess.run(argv, input=data, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    def rules() -> list[str]:
        text = subprocess.run([save], capture_output=True, text=True, check=True).stdout
        return sorted(line for line in text.splitlines() if line.startswith(("-A", ":KUBE")))

    masqueraded = ["-t", "nat", "-A", "POSTROUTING", "-s", "10.0.0.0/8", "-j", "RETURN"]
    subprocess.run([f"iptables-{kind}", *masqueraded], check=True)
    restore = [f"iptables-{kind}-restore", "--noflush"]
    subprocess.run(restore, input=OURS, text=True, check=True)
    before = len(rules())
    module: Any = load("member_traces", role="node_reset")
    module.FIREWALLS = ((save, f"iptables-{kind}-restore", None),)
    traces = module.Traces(Path("/"), run, run)
    traces.firewall(True)
    left = rules()
    traces.firewall(True)
    sys.stdout.write(json.dumps({"before": before, "left": left, "removed": traces.removed}))


if __name__ == "__main__":
    main(*(sys.argv[1:] or ["nft"]))
