"""The probe's document of one node at one moment, and which of its fields are stable.

A *stable* field changes only when the node is changed; a *volatile* field also changes without
that. :data:`STABILITY` has the reasons. Equality and digests use stable fields, so that "this node
was not changed" is one comparison. What must not be here: judging a fact (that is
:mod:`appliance.model.checks.preflight`), or reading one (that is the probe).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from appliance.model.state.facts.placeholders import told_serial, told_uuid

SCHEMA = 1


class Stability(NamedTuple):
    """Whether a field counts for equality, and why."""

    stable: bool
    reason: str


def _stable(reason: str) -> Stability:
    return Stability(True, reason)


def _volatile(reason: str) -> Stability:
    return Stability(False, reason)


# The probe's name of the query that a working Docker answers at once: one deadlocked container
# blocks it, as it blocks the kubelet. /info can be slow: it starts runc and docker-init.
DOCKER_LIST = "/run/docker.sock/containers/json"
DOCKER_INFO = "/run/docker.sock/info"

# The ends of the probe's notes about timeouts: of a daemon, a command or a service of this or
# another machine, or a whole section.
LATE = ("timed out", "no answer in time", "no answer before the deadline")

# Path of a field -> its stability; "*" stands for any key or list item; the longest path wins.
STABILITY: Mapping[str, Stability] = {
    "schema": _volatile("the tool's, not the node's"),
    "probe_version": _volatile("the tool's, not the node's"),
    "taken_at": _volatile("time passes"),
    "took_seconds": _volatile("how busy the node was"),
    "standin": _stable("which facts files replaced: changing that changes the facts"),
    "unseen": _volatile("depends on how busy the node was"),
    "unreadable": _volatile("depends on the user and on how busy the node was"),
    "host": _stable("identity"),
    "host.boot_id": _volatile("a reboot changes nothing that is installed"),
    "host.uptime_seconds": _volatile("time passes"),
    "os": _stable("what is installed and booted"),
    "hypervisor": _stable("where the machine runs"),
    "systemd": _volatile("a sum over units, which are listed on their own"),
    "systemd.version": _stable("an installed version"),
    "services": _stable("whether a unit runs and starts at boot is a decision"),
    "services.*.sub": _volatile("passes through start-up states"),
    "services.*.result": _volatile("the past, not the present"),
    "services.apt-daily": _volatile("started by its timer"),
    "services.apt-daily-upgrade": _volatile("started by its timer"),
    "services.containerd.active": _volatile("started when it is needed"),
    "jobs": _volatile("a transient unit ends; its effect shows elsewhere"),
    "timers": _stable("what a timer is told, and whether it waits, is a decision"),
    "timers.*.running": _volatile("started by its timer"),
    "timers.*.last": _volatile("the past, not the present"),
    "timers.*.success": _volatile("the past, not the present"),
    "timers.*.failures": _volatile("the past, not the present"),
    "dmi": _stable("identity of the hardware"),
    "cpu": _stable("hardware"),
    "memory": _stable("hardware"),
    "memory.available_bytes": _volatile("moves with every process"),
    "disks": _stable("hardware"),
    "gpus": _stable("hardware"),
    "gpus.*.uuid": _volatile("known only while the driver answers"),
    "gpus.*.ecc_uncorrected": _volatile("a count of errors"),
    "gpus.*.link_width": _stable("lanes are hardware: fewer of them are a part that is loose"),
    "gpus.*.link_speed": _volatile("an idle GPU saves power by slowing its link"),
    "nvswitches": _stable("hardware"),
    "nics": _stable("hardware and its configuration"),
    "nics.*.state": _volatile("a cable may be pulled"),
    "nics.*.speed_mbps": _volatile("negotiated with the switch"),
    "routes": _stable("network configuration"),
    "routes.list": _volatile("flannel adds and removes a route for every other node"),
    "neighbours": _volatile("the kernel's cache of other machines"),
    "filesystems": _stable("where data goes"),
    "filesystems.*.free_bytes": _volatile("logs grow"),
    "filesystems.*.free_inodes_percent": _volatile("logs grow"),
    "mounts": _volatile("containers mount and unmount; lasting ones show in filesystems"),
    "listening": _volatile("connections and restarts; services shows what should listen"),
    "swap": _stable("a setting that must stay off"),
    "sysctl": _stable("settings in force"),
    "sysctl.net.netfilter.nf_conntrack_max": _volatile("kube-proxy sets it for the machine's size"),
    "sysctl_persisted": _stable("settings that survive a reboot"),
    "modules": _stable("what boot loads"),
    "modules.loaded": _volatile("the kernel loads modules on demand"),
    "clock": _stable("the time service"),
    "clock.epoch": _volatile("time passes"),
    "clock.synchronised": _volatile("updated by the service all the time"),
    "clock.source": _volatile("the service picks the best server"),
    "clock.offset_seconds": _volatile("time passes"),
    "clock.stratum": _volatile("depends on the server picked"),
    "resolver": _stable("names are configuration"),
    "resolver.resolves": _volatile("another machine's answer"),
    "proxy": _stable("configuration"),
    "firewall": _stable("an operator's decision"),
    "firewall.iptables_rules_foreign": _volatile("kube-proxy and Docker come and go with rules"),
    "firewall.foreign_rules": _volatile("kube-proxy and Docker come and go with rules"),
    "firewall.pod_guard": _stable("rules of ours, written once"),
    "firewall.policies": _volatile("Docker and kube-proxy change the policy of FORWARD"),
    "packages": _stable("installed packages and their sources"),
    "programs": _volatile("depends on the tool's version; packages is the record"),
    "packages.manager_lock_held_by": _volatile("a process that ends"),
    "packages.manager_lock_unit": _volatile("of a process that ends"),
    "packages.broken": _stable("half-installed packages stay until they are repaired"),
    "runtime": _stable("versions, settings and images"),
    "runtime.docker.images": _volatile("the kubelet pulls and removes images"),
    "runtime.docker.foreign_running": _volatile("containers start and end"),
    "runtime.docker.images_only_here": _volatile(
        "told on a node that does not use Docker any more"
    ),
    "runtime.docker.data_bytes": _volatile("told on a node that does not use Docker any more"),
    "runtime.docker.data_containers": _volatile("pods come and go"),
    "runtime.containerd.namespaces": _volatile("containers come and go"),
    "runtime.containerd.containers_of_pods": _volatile("pods come and go"),
    "runtime.docker.containers_running": _volatile("pods come and go"),
    "runtime.docker.containers_of_pods": _volatile("pods come and go"),
    "runtime.docker.containers_foreign": _stable("containers that Kubernetes did not start"),
    "kubernetes": _stable("membership, certificates and configuration"),
    "kubernetes.api_healthz": _volatile("an answer of this moment"),
    "kubernetes.etcd_data": _stable("whether the cluster's data is here"),
    "kubernetes.etcd_data.bytes": _volatile("etcd writes all the time"),
    "cni": _stable("the pod network's files"),
    "cni.interfaces": _volatile("made when the first pod starts; flannel.1 changes its MAC"),
    "cni.leftovers": _volatile("filled and emptied with pods"),
    "certificates": _stable("identity and validity"),
    "trust": _stable("trusted CAs and their validity"),
    "issuer": _volatile("an answer of this moment, of another machine"),
    "artifacts": _stable("which bundle is stored"),
    "artifacts.serving": _volatile("an answer of this moment, of the services host"),
    "storage": _stable("the shared storage, and whether this node has tested it"),
    "storage.export": _volatile("an answer of this moment, of the NFS server"),
    "storage.local.empty": _volatile("its content comes and goes"),
    "storage.local.free_bytes": _volatile("its content grows"),
    "storage.proof.fsync_ms": _volatile("how busy the server was"),
    "runai": _stable("which vendor bundle is unpacked, for which registry; the certificate"),
    "runai.held_bytes": _volatile("received parts of a bundle, until it is unpacked"),
    "registry": _stable("which images are stored"),
    "registry.serving": _volatile("an answer of this moment, of the services host"),
    "registry.writing": _volatile("an answer of this moment, of the services host"),
}


@dataclass(frozen=True)
class NodeFacts:
    """One probe document.

    Attributes:
        received_at: the control host's clock (UTC epoch) when the document arrived, if known.
    """

    document: Mapping[str, Any]
    received_at: float | None = None

    def __post_init__(self) -> None:
        schema = self.document.get("schema") if isinstance(self.document, Mapping) else None
        if schema != SCHEMA:
            raise ValueError(f"not a document of schema {SCHEMA}: its schema is {schema!r}")

    def at(self, path: str) -> Any:
        """Return the value at a dotted path; None where any part of the path is absent.

        For keys that contain dots (``sysctl``, ``registry.images``), get the mapping that contains
        them.
        """
        self._ask(path)
        value: Any = self.document
        for key in path.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(key)
        return value

    def _ask(self, path: str) -> None:
        """Record an unknown fact for the active watch."""
        watch, unseen = _WATCH.get(), self.document.get("unseen")
        if watch is None or not unseen:
            return
        for known, why in unseen.items():
            # One field of each list entry: the list itself was seen.
            if "*" in known:
                continue
            if f"{path}.".startswith(f"{known}.") or f"{known}.".startswith(f"{path}."):
                watch.append(UnseenFact(self, known, str(why)))

    def items(self, path: str) -> list[dict[str, Any]]:
        """Return the list of mappings at a path; empty when it is absent."""
        return [item for item in self.at(path) or () if isinstance(item, dict)]

    def unit(self, name: str) -> Mapping[str, Any]:
        """Return the state of a systemd service, empty when the node does not have it."""
        found: Mapping[str, Any] = (self.at("services") or {}).get(name) or {}
        return found

    def runs(self, name: str) -> bool:
        """Return whether a service is active."""
        return self.unit(name).get("active") == "active"

    @property
    def hostname(self) -> str | None:
        """The node's hostname."""
        return self.at("host.hostname")  # type: ignore[no-any-return]

    @property
    def operating_system(self) -> str:
        """``<id>-<version>`` in the form of a release, e.g. ``debian-12``."""
        return f"{self.at('os.id')}-{self.at('os.version_id')}"

    @property
    def serial(self) -> str | None:
        """The machine's DMI serial, the main identifier of its passport; None for a placeholder."""
        return told_serial(self.at("dmi.serial"))

    @property
    def product_uuid(self) -> str | None:
        """The machine's UUID; None for a placeholder."""
        return told_uuid(self.at("host.product_uuid"))

    @property
    def epoch(self) -> float | None:
        """The node's clock when the facts were read."""
        value = self.at("clock.epoch")
        return float(value) if value is not None else None

    @property
    def addresses(self) -> tuple[str, ...]:
        """Every IPv4 address with its prefix on the node's own interfaces."""
        found = (address for nic in self.items("nics") for address in nic.get("addresses") or ())
        return tuple(address for address in found if ":" not in address)

    @property
    def standins(self) -> tuple[str, ...]:
        """Sections that fact files replaced."""
        return tuple(self.at("standin") or ())

    def filesystem(self, folder: str) -> Mapping[str, Any]:
        """Return the file system of a folder, empty when it was not checked."""
        return next((fs for fs in self.items("filesystems") if folder in fs.get("for", ())), {})

    def unreadable(self, section: str) -> tuple[str, ...]:
        """Why parts of a section could not be read."""
        return tuple(
            str(entry.get("reason"))
            for entry in self.items("unreadable")
            if entry.get("section") == section
        )

    @property
    def docker_silence(self) -> str:
        """Why a running Docker did not list its containers, empty if it did (or does not run)."""
        return next((why for why in self.docker_late if why.startswith(DOCKER_LIST)), "")

    @property
    def docker_late(self) -> tuple[str, ...]:
        """The queries that a running Docker did not answer in time."""
        return tuple(why for why in self.unreadable("runtime") if why.endswith("timed out"))

    @property
    def kubernetes_untold(self) -> bool:
        """Whether the probe timed out before it read the kubeadm state."""
        return self.document.get("kubernetes") is None

    @property
    def docker_untold(self) -> bool:
        """Whether a working Docker did not report its version in time; a hanging one is silent."""
        asked = any(why.startswith(DOCKER_INFO) for why in self.docker_late)
        return asked and not self.docker_silence

    @property
    def late(self) -> tuple[str, ...]:
        """What did not answer in time, in all sections; a later probe may get an answer."""
        reasons = (str(entry.get("reason")) for entry in self.items("unreadable"))
        return tuple(why for why in reasons if why.endswith(LATE))


