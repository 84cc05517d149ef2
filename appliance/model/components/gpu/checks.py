"""Can the GPUs be set up? The bundle's contents, PCI devices, and the host's own driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from appliance.model.components.base.subject import Subject
from appliance.model.components.gpu.driver import (
    CONTAINER_PARTS,
    DRIVER,
    STANDIN,
    absent_driver,
    absent_parts,
    bundled_driver,
    fabric_manager,
    has_nvswitches,
    host_driver,
    image_driver,
    kernels_of,
)
from appliance.model.components.gpu.in_turn import is_unfinished
from appliance.model.components.gpu.operator import (
    NAMESPACE,
    RELEASE,
    RUNAI,
    absent_images,
    brings,
    chart_of,
    discovery_hint,
    gpu_nodes,
    gpus_on_pci,
    refusal_of,
    refused_operators,
)
from appliance.model.site.fields import is_kernel
from appliance.model.site.runai_settings import Gpu
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.findings import Finding

if TYPE_CHECKING:
    from appliance.model.state.desired import Desired


def _asked(subject: Subject) -> Gpu | None:
    """Return the site's GPU settings for a GPU worker that the operator serves, else None."""
    return subject.site.settings.gpu if subject.node in gpu_nodes(subject.site) else None


def gpu_operator(desired: Desired) -> Iterator[Finding]:
    """A release contains one version of the operator."""
    wanted = desired.site.settings.gpu
    if wanted is None or not wanted.operator:
        return
    release = desired.release
    own = release.versions.gpu_operator
    if wanted.operator.removeprefix("v") != own:
        yield Finding(
            desired.site.control_plane[0].name,
            "gpu_operator",
            "error",
            f"GPU Operator {wanted.operator} in site.yml",
            f"{own or 'none'}, which release {release.name} was tested with",
            "remove gpu.operator from site.yml, or choose another release",
            of_site=True,
        )


def gpu_operator_there(subject: Subject) -> Iterator[Finding]:
    """No GPU Operator of a version that Run:ai refuses; with ``runai:``, health checks this."""
    settings, first = subject.site.settings, subject.site.control_plane[0]
    if settings.gpu is None or settings.runai is not None or subject.node != first:
        return
    for operator in refused_operators(subject.observed.cluster):
        yield subject.error("gpu_operator_there", *refusal_of(operator))


def gpu_operator_upgrade(subject: Subject) -> Iterator[Finding]:
    """An install does not upgrade an operator: that is done with each node emptied in its turn."""
    cluster, manifest = subject.observed.cluster, subject.desired.manifest
    chart = chart_of(manifest) if manifest else None
    first = subject.site.control_plane[0]
    if subject.site.settings.gpu is None or chart is None or subject.node != first:
        return
    stack = getattr(cluster, "gpu_stack", None)
    release = cluster.release(NAMESPACE, RELEASE) if isinstance(cluster, Cluster) else None
    running = stack.version if stack else None
    wanted = chart.version.removeprefix("v")
    if release is None:
        return
    seen = ""
    if release.chart_sha256 == chart.sha256 and is_unfinished(
        subject.desired, release.values_sha256
    ):
        seen = "operands that wait for empty nodes: an upgrade of the GPU stack that did not end"
    elif release.chart_sha256 not in (None, chart.sha256) and running not in (None, wanted):
        seen = f"GPU Operator {running}"
    if seen:
        error = subject.error(
            "gpu_operator_upgrade",
            seen,
            f"GPU Operator {wanted} of the bundle; an install does not upgrade it",
            "to upgrade it: appliance gpu upgrade",
        )
        yield replace(error, step="gpu")


def gpu_bundle(desired: Desired) -> Iterator[Finding]:
    """The bundle holds the operator's chart and every operand's image."""
    wanted, manifest = desired.site.settings.gpu, desired.manifest
    if wanted is None or manifest is None:
        return
    absent = [] if chart_of(manifest) else ["the chart"]
    absent += absent_images(manifest, wanted.driver)
    if wanted.driver == "host" and gpu_nodes(desired.site):
        absent += absent_driver(manifest)
    if absent:
        yield Finding(
            desired.site.services_node.name,
            "gpu_bundle",
            "error",
            f"a bundle without {', '.join(absent)}",
            "the GPU Operator's chart and images, and the driver where gpu.driver is host",
            "put NVIDIA's chart and its .sha256 into FOLDER, then build the bundle again: "
            f"appliance bundle build --release {manifest.release} --os {manifest.os} "
            "--files FOLDER BUNDLE",
            of_site=True,
        )


