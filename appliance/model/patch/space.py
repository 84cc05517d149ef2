"""Whether a node has room for the packages that a patch brings it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from appliance.model.state.plan import Refusal

if TYPE_CHECKING:
    from appliance.model.bundle.manifest import BundleManifest
    from appliance.model.patch.node import NodePatch
    from appliance.model.patch.state import NodeState

MB: Final = 1_000_000
# A package is compressed: dpkg keeps the old files until the new ones are whole.
UNPACKED: Final = 5
# update-initramfs writes one image for each kernel, and a copy while it works.
BOOT_BYTES: Final = 350 * MB
# An image that is made again is written beside the old one, which it then replaces.
IMAGE_BYTES: Final = 120 * MB
# Packages of Ubuntu 20.04 that are in the image: their postinst or trigger makes it again.
_IN_IMAGE: Final = (
    "amd64-microcode",
    "btrfs-progs",
    "busybox-initramfs",
    "cryptsetup*",
    "initramfs-tools*",
    "intel-microcode",
    "klibc-utils",
    "kmod",
    "linux-firmware",
    "lvm2",
    "mdadm",
    "multipath-tools-boot",
    "open-iscsi",
    "plymouth*",
    "udev",
)
SPARE_BYTES: Final = 500 * MB
_CHECK: Final = "disk"


def space_faults(state: NodeState, patch: NodePatch, manifest: BundleManifest) -> Iterator[Refusal]:
    """One refusal for each file system that is too small.

    apt downloads below /var, dpkg unpacks below /usr; a kernel goes to /boot as well, and so does
    an initial RAM disk that is made again.
    """
    if not patch.changes:
        return
    load = download_bytes(patch, manifest)
    needs = {
        "/var": load,
        "/usr": UNPACKED * load,
        **({"/boot": boot} if (boot := _boot_bytes(patch)) else {}),
    }
    wanted: dict[str, int] = {}
    for folder, size in needs.items():
        mount = _mount_of(folder, state.free_bytes)
        wanted[mount] = wanted.get(mount, 0) + size
    for mount, size in wanted.items():
        free = state.free_bytes.get(mount)
        # /boot has a file system of its own, and nothing else is written there.
        spare = 0 if mount == "/boot" else SPARE_BYTES
        if free is None:
            yield _refusal(state.node, mount, "its free space was not read", size + spare)
        elif free < size + spare:
            yield _refusal(state.node, mount, f"{free // MB} MB free on {mount}", size + spare)


def _boot_bytes(patch: NodePatch) -> int:
    if patch.kernel:
        return BOOT_BYTES
    names = [change.name for change in patch.changes]
    makes = any(fnmatchcase(name, pattern) for name in names for pattern in _IN_IMAGE)
    return IMAGE_BYTES if makes else 0


def download_bytes(patch: NodePatch, manifest: BundleManifest) -> int:
    """The size of the packages of a node, as they travel."""
    sizes = {
        item.name: item.size for item in manifest.artifacts if item.kind in ("update", "package")
    }
    for item in manifest.artifacts:
        if item.kind == "update":
            sizes[item.name] = item.size
    names = {change.name for change in patch.changes} | set(patch.driver_packages)
    return sum(sizes.get(name, 0) for name in names)


def _mount_of(folder: str, free: Mapping[str, int]) -> str:
    return folder if folder in free else "/"


def _refusal(node: str, mount: str, found: str, needed: int) -> Refusal:
    return Refusal(
        node,
        _CHECK,
        found,
        f"{needed // MB} MB for packages on {mount}",
        f"free some: appliance node ssh {node} -- sudo du -xh -d 2 {mount}; sudo apt-get clean",
    )
