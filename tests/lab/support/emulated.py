"""A virtual machine with a kernel of its own, for what no container has: software emulation.

The disk is built once into ``~/.cache/appliance/vm`` and never written again: each machine runs on
a throw-away layer over it, and is gone with its process. ``APPLIANCE_TEST_OS=debian-11`` makes it
of Debian 11, whose nfs-utils are those of Ubuntu 20.04.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from appliance.builder.sources.apt.sources import DEBIAN_SUITES
from appliance.lab.machine.archives import archives_of
from tests.this_run import OS

CACHE = Path(os.environ.get("APPLIANCE_CACHE") or Path.home() / ".cache" / "appliance") / "vm"
PACKAGES = (
    "linux-image-amd64",
    "systemd-sysv",
    "openssh-server",
    "python3",
    "python3-apt",
    "sudo",
    "iproute2",
    "kmod",
    "nfs-common",
    "nfs-kernel-server",
)
# udev would wait for hardware nobody emulates; the server is to be started by the role.
HOOKS = (
    'echo "/dev/vda / ext4 defaults 0 1" >"$1/etc/fstab"',
    'printf "[Match]\\nName=en* eth*\\n[Network]\\nDHCP=yes\\n"'
    ' >"$1/etc/systemd/network/all.network"',
    'systemctl --root="$1" enable systemd-networkd',
    'systemctl --root="$1" mask networking.service e2scrub_reap.service apt-daily.timer'
    " apt-daily-upgrade.timer",
    'systemctl --root="$1" disable nfs-server.service',
    'echo vm >"$1/etc/hostname"',
    'mkdir -p -m 700 "$1/root/.ssh"',
    'cp @KEY@.pub "$1/root/.ssh/authorized_keys"',
)
DISK_SIZE = "3G"
BOOT_SECONDS = 240


@dataclass(frozen=True)
class Machine:
    """A running machine, as SSH reaches it."""

    port: int
    key: Path

    def ssh(self) -> list[str]:
        """The command that runs what follows in it."""
        options = ("StrictHostKeyChecking=no", "UserKnownHostsFile=/dev/null", "LogLevel=ERROR")
        words = [word for option in options for word in ("-o", option)]
        key = ["-i", str(self.key), "-p", str(self.port)]
        return ["ssh", *words, *key, "-o", "ConnectTimeout=5", "root@127.0.0.1"]

    def shell(self, command: str, *, feed: bytes = b"", check: bool = True) -> str:
        """Run a command in it as root."""
        done = subprocess.run(
            [*self.ssh(), command], input=feed, capture_output=True, timeout=300, check=False
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stderr!r}{done.stdout!r}"
        return done.stdout.decode()


def disk() -> tuple[Path, Path, Path, Path]:
    """Kernel, initial RAM disk, disk and key; built when this recipe was never built here."""
    recipe = "\n".join((OS, *PACKAGES, *HOOKS, DISK_SIZE))
    folder = CACHE / hashlib.sha256(recipe.encode()).hexdigest()[:12]
    parts = tuple(folder / name for name in ("vmlinuz", "initrd.img", "disk.img", "id_ed25519"))
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
            _build(Path(work))
            Path(work, "done").mkdir()
            for part in parts:
                Path(work, part.name).rename(Path(work, "done", part.name))
            Path(work, "done").rename(folder)
    return parts[0], parts[1], parts[2], parts[3]


def _build(work: Path) -> None:
    key = work / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    root, sources = work / "root", work / "debian.sources"
    sources.write_text("\n".join(archives_of(OS)["sources"]))
    hooks = [f"--customize-hook={hook.replace('@KEY@', shlex.quote(str(key)))}" for hook in HOOKS]
    subprocess.run(
        ["mmdebstrap", "--mode=root", "--variant=minbase", "--dpkgopt=force-unsafe-io",
         f"--include={','.join(PACKAGES)}", *hooks, DEBIAN_SUITES[OS], root, sources],
        check=True, capture_output=True, timeout=1200,
    )  # fmt: skip
    for name in ("vmlinuz", "initrd.img"):
        shutil.copyfile((root / name).resolve(), work / name)
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", "-d", root, work / "disk.img", DISK_SIZE], check=True
    )
    shutil.rmtree(root)


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Boot one, wait for its SSH, and end it."""
    kernel, initrd, image, key = disk()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder / "console.log"
    command = [
        "qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max",
        "-smp", "2", "-m", "1536", "-display", "none", "-serial", f"file:{log}", "-snapshot",
        "-drive", f"file={image},if=virtio,format=raw", "-kernel", str(kernel),
        "-initrd", str(initrd), "-append", "root=/dev/vda rw console=ttyS0",
        "-nic", f"user,model=virtio-net-pci,restrict=on,hostfwd=tcp:127.0.0.1:{port}-:22",
    ]  # fmt: skip
    process = subprocess.Popen(command)
    try:
        found = Machine(port, key)
        _wait(found, process, log)
        yield found
    finally:
        process.kill()
        process.wait()


def _wait(found: Machine, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + BOOT_SECONDS
    while True:
        done = subprocess.run([*found.ssh(), "true"], capture_output=True, check=False)
        if done.returncode == 0:
            return
        assert process.poll() is None, "the emulator ended"
        assert time.monotonic() < until, log.read_text(errors="replace")[-2000:]
        time.sleep(1)
