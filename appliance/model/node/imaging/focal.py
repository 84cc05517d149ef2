"""What Ubuntu 20.04's own installer and netplan want of a seed, each rule with where it was read.

Subiquity's sources are named by the tag of github.com/canonical/subiquity, netplan's by that of
github.com/canonical/netplan. 20.04's first medium had Subiquity 20.04.3, its last one, 20.04.6, an
installer of early 2023. None of them was run here: these rules are all that stands for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from appliance.model.node.imaging.autoinstall import DISK_TO_FIND, NO_PASSWORD

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        name: short, for a test's name.
        says: what must hold, and what happens otherwise.
        source: where it was read.
        holds: whether an autoinstall document keeps it.
    """

    name: str
    says: str
    source: str
    holds: Callable[[Document], bool]


def broken(document: Document) -> tuple[Rule, ...]:
    """The rules that an autoinstall document breaks."""
    return tuple(rule for rule in RULES if not rule.holds(document))


def _values(document: object, key: str) -> Iterator[object]:
    """Every value of a key, at any depth."""
    if isinstance(document, Mapping):
        for name, value in document.items():
            if name == key:
                yield value
            yield from _values(value, key)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _values(value, key)


def _routes(document: Document) -> list[Mapping[str, str]]:
    return [route for routes in _values(document["network"], "routes") for route in _list(routes)]


def _list(value: object) -> list[Mapping[str, str]]:
    return [one for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []


def _no_default_route_without_mirror(document: Document) -> bool:
    has_default = any(route["to"] == "0.0.0.0/0" for route in _routes(document))
    return bool(document["apt"].get("primary")) or not has_default


def _only_known_disk(document: Document) -> bool:
    disks = [one for one in document["storage"]["config"] if one["type"] == "disk"]
    return [one.get("path") for one in disks] == [DISK_TO_FIND] and "layout" not in document[
        "storage"
    ]


def _rest_is_last(document: Document) -> bool:
    sizes = [one["size"] for one in document["storage"]["config"] if one["type"] == "partition"]
    return -1 not in sizes[:-1]


RULES: Final = (
    Rule(
        "version",
        "version is 1: the only one that there is",
        "subiquity 20.04.3, autoinstall reference, version",
        lambda document: document.get("version") == 1,
    ),
    Rule(
        "identity",
        "identity has username, hostname and password, and no other key",
        "subiquity 20.04.3, subiquity/controllers/identity.py, autoinstall_schema",
        lambda document: (
            {"username", "hostname", "password"} <= set(document["identity"])
            and set(document["identity"]) <= {"username", "hostname", "password", "realname"}
        ),
    ),
    Rule(
        "nested network",
        "network stands in an extra key network: the first installer hands it to netplan as it is",
        "autoinstall reference, network: 'because of a bug, the version of Subiquity released "
        "with 20.04 GA forces you to write this with an extra network: key'",
        lambda document: document["network"].get("network", {}).get("version") == 2,
    ),
    Rule(
        "no toggle",
        "keyboard has no toggle of null, which the first installer refuses",
        "autoinstall reference, keyboard: toggle",
        lambda document: "toggle" not in document["keyboard"],
    ),
    Rule(
        "not interactive",
        "no section is interactive: the installer would wait for a person, and report nothing",
        "autoinstall reference, interactive-sections",
        lambda document: "interactive-sections" not in document,
    ),
    Rule(
        "disk by its path",
        "the one disk has a path that no machine has until the early command found it by serial: "
        "serial in an action is udev's ID_SERIAL, with the model in it, and layout without a "
        "match takes the largest disk",
        "subiquity 20.04.3, subiquity/models/filesystem.py, apply_autoinstall_config ('matched no "
        "disk') and controllers/filesystem.py, convert_autoinstall_config",
        _only_known_disk,
    ),
    Rule(
        "early command",
        "an early command finds the disk; the document is read again after it",
        "subiquity 20.04.3, subiquity/core.py, load_autoinstall_config; 23.02.1, "
        "subiquity/server/server.py, start",
        lambda document: any(DISK_TO_FIND in command for command in document["early-commands"]),
    ),
    Rule(
        "rest is last",
        "a partition of size -1 is the last one of its disk",
        "subiquity 20.04.3, subiquity/models/filesystem.py: 'has negative size but is not final'",
        _rest_is_last,
    ),
    Rule(
        "no swap",
        "swap has the size 0: the kubelet does not start with swap on",
        "autoinstall reference, action-based config: swap",
        lambda document: document["storage"]["swap"] == {"size": 0},
    ),
    Rule(
        "no question of the internet",
        "geoip is off, and the installer is not refreshed",
        "subiquity 20.04.3, subiquity/controllers/mirror.py, lookup: geoip.ubuntu.com",
        lambda document: (
            document["apt"].get("geoip") is False
            and document["refresh-installer"] == {"update": False}
        ),
    ),
    Rule(
        "no default route without a mirror",
        "without a mirror the installer has no default route: with one it calls the network good, "
        "and its apt asks the archives of the internet",
        "subiquity 20.04.3, subiquity/controllers/network.py, has_network; models/subiquity.py, "
        "subiquity-configure-apt; apt: fallback came with 23.04.3",
        _no_default_route_without_mirror,
    ),
    Rule(
        "apt: classic list",
        "mirrors stand in primary, not in mirror-selection, which a later installer brought",
        "subiquity 20.04.3, subiquity/models/mirror.py",
        lambda document: "mirror-selection" not in document["apt"],
    ),
    Rule(
        "route to figures",
        "the default route is 0.0.0.0/0: default is a word of netplan 0.104 and later",
        "netplan 0.104, src/parse.c, '# netplan-feature: default-routes'; 0.99 has none",
        lambda document: all(route["to"] != "default" for route in _routes(document)),
    ),
    Rule(
        "no gateway4",
        "gateway4 is not used: netplan 0.104 warns of it",
        "netplan 0.104, src/parse.c, handle_gateway4",
        lambda document: not list(_values(document["network"], "gateway4")),
    ),
    Rule(
        "no password",
        "sshd takes no password, and no password fits the user",
        "subiquity 20.04.3, subiquity/models/subiquity.py: ssh_pwauth, lock-passwd False",
        lambda document: (
            document["ssh"]["allow-pw"] is False and document["identity"]["password"] == NO_PASSWORD
        ),
    ),
    Rule(
        "host keys stay",
        "cloud-init keeps the host keys at the first boot: they were reported to the command",
        "cloud-init, cc_ssh: ssh_deletekeys is true by default; subiquity 20.04.3, user-data is "
        "merged into the installed system's",
        lambda document: document["user-data"].get("ssh_deletekeys") is False,
    ),
    Rule(
        "power off",
        "the machine goes off at the end: the medium is ejected before it starts again. Known "
        "since Subiquity 21.10.3; older ones reboot, into the installer where boot-once stays",
        "subiquity 21.10.3, autoinstall-schema.json, shutdown",
        lambda document: document.get("shutdown") == "poweroff",
    ),
    Rule(
        "kernel flavor",
        "kernel names a flavor. Known since Subiquity 21.06.1; older ones install 5.4 always",
        "subiquity 21.06.1, subiquity/server/controllers/kernel.py",
        lambda document: document["kernel"].get("flavor") in {"generic", "hwe"},
    ),
)
