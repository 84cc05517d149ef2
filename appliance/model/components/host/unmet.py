"""The step host: kernel settings, swap, names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed

SYSCTLS: Mapping[str, str] = {
    "net.bridge.bridge-nf-call-iptables": "1",
    "net.bridge.bridge-nf-call-ip6tables": "1",
    "net.ipv4.ip_forward": "1",
}
MODULES: tuple[str, ...] = ("br_netfilter", "overlay")


def host(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Kernel settings live and persistent, swap off now and at boot, /etc/hosts complete."""
    facts = observed.node_facts[node.name]
    yield from _sysctls(facts)
    yield from _modules(facts)
    if desired.override("host_base", "swap_managed") is not False:
        if facts.at("swap.active"):
            yield "swap is on"
        if facts.at("swap.fstab"):
            yield "swap is enabled in /etc/fstab and returns at the next boot"
    yield from _absent(facts, desired.host_names_as_lists)


def names_of(
    joining: Collection[Node], node: Node, desired: Desired, observed: Observed
) -> Iterator[str]:
    """/etc/hosts of a member has the names of nodes that join."""
    addresses = {one.ip for one in joining}
    names = {a: n for a, n in desired.host_names_as_lists.items() if a in addresses}
    yield from _absent(observed.node_facts[node.name], names)


def _absent(facts: NodeFacts, wanted: Mapping[str, list[str]]) -> Iterator[str]:
    known = facts.at("resolver.hosts") or {}
    if wanted.items() <= known.items():
        return
    absent = [
        (address, name)
        for address, names in wanted.items()
        if (here := known.get(address, ())) != names
        for name in names
        if name not in here
    ]
    if absent:
        more = f" and {len(absent) - 1} more" if absent[1:] else ""
        yield f"/etc/hosts lacks {absent[0][0]} {absent[0][1]}{more}"


def _sysctls(facts: NodeFacts) -> Iterator[str]:
    live, kept = facts.at("sysctl") or {}, facts.at("sysctl_persisted") or {}
    for key, value in SYSCTLS.items():
        if live.get(key) != value:
            yield f"{key} is {live.get(key, 'absent')}, not {value}"
        elif kept.get(key) != value:
            yield f"{key} is {value} but is not set at boot"


def _modules(facts: NodeFacts) -> Iterator[str]:
    builtin = set(facts.at("modules.builtin") or ())
    loaded = set(facts.at("modules.loaded") or ()) | builtin
    persisted = set(facts.at("modules.persisted") or ()) | builtin
    for module in MODULES:
        if module not in loaded:
            yield f"kernel module {module} is not loaded"
        elif module not in persisted:
            yield f"kernel module {module} is loaded but not at boot"
