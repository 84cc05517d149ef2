"""What hosts.yml says: which node is in which groups, and on which line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from appliance.model.site import addresses
from appliance.model.site.files.diagnostics import Document, SiteFault, Where, did_you_mean
from appliance.model.site.groups import GROUPS

# What Ansible takes for something else than a node of ours.
_ANSIBLES = frozenset({"all", "localhost", "ungrouped", *GROUPS})
_RANGE = re.compile(r"\[[0-9a-zA-Z]*:[0-9a-zA-Z]*(:[0-9]+)?\]")


@dataclass(frozen=True)
class Hosts:
    """The hosts of the inventory in the order they are first named.

    Attributes:
        document: the file they stand in.
        groups: node -> its groups.
        places: node -> where it is first named.
        members: group -> its nodes.
    """

    document: Document
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    places: dict[str, Where] = field(default_factory=dict)
    members: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def group_place(self, group: str) -> Where:
        """Where a group stands, or would stand."""
        return ("all", "children", group)


def read_hosts(document: Document) -> tuple[Hosts, tuple[SiteFault, ...]]:
    """Read hosts.yml and refuse whatever is not a node in a group."""
    faults = [
        document.fault(
            (key,),
            f"{key!r} is not allowed beside 'all'",
            "write all groups below all.children",
        )
        for key in document.data
        if key != "all"
    ]
    hosts = Hosts(document)
    children = _children(document, faults)
    for group, body in children.items():
        place: Where = ("all", "children", group)
        if group not in GROUPS:
            faults.append(
                document.fault(
                    place, f"the group {group!r} is unknown", did_you_mean(group, GROUPS)
                )
            )
            continue
        names = _names(document, place, body, faults)
        hosts.members[group] = names
        for name in names:
            hosts.groups[name] = hosts.groups.get(name, frozenset()) | {group}
            hosts.places.setdefault(name, (*place, "hosts", name))
    return hosts, tuple(faults)


def _children(document: Document, faults: list[SiteFault]) -> Mapping[str, Any]:
    if "all" not in document.data:
        if not document.broken:
            faults.append(
                document.fault((), "the group 'all' is missing", "begin with all: children: ...")
            )
        return {}
    everything = document.data["all"]
    if not isinstance(everything, dict):
        faults.append(document.fault(("all",), "'all' is empty", "write children: below it"))
        return {}
    faults.extend(_strays(document, ("all",), everything, "children"))
    children = everything.get("children")
    if isinstance(children, dict) and children:
        return children
    if not any(bad[:2] == ("all", "children") for bad in document.broken):
        faults.append(
            document.fault(
                ("all", "children"),
                "'all.children' is missing or empty",
                f"list the groups below it: {', '.join(GROUPS)}",
            )
        )
    return {}


def _strays(
    document: Document, place: Where, body: Mapping[str, Any], wanted: str
) -> Iterator[SiteFault]:
    remedies = {
        "vars": "settings for all go to group_vars/all/site.yml, for one to host_vars/<node>.yml",
        "hosts": "list each node in a group, all.children.<group>.hosts",
        "children": "groups are not nested; list the nodes themselves below hosts",
    }
    for key in body:
        if key != wanted:
            yield document.fault(
                (*place, key),
                f"{key!r} is not allowed below {place[-1]!r}",
                remedies.get(key, did_you_mean(key, [wanted])),
            )


def _names(document: Document, place: Where, body: Any, faults: list[SiteFault]) -> tuple[str, ...]:
    if body is None:
        return ()
    if not isinstance(body, dict):
        faults.append(
            document.fault(
                place, f"the group {place[-1]!r} is not a mapping", "write hosts: below it"
            )
        )
        return ()
    faults.extend(_strays(document, place, body, "hosts"))
    hosts = body.get("hosts")
    if hosts is None:
        return ()
    if not isinstance(hosts, dict):
        faults.append(
            document.fault(
                (*place, "hosts"),
                f"the hosts of {place[-1]!r} are not a mapping",
                "write each node as a key with an empty value: gpu1: {}",
            )
        )
        return ()
    good = []
    for name, variables in hosts.items():
        here = (*place, "hosts", name)
        fault = _host_fault(document, here, name, variables)
        if fault is not None:
            faults.append(fault)
        if fault is None or addresses.is_label(name):
            good.append(name)
    return tuple(good)


def _host_fault(document: Document, here: Where, name: str, variables: Any) -> SiteFault | None:
    if _RANGE.search(name):
        return document.fault(
            here, f"{name!r} is a range of hosts", "write each node on its own line"
        )
    if not addresses.is_label(name):
        return document.fault(
            here,
            f"{name!r} is not a node name by RFC 1123",
            "write lower-case letters, digits and hyphens, at most 63, without the domain",
        )
    if name in _ANSIBLES:
        return document.fault(
            here,
            f"{name!r} is the name of a group or a reserved name in Ansible",
            "give the node another name, here, on the machine and as host_vars/<node>.yml",
        )
    if variables:
        return document.fault(
            here,
            f"{name!r} has variables in hosts.yml",
            f"write {name}: {{}} here, and move them to host_vars/{name}.yml",
        )
    return None
