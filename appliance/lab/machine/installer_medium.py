"""The stand-in's installer medium: a Debian in memory that installs itself by the same seeds.

It plays the part of Ubuntu's ISO in a lab, and its name says so. What must not be here: seeds, and
serving it.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from appliance.adapters.local.content import STANDINS
from appliance.adapters.local.processes import run
from appliance.lab.machine.archives import archives_of
from appliance.model.node.imaging.medium import INSTALLERS, menus

SYSTEM: Final = "debian-12"
SUITE: Final = "bookworm"
VOLUME: Final = "STANDIN"
# The cloud kernel has no AHCI, so no SATA disc: the common one.
PACKAGES: Final = (
    *("linux-image-amd64", "systemd-sysv", "udev", "kmod", "python3", "python3-yaml", "sudo"),
    *("openssh-server", "netplan.io", "iproute2", "busybox", "e2fsprogs", "util-linux", "fdisk"),
    *("grub-pc-bin", "grub2-common", "dbus", "ca-certificates", "dmidecode"),
)
_BUILD_SECONDS: Final = 3600.0
_PACK_SECONDS: Final = 1200.0
# "$1" is the root, "$2" the file.
PACK: Final = 'cd "$1" && find . -xdev | cpio --quiet -o -H newc | gzip -1 >"$2"'


def root_words(root: Path, sources: Path, options: list[str]) -> list[str]:
    """The command that makes the Debian: with our first process, and with no host keys."""
    program = STANDINS / "installer_standin"
    hooks = (
        f'install -D -m 0755 "{program}/init" "$1/init"',
        f'install -D -m 0755 "{program}/curtin" "$1/usr/local/bin/curtin"',
        f'install -D -m 0644 "{program}/installer_standin.py" '
        '"$1/usr/local/lib/appliance-lab/installer_standin.py"',
        'rm -f "$1"/etc/ssh/ssh_host_* "$1/etc/hostname" "$1/etc/apt/apt.conf.d/99mmdebstrap"',
        'systemctl --root="$1" enable systemd-networkd ssh',
        # They hang where there is no network of theirs.
        'systemctl --root="$1" mask systemd-networkd-wait-online e2scrub_reap',
    )
    return [
        *("mmdebstrap", "--mode=root", "--variant=minbase", "--format=directory"),
        f"--include={','.join(PACKAGES)}",
        *("--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/man/*"),
        "--dpkgopt=path-exclude=/usr/share/doc/*",
        *(f"--aptopt={option.rstrip(';')}" for option in options),
        *(f"--customize-hook={hook}" for hook in hooks),
        *(SUITE, str(root), str(sources)),
    ]


def build_standin_medium(folder: Path, out: Path) -> Path:
    """Make the medium.

    Args:
        folder: empty; a root file system of some hundred MB is made there.
        out: the ISO.

    Raises:
        CommandFailed: a program is missing, or failed.
        BundleRefused: this machine's archives do not serve the system.
    """
    archives = archives_of(SYSTEM)
    root, tree, sources = folder / "root", folder / "iso", folder / "debian.sources"
    sources.write_text("\n".join(archives["sources"]), "utf-8")
    run(root_words(root, sources, archives["options"]), timeout=_BUILD_SECONDS)
    standin = INSTALLERS["standin"]
    kernel, initrd = (tree / path.lstrip("/") for path in (standin.kernel, standin.initrd))
    kernel.parent.mkdir(parents=True)
    (found,) = (root / "boot").glob("vmlinuz-*")
    shutil.copyfile(found, kernel)
    run(["sh", "-c", PACK, "sh", str(root), str(initrd)], timeout=_PACK_SECONDS)
    for name, text in menus("standin").items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    run(["grub-mkrescue", "-o", str(out), str(tree), "--", "-volid", VOLUME], timeout=_PACK_SECONDS)
    return out
