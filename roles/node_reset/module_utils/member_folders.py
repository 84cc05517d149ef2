"""The folders that only a member has."""

from __future__ import annotations

import re

from ansible.module_utils.appliance_mounts import NETWORK, kind_at, mounts_of

KUBELET = "var/lib/kubelet"
# Their content is removed; the folders stay, because they may be mount points.
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

# As appliance_etcd_snapshot.py names them; each holds every Secret of the cluster.
SNAPSHOTS = "var/lib/appliance/etcd-snapshots"
SNAPSHOT = re.compile(r"\d{8}T\d{6}Z-[\w-]+\.db(?:\.new|\.json)?")


def snapshots(root):
    """Return the tool's snapshots of etcd that are on this machine itself."""
    folder = root / SNAPSHOTS
    if not folder.is_dir():
        return []
    require_own(root, ["var/lib/appliance", SNAPSHOTS])
    # Shared folders are not on this machine itself.
    if NETWORK.match(kind_at(str(folder.resolve()), mounts_of(root))):
        return []
    return sorted(path for path in folder.iterdir() if SNAPSHOT.fullmatch(path.name))


def resolved(root, names):
    """Return the existing folders with links resolved; each once."""
    # One may be a link to another, as /var/run is to /run.
    found = [(root / name).resolve() for name in names]
    return list(dict.fromkeys(path for path in found if path.is_dir()))


def require_own(root, names):
    """Refuse a link to a folder of another name, which may contain foreign data."""
    for name in names:
        path = root / name
        if path.is_symlink() and path.resolve().name != path.name:
            raise OSError(
                "%s is a link to %s, which may contain other data: empty it by hand and remove "
                "the link" % (path, path.resolve())
            )
