"""The folders that are a member's alone, and what is mounted there."""

from __future__ import annotations

import re

KUBELET = "var/lib/kubelet"
# Everything below these goes; the folders themselves may be mount points, and stay.
FOLDERS = (
    KUBELET,
    "var/lib/etcd",
    "var/lib/cni",
    "var/lib/dockershim",
    "run/flannel",
    "etc/cni/net.d",
    "etc/kubernetes",
    "var/run/kubernetes",
)
ESCAPED = re.compile(r"\\([0-7]{3})")
# Deleting there would delete what other machines use.
NETWORK = re.compile(
    r"nfs|cifs|smb|ceph|lustre|beegfs|gpfs|glusterfs|fuse\.(sshfs|gluster|ceph|nfs)"
)


def resolved(root, names):
    """Return the folders that are there, links in their paths followed; each once."""
    # One may be a link to another, as /var/run is to /run.
    found = [(root / name).resolve() for name in names]
    return list(dict.fromkeys(path for path in found if path.is_dir()))


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


def require_own(root, names):
    """Refuse a folder that is a link to one of another name: what else is in there is not ours."""
    for name in names:
        path = root / name
        if path.is_symlink() and path.resolve().name != path.name:
            raise OSError(
                "%s is a link to %s, which is not a member's alone: empty it by hand and remove "
                "the link" % (path, path.resolve())
            )


def require_local(root, names):
    """Refuse while anything is mounted below a folder, and a folder on network storage."""
    mounts = mounts_of(root)
    for folder in map(str, resolved(root, names)):
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
