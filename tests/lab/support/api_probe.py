"""A client that asks the API five times a second, through its name, from inside a worker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise

from tests.lab.support.faults import shell, wait

EVERY, PATIENCE = 0.2, 2.0
UNIT, LOG = "standin-api-probe", "/run/standin-api-probe.jsonl"
# One connection for each question, a read that needs etcd's majority, and no question waits for
# another: a slow answer is no reason to ask less often.
SCRIPT = """
import concurrent.futures, http.client, json, ssl, sys, time
host, port, node = sys.argv[1], int(sys.argv[2]), sys.argv[3]
context = ssl.create_default_context(cafile="/etc/kubernetes/pki/ca.crt")
context.load_cert_chain("/var/lib/kubelet/pki/kubelet-client-current.pem")
log = open("{log}", "a", buffering=1)

def ask():
    began, well, said = time.time(), False, ""
    try:
        line = http.client.HTTPSConnection(host, port, context=context, timeout={patience})
        line.request("GET", "/api/v1/nodes/" + node)
        answer = line.getresponse()
        answer.read()
        well, said = answer.status == 200, str(answer.status)
        line.close()
    except (OSError, http.client.HTTPException) as error:
        said = repr(error)
    entry = dict(began=began, ended=time.time(), well=well, said=said)
    log.write(json.dumps(entry) + chr(10))

with concurrent.futures.ThreadPoolExecutor(32) as pool:
    due = time.time()
    while True:
        pool.submit(ask)
        due += {every}
        time.sleep(max(0.0, due - time.time()))
"""


@dataclass
class Watched:
    """What the client saw.

    Attributes:
        asked: how many questions were answered or given up.
        failed: how many of them had no answer, or another one than 200.
        gap: the longest time from one good answer to the next, in seconds.
        reasons: what failed ones were told, each once.
    """

    asked: int = 0
    failed: int = 0
    gap: float = 0.0
    reasons: list[str] = field(default_factory=list)


@contextmanager
def api_watched(node: str, host: str, port: int) -> Iterator[Watched]:
    """Ask from ``node`` while the body runs; the result is filled in at its end."""
    found = Watched()
    script = SCRIPT.format(log=LOG, every=EVERY, patience=PATIENCE)
    shell(node, f"rm -f {LOG}; cat > /run/{UNIT}.py", stdin=script)
    shell(node, f"systemd-run --quiet --unit={UNIT} python3 /run/{UNIT}.py {host} {port} {node}")
    try:
        wait("the first good answers", node, f"test $(grep -c '\"well\": true' {LOG}) -ge 5", 60)
        yield found
        wait("a good answer at the end", node, f"tail -n 1 {LOG} | grep -q '\"well\": true'", 60)
    finally:
        shell(node, f"systemctl stop {UNIT}", check=False)
        lines = shell(node, f"cat {LOG}").splitlines()
    entries = [json.loads(line) for line in lines if line.endswith("}")]
    good = sorted(entry["ended"] for entry in entries if entry["well"])
    found.asked = len(entries)
    found.failed = sum(not entry["well"] for entry in entries)
    found.gap = max((later - earlier for earlier, later in pairwise(good)), default=0.0)
    found.reasons = sorted({entry["said"] for entry in entries if not entry["well"]})
