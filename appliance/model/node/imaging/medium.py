"""The installer's medium: what is changed on the operator's ISO, and what an installer boots with.

The ISO is Ubuntu's own: its kernel, initrd and boot equipment stay. Only its boot menus, and the
seeds beside them, are ours. Paths are those of 20.04's live server ISO: isolinux for BIOS, GRUB for
UEFI. What must not be here: running a program, and the seeds (:mod:`.seed`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

from appliance.model.bundle.release.installer import Layout

# Seconds that a menu waits: nobody sits there, and a person can stop it.
_SECONDS: Final = 3


@dataclass(frozen=True)
class Installer:
    """How one kind of medium is booted.

    Attributes:
        kernel, initrd: on the medium.
        seeded: kernel options, for the seeds on the medium.
        from_network: the same for PXE; ``{iso}`` and ``{seed}`` are URLs.
        stays: files that must be there, or the ISO is another one.
        dropped: files that would no longer be true.
    """

    kernel: str
    initrd: str
    seeded: str
    from_network: str
    stays: tuple[str, ...]
    dropped: tuple[str, ...] = ()


INSTALLERS: Final[Mapping[Layout, Installer]] = {
    # Options: Ubuntu's "Automated server install quickstart" and "Netbooting the server installer".
    "ubuntu": Installer(
        kernel="/casper/vmlinuz",
        initrd="/casper/initrd",
        seeded="autoinstall ds=nocloud;s=/cdrom/nocloud/",
        from_network="ip=dhcp url={iso} autoinstall ds=nocloud-net;s={seed}",
        stays=("/casper/vmlinuz", "/casper/initrd", "/boot/grub/grub.cfg"),
        dropped=("/md5sum.txt",),
    ),
    "standin": Installer(
        kernel="/standin/vmlinuz",
        initrd="/standin/initrd",
        seeded="standin.seeds=medium console=tty0 console=ttyS0",
        from_network="standin.seeds={seed} console=tty0 console=ttyS0",
        stays=("/standin/vmlinuz", "/standin/initrd", "/boot/grub/grub.cfg"),
    ),
}


def menus(layout: Layout) -> dict[str, str]:
    """The boot menus: path on the medium -> text."""
    one = INSTALLERS[layout]
    # A semicolon ends a command of GRUB, and is a letter for isolinux.
    grub = "\n".join([
        f"set timeout={_SECONDS}",
        'menuentry "Install this server by its seed" {',
        f'  linux {one.kernel} {_quoted(one.seeded)}',
        f"  initrd {one.initrd}",
        "}",
        "",
    ])  # fmt: skip
    if layout != "ubuntu":
        return {"boot/grub/grub.cfg": grub}
    isolinux = "\n".join([
        "default install",
        f"timeout {_SECONDS * 10}",
        "label install",
        f"  kernel {one.kernel}",
        f"  append initrd={one.initrd} {one.seeded} ---",
        "",
    ])  # fmt: skip
    return {"boot/grub/grub.cfg": grub, "isolinux/isolinux.cfg": isolinux}


def _quoted(options: str) -> str:
    return " ".join(f'"{word}"' if ";" in word else word for word in options.split())


def missing_files(layout: Layout, found: Collection[str]) -> tuple[str, ...]:
    """What an ISO lacks of the medium that it should be."""
    return tuple(path for path in INSTALLERS[layout].stays if path not in found)


def files_in(listing: str) -> frozenset[str]:
    """Paths in what ``xorriso -find`` printed: one a line, in single quotes."""
    return frozenset(
        line.strip()[1:-1]
        for line in listing.splitlines()
        if line.strip().startswith("'/") and line.strip().endswith("'")
    )


def remaster_words(layout: Layout, iso: str, out: str, folder: str) -> list[str]:
    """The command that puts a folder's files onto a copy of an ISO, and keeps how it boots."""
    dropped = [word for path in INSTALLERS[layout].dropped for word in ("-rm", path, "--")]
    return [
        *("xorriso", "-abort_on", "FATAL", "-return_with", "SORRY", "32"),
        *("-indev", iso, "-outdev", out, "-boot_image", "any", "replay", "-overwrite", "on"),
        *dropped,
        *("-map", folder, "/"),
        *("-compliance", "no_emul_toc", "-commit", "-end"),
    ]
