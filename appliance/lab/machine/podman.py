"""Reads podman's state and opens a shell; only role lab_node creates or removes lab nodes."""

from __future__ import annotations

import json
import os
from ipaddress import IPv4Network
from itertools import pairwise
from typing import Any

from appliance.adapters.local.processes import find_program, run
from appliance.errors import CommandFailed, LabError
from appliance.lab.layout import RunningNode

LABEL = "appliance-lab"
# podman waits for its lock while others build and remove containers; slowness is not an error.
LOOK_SECONDS = 300.0
# Another command may remove its lab between a list and a look at what is on it.
MOST_LOOKS, GONE = 10, "no such container"


class Podman:
    """The labs on this machine."""

    def nodes(self, lab: str | None = None) -> tuple[RunningNode, ...]:
        """The nodes of one lab, or of all, sorted by name."""
        chosen = f"label={LABEL}={lab}" if lab is not None else f"label={LABEL}"
        nodes = (_container(entry) for entry in self._details(chosen))
        # podman matches any value if the filter is empty: compare here as well.
        mine = (node for node in nodes if lab is None or node.lab == lab)
        return tuple(sorted(mine, key=lambda node: node.name))

    def _details(self, chosen: str) -> list[dict[str, Any]]:
        """What podman knows of each; listed again where one was removed meanwhile.

        Raises:
            CommandFailed: podman does not answer, or lists what it does not know again and again.
        """
        for left in reversed(range(MOST_LOOKS)):
            containers = self._json("ps", "--all", "--filter", chosen, "--format", "json")
            names = [entry["Names"][0] for entry in containers]
            try:
                return self._json("container", "inspect", *names) if names else []
            except CommandFailed as error:
                if not left or not any(GONE in line for line in error.details):
                    raise
        raise AssertionError("the last look returns or raises")

    def subnets(self) -> dict[str, IPv4Network]:
        """The network of each lab that has one."""
        subnets = {}
        for network in self._json("network", "ls", "--format", "json"):
            lab = (network.get("labels") or {}).get(LABEL)
            if lab and network.get("subnets"):
                subnets[lab] = IPv4Network(network["subnets"][0]["subnet"])
        return subnets

    def closed(self) -> frozenset[str]:
        """The labs whose networks have no way out: each one is internal."""
        found: dict[str, bool] = {}
        for network in self._json("network", "ls", "--format", "json"):
            lab = (network.get("labels") or {}).get(LABEL)
            if lab:
                found[lab] = found.get(lab, True) and network.get("internal") is True
        return frozenset(lab for lab, internal in found.items() if internal)

    def names(self) -> tuple[str, ...]:
        """The nodes of all labs; none if podman is not installed."""
        return tuple(node.name for node in self.nodes()) if find_program("podman") else ()

    def shell(self, node: str, command: tuple[str, ...] = ()) -> None:
        """Replace this process by a shell in the node (or by ``command`` there)."""
        program = find_program("podman")
        if program is None:
            raise LabError("podman is not installed: there is no lab", hint="appliance lab up")
        terminal = ["--tty"] if os.isatty(0) else []
        words = [
            *("podman", "exec", "--interactive"),
            *terminal,
            node,
            *(command or ("bash", "-l")),
        ]
        os.execv(program, words)  # noqa: S606 - a word list, never a shell

    def _json(self, *words: str) -> list[dict[str, Any]]:
        done = run(
            ["podman", *words],
            timeout=LOOK_SECONDS,
            hint="see what is wrong with podman: podman info",
        )
        return json.loads(done.stdout or "[]") or []


def _container(entry: dict[str, Any]) -> RunningNode:
    networks = entry.get("NetworkSettings", {}).get("Networks") or {}
    addresses = [network.get("IPAddress") for network in networks.values()]
    # One that does not run has no address, but it was made with one.
    words = entry["Config"].get("CreateCommand") or []
    configured = [word for option, word in pairwise(words) if option == "--ip"]
    return RunningNode(
        name=entry["Name"],
        lab=entry["Config"]["Labels"].get(LABEL, ""),
        state=entry["State"]["Status"],
        address=next((address for address in [*addresses, *configured] if address), ""),
        image=entry.get("ImageName", ""),
    )
