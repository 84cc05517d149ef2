"""Can the GPUs be brought? What the bundle holds, what is on PCI, and the host's own driver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from appliance.model.gpu import (
    absent_images,
    chart_of,
    fabric_manager,
    gpu_nodes,
    gpus_on_pci,
    host_driver,
    refusal_of,
    refused_operators,
)
from appliance.model.preflight.finding import Finding, Subject

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.site_runai import Gpu


def _asked(subject: Subject) -> Gpu | None:
    """The site's wish, on the worker with GPUs that the operator is to serve."""
    return subject.site.settings.gpu if subject.node in gpu_nodes(subject.site) else None


def gpu_operator(desired: Desired) -> Iterator[Finding]:
    """The release brings one version of the operator."""
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
            f"GPU Operator {wanted.operator} asked for",
            f"{own or 'none'}, which release {release.name} was tested with",
            "take the line gpu: operator: out of site.yml, or choose another release",
            of_site=True,
        )


def gpu_operator_there(subject: Subject) -> Iterator[Finding]:
    """Somebody's operator of a line that Run:ai misreads; with ``runai:``, health speaks of it."""
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
            "build the bundle again; the vendor's chart is a file of yours: "
            f"appliance bundle build --release {manifest.release} --os {manifest.os} --files DIR",
            of_site=True,
        )


def gpu_on_pci(subject: Subject) -> Iterator[Finding]:
    """A worker with GPUs shows at least one."""
    if _asked(subject) and not gpus_on_pci(subject.photo):
        yield subject.error(
            "gpu_on_pci",
            "no GPU of NVIDIA on PCI",
            "at least one on a node of gpu_workers",
            f"see what is there: {subject.ssh('lspci -d 10de:')}; a node without is a cpu_worker, "
            "one whose GPUs are somebody else's is named in gpu: opted_out:",
        )


def gpu_driver(subject: Subject) -> Iterator[Finding]:
    """Where the site says that the driver is the host's, it runs there."""
    wanted = _asked(subject)
    if wanted and wanted.driver == "host" and not host_driver(subject.photo):
        yield subject.error(
            "gpu_driver",
            "no NVIDIA driver loaded",
            "the host's own driver, as gpu: driver: host says",
            f"install it ({subject.ssh('nvidia-smi')} shows it), or write driver: container",
        )


def gpu_fabric_manager(subject: Subject) -> Iterator[Finding]:
    """On SXM boards the GPUs are useless without a fabric manager of the driver's own version."""
    wanted = _asked(subject)
    model = subject.models.get(subject.node.hardware or "")
    if wanted is None or wanted.driver != "host" or model is None:
        return
    driver = host_driver(subject.photo)
    if driver is None or not any(slots.form == "sxm" for slots in model.platform.gpus):
        return
    found = fabric_manager(subject.photo)
    if found != driver:
        yield subject.error(
            "gpu_fabric_manager",
            f"fabric manager {found}" if found else "no fabric manager",
            f"{driver}, exactly the driver's version, on the SXM boards of {model.product}",
            f"install nvidia-fabricmanager-{driver.partition('.')[0]}={driver}-*",
        )


def gpu_kernel_packages(subject: Subject) -> Iterator[Finding]:
    """A driver in a container is compiled for the node's kernel, from packages of the bundle."""
    wanted, manifest = _asked(subject), subject.desired.manifest
    if wanted is None or wanted.driver != "container" or manifest is None:
        return
    if "image driver" in manifest.standins:
        return
    kernel = subject.photo.at("os.kernel")
    headers = f"linux-headers-{kernel}"
    if kernel and headers not in manifest.packages:
        yield subject.error(
            "gpu_kernel_packages",
            f"a bundle without {headers}",
            "the headers of the kernel that runs, for the driver's container to be compiled with",
            "boot the kernel that the bundle has headers for, or install the driver on the host "
            "and write gpu: driver: host",
        )