def gpu_on_pci(subject: Subject) -> Iterator[Finding]:
    """A worker with GPUs shows at least one."""
    if _asked(subject) and not gpus_on_pci(subject.facts):
        yield subject.error(
            "gpu_on_pci",
            "no NVIDIA GPU on PCI",
            "at least one on a node of gpu_workers",
            "if it has no GPU, move it to cpu_workers; if you manage its GPUs yourself, add it to "
            f"gpu.opted_out; see its NVIDIA devices: {subject.ssh('lspci -d 10de:')}",
        )


def gpu_driver(subject: Subject) -> Iterator[Finding]:
    """The driver that is loaded is the one that the site asks for."""
    wanted = _asked(subject)
    if wanted is None:
        return
    if wanted.driver == "container":
        yield from _container_driver(subject)
        return
    loaded = host_driver(subject.facts)
    if wanted.driver == "preinstalled":
        if loaded is None:
            yield subject.error(
                "gpu_driver",
                "no NVIDIA driver loaded",
                "the site's own driver, because site.yml has gpu.driver: preinstalled",
                f"install it ({subject.ssh('nvidia-smi')} shows it), or set gpu.driver: host",
            )
        return
    manifest = subject.desired.manifest
    bundled = bundled_driver(manifest) if manifest else None
    if loaded is None or bundled is None:
        return
    installed = subject.facts.at("packages.installed")
    ours = installed is None or any(name.startswith(DRIVER) for name in installed)
    if loaded != bundled.version or not ours:
        source = "" if ours else ", from no package of the bundle"
        upgrade = "to upgrade it: appliance gpu upgrade; or " if ours else ""
        yield subject.error(
            "gpu_driver",
            f"NVIDIA's driver {loaded}{source}",
            f"none, or {bundled.version} of the bundle",
            f"{upgrade}keep it with gpu.driver: preinstalled in site.yml; or take the node out of "
            "service, remove that driver, and reboot",
        )


def _container_driver(subject: Subject) -> Iterator[Finding]:
    """The operator would replace it under running pods, one node after the other."""
    manifest = subject.desired.manifest
    loaded, bundled = host_driver(subject.facts), image_driver(manifest) if manifest else ""
    if loaded and bundled and loaded != bundled:
        yield replace(
            subject.error(
                "gpu_driver",
                f"NVIDIA's driver {loaded}",
                f"none, or {bundled} of the bundle; an install does not upgrade it",
                "to upgrade it, with each node emptied in its turn: appliance gpu upgrade",
            ),
            step="gpu",
        )


def gpu_secure_boot(subject: Subject) -> Iterator[Finding]:
    """The kernel loads a driver that is compiled on the node only if it knows who signed it."""
    wanted = _asked(subject)
    if wanted is None or wanted.driver == "preinstalled" or not subject.facts.at("os.secure_boot"):
        return
    if host_driver(subject.facts) is None:
        yield subject.warning(
            "gpu_secure_boot",
            "Secure Boot on, so the kernel refuses modules that nobody signed with a key it knows",
            "Secure Boot off, or dkms's key enrolled before the driver is compiled",
            f"turn it off in the firmware of {subject.node.name}; or there, as root: "
            "update-secureboot-policy --new-key, then --enroll-key, reboot, and confirm it at the "
            "console",
        )


