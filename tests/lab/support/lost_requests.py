"""What was known of the workload, and by whom, just after a request of it was lost."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.lab.conftest import LabSite
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.faults import ssh_answers
from tests.lab.support.service_probe import NAME, Asked

AT_MOST = 6
# The endpoints to which the node that is asked sends a request, beside those that the API names.
SCRIPT = f"""
date +%T
uptime
iptables-save -t nat | grep 'default/{NAME}' | grep DNAT
{KUBECTL} --request-timeout=5s get endpoints,pods -o wide | grep {NAME}
{KUBECTL} --request-timeout=5s get nodes
{KUBECTL} --request-timeout=5s -n kube-system get pods -o wide | grep -E 'kube-proxy|flannel'
date +%T
"""


@contextmanager
def lost_explained(lab: LabSite, asked: Asked) -> Iterator[list[str]]:
    """Look after each loss while the body runs, at most ``AT_MOST`` times."""
    told: list[str] = []
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(lab, asked, told, over), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        over.set()
        thread.join(30)


def _watch(lab: LabSite, asked: Asked, told: list[str], over: threading.Event) -> None:
    seen = 0
    while not over.wait(0.1) and len(told) < AT_MOST:
        if len(asked.lost) > seen:
            seen = len(asked.lost)
            told.append("\n".join((asked.lost[-1], *_look(lab))))


def _look(lab: LabSite) -> list[str]:
    """What is seen now; a look that fails says so, and the next loss is looked at all the same."""
    try:
        return [_sshd(lab), lab.shell("cp1", SCRIPT, check=False), *_steps(lab)]
    except (OSError, subprocess.SubprocessError) as error:
        return [f"no look at the cluster: {error!r}"]


def _sshd(lab: LabSite) -> str:
    """Whether the machine itself was slow."""
    began = time.monotonic()
    did = "answered" if ssh_answers(lab.address("cp1")) else "did not answer"
    return f"sshd of the node that is asked {did} after {time.monotonic() - began:.2f} s"


def _steps(lab: LabSite) -> list[str]:
    """The newest record of the site's journal: which step of which node is over, or at work."""
    folder = lab.directory / ".appliance" / "journal"
    newest = max(folder.rglob("*.json"), key=lambda path: path.stat().st_mtime, default=None)
    return [newest.name, newest.read_text()[:1500]] if newest else []
