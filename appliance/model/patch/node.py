"""What a patch changes on one node, what stays as it is, and what restarts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from appliance.model.bundle.debian_version import is_newer
from appliance.model.patch.drivers import (
    BY_CHOICE,
    GpuNode,
    faults_of_boot,
    no_driver,
    not_buildable,
    without_driver,
)
from appliance.model.patch.kernels import (
    follows,
    is_of_a_kernel,
    kernel_of,
    kernel_order,
    kernels_in,
    same_line,
)
from appliance.model.patch.services import (
    is_lasting,
    is_library,
    needs_reboot,
    restarts,
    takes_effect_unseen,
)

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.patch.state import NodeState

_STALE: Final = "still uses a replaced file"
HELD: Final = "on hold on the node"
OURS: Final = "the release has it: it changes with the release"
# What the release or the vendor's script installs, whether a node has it on hold or not.
_OURS: Final = (
    "docker*",
    "containerd*",
    "runc",
    "kube*",
    "cri-tools",
    "kubernetes-cni",
    "cuda-*",
    "nvidia-*",
    "libnvidia-*",
    "xserver-xorg-video-nvidia-*",
    "dkms",
)
# The modules of a kernel; those of virtual machines come without the second part.
MODULES: Final = ("modules", "modules-extra")


@dataclass(frozen=True)
class Change:
    """One package that changes.

    Attributes:
        before: the installed version; empty for one that comes new.
    """

    name: str
    before: str
    after: str

    def sentence(self) -> str:
        """In words."""
        return f"{self.name} {self.before or 'none'} -> {self.after}"


@dataclass(frozen=True)
class Kept:
    """One package, or one kernel, that does not change although an update is there."""

    name: str
    after: str
    why: str

    def sentence(self) -> str:
        """In words."""
        return f"{self.name} {self.after}".rstrip() + f": {self.why}"


@dataclass(frozen=True)
class NodePatch:
    """What happens on one node.

    Attributes:
        changes: packages from the updates of the bundle.
        driver_packages: what the driver on the host is built with for the new kernel.
        kernel: the new kernel; empty: none.
        next_kernel: the kernel that must run after a boot.
        driver_kernel: the kernel of the next boot, where NVIDIA's driver on the host must be built
            for it first: the new one, or one that is installed and does not run yet.
        no_driver: why the node would come back without its GPUs; empty: it would not.
        no_boot: why it would come back on a kernel that nothing has proved; empty: it would not.
        kept: what stays, by name.
        reboot: why the node boots again; empty: it does not, as far as is known before.
        services: what restarts with its own package.
        owed: services that an earlier installation left with replaced files: they restart.
        libraries: changed libraries; services that use them restart after the installation.
        older: installed packages for which the bundle left out an older update.
        out: an earlier run took the node out of service and did not return it.
        repair: dpkg was interrupted on it.
    """

    node: str
    changes: tuple[Change, ...] = ()
    driver_packages: Mapping[str, str] = field(default_factory=dict)
    kernel: str = ""
    next_kernel: str = ""
    driver_kernel: str = ""
    no_driver: str = ""
    no_boot: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    reboot: tuple[str, ...] = ()
    services: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    older: tuple[Change, ...] = ()
    out: bool = False
    repair: bool = False

    @property
    def is_due(self) -> bool:
        """Whether anything is to be done on the node."""
        return bool(self.changes or self.reboot or self.owed or self.out or self.repair)

    @property
    def packages(self) -> dict[str, str]:
        """Name -> exact version of what is installed from the updates."""
        return {change.name: change.after for change in self.changes}

    def why(self) -> tuple[str, ...]:
        """One sentence for each reason."""
        return tuple(f"{self.node}: {text}" for text in self._why())

    def _why(self) -> Iterator[str]:
        if self.changes:
            count = len(self.changes)
            words = "1 package" if count == 1 else f"{count} packages"
            yield f"{words} from the bundle"
        if self.repair:
            yield "dpkg was interrupted"
        if self.out:
            yield "an earlier patch took it out of service and did not return it"
        yield from self.reboot
        yield from (f"{unit} {_STALE}" for unit in self.owed)


def plan_node(
    state: NodeState,
    manifest: BundleManifest,
    *,
    gpu: GpuNode | None = None,
    out: bool = False,
    always: bool = False,
) -> NodePatch:
    """Compare what a node has with the updates of a bundle.

    Args:
        state: what the node says.
        manifest: of the bundle; one without updates changes nothing.
        gpu: of a node with GPUs; None: it has none.
        out: an earlier patch took the node out of service.
        always: boot each node that changes.
    """
    updates = manifest.updates.packages if manifest.updates else {}
    changes: list[Change] = []
    kept: list[Kept] = []
    for name, version in sorted(updates.items()):
        installed = state.packages.get(name)
        if installed is None or is_of_a_kernel(name) or not is_newer(version, installed):
            continue
        why = _why_kept(name, state)
        if why:
            kept.append(Kept(name, version, why))
        else:
            changes.append(Change(name, installed, version))
    kernel, refused = _new_kernel(state, updates, manifest, gpu)
    kept += refused
    new = [
        Change(name, "", version)
        for name, version in sorted(updates.items())
        if kernel and kernel_of(name) == kernel and name not in state.packages
    ]
    next_kernel = kernel or _not_running(state)
    lost = "" if kernel or gpu is None else without_driver(next_kernel, state, manifest, gpu)
    on_host = bool(next_kernel) and gpu is not None and gpu.driver == "host" and not lost
    changed = [change.name for change in changes]
    everything = (*changes, *new)
    reboot = tuple(_reboot(state, changed, kernel))
    if always and everything and not reboot:
        reboot = ("--reboot always",)
    return NodePatch(
        state.node,
        everything,
        _headers(next_kernel, manifest) if on_host else {},
        kernel,
        next_kernel or state.kernel,
        next_kernel if on_host else "",
        lost,
        tuple(faults_of_boot(state, next_kernel or state.kernel, new=bool(kernel))),
        tuple(kept),
        reboot,
        restarts(changed),
        tuple(unit for unit in state.stale if not is_lasting(unit)),
        tuple(name for name in changed if is_library(name) and not needs_reboot(name)),
        tuple(_older(state, manifest)),
        out,
        bool(state.interrupted or state.half),
    )


def _why_kept(name: str, state: NodeState) -> str:
    if name in state.held:
        return HELD
    return OURS if any(fnmatchcase(name, pattern) for pattern in _OURS) else ""


def _new_kernel(
    state: NodeState,
    updates: Mapping[str, str],
    manifest: BundleManifest,
    gpu: GpuNode | None,
) -> tuple[str, list[Kept]]:
    """The newest kernel of the node's line that it may get; the newer ones that it may not."""
    there = kernels_in(state.packages)
    newest = max(
        (state.kernel, *(k for k in there if same_line(k, state.kernel))), key=kernel_order
    )
    refused: list[Kept] = []
    for kernel in reversed(kernels_in(updates)):
        if not follows(kernel, newest):
            continue
        why = BY_CHOICE if state.boots_by_choice else _lacks_modules(kernel, state, updates)
        why = why or not_buildable(kernel, state, updates)
        why = why or ("" if gpu is None else no_driver(kernel, manifest, gpu))
        if not why:
            return kernel, refused
        refused.append(Kept(f"kernel {kernel}", "", why))
    return "", refused


