"""NVIDIA's driver on the nodes themselves: its packages, its kernels, its fabric manager.

Pure. Sources: NVIDIA's "Driver Installation Guide" (``cuda-drivers-BRANCH`` of the archive for
ubuntu2004) and "Fabric Manager User Guide" (``cuda-drivers-fabricmanager-BRANCH``, whose control
file in apt-packaging-fabric-manager ties driver and fabric manager to one version).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.site.fields import is_kernel

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.state.facts.facts import NodeFacts

DRIVER: Final = "cuda-drivers-"
FABRIC_MANAGER: Final = "nvidia-fabricmanager"
IMAGE: Final = "driver"
STANDIN: Final = "image driver"
RUNTIME: Final = "nvidia"
_IMAGE: Final = re.compile(r"linux-image-(?:unsigned-)?(\d.+)")
# Beside these, linux-modules-extra is brought where the bundle has it.
CONTAINER_PARTS: Final = ("image", "modules", "headers")


@dataclass(frozen=True)
class BundledDriver:
    """The driver that a bundle holds.

    Attributes:
        package: its metapackage, such as ``cuda-drivers-535``.
        version: as NVIDIA counts, such as ``535.183.06``.
        with_fabric_manager: the metapackage of driver and fabric manager, or None.
        fabric_manager: the version of the fabric manager, or None.
        toolkit: the packages of the container toolkit.
    """

    package: str
    version: str
    with_fabric_manager: str | None = None
    fabric_manager: str | None = None
    toolkit: tuple[str, ...] = ()


def absent_driver(manifest: BundleManifest) -> list[str]:
    """Return what a bundle lacks of a driver for the nodes."""
    found = bundled_driver(manifest)
    if found is None:
        return ["NVIDIA's driver (cuda-drivers)"]
    return [] if found.toolkit else ["NVIDIA's container toolkit"]


def upstream(version: str) -> str:
    """A package's version as its maker counts: without epoch and revision."""
    return version.rpartition(":")[2].partition("-")[0]


def bundled_driver(manifest: BundleManifest) -> BundledDriver | None:
    """The driver in a bundle; None where it holds none."""
    found = [name for name in manifest.package_roots.get("driver", ()) if name.startswith(DRIVER)]
    if not found:
        return None
    manager = next(
        (v for n, v in sorted(manifest.packages.items()) if n.startswith(FABRIC_MANAGER)), None
    )
    return BundledDriver(
        found[0],
        upstream(manifest.packages[found[0]]),
        next(iter(manifest.package_roots.get("fabric_manager", ())), None),
        upstream(manager) if manager else None,
        tuple(manifest.package_roots.get("container_toolkit", ())),
    )


def image_driver(manifest: BundleManifest) -> str:
    """The version of the driver in the bundle's image, by its tag ``VERSION-ubuntu20.04``.

    Empty where there is no such image, or where a stand-in takes its place and loads nothing.
    """
    if STANDIN in manifest.standins:
        return ""
    tags = (name.partition(":")[2] for name in manifest.images if name.startswith(IMAGE + ":"))
    return upstream(next(tags, ""))


def host_driver(facts: NodeFacts) -> str | None:
    """Return the version of NVIDIA's driver on the host itself, or None."""
    version = facts.at("modules.nvidia_version")
    return str(version) if version else None


def fabric_manager(facts: NodeFacts) -> str | None:
    """Return the upstream version of the installed fabric manager, or None."""
    for name, version in (facts.at("packages.installed") or {}).items():
        if name.startswith(FABRIC_MANAGER):
            return upstream(str(version))
    return None


def has_nvswitches(facts: NodeFacts) -> bool:
    """Whether its GPUs are joined by NVSwitches, and work only with a fabric manager."""
    return bool(facts.items("nvswitches"))


def kernels_of(facts: NodeFacts) -> tuple[str, ...]:
    """The kernels that a node may boot: the one that runs first, then the others installed."""
    found = [str(facts.at("os.kernel") or "")]
    for name in sorted(facts.at("packages.installed") or {}):
        match = _IMAGE.fullmatch(name)
        if match:
            found.append(match[1])
    return tuple(dict.fromkeys(kernel for kernel in found if is_kernel(kernel)))


def absent_parts(kernel: str, parts: tuple[str, ...], manifest: BundleManifest) -> tuple[str, ...]:
    """Return the packages of a kernel that a bundle lacks."""
    names = (f"linux-{part}-{kernel}" for part in parts)
    return tuple(name for name in names if name not in manifest.packages)


def node_packages(facts: NodeFacts, manifest: BundleManifest) -> dict[str, str]:
    """What role ``gpu_driver`` installs on one node: names and exact versions.

    The headers of every kernel that it may boot come first: dkms builds the driver for a kernel
    with headers when the driver is installed.
    """
    driver = bundled_driver(manifest)
    if driver is None:
        return {}
    names = [f"linux-headers-{kernel}" for kernel in kernels_of(facts)]
    both = driver.with_fabric_manager
    names.append(both if both and has_nvswitches(facts) else driver.package)
    names += driver.toolkit
    return {name: manifest.packages[name] for name in names if name in manifest.packages}
