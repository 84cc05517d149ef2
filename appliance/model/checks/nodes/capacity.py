"""Is this the expected hardware, with enough processors, memory and disk?"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.components.base.subject import Subject, size
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.state.facts.hardware_models import below_minimum, match
from appliance.model.state.findings import Finding

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest

GIB = 1024**3
# kubeadm refuses a control plane below this.
CONTROL_PLANE_CPUS = 2
CONTROL_PLANE_BYTES = 1700 * 1024**2
MEMBER_BYTES = GIB
# Used without a bundle: the size of a bundle of this release line.
BUNDLE_BYTES = int(1.5 * GIB)
IMAGE_BYTES = int(0.7 * GIB)
MARGIN_BYTES = GIB // 2
# Below these shares of free space the kubelet evicts pods, by its defaults.
EVICTION_PERCENT = 15
INODES_PERCENT = 5


def hardware(subject: Subject) -> Iterator[Finding]:
    """The machine is the model named in host_vars."""
    model = subject.models.get(subject.node.hardware or "")
    if model is None:
        return
    for found in match(model, subject.facts):
        yield Finding(
            subject.node.name,
            f"hardware_{found.check}",
            found.severity,
            found.seen,
            found.expected,
            f"appliance hardware show {subject.node.hardware}; if it is another model, correct "
            f"hardware in host_vars/{subject.node.name}.yml",
        )


def role_minima(subject: Subject) -> Iterator[Finding]:
    """The machine has the hardware for its roles, beyond the installer's own minimum."""
    model = subject.models.get(subject.node.hardware or "")
    if model is not None and model.standin:
        return
    for group in sorted(subject.node.groups - {CONTROL_PLANE}):
        minimum = subject.minima.get(group)
        for found in below_minimum(group, minimum, subject.facts) if minimum else ():
            yield Finding(
                subject.node.name,
                f"minimum_{found.check}",
                found.severity,
                found.seen,
                found.expected,
                f"use a larger machine, or remove {subject.node.name} from {group} in hosts.yml",
            )


def cpus(subject: Subject) -> Iterator[Finding]:
    """Enough processors for the control plane."""
    seen = subject.facts.at("cpu.threads") or 0
    if subject.in_control_plane and seen < CONTROL_PLANE_CPUS:
        yield subject.error(
            "cpus",
            f"{seen} CPU",
            f"at least {CONTROL_PLANE_CPUS} for a control-plane node",
            subject.ssh("lscpu"),
        )


def memory(subject: Subject) -> Iterator[Finding]:
    """Enough memory for the node's role."""
    seen = subject.facts.at("memory.total_bytes") or 0
    wanted = CONTROL_PLANE_BYTES if subject.in_control_plane else MEMBER_BYTES
    if subject.node.in_cluster and seen < wanted:
        yield subject.error(
            "memory",
            f"{size(seen)} of memory",
            f"at least {size(wanted)}",
            subject.ssh("sudo dmidecode -t 17"),
        )


def disk(subject: Subject) -> Iterator[Finding]:
    """Every file system that the install writes to has enough space."""
    needs: dict[str, int] = defaultdict(int)
    reasons: dict[str, list[str]] = defaultdict(list)
    for folder, wanted, reason in _needs(subject):
        mount = str(subject.facts.filesystem(folder).get("mount", ""))
        if mount and wanted:
            needs[mount] += wanted
            reasons[mount].append(f"{size(wanted)} for {reason}")
    for mount, wanted in needs.items():
        found = next(fs for fs in subject.facts.items("filesystems") if fs["mount"] == mount)
        if found["free_bytes"] < wanted + MARGIN_BYTES:
            yield subject.error(
                "disk",
                f"{size(found['free_bytes'])} free on {mount} ({found['device']}, "
                f"{size(found['size_bytes'])})",
                f"{size(wanted + MARGIN_BYTES)}: {', '.join(reasons[mount])}, and a margin",
                "see what fills it: " + subject.ssh(f"sudo du -xhd2 {shlex.quote(str(mount))}"),
            )


def _needs(subject: Subject) -> Iterator[tuple[str, int, str]]:
    """Yield (folder, bytes, purpose) of everything that is not on the node yet."""
    manifest, facts = subject.desired.manifest, subject.facts
    images = _image_bytes(manifest)
    if subject.serves:
        held = facts.at("artifacts.bundle_digest")
        if held is None or held != (subject.desired.bundle_digest or held):
            yield "/var/lib/appliance", _bundle_bytes(manifest), "the bundle"
        if not facts.at("registry.images"):
            yield "/var/lib/docker-registry", images, "the registry"
    if subject.node.in_cluster and not _has_images(subject):
        yield subject.desired.release.runtime.store, 2 * images, "images, unpacked"


def _has_images(subject: Subject) -> bool:
    """Whether the runtime holds the release's images already, as far as a probe can tell."""
    if subject.desired.release.runtime.name == "docker":
        return bool(subject.facts.at("runtime.docker.images"))
    return bool(subject.facts.at("runtime.containerd.containers_of_pods"))


def _bundle_bytes(manifest: BundleManifest | None) -> int:
    return sum(file.size for file in manifest.files) if manifest else BUNDLE_BYTES


def _image_bytes(manifest: BundleManifest | None) -> int:
    if manifest is None:
        return IMAGE_BYTES
    return sum(file.size for file in manifest.files if file.path.startswith("images/"))


def nearly_full(subject: Subject) -> Iterator[Finding]:
    """The kubelet evicts pods from a node whose disk is nearly full."""
    if not subject.node.in_cluster or subject.site.settings.kubernetes.kubelet.get("evictionHard"):
        return
    for folder in ("/var/lib/kubelet", subject.desired.release.runtime.store):
        found = subject.facts.filesystem(folder)
        total = found.get("size_bytes") or 0
        percent = 100 * found.get("free_bytes", 0) / total if total else 100.0
        if percent < EVICTION_PERCENT:
            yield subject.warning(
                "nearly_full",
                f"{percent:.0f} % free for {folder} ({found['mount']})",
                f"more than {EVICTION_PERCENT} %, below which the kubelet evicts pods",
                "see what fills it: "
                + subject.ssh(f"sudo du -xhd2 {shlex.quote(str(found['mount']))}"),
            )
            return


def inodes(subject: Subject) -> Iterator[Finding]:
    """Images are many small files."""
    for found in subject.facts.items("filesystems"):
        if found.get("free_inodes_percent", 100) < INODES_PERCENT:
            yield subject.error(
                "inodes",
                f"{found['free_inodes_percent']} % of the inodes free on {found['mount']}",
                f"at least {INODES_PERCENT} %",
                subject.ssh(f"df -i {shlex.quote(str(found['mount']))}"),
            )


def read_only(subject: Subject) -> Iterator[Finding]:
    """No file system is read-only: the kernel remounts it so after disk errors."""
    for found in subject.facts.items("filesystems"):
        if found.get("read_only") and found["for"] != ["/boot"]:
            yield subject.error(
                "read_only",
                f"{found['mount']} ({found['device']}) mounted read-only",
                "a writable file system",
                subject.ssh("sudo dmesg --level=err"),
            )
