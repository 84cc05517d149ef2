"""Mounts of this node, so that nothing is deleted on a file system mounted below a folder.

Python 3.8, standard library. What must not be here: unmounting, or deleting.
"""

from __future__ import annotations

import re

ESCAPED = re.compile(r"\\([0-7]{3})")
# Deleting there would delete data of other machines.
NETWORK = re.compile(
    r"nfs|cifs|smb|ceph|lustre|beegfs|gpfs|glusterfs|fuse\.(sshfs|gluster|ceph|nfs)"
)


def mounts_of(root):
    """Return [(mount point, type)] of this machine, from the kernel."""
    raw = (root / "proc/self/mountinfo").read_bytes()
    found = []
    for line in raw.decode(errors="surrogateescape").splitlines():
        fields, _, more = line.partition(" - ")
        path = ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields.split(" ")[4])
        found.append((path, more.split(" ")[0]))
    return found


def below(path, folder):
    """Return whether a path is below a folder, and not the folder itself."""
    return path.startswith(folder.rstrip("/") + "/")


def require_local(root, folders):
    """Refuse a folder with a mount below it, and a folder on network storage.

    Args:
        root: the folder used as /.
        folders: their real paths, links followed.
    """
    mounts = mounts_of(root)
    for folder in map(str, folders):
        left = sorted(path for path, _ in mounts if below(path, folder))
        if left:
            raise OSError(
                "%s is mounted below %s: unmount it first, or its content would be deleted"
                % (left[0], folder)
            )
        kind = kind_at(folder, mounts)
        if NETWORK.match(kind):
            raise OSError("%s is on network storage (%s): empty it by hand" % (folder, kind))


def kind_at(folder, mounts):
    """Return the type of a folder's file system."""
    over = [pair for pair in mounts if pair[0] == folder or below(folder, pair[0])]
    # Of several mounts over each other, the last one is visible.
    ranked = sorted(enumerate(over), key=lambda one: (len(one[1][0]), one[0]))
    return ranked[-1][1][1] if ranked else ""
