"""Runs on a node: finds what is told there. From standard input: names and the forms of secrets.

In logs, journals and jobs nothing may stand. Elsewhere a secret may be kept, in a file that others
than its owner and the group it is for cannot read. Prints ``[[place, name], ...]``.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

LOGS = (
    "/var/log",
    "/var/lib/appliance/jobs",
    "/var/lib/docker/containers",
    "/run/systemd",
    "/tmp",  # noqa: S108
    "/var/tmp",  # noqa: S108
)
# The vendor's database gets its password by its environment: a container's settings, kept by root.
DATABASE = "runai-backend-postgresql-"
KEPT = ("/etc", "/run/appliance", "/root", "/home", "/srv", "/opt", "/var/lib/appliance")
# What is brought, packed and unpacked: hundreds of megabytes that no secret goes into.
LEFT_OUT = ("/var/lib/appliance/bundles", "/var/lib/appliance/push")
LARGEST = 64 << 20

wanted = {name: [form.encode() for form in forms] for name, forms in json.load(sys.stdin).items()}
told: list[list[str]] = []


def search(place: str, data: bytes) -> None:
    """Note every secret of which a form stands in the data."""
    told.extend([place, name] for name, forms in wanted.items() if any(f in data for f in forms))


def is_open(path: Path) -> bool:
    """Whether anybody could read the file."""
    return bool(path.stat().st_mode & stat.S_IROTH) and all(
        above.stat().st_mode & stat.S_IXOTH for above in path.parents
    )


def files(folder: str) -> list[Path]:
    """Every file below a folder that is no archive."""
    found = []
    for top, names, leaves in os.walk(folder):
        names[:] = [name for name in names if str(Path(top, name)) not in LEFT_OUT]
        found += [Path(top, leaf) for leaf in leaves]
    return [path for path in found if path.is_file() and not path.is_symlink()]


def told_by(path: Path, *, whoever: bool) -> bytes:
    """What a file tells, to others than its owner unless ``whoever``; one that went tells nothing.

    The node is at work: jobs, packages and containers take their files away meanwhile.
    """
    with suppress(FileNotFoundError, NotADirectoryError):
        if path.stat().st_size <= LARGEST and (whoever or is_open(path)):
            return path.read_bytes()
    return b""


def is_of_the_database(path: Path) -> bool:
    """Whether a file has the settings of the container of the vendor's database."""
    if path.name != "config.v2.json":
        return False
    with suppress(FileNotFoundError, ValueError):
        labels = json.loads(path.read_bytes())["Config"]["Labels"] or {}
        return str(labels.get("io.kubernetes.pod.name")).startswith(DATABASE)
    return False


for folder in (*LOGS, *KEPT):
    for path in files(folder):
        # The journal is read below, by the program that knows its format.
        if path.suffix != ".journal":
            whoever = folder in LOGS and not is_of_the_database(path)
            search(str(path), told_by(path, whoever=whoever))
journal = ["journalctl", "--no-pager", "--all", "--output=export"]
search("journal", subprocess.run(journal, capture_output=True, check=True).stdout)
json.dump(told, sys.stdout)
