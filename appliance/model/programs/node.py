"""Programs that nodes run: by the probe, by roles and modules, and over SSH.

Packages are those of Ubuntu 20.04, Debian 12 and 11, which have the same names for all of these.
"""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.programs.program import Program, Where


def _there(
    packages: str, names: str, purpose: str, since: str, where: Where = Where.EVERY
) -> Iterator[Program]:
    """What a node brings itself; without it the install does not begin."""
    for name in names.split():
        yield Program(name, purpose, tuple(packages.split()), where=where, since=since)


def _brought(packages: str, names: str, purpose: str, step: str) -> Iterator[Program]:
    """What a step of the install brings."""
    for name in names.split():
        yield Program(name, purpose, tuple(packages.split()), where=Where.EVERY, since=step,
                      brought_by=step)  # fmt: skip


def _asked(packages: str, names: str, purpose: str, since: str) -> Iterator[Program]:
    """What is asked where it is there; its absence is an answer, too."""
    for name in names.split():
        yield Program(name, purpose, tuple(packages.split()), where=Where.EVERY, since=since,
                      optional=True)  # fmt: skip


LOOK = "look"

PROGRAMS: tuple[Program, ...] = (
    # Looking at a node, and keeping records on it.
    *_there("dash", "sh", "runs what comes over SSH", LOOK),
    *_there("coreutils",
            "base64 cat chmod cut du head id ln mkdir mkfifo mktemp mv rm sha256sum sort stat sync"
            " tail timeout touch",
            "moves and verifies files", LOOK),
    *_there("findutils", "find xargs", "lists files; pushes images in parallel", LOOK),
    *_there("sed", "sed", "parses apt's output", "artifacts"),
    *_there("tar", "tar", "unpacks records and bundles", LOOK),
    *_there("util-linux", "flock lsblk", "holds the lock of the site; shows disks", LOOK),
    *_there("util-linux", "prlimit setpriv", "bounds and ends a scratch etcd", "control_plane"),
    *_there("mount", "mount umount swapoff", "tests shared storage; turns swap off", "host"),
    *_there("systemd", "systemctl systemd-run journalctl systemd-detect-virt",
            "runs services, and work that survives a lost connection", LOOK),
    *_there("iproute2", "ip", "shows links, addresses and routes", LOOK),
    *_there("kmod", "modprobe modinfo", "loads kernel modules, and tells their versions", "host"),
    *_there("openssl", "openssl", "reads and makes certificates", LOOK),
    *_there("dpkg", "dpkg dpkg-query", "lists installed packages", LOOK),
    *_there("apt", "apt-get apt-config apt-helper apt-mark", "installs and holds packages", LOOK),
    *_there("rsync", "rsync", "receives the bundle", "artifacts", Where.SERVICES),
    *_there("rsync", "rsync", "receives Run:ai's bundle", "runai", Where.VENDOR),
    # Brought from the bundle.
    *_brought("chrony", "chronyc", "shows the clock's synchronisation", "artifacts"),
    *_brought("nginx-light", "nginx", "serves the bundle, and the registry over TLS", "artifacts"),
    *_brought("docker-ce docker.io", "docker", "runs containers", "runtime"),
    *_brought("containerd.io containerd", "containerd", "runs containers for Docker", "runtime"),
    *_brought("", "kubeadm kubectl kubelet", "creates and runs a cluster member", "registry"),
    *_brought("", "helm", "installs charts, and tells their values", "runai"),
    *_brought("docker-registry", "docker-registry", "holds images; frees blobs", "registry"),
    *_brought("nfs-kernel-server", "exportfs rpc.nfsd", "exports the shared storage", "storage"),
    *_brought("dkms", "dkms", "builds NVIDIA's driver for each kernel", "gpu"),
    *_brought("keepalived", "keepalived", "carries the address of Run:ai's backend", "runai"),
    # Told where they are there.
    # The connection's own setting names another.
    *_asked("python3", "python3", "runs the probe and Ansible's modules", LOOK),
    *_asked("sudo", "sudo", "becomes root if the login user is not root", LOOK),
    *_asked("dmidecode", "dmidecode", "shows memory modules", LOOK),
    *_asked("ethtool", "ethtool", "shows firmware and speeds of network ports", LOOK),
    *_asked("smartmontools", "smartctl", "shows health and wear of SATA disks", LOOK),
    *_asked("systemd", "timedatectl", "tells whether the clock is synchronised", LOOK),
    *_asked("coreutils", "chroot", "queries the driver in NVIDIA's container", LOOK),
    *_asked("iptables", "iptables-save", "shows foreign firewall rules", LOOK),
    *_asked("cri-tools", "crictl", "pulls images into containerd", "registry"),
    *_asked("containerd.io containerd", "ctr", "tags images of containerd", "registry"),
    *_asked("nvidia-utils", "nvidia-smi", "shows GPUs", LOOK),
    *_asked("initramfs-tools", "update-initramfs", "keeps nouveau out of the next boot", "gpu"),
)  # fmt: skip
