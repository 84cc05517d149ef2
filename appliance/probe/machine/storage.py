"""Storage: filesystems (free space of the folders we write to) and mounts."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional, Tuple

from ..source import Source

FOLDERS = (
    "/", "/var", "/var/lib/docker", "/var/lib/kubelet", "/var/lib/etcd",
    "/var/lib/appliance", "/var/lib/docker-registry", "/var/lib/containerd", "/boot",
    "/var/lib/appliance/runai",
)  # fmt: skip
PSEUDO = {
    "proc", "sysfs", "cgroup", "cgroup2", "devpts", "mqueue", "tracefs", "debugfs", "securityfs",
    "pstore", "bpf", "configfs", "fusectl", "hugetlbfs", "autofs", "binfmt_misc", "nsfs",
    "rpc_pipefs", "efivarfs", "devtmpfs", "squashfs", "ramfs",
}  # fmt: skip
# Mounts that come and go with pods and containers.
TRANSIENT = (
    "/var/lib/kubelet/pods/", "/var/lib/docker/", "/run/docker/", "/run/netns", "/run/user/",
    "/run/containerd/", "/var/lib/containerd/", "/run/credentials/",
    "/var/lib/containers/storage/",
)  # fmt: skip


def _mount_table(source: Source) -> List[Dict[str, str]]:
    table = []
    for line in (source.text("/proc/mounts") or "").splitlines():
        words = line.split()
        if len(words) < 4:
            continue
        point = words[1].replace("\\040", " ")
        table.append({"device": words[0], "mount": point, "fstype": words[2], "options": words[3]})
    return table


def mounts(source: Source) -> List[Dict[str, Any]]:
    """Return permanent mounts, without pseudo file systems and mounts of pods."""
    seen = []
    for entry in _mount_table(source):
        if entry["fstype"] in PSEUDO or entry["mount"].startswith(TRANSIENT):
            continue
        if entry["fstype"] == "tmpfs" and entry["mount"].startswith(("/sys", "/proc", "/dev")):
            continue
        seen.append({key: entry[key] for key in ("device", "mount", "fstype")})
    return seen


def filesystems(source: Source) -> List[Dict[str, Any]]:
    """Return the file system of each folder that the appliance writes to, with its free space.

    A folder that does not exist yet belongs to the file system where it would be created.
    """
    table = _mount_table(source)
    found: Dict[str, Dict[str, Any]] = {}
    for folder in FOLDERS:
        holder = _holder(table, folder)
        if holder is None:
            continue
        key = holder["mount"]
        if key not in found:
            space = _space(source, key)
            if space is None:
                continue
            found[key] = {
                "mount": key,
                "device": holder["device"],
                "fstype": holder["fstype"],
                "read_only": "ro" in holder["options"].split(","),
                "for": [],
            }
            found[key].update(space)
        found[key]["for"].append(folder)
    return list(found.values())


def space_of(source: Source, folder: str) -> Optional[Dict[str, Any]]:
    """Return the (future) file system of one folder, with its space."""
    holder = _holder(_mount_table(source), folder)
    space = _space(source, holder["mount"]) if holder else None
    if holder is None or space is None:
        return None
    kept = {key: space[key] for key in ("size_bytes", "free_bytes")}
    return dict(kept, mount=holder["mount"], fstype=holder["fstype"])


def _holder(table: List[Dict[str, str]], folder: str) -> Optional[Dict[str, str]]:
    best: Optional[Dict[str, str]] = None
    for entry in table:
        mount = entry["mount"].rstrip("/") + "/"
        inside = (folder.rstrip("/") + "/").startswith(mount)
        if inside and (best is None or len(mount) >= len(best["mount"].rstrip("/") + "/")):
            best = entry
    return best


def _space(source: Source, mount: str) -> Optional[Dict[str, Any]]:
    numbers = _statvfs(source, mount)
    if numbers is None:
        return None
    block, blocks, available, files, files_free = numbers
    percent = round(100 * files_free / files) if files else 100
    return {
        "size_bytes": block * blocks,
        "free_bytes": block * available,
        "free_inodes_percent": percent,
    }


def _statvfs(source: Source, mount: str) -> Optional[Tuple[int, int, int, int, int]]:
    if not source.live:
        recorded = json.loads(source.recorded("statvfs") or "{}").get(mount)
        return tuple(recorded) if recorded else None
    try:
        result = os.statvfs(mount)
    except OSError as error:
        source.note("%s: %s" % (mount, error.strerror))
        return None
    return (
        result.f_frsize,
        result.f_blocks,
        result.f_bavail,
        result.f_files,
        result.f_favail,
    )
