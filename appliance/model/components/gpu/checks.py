"""Can the GPUs be set up? The bundle's contents, PCI devices, and the host's own driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.components.gpu.operator import (
    absent_images,
    chart_of,
    fabric_manager,
    gpu_nodes,
    gpus_on_pci,
    host_driver,
    refusal_of,
    refused_operators,
)
from appliance.model.components.subject import Subject
from appliance.model.site.runai_settings import Gpu
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


def gpu_bundle(desired: Desired) -> Iterator[Finding]:
    """The bundle holds the operator's chart and every operand's image."""
    wanted, manifest = desired.site.settings.gpu, desired.manifest
    if wanted is None or manifest is None:
        return
    absent = [] if chart_of(manifest) else ["the chart"]
    absent += absent_images(manifest, wanted.driver)
    if absent:
        yield Finding(
            desired.site.services_node.name,
            "gpu_bundle",
            "error",
            f"a bundle without {', '.join(absent)}",
            "the GPU Operator's chart and images",
            "build the bundle again, with the vendor's chart in DIR: "
            f"appliance bundle build --release {manifest.release} --os {manifest.os} --files DIR",
            of_site=True,
        )


def gpu_on_pci(subject: Subject) -> Iterator[Finding]:
    """A worker with GPUs shows at least one."""
    if _asked(subject) and not gpus_on_pci(subject.facts):
        yield subject.error(
            "gpu_on_pci",
            "no NVIDIA GPU on PCI",
            "at least one on a node of gpu_workers",
            f"list the devices: {subject.ssh('lspci -d 10de:')}; move a node without GPUs to "
            "cpu_workers; list a node whose GPUs others manage in gpu.opted_out",
        )


def gpu_driver(subject: Subject) -> Iterator[Finding]:
    """With ``driver: host``, the host's own driver is loaded."""
    wanted = _asked(subject)
    if wanted and wanted.driver == "host" and not host_driver(subject.facts):
        yield subject.error(
            "gpu_driver",
            "no NVIDIA driver loaded",
            "the host's own driver, because site.yml has gpu.driver: host",
            f"install it ({subject.ssh('nvidia-smi')} shows it), or set gpu.driver: container",
        )


def gpu_fabric_manager(subject: Subject) -> Iterator[Finding]:
    """On SXM boards the GPUs need a fabric manager of exactly the driver's version."""
    wanted = _asked(subject)
    model = subject.models.get(subject.node.hardware or "")
    if wanted is None or wanted.driver != "host" or model is None:
        return
    driver = host_driver(subject.facts)
    if driver is None or not any(slots.form == "sxm" for slots in model.platform.gpus):
        return
    found = fabric_manager(subject.facts)
    if found != driver:
        yield subject.error(
            "gpu_fabric_manager",
            f"fabric manager {found}" if found else "no fabric manager",
            f"{driver}, exactly the driver's version, on the SXM boards of {model.product}",
            f"install nvidia-fabricmanager-{driver.partition('.')[0]}={driver}-*",
        )


def gpu_kernel_packages(subject: Subject) -> Iterator[Finding]:
    """The driver's container compiles the driver for the node's kernel, from bundled packages."""
    wanted, manifest = _asked(subject), subject.desired.manifest
    if wanted is None or wanted.driver != "container" or manifest is None:
        return
    if "image driver" in manifest.standins:
        return
    kernel = subject.facts.at("os.kernel")
    headers = f"linux-headers-{kernel}"
    if kernel and headers not in manifest.packages:
        yield subject.error(
            "gpu_kernel_packages",
            f"a bundle without {headers}",
            "the headers of the running kernel, which the driver's container needs to compile it",
            "boot the kernel that the bundle has headers for, or install the driver on the host "
            "and set gpu.driver: host",
        )


CHECKS = (gpu_operator_there, gpu_on_pci, gpu_driver, gpu_fabric_manager, gpu_kernel_packages)
SITE_CHECKS = (gpu_operator, gpu_bundle)
