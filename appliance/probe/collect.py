"""Run all sections in parallel and build the document."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional

from . import VERSION
from .certificates import certificates
from .machine import hardware, kernel, storage, system
from .network import naming, network
from .services import issuer, shared_storage, supply, timers
from .software import kubernetes, packages, runtime
from .source import Source

SCHEMA = 1

Section = Callable[[Source], Any]
# Sections without input from other sections.
INDEPENDENT: Dict[str, Section] = {
    "host": system.host,
    "os": system.operating_system,
    "hypervisor": system.hypervisor,
    "systemd": system.systemd,
    "dmi": hardware.dmi,
    "cpu": hardware.cpu,
    "memory": hardware.memory,
    "disks": hardware.disks,
    "gpus": hardware.gpus,
    "nvswitches": hardware.nvswitches,
    "filesystems": storage.filesystems,
    "mounts": storage.mounts,
    "routes": network.routes,
    "neighbours": network.neighbours,
    "listening": network.listening,
    "sysctl": kernel.sysctl,
    "sysctl_persisted": kernel.sysctl_persisted,
    "modules": kernel.modules,
    "resolver": naming.resolver,
    "programs": packages.programs,
    "runtime": runtime.runtime,
    "certificates": certificates.certificates,
    "trust": certificates.trust,
    "artifacts": supply.artifacts,
    "issuer": issuer.issuer,
    "registry": supply.registry,
    "runai": supply.vendor_bundle,
    "storage": shared_storage.storage,
}


class Shared:
    """Values that several sections share: units, apt's settings, interfaces."""

    def __init__(self, source: Source) -> None:
        shown = system.show_units(source.of("services"))
        self.units = shown or []
        self.readable = shown is not None
        self.services = system.services(self.units)

    def unit(self, name: str, key: str) -> str:
        """Return one property of one unit, or an empty string."""
        return next((u.get(key, "") for u in self.units if u["Id"] == name), "")

    def active(self, name: str) -> bool:
        """Whether a service runs."""
        return bool(self.services.get(name, {}).get("active") == "active")


def _after_units(source: Source) -> Dict[str, Section]:
    shared = Shared(source)
    return {
        "services": lambda _: shared.services if shared.readable else None,
        "jobs": lambda s: system.jobs(s, shared.units),
        "swap": lambda s: kernel.swap(s, system.swap_units(shared.units)),
        "clock": lambda s: naming.clock(s, shared.services),
        "firewall": lambda s: naming.firewall(s, shared.services),
        "kubernetes": lambda s: kubernetes.kubernetes(s, shared.active("kubelet")),
        "timers": lambda s: timers.timers(s, shared.units),
        "_docker_environment": lambda _: shared.unit("docker.service", "Environment"),
    }


def _after_apt(source: Source) -> Dict[str, Section]:
    settings = packages.apt_config(source.of("packages"))
    return {
        "packages": lambda s: packages.packages(s, settings),
        "_apt": lambda _: settings,
    }


def _after_nics(source: Source) -> Dict[str, Section]:
    own, virtual = network.split(network.interfaces(source.of("nics")))
    return {"nics": lambda _: own, "cni": lambda s: kubernetes.cni(s, virtual)}


GROUPS: Dict[str, Callable[[Source], Dict[str, Section]]] = {
    "services jobs swap clock firewall kubernetes timers": _after_units,
    "packages": _after_apt,
    "nics cni": _after_nics,
}


class Collection:
    """The sections as they arrive, from threads that may run past the deadline."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.values: Dict[str, Any] = {}
        self.threads: List[threading.Thread] = []

    def start(self, target: Callable[..., None], *arguments: Any) -> None:
        """Run in a daemon thread, which does not keep the process alive."""
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def section(self, name: str, section: Section) -> None:
        """Read one section; one that fails is null, with a reason."""
        view = self.source.of(name)
        try:
            self.values[name] = section(view)
        except Exception as error:  # one failing section must not stop the others
            view.unseen("%s: %s" % (type(error).__name__, error), name)
            self.values[name] = None

    def group(self, name: str, prepare: Callable[[Source], Dict[str, Section]]) -> None:
        """Read the shared values, then the sections."""
        try:
            sections = prepare(self.source)
        except Exception as error:  # as above, for the whole group
            for member in name.split():
                view = self.source.of(member)
                view.unseen("%s: %s" % (type(error).__name__, error), member)
                self.values[member] = None
            return
        for member, section in sections.items():
            self.start(self.section, member, section)

    def wait(self) -> None:
        """Wait until every thread has ended, or until the deadline."""
        index = 0
        while index < len(self.threads):
            left = self.source.machine.deadline - time.monotonic()
            if left <= 0:
                return
            self.threads[index].join(left)
            index += 1


def collect(source: Source, *, facts: Optional[Path] = None) -> Dict[str, Any]:
    """Return the whole document."""
    began = time.monotonic()
    network.call_peers(source.of("neighbours"))
    collection = Collection(source)
    for name, prepare in GROUPS.items():
        collection.start(collection.group, name, prepare)
    for name, section in INDEPENDENT.items():
        collection.start(collection.section, name, section)
    collection.wait()
    values = dict(collection.values)
    names = list(INDEPENDENT) + " ".join(GROUPS).split()
    for name in names:
        if name not in values:
            source.of(name).unseen("no answer before the deadline", name)
    proxy_view = source.of("proxy")
    proxy = naming.proxy(
        proxy_view, values.pop("_docker_environment", ""), values.pop("_apt", None) or {}
    )
    document: Dict[str, Any] = {
        "schema": SCHEMA,
        "probe_version": VERSION,
        "taken_at": (values.get("clock") or {}).get("epoch") or round(time.time(), 3),
        "standin": [],
    }
    document.update({name: values.get(name) for name in sorted(names)})
    document["proxy"] = proxy
    if facts is not None:
        merge_facts(document, facts, source.of("facts"))
    document["took_seconds"] = round(time.monotonic() - began, 3)
    document["unseen"] = dict(source.machine.unseen)
    document["unreadable"] = sorted(
        source.machine.unreadable, key=lambda entry: (entry["section"], entry["reason"])
    )
    return document


def merge_facts(document: Dict[str, Any], folder: Path, source: Source) -> None:
    """Replace sections by fact files of their name, and record it."""
    if not folder.is_dir():
        return
    for file in sorted(folder.glob("*.json")):
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            source.note("%s: %s" % (file.name, error))
            continue
        document[file.stem] = _laid_over(document.get(file.stem), facts)
        document["standin"].append(file.stem)


def _laid_over(base: Any, facts: Any) -> Any:
    if not isinstance(base, dict) or not isinstance(facts, dict):
        return facts
    merged = dict(base)
    for key, value in facts.items():
        merged[key] = _laid_over(base.get(key), value)
    return merged
