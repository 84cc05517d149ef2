"""Programs that the control host runs: for labs, for bundles, and to change nodes."""

from __future__ import annotations

from appliance.model.programs.program import Program, Use

LAB, BUILD, COMPILE = Use.LAB, Use.BUILD, Use.COMPILE
SIGN, PLAYS, BRING = Use.SIGN, Use.PLAYS, Use.BRING
IMAGE, PXE, MEDIUM = Use.IMAGE, Use.PXE, Use.MEDIUM


def _row(
    name: str, purpose: str, packages: str, *uses: Use, fedora: str = "", started_by: str = ""
) -> Program:
    return Program(
        name,
        purpose,
        tuple(packages.split()),
        fedora=tuple(fedora.split()),
        uses=frozenset(uses),
        since=min(uses, key=list(Use).index),
        started_by=started_by,
    )


PROGRAMS: tuple[Program, ...] = (
    _row("podman", "starts the nodes of a lab", "podman netavark", LAB),
    _row("runc", "the runtime that works with hybrid control groups", "runc", LAB,
         started_by="podman"),
    _row("iptables", "podman's networks", "iptables", LAB, started_by="podman"),
    _row("mmdebstrap", "builds the root file system of a lab's nodes", "mmdebstrap", LAB),
    _row("gpg", "checks who signed packages", "gpg", LAB, fedora="gnupg2", started_by="mmdebstrap"),
    _row("chroot", "adds the user of a lab's nodes", "coreutils", LAB),
    _row("systemctl", "sets the units of a lab's nodes", "systemd", LAB),
    _row("chmod", "sets the modes of a lab's files", "coreutils", LAB),
    _row("rm", "clears the root file system of a lab's nodes", "coreutils", LAB),
    _row("mkdir", "makes folders of a lab's nodes", "coreutils", LAB),
    _row("ip", "finds networks that are in use", "iproute2", LAB, fedora="iproute"),
    _row("apt-get", "installs missing programs; resolves dependencies", "apt", LAB, BUILD),
    _row("apt-cache", "lists dependencies of packages", "apt", BUILD),
    _row("apt-config", "reads this machine's sources of packages", "apt", BUILD),
    _row("dpkg-deb", "reads packages", "dpkg", BUILD),
    _row("sh", "joins programs", "dash", LAB, BUILD, fedora="bash"),
    _row("go", "builds programs from Go modules", "golang-go", COMPILE, fedora="golang"),
    _row("gcc", "builds pause and flannel", "gcc libc6-dev", COMPILE,
         fedora="gcc glibc-static"),
    _row("update-ca-certificates", "the CAs that go trusts", "ca-certificates", COMPILE,
         fedora="ca-certificates", started_by="go"),
    _row("ssh-keygen", "creates keys; creates and checks signatures of bundles", "openssh-client",
         LAB, SIGN, fedora="openssh"),
    _row("ssh", "reaches the nodes", "openssh-client", LAB, PLAYS, fedora="openssh-clients"),
    _row("xorriso", "puts seeds on the installer's medium", "xorriso", IMAGE, PXE),
    _row("dnsmasq", "tells servers where to boot from", "dnsmasq-base ipxe", PXE,
         fedora="dnsmasq ipxe-bootimgs-x86"),
    _row("setpriv", "ends dnsmasq with the command", "util-linux", PXE),
    _row("grub-mkrescue", "makes the medium of the stand-in's installer",
         "grub-common grub-pc-bin grub-efi-amd64-bin mtools xorriso", MEDIUM,
         fedora="grub2-tools-extra mtools xorriso"),
    _row("cpio", "packs the start of the stand-in's installer", "cpio", MEDIUM),
    _row("zstd", "compresses it", "zstd", MEDIUM),
    _row("rsync", "copies the bundles to the nodes", "rsync", LAB, BRING),
)  # fmt: skip
