"""Nodes for preflight cases: a recorded bare node under three names, and the same as members."""

from __future__ import annotations

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from appliance.model.site.settings import Node
from appliance.probe.collect import collect
from appliance.probe.source import Machine, Request, Source

DATA = Path(__file__).parents[2] / "data"
EPOCH = 1_800_000_000.0


@cache
def _recorded() -> str:
    folder = DATA / "probe" / "bare-debian-12"
    source = Source(Machine(folder / "root", folder / "outputs", Request()), "probe")
    return json.dumps(collect(source))


@cache
def _member() -> str:
    return (DATA / "preflight" / "member.yml").read_text(encoding="utf-8")


def bare(node: Node) -> dict[str, Any]:
    """A freshly imaged machine with this node's name and address."""
    found: dict[str, Any] = json.loads(_recorded())
    last = node.address.ip.packed[-1]
    found["taken_at"] = found["clock"]["epoch"] = EPOCH
    found["host"] |= {
        "hostname": node.name,
        "machine_id": f"{last:032x}",
        "product_uuid": f"00000000-0000-0000-0000-{last:012x}",
    }
    found["dmi"] |= {"vendor": "Example", "product": "Box", "serial": f"SN-{node.name}"}
    gateway = str(next(node.address.network.hosts()))
    found["nics"] = [
        {
            "name": "eth0",
            "mac": f"02:00:00:00:00:{last:02x}",
            "mtu": 1500,
            "speed_mbps": 25000,
            "state": "up",
            "driver": "mlx5_core",
            "kind": None,
            "addresses": [str(node.address)],
        }
    ]
    found["routes"] = {
        "default": {"via": gateway, "dev": "eth0"},
        "list": [
            {"to": "default", "dev": "eth0", "via": gateway, "metric": 0},
            {"to": str(node.address.network), "dev": "eth0", "via": None, "metric": 0},
        ],
    }
    for entry in found["filesystems"]:
        entry |= {"size_bytes": 200 * 1024**3, "free_bytes": 150 * 1024**3}
    return found


def member(node: Node, *, serves: bool) -> dict[str, Any]:
    """The same machine when it is installed and works."""
    found = bare(node)
    parts = yaml.safe_load(_member().replace("@ADDRESS@", node.ip))
    merge(found, parts["every"])
    if "control_plane" in node.groups:
        found["listening"] += parts["listening"]["control_plane"]
        merge(found, parts["control_plane"])
    if serves:
        found["listening"] += parts["listening"]["services"]
        merge(found, parts["services"])
    return found


def merge(base: dict[str, Any], changes: dict[str, Any]) -> None:
    """Lay changes over a document, level by level."""
    for key, value in changes.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            merge(base[key], value)
        else:
            base[key] = copy.deepcopy(value)


def put(document: Any, path: str, value: Any) -> None:
    """Set the value at a path with slashes; figures are positions in lists."""
    *parents, last = path.split("/")
    for key in parents:
        document = document[int(key)] if isinstance(document, list) else document[key]
    if isinstance(document, list):
        document[int(last)] = value
    else:
        document[last] = value