def gpu_fabric_manager(subject: Subject) -> Iterator[Finding]:
    """GPUs behind NVSwitches need a fabric manager of exactly the driver's version."""
    wanted = _asked(subject)
    if wanted is None or not has_nvswitches(subject.facts):
        return
    if wanted.driver == "preinstalled":
        driver, found = host_driver(subject.facts), fabric_manager(subject.facts)
        if driver is not None and found != driver:
            yield subject.error(
                "gpu_fabric_manager",
                f"fabric manager {found}" if found else "no fabric manager",
                f"{driver}, exactly the driver's version: its GPUs are joined by NVSwitches",
                f"install nvidia-fabricmanager-{driver.partition('.')[0]} of version {driver} on "
                f"{subject.node.name}, from the archive of its driver",
            )
    manifest = subject.desired.manifest
    bundled = bundled_driver(manifest) if manifest and wanted.driver == "host" else None
    if bundled and bundled.fabric_manager != bundled.version:
        had = f"fabric manager {bundled.fabric_manager}" if bundled.fabric_manager else "none"
        yield subject.error(
            "gpu_fabric_manager",
            f"{had} in the bundle",
            f"{bundled.version}, exactly the driver's version: its GPUs are joined by NVSwitches",
            _build_again(subject, ()),
        )


def gpu_kernel_packages(subject: Subject) -> Iterator[Finding]:
    """The driver is compiled for the node's kernel, from packages of the bundle.

    On the host it is compiled for each kernel that the node may boot, in the operator's container
    for the one that runs: that container also unpacks the kernel's image and modules.
    """
    wanted, manifest = _asked(subject), subject.desired.manifest
    if wanted is None or wanted.driver == "preinstalled" or manifest is None:
        return
    if wanted.driver == "container" and STANDIN in manifest.standins:
        return
    parts = CONTAINER_PARTS if wanted.driver == "container" else ("headers",)
    running = subject.facts.at("os.kernel")
    others = kernels_of(subject.facts) if wanted.driver == "host" else ()
    kernels = tuple(dict.fromkeys((*((str(running),) if running else ()), *others)))
    # The operator's container reads the bundle only; dkms takes what is on the node.
    there = subject.facts.at("packages.installed") or {} if wanted.driver == "host" else {}
    absent = [
        name
        for kernel in kernels
        for name in absent_parts(kernel, parts, manifest)
        if name not in there
    ]
    if absent:
        instead = "or remove a kernel that is not needed"
        if len(kernels) == 1:
            instead = "or install a driver of your own, and set gpu.driver: preinstalled"
        yield subject.error(
            "gpu_kernel_packages",
            f"a bundle without {', '.join(absent)}",
            "the packages that NVIDIA's driver is compiled with, for "
            + ("the kernel that runs" if len(kernels) == 1 else "each kernel that it may boot"),
            f"{_build_again(subject, [k for k in kernels if is_kernel(k)])}; {instead}",
        )


def gpu_other_nfd(subject: Subject) -> Iterator[Finding]:
    """No node-feature-discovery of somebody else's beside the operator's own.

    That of Run:ai's cluster part is switched off by step ``runai``; health checks it.
    """
    wanted, first = subject.site.settings.gpu, subject.site.control_plane[0]
    if wanted is None or subject.node != first:
        return
    for other in getattr(subject.observed.cluster, "discoveries", ()):
        ours = other.namespace in (NAMESPACE, RUNAI)
        if ours or not brings(wanted, other.kind.lower()):
            continue
        yield subject.error(
            "gpu_other_nfd",
            str(other),
            f"none: the GPU Operator brings {other.kind}, and two write the same labels in turn",
            discovery_hint(other),
        )


def _build_again(subject: Subject, kernels: Sequence[str]) -> str:
    """The command that builds a bundle with these kernels."""
    manifest, release = subject.desired.manifest, subject.desired.release
    system = manifest.os if manifest else "ubuntu-20.04"
    known = release.operating_systems.get(system)
    takes = known is not None and "kernel" in known.package_roots
    words = "".join(f" --kernel {kernel}" for kernel in kernels) if takes else ""
    return (
        f"build the bundle again: appliance bundle build --release {release.name} "
        f"--os {system}{words} DIR"
    )


CHECKS = (
    gpu_operator_there,
    gpu_operator_upgrade,
    gpu_other_nfd,
    gpu_on_pci,
    gpu_driver,
    gpu_secure_boot,
    gpu_fabric_manager,
    gpu_kernel_packages,
)
SITE_CHECKS = (gpu_operator, gpu_bundle)
