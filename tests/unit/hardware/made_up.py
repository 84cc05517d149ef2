"""Machines that were made up as data: one that is as it should be, and changes to it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.local.hardware_models import load_gpus, load_hardware
from appliance.model.checks.hardware.expected import Expectation
from appliance.model.checks.hardware.found import Machine, check_machine
from appliance.model.state.facts.hardware_models import HardwareModel

DATA = Path(__file__).parents[2] / "data" / "hardware"
MODEL = "acme/x1"
_NAMES = ("slot", "address", "name", "socket")


@cache
def _model() -> HardwareModel:
    return load_hardware(DATA / "models")[MODEL]


def expectation(
    *,
    etcd: bool = True,
    gpus: bool = True,
    ordered: int | None = None,
    change: Mapping[str, Any] | None = None,
) -> Expectation:
    """What a machine of the made-up model is compared with; changes of its file: path -> value."""
    told = _model().model_dump(mode="json")
    for path, value in (change or {}).items():
        part, _, key = path.partition(".")
        told[part][key] = value
    model = HardwareModel.model_validate(told)
    return Expectation(
        MODEL, model, load_gpus(), carries_etcd=etcd, carries_gpus=gpus, gpus_ordered=ordered
    )


def document(change: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The machine that is as it should be, with changes: path -> value."""
    found: dict[str, Any] = copy.deepcopy(_as_it_should_be())
    for path, value in (change or {}).items():
        for gone in value if path == "gone" else ():
            part, _, name = gone.partition(".")
            found[part].remove(_item(found[part], name))
        if path != "gone":
            _set(found, path, value)
    return found


@cache
def _as_it_should_be() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((DATA / "machine.yml").read_text(encoding="utf-8"))
    return found


def machine(change: Mapping[str, Any] | None = None) -> Machine:
    """The same, read."""
    return check_machine(document(change))


def side(role: str = "connect", **change: Any) -> dict[str, Any]:
    """One side's report of a stream over a link of 25 Gb/s that is as it should be."""
    told = {"schema": 1, "kind": "stream", "role": role, "reason": None, "interface": "ens1f0",
            "speed_mbps": 25000, "sent_bytes": 4 << 30, "sent_seconds": 2.0,
            "received_bytes": 4 << 30, "retransmitted": 0, "segments": 2_966_000, "errors": 0,
            "dropped": 0, "firewall": []}  # fmt: skip
    return {**told, **change}


def _set(found: dict[str, Any], path: str, value: Any) -> None:
    part, _, rest = path.partition(".")
    if not rest:
        found[part] = value
    elif isinstance(found[part], dict):
        found[part][rest] = value
    else:
        names = [name for item in found[part] for key in _NAMES if (name := item.get(key))]
        name = next(name for name in names if rest == name or rest.startswith(f"{name}."))
        item = _item(found[part], name)
        if rest == name:
            item.clear()
            item.update(value)
        else:
            item[rest.removeprefix(f"{name}.")] = value


def _item(items: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(item for item in items if name in (item.get(key) for key in _NAMES))
