"""The stand-in's installer medium: a Debian in memory that installs itself by the same seeds.

It plays the part of Ubuntu's ISO in a lab, and its name says so. What must not be here: seeds, and
serving it.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from appliance.adapters.local.content import STANDINS
from appliance.adapters.local.processes import run
from appliance.lab.machine.archives import archives_of
from appliance.model.node.imaging.medium import INSTALLERS, menus

SYSTEM: Final = "debian-12"
SUITE: Final = "bookworm"
VOLUME: Final = "STANDIN"
# The cloud kernel has no AHCI, so no SATA disc: the common one. Beside what boots and installs,
# what Ubuntu's server brings and probe and roles take for granted.
PACKAGES: Final = (
    *("linux-image-amd64", "systemd-sysv", "udev", "kmod", "python3", "python3-yaml", "sudo"),
    *("openssh-server", "netplan.io", "iproute2", "busybox", "e2fsprogs", "util-linux", "fdisk"),
    *("grub-pc-bin", "grub2-common", "dbus", "ca-certificates", "dmidecode", "udhcpc"),
    *("ethtool", "pciutils", "procps", "iputils-ping", "netbase", "openssl", "curl", "rsync"),
    *("libpam-systemd", "python3-apt"),
)
_MODULES: Final = "/lib/modules/*/kernel"
# The root file system is unpacked in memory and copied to the disk by a slow machine: what no
# virtual machine needs is left out.
LEFT_OUT: Final = (
    *("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/i18n/*"),
    *("/lib/udev/hwdb.d/*", "/usr/lib/udev/hwdb.d/*"),
    *(f"{_MODULES}/{folder}/*" for folder in ("sound", "drivers", "net/wireless", "net/bluetooth")),
)
# Of the drivers, those of the emulated machine, and those of the networks of a cluster.
KEPT: Final = tuple(
    f"{_MODULES}/drivers/{path}"
    for path in (
        *("acpi/*", "ata/*", "block/virtio_blk.ko", "block/loop.ko", "cdrom/*", "char/*"),
        *("firmware/*", "md/*", "ptp/*", "rtc/*", "scsi/s*_mod.ko", "scsi/scsi_*.ko", "virtio/*"),
        *("net/dummy.ko", "net/net_failover.ko", "net/tun.ko", "net/veth.ko", "net/virtio_net.ko"),
        "net/vxlan/*",
    )
)
# The program on the medium -> its file and mode in the Debian.
PROGRAM: Final = {
    "init": ("init", 0o755),
    "curtin": ("usr/local/bin/curtin", 0o755),
    "netplan": ("usr/local/lib/appliance-lab/bin/netplan", 0o755),
    "installer_standin.py": ("usr/local/lib/appliance-lab/installer_standin.py", 0o644),
}
_HOOKS: Final = (
    'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/hostname" "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    'systemctl --root="$1" enable systemd-networkd ssh',
    # They hang where there is no network of theirs.
    'systemctl --root="$1" mask systemd-networkd-wait-online e2scrub_reap',
)
_BUILD_SECONDS: Final = 3600.0
_PACK_SECONDS: Final = 1200.0
# zstd: an emulated machine unpacks it in a fifth of gzip's time.
# "$1" is the root, "$2" the archive that it is added to.
PACK: Final = 'cd "$1" && find . -xdev | cpio --quiet -o -H newc | zstd --quiet -5 >>"$2"'


@dataclass(frozen=True)
class Base:
    """The Debian of the medium, without the stand-in's program: what takes minutes to make.

    Attributes:
        kernel: its kernel.
        initrd: all of it, as what the kernel unpacks into memory.
    """

    kernel: Path
    initrd: Path


def recipe() -> str:
    """What names a base: another text makes another one."""
    return "\n".join((SYSTEM, *PACKAGES, *LEFT_OUT, *KEPT, *_HOOKS))


def root_words(root: Path, sources: Path, options: list[str]) -> list[str]:
    """The command that makes the Debian, with no host keys."""
    return [
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
        f"--include={','.join(PACKAGES)}",
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={path}" for path in LEFT_OUT),
        # The last one that fits counts.
        *(f"--dpkgopt=path-include={path}" for path in KEPT),
        *(f"--aptopt={option.rstrip(';')}" for option in options),
        *(f"--customize-hook={hook}" for hook in _HOOKS),
        *(SUITE, str(root), str(sources)),
    ]


def build_base(folder: Path) -> Base:
    """Make the Debian of the medium; some minutes.

    Args:
        folder: empty; a root file system of some hundred MB is made there.

    Raises:
        CommandFailed: a program is missing, or failed.
        BundleRefused: this machine's archives do not serve the system.
    """
    archives = archives_of(SYSTEM)
    root, sources = folder / "root", folder / "debian.sources"
    sources.write_text("\n".join(archives["sources"]), "utf-8")
    run(root_words(root, sources, archives["options"]), timeout=_BUILD_SECONDS)
    found = Base(folder / "vmlinuz", folder / "initrd")
    (kernel,) = (root / "boot").glob("vmlinuz-*")
    shutil.copyfile(kernel, found.kernel)
    _pack(root, found.initrd)
    shutil.rmtree(root)
    return found


def build_standin_medium(base: Base, folder: Path, out: Path) -> Path:
    """Make the medium of a base and the stand-in's program.

    Args:
        base: that :func:`build_base` made.
        folder: empty.
        out: the ISO.

    Raises:
        CommandFailed: a program is missing, or failed.
    """
    program, tree = folder / "program", folder / "iso"
    for name, (place, mode) in PROGRAM.items():
        there = program / place
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(STANDINS / "installer_standin" / name, there)
        there.chmod(mode)
    standin = INSTALLERS["standin"]
    kernel, initrd = (tree / path.lstrip("/") for path in (standin.kernel, standin.initrd))
    kernel.parent.mkdir(parents=True)
    shutil.copyfile(base.kernel, kernel)
    shutil.copyfile(base.initrd, initrd)
    # The kernel unpacks one archive after the other.
    _pack(program, initrd)
    for name, text in menus("standin").items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    run(["grub-mkrescue", "-o", str(out), str(tree), "--", "-volid", VOLUME], timeout=_PACK_SECONDS)
    return out


def _pack(root: Path, archive: Path) -> None:
    """Add a folder to what the kernel unpacks."""
    run(["sh", "-c", PACK, "sh", str(root), str(archive)], timeout=_PACK_SECONDS)
