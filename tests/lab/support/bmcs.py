"""BMCs of a lab's nodes, which are stand-ins: their power is that of the containers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.lab.conftest import LabSite
from tests.standins.simulated_bmcs import (
    FILE,
    LOGIN,
    SYSTEM,
    certificate,
    configuration,
    configured,
)

PORT = 443
# A container goes on without the program that started it, as a machine does without its BMC.
_MACHINE = (
    "{podman} start {name} >/dev/null; trap '{podman} kill {name} >/dev/null; exit' TERM; "
    "while sleep 1 && kill -0 $PPID 2>/dev/null; do :; done"
)


@contextmanager
def bmcs_of(lab: LabSite, shorts: Sequence[str], folder: Path) -> Iterator[None]:
    """A BMC for each node, in the inventory and in the vault.

    ``On`` starts the container; ``ForceOff`` kills what ``On`` had started.
    """
    network = lab.address(shorts[0]).rsplit(".", 1)[0]
    podman = shutil.which("podman")
    addresses = {short: f"{network}.{201 + number}" for number, short in enumerate(shorts)}
    machines, authorities = [], []
    for short, address in addresses.items():
        name, own = lab.node(short), folder / short
        own.mkdir()
        authorities.append(certificate(own, address))
        machines.append(
            configured(
                address=address,
                port=PORT,
                changes={SYSTEM: {"SerialNumber": f"STANDIN-{name}", "UUID": None}},
                power=f"{podman} container inspect {name} --format '{{{{.State.Running}}}}'",
                on=["sh", "-c", _MACHINE.format(podman=podman, name=name)],
            )
        )
        (own / "config.json").write_text(json.dumps(configuration(machines[-1])))
    with ExitStack() as stack:
        stack.enter_context(_nobody_else(f"{network}.0/24"))
        for short, address in addresses.items():
            stack.enter_context(_own_address(address))
            stack.enter_context(_served(folder / short / "config.json"))
        stack.enter_context(_in_inventory(lab, addresses, "".join(authorities)))
        yield


@contextmanager
def _own_address(address: str) -> Iterator[None]:
    def ip(verb: str) -> None:
        words = ["ip", "address", verb, f"{address}/32", "dev", "lo"]
        subprocess.run(words, capture_output=True, check=True)

    ip("add")
    try:
        yield
    finally:
        ip("del")


@contextmanager
def _nobody_else(network: str) -> Iterator[None]:
    """Once the lab's network went with its last node, nobody else answers at its addresses."""

    def route(verb: str) -> None:
        # Any route of the lab itself comes first.
        words = ["ip", "route", verb, "unreachable", network, "metric", "4096"]
        subprocess.run(words, capture_output=True, check=True)

    route("add")
    try:
        yield
    finally:
        route("del")


@contextmanager
def _served(config: Path) -> Iterator[None]:
    process = subprocess.Popen(
        [sys.executable, str(FILE), str(config)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == f"{PORT}\n"
        yield
    finally:
        process.kill()
        process.wait(10)
        process.stdout.close()


@contextmanager
def _in_inventory(lab: LabSite, addresses: dict[str, str], authority: str) -> Iterator[None]:
    hosts = {
        lab.directory / "host_vars" / f"{lab.node(short)}.yml": address
        for short, address in addresses.items()
    }
    secrets = lab.directory / "group_vars/all/vault.yml"
    before = {path: path.read_text() for path in (*hosts, secrets)}
    vault = AnsibleVault(lab.directory / KEPT)
    more = {
        "vault_bmc_user": LOGIN["user"],
        "vault_bmc_password": LOGIN["password"],
        "vault_bmc_ca_certificate": authority,
    }
    try:
        for path, address in hosts.items():
            document = {**yaml.safe_load(before[path]), "bmc_address": address}
            path.write_text(yaml.safe_dump(document))
        secrets.write_text(vault.encrypt(yaml.safe_dump({**vault.read(secrets), **more})))
        yield
    finally:
        for path, text in before.items():
            path.write_text(text)
