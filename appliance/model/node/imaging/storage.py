"""The storage profiles, as actions of curtin on the one disk that a node's settings name."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from appliance.model.node.imaging.autoinstall import (
    LABEL_UNFINISHED,
    Action,
    Disk,
    Format,
    LogicalVolume,
    Mount,
    Partition,
    Storage,
    VolumeGroup,
)

if TYPE_CHECKING:
    from appliance.model.site.imaging_settings import Firmware, StorageProfile

DISK: Final = "disk"
# Images of containers, etcd and logs are under /var; the rest of a node needs some tens of GB.
_ROOT_BESIDE_VAR: Final = "100G"


@functools.cache
def storage(profile: StorageProfile, firmware: Firmware) -> Storage:
    """The actions of one profile, for servers that boot by this firmware."""
    disk = Disk(id=DISK, grub_device=firmware == "bios")
    # What is mounted below / comes after it.
    below = (
        (Mount(id="esp-mount", device="esp-fs", path="/boot/efi"),) if firmware == "uefi" else ()
    )
    return Storage(config=(disk, *_boot(firmware), *_PROFILES[profile](), *below))


def _boot(firmware: Firmware) -> tuple[Action, ...]:
    if firmware == "bios":
        return (Partition(id="bios", device=DISK, size="1M", flag="bios_grub"),)
    return (
        Partition(id="esp", device=DISK, size="512M", flag="boot", grub_device=True),
        Format(id="esp-fs", volume="esp", fstype="fat32"),
    )


def _file_system(name: str, volume: str, path: str, label: str | None = None) -> tuple[Action, ...]:
    return (
        Format(id=f"{name}-fs", volume=volume, fstype="ext4", label=label),
        Mount.model_validate({"id": f"{name}-mount", "device": f"{name}-fs", "path": path}),
    )


def _root() -> tuple[Action, ...]:
    return (
        Partition(id="root", device=DISK, size=-1),
        *_file_system("root", "root", "/", LABEL_UNFINISHED),
    )


def _root_and_var() -> tuple[Action, ...]:
    return (
        Partition(id="root", device=DISK, size=_ROOT_BESIDE_VAR),
        *_file_system("root", "root", "/", LABEL_UNFINISHED),
        Partition(id="var", device=DISK, size=-1),
        *_file_system("var", "var", "/var"),
    )


def _lvm() -> tuple[Action, ...]:
    return (
        Partition(id="boot", device=DISK, size="1G"),
        Partition(id="pv", device=DISK, size=-1),
        VolumeGroup(id="vg", name="system", devices=("pv",)),
        LogicalVolume(id="root", name="root", volgroup="vg"),
        *_file_system("root", "root", "/", LABEL_UNFINISHED),
        *_file_system("boot", "boot", "/boot"),
    )


_PROFILES: Final[Mapping[StorageProfile, Callable[[], tuple[Action, ...]]]] = {
    "root": _root,
    "root_and_var": _root_and_var,
    "lvm": _lvm,
}