class UnseenFact(NamedTuple):
    """A requested fact that is unknown: neither present nor absent."""

    facts: NodeFacts
    path: str
    why: str


_WATCH: ContextVar[list[UnseenFact] | None] = ContextVar("watch", default=None)


@contextmanager
def watching() -> Iterator[list[UnseenFact]]:
    """Collect the unknown facts requested in the block: results based on them are guesses."""
    found: list[UnseenFact] = []
    token = _WATCH.set(found)
    try:
        yield found
    finally:
        _WATCH.reset(token)


def stability(path: tuple[str, ...]) -> Stability | None:
    """Return the most specific entry of the table for a field."""
    return _lookup(path)


@cache
def _lookup(path: tuple[str, ...]) -> Stability | None:
    for length in range(len(path), 0, -1):
        for pattern in _patterns(path[:length]):
            if pattern in STABILITY:
                return STABILITY[pattern]
    return None


def _patterns(path: tuple[str, ...]) -> Iterator[str]:
    """Yield the path itself, and with one step replaced by "*"."""
    yield ".".join(path)
    for index in range(1, len(path)):
        yield ".".join((*path[:index], "*", *path[index + 1 :]))


def stable_fields(facts: NodeFacts) -> dict[str, Any]:
    """Return the document without its volatile fields; an unknown field counts as stable."""
    kept = _kept(facts.document, ())
    assert isinstance(kept, dict)  # noqa: S101  (for the type checker: the document is a mapping)
    return kept


