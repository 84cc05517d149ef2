"""What a look costs this machine, and what it costs a node: ratios of figures from one run.

It asserts nothing. ``python -m tests.benchmarks.looking``: needs no lab and no root.

The control host's part is a process that looks at a fake site and plans: its nodes are SSH servers
of this program that take a login and give a recorded answer. The same process once more without
SSH shows what the logins take of it. The node's part is the probe, started as on a node, beside an
empty Python.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from appliance.adapters.ssh.become import Become
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.adapters.ssh.probing.archive import probe_archive, probe_script
from appliance.model.site.settings import Node, Site
from tests import samples
from tests.benchmarks.measured import measure

FEW, MANY = 3, 50


class Recorded(SshNodes):
    """Nodes whose answers are there already."""

    def run(self, node: Node, command: str, *, stdin: bytes = b"", timeout: float = 60) -> Answer:
        del command, stdin, timeout
        return Answer(0, _answer(node), "")


def _answer(node: Node) -> str:
    return json.dumps(samples.converged(node, samples.desired(samples.site(1, MANY - 1))))


def look(site: Site, *, logins: bool) -> None:
    """What a command does before it says what it would do; its imports are a part of it."""
    from appliance.adapters.kubernetes.api import load_library
    from appliance.cli.commands.status import command  # noqa: F401
    from appliance.model.checks.preflight import preflight
    from appliance.model.plan.planner import plan
    from appliance.model.state.observed import Observed

    desired = samples.desired(site)
    nodes = (SshNodes if logins else Recorded)(site, meanwhile=load_library)
    seen = nodes.look(site.nodes)
    nodes.close()
    if seen.faults:
        raise SystemExit(seen.faults[0].reason)
    observed = Observed(seen.node_facts, samples.cluster(desired))
    plan(desired, observed, preflight(desired, seen.node_facts, observed))


def seconds_of_host(count: int, *, logins: bool) -> float:
    """Processor seconds of one process that looks at so many nodes."""
    from tests.ssh_server import says, servers

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        site = samples.site(1, count - 1)
        if logins:
            answers = {node.name: says(_answer(node).encode()) for node in site.nodes}
            site = stack.enter_context(servers(folder)).serve(site, answers)
        (folder / "site").write_bytes(pickle.dumps((site, logins)))
        argv = [sys.executable, "-m", "tests.benchmarks.looking", "--site", str(folder / "site")]
        return measure(argv).cpu_seconds


def seconds_of_node(python: str) -> tuple[float, float]:
    """Processor seconds of the probe on this machine, and of a Python that does nothing."""
    way = Become(samples.site(), lambda _name: None)
    script = way.command(probe_script(python, ["--resolve", "localhost"]), or_self=True)
    return _cpu(["sh", "-c", script], probe_archive()), _cpu([python, "-c", "pass"], b"")


def _cpu(argv: Sequence[str], given: bytes) -> float:
    before = os.times()
    subprocess.run(argv, input=given, stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return (after.children_user + after.children_system) - (
        before.children_user + before.children_system
    )


def _medians(rounds: int, *works: Callable[[], float]) -> list[float]:
    """The median of each, taken in turn."""
    took = [[work() for work in works] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*took, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--python", default="python3", help="what runs the probe, as on a node")
    parser.add_argument("--site", type=Path, help=argparse.SUPPRESS)
    want = parser.parse_args()
    if want.site:
        site, logins = pickle.loads(want.site.read_bytes())  # noqa: S301  (written by this program)
        look(site, logins=logins)
        return
    for name, logins in (("answers alone", False), ("with logins", True)):
        few, many = _medians(
            want.rounds,
            lambda logins=logins: seconds_of_host(FEW, logins=logins),  # type: ignore[misc]
            lambda logins=logins: seconds_of_host(MANY, logins=logins),  # type: ignore[misc]
        )
        _say(f"control host, {name}: {MANY} nodes {many:.2f} s, {FEW} nodes {few:.2f} s", many, few)
    pairs = [seconds_of_node(want.python) for _ in range(want.rounds * 3)]
    probe, empty = (statistics.median(column) for column in zip(*pairs, strict=True))
    _say(f"the probe here {probe:.3f} s, an empty Python {empty:.3f} s", probe, empty)


def _say(text: str, one: float, other: float) -> None:
    load = os.getloadavg()[0]
    print(f"{text} of processor: ratio {one / other:.2f} (load {load:.1f})")  # noqa: T201


if __name__ == "__main__":
    main()
