"""The shared storage as this node sees it: the export, the server's own folder, the proof."""

from __future__ import annotations

import json
import os
import stat
from typing import Any, Dict, Optional

from . import nfs4
from .source import Source
from .storage import space_of

# Where the role nfs_server writes down which folder it made.
FOLDER_MARK = "/var/lib/appliance/nfs-export.json"
PROOF = "/var/lib/appliance/storage-proof.json"
KERNEL_EXPORTS = "/etc/exports.d/appliance.exports"
GANESHA = "/etc/ganesha/ganesha.conf"
ANSWER_SECONDS = 3.0
# Run:ai's databases run as 1001; 0 says whether the server squashes root.
USERS = [1001, 0]


def storage(source: Source) -> Optional[Dict[str, Any]]:
    """What can be said of the site's NFS; null when the site has none."""
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
    """What mounts NFS here: the kernel, built in, loaded or loadable."""
    if "\tnfs4" in (source.text("/proc/filesystems") or ""):
        return "kernel"
    release = source.word("/proc/sys/kernel/osrelease") or ""
    names = source.text("/lib/modules/%s/modules.dep" % release) or ""
    return "kernel" if "/fs/nfs/nfsv4.ko" in names else None


def _export(source: Source, server: str, path: str) -> Dict[str, Any]:
    if not source.live:
        recorded = source.recorded("nfs")
        unseen = {"server": server, "path": path, "reachable": False, "visible": False}
        unseen.update(error="connection refused", writers=[], folders=[])
        return dict(json.loads(recorded)) if recorded else unseen
    seconds = source.seconds_left(ANSWER_SECONDS)
    return nfs4.ask(server, path, USERS, seconds, folders=source.request.nfs_folders)


def _local(source: Source, path: str) -> Optional[Dict[str, Any]]:
    """The folder on this node's own disk, and the file system it is, or would be, on."""
    found = space_of(source, path)
    if found is None:
        return None
    place = source.path(path)
    found.update(exists=place.is_dir(), owner=None, mode=None, empty=None, made_by_us=None)
    if found["exists"]:
        mark = source.document(FOLDER_MARK)
        known = os.stat(str(place))  # noqa: PTH116  (Path.stat takes the same; one style here)
        found.update(owner=known.st_uid, mode="%04o" % stat.S_IMODE(known.st_mode))
        # mkfs makes lost+found: a file system with that alone is empty.
        found["empty"] = not set(source.names(path)) - {"lost+found"}
        same = {"device": known.st_dev, "inode": known.st_ino}
        found["made_by_us"] = isinstance(mark, dict) and all(mark.get(k) == same[k] for k in same)
    return found


def _served(source: Source, path: str) -> Optional[str]:
    """Which server of ours is set up to serve it from here, after a reboot too."""
    if any(line.split()[0] == path for line in source.lines(KERNEL_EXPORTS)):
        return "kernel"
    if ("Path = %s;" % path) in (source.text(GANESHA) or ""):
        return "ganesha"
    return None
