"""Root file systems of a test, unpacked from layers, and commands in them without a network."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.prerequisites import require

UID = 4711
# What a container gets from its engine, and the user's entry, which ssh asks for.
_START = """
set -e
ip link set lo up
mount --rbind /dev "$0/dev"
mount -t proc proc "$0/proc"
mount -t tmpfs -o mode=1777 tmp "$0/tmp"
exec chroot --userspec=4711:4711 "$0" /usr/bin/env -i HOME=/home/engineer USER=engineer \
  LANG=C.UTF-8 PATH=/usr/local/bin:/usr/bin:/bin "$@"
"""


def unpack(layers: Iterable[Path], root: Path) -> Path:
    """The file system of the layers, with one ordinary user."""
    root.chmod(0o755)
    for layer in layers:
        subprocess.run(["tar", "-C", root, "-xpf", layer], check=True)
    for name in ("dev", "proc", "tmp", "etc", "home/engineer"):
        (root / name).mkdir(parents=True, exist_ok=True)
    os.chown(root / "home/engineer", UID, UID)
    with (root / "etc/passwd").open("a") as passwd:
        passwd.write(f"engineer:x:{UID}:{UID}::/home/engineer:/bin/sh\n")
    return root


def inside(root: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    """Run as the ordinary user, where no interface but the loopback one is there."""
    require("unshare", "ip", "chroot", "mount")
    assert os.geteuid() == 0, "the premise: root may change its root folder"
    return subprocess.run(
        ["unshare", "--net", "--mount", "--pid", "--fork", "sh", "-c", _START, root, *argv],
        capture_output=True, text=True, check=False, cwd="/",
    )  # fmt: skip
