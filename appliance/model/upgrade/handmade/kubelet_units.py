"""The kubelet's two files of systemd, as this tool writes them, and how a node's differ.

Role kubernetes_node writes them with each new kubelet; a test compares its templates with the
settings here. Order and comments mean nothing. A file beside them is left alone, and is not read.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, get_args

from appliance.model.bundle.release.release import Runtime
from appliance.model.upgrade.handmade.settings_diff import Change, differences, shown

UNIT: Final = "kubelet-unit"
DROP_IN: Final = "kubelet-drop-in"
# By the names under which people see their settings.
UNIT_FILES: Final[Mapping[str, str]] = {
    UNIT: "/etc/systemd/system/kubelet.service",
    DROP_IN: "/etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
}
# Ours have less than 1 KiB.
MOST_UNIT_BYTES: Final = 16 << 10
_WRITTEN: Final[Mapping[str, Mapping[str, str]]] = {
    UNIT: {
        "Unit.Description": "kubelet, the node agent of Kubernetes",
        "Unit.Wants": "network-online.target",
        "Unit.ConditionPathExists": "/var/lib/kubelet/config.yaml",
        "Unit.StartLimitIntervalSec": "0",
        "Service.ExecStart": "/usr/local/bin/kubelet",
        "Service.Restart": "always",
        "Service.RestartSec": "5",
        "Install.WantedBy": "multi-user.target",
    },
    DROP_IN: {
        "Service.Environment.KUBELET_KUBECONFIG_ARGS": "--bootstrap-kubeconfig="
        "/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf",
        "Service.Environment.KUBELET_CONFIG_ARGS": "--config=/var/lib/kubelet/config.yaml",
        "Service.EnvironmentFile": "-/var/lib/kubelet/kubeadm-flags.env",
        # The empty one takes that of the unit away.
        "Service.ExecStart": "; /usr/local/bin/kubelet $KUBELET_KUBECONFIG_ARGS"
        " $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS",
    },
}
_AFTER: Final = "Unit.After"
_RUNTIMES: Final[tuple[str, ...]] = get_args(Runtime.model_fields["name"].annotation)
# Settings that are sets of units: several lines add up.
_SETS: Final = ("After", "Before", "Requires", "RequiredBy", "Wants", "WantedBy")
_ENVIRONMENT: Final = "Environment"


def unit_changes(part: str, text: str) -> tuple[Change, ...]:
    """What of a file of the kubelet's unit differs from what this tool writes.

    Args:
        part: one of :data:`UNIT_FILES`.
        text: of the node's file; a node may write anything into it.
    """
    was, will = dict(_settings(text)), dict(_WRITTEN[part])
    if part == UNIT:
        # A change of the runtime writes the other one, and a killed one may not have yet.
        orders = [_words(f"network-online.target {name}.service") for name in _RUNTIMES]
        found = was.get(_AFTER, "")
        will[_AFTER] = found if found in orders else " or ".join(orders)
    return differences(was, will)


def _settings(text: str) -> Iterator[tuple[str, str]]:
    """Section and name of each setting, and its value."""
    found: dict[str, list[str]] = {}
    environment: dict[str, str] = {}
    for section, name, value in _lines(text):
        key = f"{section}.{name}"
        if name == _ENVIRONMENT:
            if not value:
                environment.clear()
            environment |= {f"{key}.{one}": held for one, held in _variables(value)}
        elif name in _SETS and not value:
            found.pop(key, None)
        else:
            found.setdefault(key, []).append(value)
    for key, values in found.items():
        is_set = key.rpartition(".")[2] in _SETS
        yield shown(key), _words(" ".join(values)) if is_set else "; ".join(values)
    yield from ((shown(key), value) for key, value in environment.items())


def _lines(text: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each line; of one that is no setting it is the whole line."""
    section = ""
    for line in _joined(_printable(text).splitlines()):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line:
            name, equals, value = line.partition("=")
            yield section, name.strip(), value.strip() if equals else "a line without ="


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """Lines without comments, and each with those that continue it."""
    held: list[str] = []
    for line in map(str.strip, lines):
        if line.startswith(("#", ";")):
            continue
        held.append(line.removesuffix("\\").strip())
        if not line.endswith("\\"):
            yield " ".join(held)
            held = []
    if held:
        yield " ".join(held)


def _printable(text: str) -> str:
    """A node's text, without what commands a terminal."""
    return "".join(c if c == "\n" or c.isprintable() else " " if c == "\t" else "?" for c in text)


def _variables(value: str) -> Iterator[tuple[str, str]]:
    try:
        words = shlex.split(value)
    except ValueError:
        words = [value]
    for word in words:
        name, _, held = word.partition("=")
        yield name, held


def _words(text: str) -> str:
    return " ".join(sorted(set(text.split())))


def of_unit(name: str) -> bool:
    """Whether a setting's whole name is one of these files'."""
    return name.partition(".")[0] in UNIT_FILES
