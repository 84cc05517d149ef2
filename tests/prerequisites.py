"""Programs of the operating system that tests need, brought in when they are missing.

The README's test command is typed on a machine with nothing of ours on it, as root: what a test
needs beyond Python is installed from the machine's own archive, once, by name.
"""

from __future__ import annotations

import functools
import os
import subprocess

import pytest

from appliance.adapters.processes import find_program
from appliance.model.programs import program_named

# What only tests start on this machine.
OF_TESTS = {
    "openssl": ("openssl",),
    "qemu-system-x86_64": ("qemu-system-x86",),
    "unshare": ("util-linux",),
}


def require(*programs: str) -> None:
    """Make sure that programs are there; fail with what to install where we may not."""
    missing = [name for name in programs if find_program(name) is None]
    packages = [package for name in missing for package in _packages(name)]
    if not missing:
        return
    if os.geteuid() != 0 or find_program("apt-get") is None:
        pytest.fail(f"these tests need {', '.join(missing)}: install {' '.join(packages)}")
    _refresh()
    _apt_get("install", "--yes", "--no-install-recommends", *packages)


def _packages(name: str) -> tuple[str, ...]:
    row = program_named(name, on_node=False)
    return row.packages if row else OF_TESTS[name]


@functools.cache
def _refresh() -> None:
    _apt_get("update")


def _apt_get(*argv: str) -> None:
    subprocess.run(
        ["apt-get", "-qq", *argv],
        check=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
    )
