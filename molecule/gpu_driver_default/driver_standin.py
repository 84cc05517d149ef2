#!/usr/bin/python3
"""STANDIN for dkms, and for modinfo and modprobe as far as NVIDIA's modules are asked for.

A module that is built is a file with its version. One that is loaded has a folder in /sys/module,
which is a file system of the scenario's own. dkms builds for kernels whose headers are installed,
and fails while /var/lib/dkms-broken exists. Other modules are left to the real programs.
"""

import os
import sys
from pathlib import Path

LOADED = Path("/sys/module/nvidia/version")
SOURCE = Path("/usr/src/nvidia-standin/version")
BROKEN = Path("/var/lib/dkms-broken")
REAL = {"modinfo": "/sbin/modinfo", "modprobe": "/sbin/modprobe"}


def module(kernel):
    """Return the file of the module of one kernel."""
    return Path("/lib/modules", kernel, "updates/dkms/nvidia.ko")


def dkms(words):
    """Build for the kernel after ``-k``."""
    if words[0] != "autoinstall":
        raise SystemExit("this STANDIN for dkms knows autoinstall -k KERNEL alone")
    kernel = words[words.index("-k") + 1]
    if BROKEN.exists():
        raise SystemExit(f"Error! Bad return status for module build on kernel: {kernel}")
    if not Path("/usr/src", "linux-headers-" + kernel).is_dir():
        raise SystemExit(f"Error! Your kernel headers for kernel {kernel} cannot be found")
    module(kernel).parent.mkdir(parents=True, exist_ok=True)
    module(kernel).write_text(SOURCE.read_text())


def modinfo(words):
    """Print the version of the module that a kernel would load."""
    kernel = words[words.index("-k") + 1]
    if not module(kernel).exists():
        raise SystemExit("modinfo: ERROR: Module nvidia not found.")
    sys.stdout.write(module(kernel).read_text())


def modprobe(_words):
    """Load the driver: its version is then told where the kernel tells it."""
    if LOADED.exists():
        return
    built = sorted(Path("/lib/modules").glob("*/updates/dkms/nvidia.ko"))
    if not built:
        raise SystemExit("modprobe: FATAL: Module nvidia not found in directory /lib/modules")
    LOADED.parent.mkdir(parents=True)
    LOADED.write_text(built[-1].read_text())


def main():
    """Play the part of the program by whose name this was started."""
    name, words = Path(sys.argv[0]).name, sys.argv[1:]
    if name in REAL and words[-1] not in ("nvidia", "nvidia-uvm"):
        os.execv(REAL[name], [name, *words])  # noqa: S606 - the arguments are not ours
    {"dkms": dkms, "modinfo": modinfo, "modprobe": modprobe}[name](words)


if __name__ == "__main__":
    main()
