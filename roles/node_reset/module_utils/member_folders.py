"""The folders that are a member's alone."""

from __future__ import annotations

import re

from ansible.module_utils.appliance_mounts import NETWORK, kind_at, mounts_of

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

# As appliance_etcd_snapshot.py names them; each holds every Secret of the cluster.
SNAPSHOTS = "var/lib/appliance/etcd-snapshots"
SNAPSHOT = re.compile(r"\d{8}T\d{6}Z-[\w-]+\.db(?:\.new)?")


def snapshots(root):
    """Return the snapshots of etcd that the tool saved on this machine, and on it alone."""
    folder = root / SNAPSHOTS
    if not folder.is_dir():
        return []
    require_own(root, ["var/lib/appliance", SNAPSHOTS])
    # What several machines have in common is not on this one when it goes.
    if NETWORK.match(kind_at(str(folder.resolve()), mounts_of(root))):
        return []
    return sorted(path for path in folder.iterdir() if SNAPSHOT.fullmatch(path.name))


def resolved(root, names):
    """Return the folders that are there, links in their paths followed; each once."""
    # One may be a link to another, as /var/run is to /run.
    found = [(root / name).resolve() for name in names]
    return list(dict.fromkeys(path for path in found if path.is_dir()))


def require_own(root, names):
    """Refuse a folder that is a link to one of another name: what else is in there is not ours."""
    for name in names:
        path = root / name
        if path.is_symlink() and path.resolve().name != path.name:
            raise OSError(
                "%s is a link to %s, which is not a member's alone: empty it by hand and remove "
                "the link" % (path, path.resolve())
            )
