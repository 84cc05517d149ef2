"""What is mounted where on this node: nothing is deleted on a file system that is not the folder's.

Python 3.8, standard library. What must not be here: unmounting, or deleting.
"""

from __future__ import annotations

import re

ESCAPED = re.compile(r"\\([0-7]{3})")
# Deleting there would delete what other machines use.
NETWORK = re.compile(
    r"nfs|cifs|smb|ceph|lustre|beegfs|gpfs|glusterfs|fuse\.(sshfs|gluster|ceph|nfs)"
)


def mounts_of(root):
    """Return [(mount point, type)] of this machine, as the kernel has them now."""
    raw = (root / "proc/self/mountinfo").read_bytes()
    found = []
    for line in raw.decode(errors="surrogateescape").splitlines():
        fields, _, more = line.partition(" - ")
        path = ESCAPED.sub(lambda match: chr(int(match.group(1), 8)), fields.split(" ")[4])
        found.append((path, more.split(" ")[0]))
    return found


def below(path, folder):
    """Return whether a path lies below a folder, and is not the folder itself."""
    return path.startswith(folder.rstrip("/") + "/")


def require_local(root, folders):
    """Refuse while anything is mounted below a folder, and a folder on network storage.

    Args:
        root: the folder that stands for /.
        folders: their real paths, links followed.
    """
    mounts = mounts_of(root)
    for folder in map(str, folders):
        left = sorted(path for path, _ in mounts if below(path, folder))
        if left:
            raise OSError(
                "%s is mounted below %s: unmount it first, what is on it would be deleted"
                % (left[0], folder)
            )
        kind = kind_at(folder, mounts)
        if NETWORK.match(kind):
            raise OSError("%s lies on network storage (%s): empty it by hand" % (folder, kind))


def kind_at(folder, mounts):
    """Return the type of the file system that holds a folder."""
    over = [pair for pair in mounts if pair[0] == folder or below(folder, pair[0])]
    # Of several mounted over each other the last one is seen.
    ranked = sorted(enumerate(over), key=lambda one: (len(one[1][0]), one[0]))
    return ranked[-1][1][1] if ranked else ""
