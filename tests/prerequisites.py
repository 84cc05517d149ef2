"""Programs of the operating system that tests need, brought in when they are missing.

The README's test command is typed on a machine with nothing of ours on it, as root: what a test
needs beyond Python is installed from the machine's own archive, once, by name.
"""

from __future__ import annotations

import fcntl
import functools
import os
import subprocess
import tempfile
from pathlib import Path

import pytest

from appliance.adapters.local.processes import find_program
from appliance.model.programs import Use, program_named, used_by

# What only tests start on this machine.
OF_TESTS = {
    # gpg makes keys with it; the product only checks signatures.
    "gpg-agent": ("gpg-agent",),
    "gpgconf": ("gpgconf",),
    "iptables-nft": ("iptables",),
    "less": ("less",),
    "mformat": ("mtools",),
    "nsenter": ("util-linux",),
    "openssl": ("openssl",),
    "pg_isready": ("postgresql",),
    "qemu-img": ("qemu-utils",),
    "qemu-system-x86_64": ("qemu-system-x86",),
    "sfdisk": ("fdisk",),
    "tmux": ("tmux",),
    "unshare": ("util-linux",),
}


def require(*programs: str) -> None:
    """Make sure that programs are there; fail with what to install where we may not."""
    if all(find_program(name) for name in programs):
        return
    # apt waits for no other apt when it refreshes its lists: tests run in many processes.
    with (Path(tempfile.gettempdir()) / "appliance-tests-apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        missing = [name for name in programs if find_program(name) is None]
        packages = [package for name in missing for package in _packages(name)]
        if missing and (os.geteuid() != 0 or find_program("apt-get") is None):
            pytest.fail(f"these tests need {', '.join(missing)}: install {' '.join(packages)}")
        if missing:
            _refresh()
            _apt_get("install", "--yes", "--no-install-recommends", *packages)


def require_for(*uses: Use) -> None:
    """Make sure that what the product starts on this machine for these uses is there."""
    require(*(row.name for row in used_by(uses)))


def _packages(name: str) -> tuple[str, ...]:
    row = program_named(name, on_node=False)
    return row.packages if row else OF_TESTS[name]


@functools.cache
def _refresh() -> None:
    _apt_get("update")


def _apt_get(*argv: str) -> None:
    subprocess.run(
        ["apt-get", "-qq", "--option=DPkg::Lock::Timeout=600", *argv],
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