def _lacks_modules(kernel: str, state: NodeState, updates: Mapping[str, str]) -> str:
    """Which modules the running kernel has beyond a new one: disks and networks may need them."""
    absent = [
        f"linux-{part}-{kernel}"
        for part in MODULES
        if f"linux-{part}-{state.kernel}" in state.packages
        and f"linux-{part}-{kernel}" not in {**updates, **state.packages}
    ]
    if not absent:
        return ""
    return f"the updates lack {', '.join(absent)}, and the kernel that runs has that part"


def _not_running(state: NodeState) -> str:
    """The newest installed kernel that follows the running one: the next boot takes it.

    Empty: there is none, or somebody chose another entry of the boot menu.
    """
    if state.boots_by_choice:
        return ""
    return next((k for k in reversed(kernels_in(state.packages)) if follows(k, state.kernel)), "")


def _headers(kernel: str, manifest: BundleManifest) -> dict[str, str]:
    name = f"linux-headers-{kernel}"
    return {name: manifest.packages[name]} if name in manifest.packages else {}


def _reboot(state: NodeState, changed: list[str], kernel: str) -> Iterator[str]:
    if kernel:
        yield f"kernel {kernel} runs only after a boot; {state.kernel} runs now"
    elif installed := _not_running(state):
        yield f"kernel {installed} is installed, and {state.kernel} runs"
    for name in changed:
        if needs_reboot(name):
            yield f"{name} takes effect only after a boot"
    if state.reboot_asked:
        names = ", ".join(state.reboot_for) or "a package"
        yield f"{names} asked for a boot before this patch"
    for name in state.unbooted:
        if takes_effect_unseen(name) and name not in changed:
            yield f"{name} was installed since the last boot, and takes effect only after one"
    yield from (f"{unit} {_STALE}" for unit in state.stale if is_lasting(unit))


def _older(state: NodeState, manifest: BundleManifest) -> Iterator[Change]:
    for name, version in sorted(manifest.updates.older.items() if manifest.updates else ()):
        installed = state.packages.get(name)
        if installed is not None and name not in state.held and is_newer(version, installed):
            yield Change(name, installed, version)
