"""What an upgrade brings to the nodes, and the space that it takes, as text and as data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from appliance.model.components.base.subject import size
from appliance.model.upgrade.evidence import Silence

if TYPE_CHECKING:
    from appliance.model.upgrade.moves.loads import Load
    from appliance.model.upgrade.points.disks import DiskNeed
    from appliance.workflows.cluster.upgrading.loads import Loads

MOST_NAMED: Final = 3


def load_lines(loads: Loads) -> Iterator[str]:
    """The loads in short lines, nodes with the same ones together."""
    for one in loads.bundles:
        free = "free space not read" if one.free is None else f"{size(one.free)} free"
        yield f"bundle of {one.release} to {one.node}: at most {size(one.most_bytes)}, {free}"
    for release in loads.unknown:
        yield f"what {release} brings: not known without its bundle: --bundle DIR"
    groups: dict[Load, list[str]] = defaultdict(list)
    for name, brought in loads.nodes.items():
        for load in brought:
            groups[load].append(name)
    for load, names in groups.items():
        if words := _brought(load):
            yield f"{load.release} brings to {_named(names)}:"
            yield from (f"   {text}" for text in words)
    yield from _disk_lines(loads)


def loads_as_json(loads: Loads) -> dict[str, Any]:
    """The loads as plain data; the keys are a contract."""
    return {
        "bundles": [asdict(one) for one in loads.bundles],
        "loads": [
            {"node": name, **asdict(load)} for name, found in loads.nodes.items() for load in found
        ],
        "loads_unknown": list(loads.unknown),
        "disks": [one for name, found in loads.disks.items() for one in _disks(name, found)],
    }


def _disks(name: str, found: tuple[DiskNeed, ...] | Silence) -> list[dict[str, Any]]:
    if isinstance(found, Silence):
        return [{"node": name, "unknown": found.reason}]
    return [
        {"node": name, "mount": one.mount, "needed_bytes": one.needed, "free_bytes": one.free}
        for one in found
    ]


def _brought(load: Load) -> list[str]:
    found = []
    if load.images:
        most = f", at most {size(load.most_image_bytes)} unpacked" if load.most_image_bytes else ""
        found.append(f"{_count(len(load.images), 'image')}{most}")
    files = [_count(len(load.programs), "program")] if load.programs else []
    files += [_count(len(load.packages), "package")] if load.packages else []
    if files:
        found.append(f"{' and '.join(files)}, {size(load.file_bytes)} as files")
    return found


def _disk_lines(loads: Loads) -> Iterator[str]:
    groups: dict[tuple[str, int], list[DiskNeed]] = defaultdict(list)
    silent: dict[str, list[str]] = defaultdict(list)
    for name, found in loads.disks.items():
        if isinstance(found, Silence):
            silent[found.reason].append(name)
            continue
        for one in found:
            groups[(one.mount, one.needed)].append(one)
    for (mount, needed), alike in groups.items():
        least = min(alike, key=lambda one: one.free)
        where = f" ({least.node} has least)" if len(alike) > 1 else ""
        yield f"disk of {_named([one.node for one in alike])}: {mount}:"
        yield f"   {size(needed)} needed, {size(least.free)} free{where}"
    for reason, names in silent.items():
        yield f"disk of {_named(names)}: {reason}"


def _named(names: Sequence[str]) -> str:
    """The first of some names, the others counted."""
    if len(names) <= MOST_NAMED:
        return ", ".join(names)
    return f"{', '.join(names[: MOST_NAMED - 1])} and {len(names) - MOST_NAMED + 1} more"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
