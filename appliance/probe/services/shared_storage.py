"""The shared storage as seen by this node: the server's ports, its folder, the test result.

Whether the export can be mounted and written to is tried by a mount (module nfs_write_test), whose
record is read here. The probe mounts nothing.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
from typing import Any, Dict, List, Optional, Sequence

from ..machine.storage import space_of
from ..source import Source

# Role nfs_server records the exported folder and its id here, and the id also in the folder.
FOLDER_MARK = "/var/lib/appliance/nfs-export.json"
MARKER = "appliance-export.json"
UNFINISHED = ".appliance-export."
OUR_FOLDERS = ("appliance-proof", "appliance-volume-")
ID = re.compile(r"[0-9a-f]{32}\Z")
PROOF = "/var/lib/appliance/storage-proof.json"
KERNEL_EXPORTS = "/etc/exports.d/appliance.exports"
# What the kernel's server exports at this moment; exportfs(8) keeps it.
EXPORT_TABLE = "/var/lib/nfs/etab"
GANESHA = "/etc/ganesha/ganesha.conf"
ANSWER_SECONDS = 3.0


def storage(source: Source) -> Optional[Dict[str, Any]]:
    """Return the facts about the site's NFS; null when the site has none."""
    if not source.request.nfs:
        return None
    server, _, path = source.request.nfs.partition(":")
    return {
        "client": _client(source),
        "export": _export(source, server, path),
        "local": _local(source, path),
        "served": _served(source, path),
        "proof": source.document(PROOF),
    }


def _client(source: Source) -> Optional[str]:
    """Return the kernel's NFS client: built in, loaded or loadable."""
    systems = (source.text("/proc/filesystems") or "").split()
    if "nfs4" in systems or "nfs" in systems:
        return "kernel"
    release = source.word("/proc/sys/kernel/osrelease") or ""
    names = source.text("/lib/modules/%s/modules.dep" % release) or ""
    return "kernel" if "/fs/nfs/nfsv4.ko" in names or "/fs/nfs/nfsv3.ko" in names else None


def _export(source: Source, server: str, path: str) -> Dict[str, Any]:
    """Return whether the server's ports accept a connection from here."""
    found: Dict[str, Any] = {"server": server, "path": path, "reachable": False, "error": None}
    if not source.live:
        recorded = source.recorded("nfs")
        return dict(json.loads(recorded)) if recorded else dict(found, error="connection refused")
    ports = source.request.nfs_ports
    # In threads, because name resolution has no time limit of its own. No answer is an observation.
    asked = [lambda port=port: _refusal(source, server, port) for port in ports]
    said = source.together(asked, seconds=ANSWER_SECONDS, feeds=())
    faults: List[str] = []
    for port, word in zip(ports, said):  # noqa: B905  (3.8)
        if word is None or word:
            faults.append("port %d: %s" % (port, word or "no answer in time"))
    return dict(found, reachable=not faults, error="; ".join(faults) or None)


def _refusal(source: Source, server: str, port: int) -> str:
    """Return why a port does not accept a connection; empty when it does."""
    try:
        seconds = source.seconds_left(ANSWER_SECONDS - 0.5)
        socket.create_connection((server, port), timeout=seconds).close()
    except socket.timeout:
        return "no answer in time"
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def _local(source: Source, path: str) -> Optional[Dict[str, Any]]:
    """Return the folder on this node's own disk, and its (future) file system."""
    found = space_of(source, path)
    if found is None:
        return None
    place = source.path(path)
    found.update(exists=place.is_dir(), owner=None, mode=None, empty=None)
    found.update(made_by_us=None, marked=None, folders=[])
    mark = _mark_of(source, path)
    # Without root, an unreadable mark may belong to any folder.
    told = source.privileged or mark != {}
    if told:
        found["marked"] = mark is not None
    if found["exists"]:
        known = os.stat(str(place))  # noqa: PTH116  (Path.stat takes the same; one style here)
        names = source.names(path)
        found.update(owner=known.st_uid, mode="%04o" % stat.S_IMODE(known.st_mode))
        found["empty"] = all(_counts_as_empty(name) for name in names)
        found["folders"] = [n for n in source.request.nfs_folders if (place / n).is_dir()]
        marker = source.others_document("%s/%s" % (path, MARKER))
        if told:
            found["made_by_us"] = mark is not None and is_same(mark, marker, known, names)
    return found


def _mark_of(source: Source, path: str) -> Optional[Dict[str, Any]]:
    """Return the role's record of this path; {} if it is unreadable, None if there is none."""
    mark = source.others_document(FOLDER_MARK)
    if not mark or not mark.get("path"):
        return mark
    root = os.path.realpath(str(source.root))
    real = os.path.realpath(str(source.path(path)))
    inside = "/" + os.path.relpath(real, root)
    return mark if mark["path"] == inside or mark.get("asked") == os.path.normpath(path) else None


def _counts_as_empty(name: str) -> bool:
    # mkfs creates lost+found: a file system with only that is empty.
    return name in ("lost+found", MARKER) or name.startswith(UNFINISHED)


def id_of(document: Optional[Dict[str, Any]]) -> Optional[str]:
    """Return the id in a mark or marker, if it is one of ours."""
    found = (document or {}).get("id")
    return found if isinstance(found, str) and ID.match(found) else None


def is_same(
    mark: Dict[str, Any],
    marker: Optional[Dict[str, Any]],
    state: os.stat_result,
    names: Sequence[str],
) -> bool:
    """Whether a folder is the one in a mark, by the same rule as module nfs_folder."""
    inside, outside = id_of(marker), id_of(mark)
    if inside and outside:
        return inside == outside
    ours = any(name.startswith(OUR_FOLDERS) for name in names)
    here = (mark.get("device"), mark.get("inode")) == (state.st_dev, state.st_ino)
    return (here and ours) if outside else (here or ours or bool(inside))


def _served(source: Source, path: str) -> Optional[str]:
    """Return which of our servers is configured to export it, also after a reboot."""
    if any(line.split()[0] == path for line in source.lines(KERNEL_EXPORTS)):
        table = source.text(EXPORT_TABLE)
        told = table is None or any(line.split()[:1] == [path] for line in table.splitlines())
        return "kernel" if told else None
    if ("Path = %s;" % path) in (source.text(GANESHA) or ""):
        return "ganesha"
    return None
