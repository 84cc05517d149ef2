"""The BMCs of a lab's nodes, all stand-ins: their addresses, and what their program is told.

What must not be here: starting that program (:mod:`appliance.lab.machine.bmcs`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final

from appliance.lab.layout import BMC_OFFSET, Lab, node_facts
from appliance.model.node.bmc.report import Login

PORT: Final = 443
USER: Final = "operator"
# So long after the last container of its lab the program ends, whatever removed the containers.
UNUSED_SECONDS: Final = 60.0
_SYSTEM: Final = "/redfish/v1/Systems/Self"
# A container has no restart of its own that its BMC could order.
_RESETS: Final = ("On", "ForceOff", "GracefulShutdown", "ForceRestart", "PowerCycle")
# With which systemd in a container stops (its page SIGNALS), as podman stops a node of a lab.
_POWER_BUTTON: Final = "--signal=RTMIN+3"


@dataclass(frozen=True)
class LabBmc:
    """The BMC of one node."""

    node: str
    address: IPv4Address


@dataclass(frozen=True)
class LabBmcsState:
    """The BMCs of one lab on this machine.

    Attributes:
        lab: its name.
        pid: the process that serves them; None: it ended.
        addresses: node -> the address of its BMC.
    """

    lab: str
    pid: int | None
    addresses: Mapping[str, str]


def plan_bmcs(lab: Lab) -> tuple[LabBmc, ...]:
    """A BMC for each node, in the lab's own network."""
    return tuple(LabBmc(node.name, node.address + BMC_OFFSET) for node in lab.nodes)


@dataclass(frozen=True)
class LabBmcProgram:
    """Where and how ``bmc_standin.py`` serves the BMCs of one lab.

    Attributes:
        podman: the path of the program whose containers are the machines.
        files: the folder with NODE.crt and NODE.key.
        needed: a command that prints something while the lab has a container.
        end: commands that the program runs last.
        port: of every BMC.
    """

    podman: str
    files: str
    needed: tuple[str, ...]
    end: tuple[tuple[str, ...], ...] = ()
    port: int = PORT


def configuration(
    bmcs: Sequence[LabBmc], logins: Mapping[str, Login], program: LabBmcProgram
) -> dict[str, Any]:
    """What ``bmc_standin.py`` is told.

    Args:
        bmcs: whose.
        logins: node -> who is let in.
        program: where and how it serves them.
    """
    podman, files = program.podman, program.files
    return {
        "bmcs": [
            {
                "node": bmc.node,
                "address": str(bmc.address),
                "port": program.port,
                "user": logins[bmc.node].user,
                "password": logins[bmc.node].password,
                "certificate": f"{files}/{bmc.node}.crt",
                "key": f"{files}/{bmc.node}.key",
                "tree": "generic.json",
                "changes": {_SYSTEM: _system(bmc.node)},
                "power": f"{podman} container inspect {bmc.node} --format {{{{.State.Running}}}}",
                "on": [podman, "start", bmc.node],
                # It returns when the container is gone, which "kill" does not.
                "off": [podman, "stop", "--time=0", bmc.node],
                "shutdown": [podman, "kill", _POWER_BUTTON, bmc.node],
            }
            for bmc in bmcs
        ],
        "needed": {"command": list(program.needed), "seconds": UNUSED_SECONDS},
        "end": [list(words) for words in program.end],
    }


def _system(node: str) -> dict[str, Any]:
    """What the tree says of this machine: its serial number is that of the node's facts."""
    reset = {
        "target": f"{_SYSTEM}/Actions/ComputerSystem.Reset",
        "ResetType@Redfish.AllowableValues": list(_RESETS),
    }
    return {
        "SerialNumber": node_facts(node)["dmi"]["serial"],
        "UUID": None,
        "Actions": {"#ComputerSystem.Reset": reset},
    }


def address_commands(
    network: str, addresses: Sequence[str], *, take: bool
) -> tuple[tuple[str, ...], ...]:
    """Commands that give this machine the addresses of BMCs, or take them back.

    While no node of the lab runs, podman has no bridge for its network: then nobody else may
    answer at an address of a node. Any route of the lab itself comes before this one.
    """
    address, route = ("replace", "replace") if take else ("del", "del")
    return (
        *(("ip", "address", address, f"{one}/32", "dev", "lo") for one in addresses),
        ("ip", "route", route, "unreachable", network, "metric", "4096"),
    )
