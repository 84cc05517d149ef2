"""A report as rows for people: name of a fact, and its value or why it is unknown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel

from appliance.model.checks.hardware.found import Machine

GIB: Final = 1024**3
_HIDDEN: Final = {"schema_", "kind", "source", "unknown", "taken_at"}
_UNITS: Final = {
    "speed_mts": "{} MT/s",
    "rated_mts": "built for {} MT/s",
    "link_width": "x{}",
    "max_link_width": "of x{}",
    "link_gts": "{} GT/s",
    "max_link_gts": "of {} GT/s",
    "speed_mbps": "{} Mb/s",
    "most_mbps": "at most {} Mb/s",
    "wear_percent": "{} % worn",
    "power_on_hours": "{} h of operation",
    "above_4g": "above 4 GiB: {}",
}
_NAMES: Final = ("slot", "address", "name", "socket")
# Parts whose rows have a reason of their own where nothing was read.
_KINDS: Final = {"cpus": "cpu", "dimms": "dimm", "gpus": "gpu", "nics": "nic", "disks": "disk"}


def rows(machine: Machine) -> Iterator[tuple[str, str]]:
    """Every fact in the order of the report; an unknown one begins with ``unknown:``."""
    for part in Machine.model_fields:
        if part in _HIDDEN:
            continue
        value = getattr(machine, part)
        if isinstance(value, BaseModel):
            for field in type(value).model_fields:
                yield f"{part}.{field}", _shown(machine, f"{part}.{field}", getattr(value, field))
        elif isinstance(value, tuple):
            yield from _items(part, value)
        elif isinstance(value, Mapping):
            yield from ((f"{part}.{key}", str(one)) for key, one in value.items())
        else:
            yield part, _shown(machine, part, value)


def _items(part: str, items: tuple[BaseModel, ...]) -> Iterator[tuple[str, str]]:
    if not items:
        yield part, "none"
    for item in items:
        told = item.model_dump(exclude_none=True)
        name = next(str(told.pop(key)) for key in _NAMES if key in told)
        words = [_word(key, value) for key, value in told.items()]
        yield f"{_KINDS.get(part, part)}:{name}", ", ".join(words) or "nothing else told"


def _word(key: str, value: Any) -> str:
    if key == "size_bytes":
        return f"{value / GIB:g} GiB" if value else "empty"
    if key in _UNITS:
        return _UNITS[key].format(_plain(value))
    return f"{key.replace('_', ' ')} {_plain(value)}"


def _shown(machine: Machine, path: str, value: Any) -> str:
    return f"unknown: {machine.why(path)}" if value is None else _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
