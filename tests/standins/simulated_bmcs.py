"""BMCs of the stand-in, in this process: what a test says goes wrong, goes wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from appliance.lab.machine.bmc_certificate import write_certificate
from appliance.model.site.settings import Node
from tests import samples
from tests.standins.loading import load

FOLDER = Path(__file__).parents[2] / "appliance/lab/standins/bmc_standin"
FILE = FOLDER / "bmc_standin.py"
LOGIN = {"user": "operator", "password": "canary-of-the-bmc"}
ADDRESS = "127.0.0.1"
SYSTEM = "/redfish/v1/Systems/Self"
MEDIUM = "/redfish/v1/Managers/Self/VirtualMedia/CD1"
# The machine of node w1, as the samples' passports know it.
SERIAL = {SYSTEM: {"SerialNumber": "SN-w1", "UUID": None}}

bmc_machine = load(FOLDER, "bmc_machine")
bmc_standin = load(FOLDER, "bmc_standin")

RECORDINGS = Path(__file__).parents[1] / "data/redfish"
# Every fixture: what the stand-in brings, and what was recorded of other BMCs.
TREES = sorted((*bmc_standin.TREES.glob("*.json"), *RECORDINGS.glob("*.json")))


def certificate(folder: Path, address: str = ADDRESS) -> str:
    """A self-signed certificate for the address, as BMCs bring one."""
    return write_certificate(folder, "bmc", IPv4Address(address))


def configured(**more: Any) -> dict[str, Any]:
    """The part of a configuration for one BMC, of node w1 where nothing else is said."""
    base = {"address": ADDRESS, "port": 0, "tree": "generic.json", "changes": SERIAL, **LOGIN}
    return {**base, **more}


def configuration(*bmcs: Mapping[str, Any]) -> dict[str, Any]:
    """A whole configuration, with the files that :func:`certificate` writes."""
    return {"certificate": "bmc.crt", "key": "bmc.key", "bmcs": list(bmcs)}


@contextmanager
def simulated(folder: Path, *bmcs: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
    """Servers of BMCs in threads of this process; their certificate is in ``folder``."""
    if not (folder / "bmc.crt").exists():
        certificate(folder)
    servers = bmc_standin.serve(configuration(*bmcs), folder)
    try:
        yield servers
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
            server.bmc.machine.close()


def secrets(folder: Path, **changes: str) -> dict[str, str]:
    """What the vault knows of such BMCs."""
    return {
        "vault_bmc_user": LOGIN["user"],
        "vault_bmc_password": LOGIN["password"],
        "vault_bmc_ca_certificate": (folder / "bmc.crt").read_text(),
        **changes,
    }


def node(name: str = "w1", **changes: Any) -> Node:
    """A node with a BMC in the inventory."""
    return replace(samples.site().node(name), bmc_address=IPv4Address(ADDRESS), **changes)


def own_system(document: Any) -> str:
    """The path of the one system that can be switched."""
    (found,) = [
        path
        for path, resource in document["resources"].items()
        if re.fullmatch(r"/redfish/v1/Systems/[^/]+", path)
        and "#ComputerSystem.Reset" in resource.get("Actions", {})
    ]
    return str(found)
