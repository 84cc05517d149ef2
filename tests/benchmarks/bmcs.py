"""How long 64 BMCs take to be read, beside one: their power, and their hardware.

It asserts nothing.

``python -m tests.benchmarks.bmcs``: needs no lab and no root. The BMCs are simulated in another
process, and each answer takes as long as that of slow hardware.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path

from appliance.adapters.hardware.machines import Machines
from appliance.adapters.hardware.redfish_driver import RedfishDriver
from appliance.adapters.hardware.redfish_hardware import RedfishHardware
from appliance.adapters.ssh.nodes import SshNodes
from appliance.model.checks.hardware.found import Machine
from appliance.model.site.settings import Node
from appliance.workflows.node.power import node_power_status
from tests import samples
from tests.fakes import FakeRack
from tests.sessions import fake_session
from tests.standins.simulated_bmcs import FILE, certificate, configuration, configured, secrets

TARGET = 3.0
TREE = "quanta-d43n-3u.json"


@contextmanager
def running(folder: Path, count: int, answer_seconds: float) -> Iterator[tuple[list[Node], int]]:
    """Nodes with BMCs at addresses of this machine, and their port."""
    pem = certificate(folder)
    fingerprint = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    addresses = [f"127.0.9.{number}" for number in range(1, count + 1)]
    with socket.create_server((addresses[0], 0)) as free:
        port: int = free.getsockname()[1]
    slow = [{"hang": answer_seconds}]
    bmcs = [
        configured(address=address, port=port, faults=slow, tree=TREE, changes={})
        for address in addresses
    ]
    (folder / "config.json").write_text(json.dumps(configuration(*bmcs)))
    words = [sys.executable, str(FILE), str(folder / "config.json")]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        for _ in addresses:
            process.stdout.readline()
        some = samples.site().node("w1")
        yield (
            [
                replace(
                    some,
                    name=f"w{number}",
                    bmc_address=IPv4Address(address),
                    bmc_fingerprint=fingerprint,
                )
                for number, address in enumerate(addresses, 1)
            ],
            port,
        )
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


def power(nodes: Sequence[Node], port: int, known: dict[str, str]) -> float:
    """How long ``node power status`` takes for these nodes."""
    session = fake_session(FakeRack(samples.desired(samples.site())))
    began = time.perf_counter()
    found = node_power_status(nodes, session, RedfishDriver(lambda: known, port))
    took = time.perf_counter() - began
    silent = [one.reason for one in found if one.reason]
    assert silent == [], silent[:3]
    return took


def hardware(nodes: Sequence[Node], port: int, known: dict[str, str]) -> float:
    """How long ``hardware inspect --by bmc`` takes for these nodes."""
    site = samples.site()
    machines = Machines(site, SshNodes(site), RedfishHardware(lambda: known, port))
    began = time.perf_counter()
    found = machines.read(nodes, "bmc")
    took = time.perf_counter() - began
    silent = [one.bmc for one in found.values() if not isinstance(one.bmc, Machine)]
    assert silent == [], silent[:3]
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bmcs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--answer", type=float, default=0.5, help="seconds of one answer")
    want = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running(folder, want.bmcs, want.answer) as (nodes, port):
            known = secrets(folder)
            _compare("power", want.rounds, lambda some: power(some, port, known), nodes)
            _compare("hardware", want.rounds, lambda some: hardware(some, port, known), nodes)


def _compare(
    what: str, rounds: int, read: Callable[[Sequence[Node]], float], nodes: Sequence[Node]
) -> None:
    read(nodes[:1])
    one, many = [], []
    for _ in range(rounds):
        one.append(read(nodes[:1]))
        many.append(read(nodes))
    ratio = statistics.median(many) / statistics.median(one)
    print(  # noqa: T201
        f"{what}: one BMC {statistics.median(one):.2f} s, {len(nodes)} BMCs "
        f"{statistics.median(many):.2f} s: {ratio:.2f} (target {TARGET:g}); "
        f"load {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