class _Dropped:
    """Marks a field that is left out."""


def _kept(value: Any, path: tuple[str, ...]) -> Any:
    if _is_whole(path):
        return value if _is_stable(path) else _Dropped()
    if isinstance(value, Mapping):
        pairs = ((key, _kept(item, (*path, str(key)))) for key, item in value.items())
        kept = {key: item for key, item in pairs if not isinstance(item, _Dropped)}
        return kept if kept or not path or _is_stable(path) else _Dropped()
    if isinstance(value, list):
        if not _is_stable(path):
            return _Dropped()
        return [
            item
            for item in (_kept(item, (*path, "*")) for item in value)
            if not isinstance(item, _Dropped)
        ]
    return value if _is_stable(path) else _Dropped()


@cache
def _is_whole(path: tuple[str, ...]) -> bool:
    """Whether the table says nothing about single fields below a field."""
    below = tuple(f"{pattern}." for pattern in _patterns(path))
    return bool(path) and not any(known.startswith(below) for known in STABILITY)


def _is_stable(path: tuple[str, ...]) -> bool:
    found = stability(path)
    return found is None or found.stable


def facts_digest(facts: NodeFacts) -> str:
    """Return the SHA-256 over the canonical JSON of the stable fields, hex."""
    text = json.dumps(stable_fields(facts), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def differences(one: NodeFacts, other: NodeFacts) -> tuple[str, ...]:
    """Return the stable fields in which two documents differ, as "path: before -> after"."""
    return tuple(_differ(stable_fields(one), stable_fields(other), ""))


def _differ(one: Any, other: Any, path: str) -> Iterator[str]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted(one.keys() | other.keys()):
            yield from _differ(one.get(key), other.get(key), f"{path}.{key}" if path else key)
    elif one != other:
        yield f"{path}: {_short(one)} -> {_short(other)}"


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else text[:117] + "..."
