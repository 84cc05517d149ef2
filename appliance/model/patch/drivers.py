"""Whether a node would lose a driver with its next boot: NVIDIA's, or one that dkms builds.

Pure. What must not be here: which kernel a node gets (:mod:`appliance.model.patch.node`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from appliance.model.components.gpu.driver import STANDIN, absent_parts
from appliance.model.patch.kernels import kernel_order, kernels_in

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.patch.state import NodeState

# What the driver of a node with GPUs is compiled with, for each kernel.
DRIVER_PARTS: Final = ("image", "modules", "headers")
# The bundle's driver, and the one of Ubuntu's server packages, are nvidia and nvidia-srv in dkms.
_NVIDIA: Final = "nvidia"
BY_CHOICE: Final = "GRUB_DEFAULT on the node names another entry of the boot menu"


@dataclass(frozen=True)
class GpuNode:
    """What a new kernel needs on a node with GPUs.

    Attributes:
        driver: ``host``, ``container`` or ``preinstalled``, as gpu.driver of site.yml says.
        kernels: those that gpu.kernels of site.yml names.
    """

    driver: str
    kernels: tuple[str, ...] = ()


def no_driver(kernel: str, manifest: BundleManifest, gpu: GpuNode) -> str:
    """Why NVIDIA's driver cannot be built for a kernel; empty: it can."""
    if gpu.driver == "preinstalled":
        return "NVIDIA's driver is the site's own, and nothing of it is in the bundle"
    if absent := absent_parts(kernel, DRIVER_PARTS, manifest):
        return (
            f"NVIDIA's driver cannot be built for it: the release's part of the bundle lacks "
            f"{', '.join(absent)}"
        )
    if kernel not in gpu.kernels:
        return "gpu.kernels of site.yml does not name it"
    return ""


def without_driver(kernel: str, state: NodeState, manifest: BundleManifest, gpu: GpuNode) -> str:
    """Why GPUs are lost with the boot of a kernel that is installed already; empty: they are not.

    The driver of the site itself must be there; a stand-in drives nothing.
    """
    if not kernel or (gpu.driver != "host" and STANDIN in manifest.standins):
        return ""
    taken = f"kernel {kernel} is installed, and the next boot takes it"
    if gpu.driver == "preinstalled":
        # One that was never seen for the running kernel says nothing of the next.
        lost = state.kernel in state.nvidia_kernels and kernel not in state.nvidia_kernels
        return f"{taken}; the site's own NVIDIA driver is not built for it" if lost else ""
    # dkms takes the headers that are on the node; the operator's container reads the bundle only.
    there: Mapping[str, str] = state.packages if gpu.driver == "host" else {}
    parts = ("headers",) if gpu.driver == "host" else DRIVER_PARTS
    absent = [name for name in absent_parts(kernel, parts, manifest) if name not in there]
    if not absent:
        return ""
    return f"{taken}; NVIDIA's driver cannot be built for it without {', '.join(absent)}"


def not_buildable(kernel: str, state: NodeState, updates: Mapping[str, str]) -> str:
    """Why dkms builds the modules of other products for no new kernel; empty: it does, or none is.

    dkms builds them as the kernel is configured, where the headers are there.
    """
    names = _of_others(state)
    headers = f"linux-headers-{kernel}"
    if not names or headers in {**updates, **state.packages}:
        return ""
    return f"dkms cannot build {', '.join(names)} for it: the updates lack {headers}"


def not_built(kernel: str, state: NodeState) -> tuple[str, ...]:
    """Modules of other products that dkms has for the running kernel, and not for another."""
    return tuple(name for name in _of_others(state) if kernel not in state.dkms[name])


def _of_others(state: NodeState) -> list[str]:
    """What dkms has built for the running kernel, without what the tool builds itself."""
    return [
        name
        for name, kernels in sorted(state.dkms.items())
        if state.kernel in kernels and not name.startswith(_NVIDIA)
    ]


def other_kernel(state: NodeState, following: str) -> str:
    """A kernel of another series or flavour that the next boot takes; empty: there is none.

    GRUB boots the newest of all kernels where GRUB_DEFAULT does not name another entry.

    Args:
        state: what the node says.
        following: the kernel of its own line that would run after the next boot.
    """
    if state.boots_by_choice:
        return ""
    newest = max((*kernels_in(state.packages), following), key=kernel_order)
    return newest if kernel_order(newest)[0] > kernel_order(following)[0] else ""


def faults_of_boot(state: NodeState, following: str, *, new: bool) -> Iterator[str]:
    """Why the kernel of the next boot must not be booted, NVIDIA's driver aside.

    Args:
        state: what the node says.
        following: the kernel of its own line that would run after the next boot.
        new: it comes with the patch, so dkms has not built anything for it yet.
    """
    if not new and following != state.kernel and (absent := not_built(following, state)):
        yield (
            f"kernel {following} is installed, and the next boot takes it; dkms has not built "
            f"{', '.join(absent)} for it"
        )
    if other := other_kernel(state, following):
        yield (
            f"kernel {other} of another series or flavour is installed, and the next boot takes it"
        )
