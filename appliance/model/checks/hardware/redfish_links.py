"""Which resources of a BMC tell of the hardware, and where they are linked from.

Links are followed as the documents give them: no path of a vendor is guessed (DSP0266).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

Resources = Mapping[str, Mapping[str, Any]]
ROOT: Final = "/redfish/v1"
LONGEST_PATH: Final = 512
# Links of the system, of what it links to, and of the members of collections.
_OF_SYSTEM: Final = (
    *("Processors", "Memory", "EthernetInterfaces", "Storage", "Bios", "SecureBoot"),
    "PCIeDevices",
)


def path_of(link: object) -> str | None:
    """The path in a link; None for one that leads out of the service."""
    path = link.get("@odata.id") if isinstance(link, Mapping) else None
    if not isinstance(path, str) or len(path) > LONGEST_PATH or ".." in path:
        return None
    path = path.partition("#")[0].rstrip("/")
    return path if path.startswith(f"{ROOT}/") and path.isprintable() and " " not in path else None


def part(document: object, *keys: str) -> Mapping[str, Any]:
    """The object at the keys, or an empty one."""
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if isinstance(document, Mapping) else {}


def listed(document: Mapping[str, Any], key: str) -> list[Any]:
    """The list at the key, or an empty one."""
    found = document.get(key)
    return found if isinstance(found, list) else []


def linked(document: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The paths at a key, which holds a link or a list of links."""
    found = document.get(key)
    links = found if isinstance(found, list) else [found]
    return tuple(path for link in links if (path := path_of(link)))


def members(
    resources: Resources, collection: str | None
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The members of a collection that were read, over all of its pages."""
    seen: set[str] = set()
    while collection is not None and collection not in seen:
        seen.add(collection)
        document = resources.get(collection, {})
        for path in linked(document, "Members"):
            if path in resources and path not in seen:
                seen.add(path)
                yield path, resources[path]
        following = document.get("Members@odata.nextLink")
        collection = path_of({"@odata.id": following})


def wanted(resources: Resources, system: str) -> Iterator[str]:
    """The paths that the documents read so far lead to, as far as they tell of the hardware."""
    own = part(resources, system)
    for key in _OF_SYSTEM:
        yield from linked(own, key)
    links = part(own, "Links")
    for key in ("Chassis", "ManagedBy"):
        yield from linked(links, key)
    for chassis in linked(links, "Chassis"):
        yield from linked(part(resources, chassis), "PCIeDevices")
    for path, document in resources.items():
        if path == system or not isinstance(document, Mapping):
            continue
        yield from linked(document, "Members")
        yield from linked({"next": {"@odata.id": document.get("Members@odata.nextLink")}}, "next")
        for key in ("Drives", "Volumes", "Controllers", "PCIeFunctions"):
            yield from linked(document, key)
        yield from linked(part(document, "Links"), "PCIeFunctions")
