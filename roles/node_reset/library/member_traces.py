#!/usr/bin/python
"""Ansible module: nothing of a member of a cluster is left on this node."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: member_traces
short_description: Remove what a member of a cluster leaves behind
description:
  - Stops the kubelet and what stands beside it, unmounts pods' volumes, removes kubeadm's files,
    the kubelet's identity, etcd's data, the pod network's links, files and firewall rules.
  - Docker, its images, its own rules, programs and packages stay, and so does everything else.
  - Run it after C(kubeadm reset), which leaves much of this, or without it, where there is none.
options:
  units: {description: Units that are stopped and not started at boot, type: list, elements: str,
    default: [kubelet.service]}
  homes: {description: Login users whose ~/.kube/config is removed, type: list, elements: str,
    default: []}
  root: {description: The folder that stands for /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove what is left of the member
  member_traces:
    units: [kubelet.service]
"""

RETURN = r"""
removed: {description: What was there and is gone, type: list, elements: str, returned: always}
"""

# Everything below these goes; the folders themselves may be mount points, and stay.
FOLDERS = (
    "var/lib/kubelet",
    "var/lib/etcd",
    "var/lib/cni",
    "var/lib/dockershim",
    "run/flannel",
    "etc/cni/net.d",
    "etc/kubernetes",
    "var/run/kubernetes",
)
# Stopping the kubelet's units and unmounting may wait for what hangs.
PROGRAM_SECONDS = 180
LINKS = ("cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "nodelocaldns")
# Both kinds of iptables: kube-proxy picks one by itself, and the node's default may be the other.
FIREWALLS = (
    ("iptables-nft-save", "iptables-nft-restore", None),
    ("iptables-legacy-save", "iptables-legacy-restore", "proc/net/ip_tables_names"),
    ("ip6tables-nft-save", "ip6tables-nft-restore", None),
    ("ip6tables-legacy-save", "ip6tables-legacy-restore", "proc/net/ip6_tables_names"),
)
CHAIN = r"(?:KUBE|FLANNEL|CNI)-"
OURS = re.compile(r"^(?::%s|-A %s)|-[jg] %s|--comment \"?(?:flanneld|cni:) ?" % ((CHAIN,) * 3))


def without_ours(text):
    """Return (rules without those of kube-proxy, flannel and CNI, how many those were)."""
    kept, dropped = [], 0
    for line in text.splitlines():
        if OURS.search(line):
            dropped += 1
        else:
            kept.append(line)
    return "\n".join(kept) + "\n", dropped


class Traces:
    """What is left of a member on this node."""

    def __init__(self, root, run, which=shutil.which):
        self._root = root
        self._run = run
        self._which = which
        self.removed = []

    def _call(self, *command, **more):
        rc, out, err = self._run(list(command), **more)
        if rc != 0:
            raise OSError("%s: %s" % (" ".join(command), (err or out).strip()))
        return out

    def units(self, names, act):
        """Stop units and keep them from starting at boot."""
        for name in names:
            _, active, _ = self._run(["systemctl", "is-active", name])
            _, enabled, _ = self._run(["systemctl", "is-enabled", name])
            if active.strip() in ("inactive", "unknown", "failed", "") and (
                enabled.strip() not in ("enabled", "enabled-runtime")
            ):
                continue
            self.removed.append("unit %s" % name)
            if act:
                self._call("systemctl", "disable", "--now", name)

    def mounts(self, act):
        """Unmount what pods had mounted, the innermost first."""
        kubelet = str(self._root / "var/lib/kubelet") + "/"
        lines = (self._root / "proc/mounts").read_text().splitlines()
        paths = [line.split()[1].replace("\\040", " ") for line in lines]
        for path in sorted((p for p in paths if p.startswith(kubelet)), reverse=True):
            self.removed.append("mount %s" % path)
            if act:
                self._call("umount", "--lazy", path)

    def folders(self, act):
        """Empty the folders that are a member's alone."""
        for name in FOLDERS:
            folder = self._root / name
            if folder.is_symlink() or not folder.is_dir():
                continue
            for path in sorted(folder.iterdir()):
                self.removed.append(str(path))
                if act:
                    remove(path)

    def credentials(self, homes, act):
        """Remove the kubeconfigs of login users."""
        for user in homes:
            home = (self._root / "root") if user == "root" else (self._root / "home" / user)
            path = home / ".kube/config"
            if path.is_file():
                self.removed.append(str(path))
                if act:
                    path.unlink()

    def links(self, act):
        """Remove the pod network's interfaces."""
        net = self._root / "sys/class/net"
        for name in LINKS:
            if (net / name).exists():
                self.removed.append("link %s" % name)
                if act:
                    self._call("ip", "link", "delete", name)

    def firewall(self, act):
        """Remove the rules of kube-proxy, flannel and CNI from every table, and no others."""
        for save, restore, tables in FIREWALLS:
            if not self._which(save) or not self._in_use(tables):
                continue
            kept, dropped = without_ours(self._call(save))
            if dropped:
                self.removed.append("%d rules of %s" % (dropped, save.rpartition("-")[0]))
                if act:
                    self._call(restore, data=kept)

    def _in_use(self, tables):
        """Say whether the old kernel tables exist; asking them otherwise would make them."""
        if tables is None:
            return True
        path = self._root / tables
        return path.is_file() and bool(path.read_text().strip())


def remove(path):
    """Remove a file or a folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
    else:
        path.unlink()


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "units": {"type": "list", "elements": "str", "default": ["kubelet.service"]},
            "homes": {"type": "list", "elements": "str", "default": []},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    want, act = module.params, not module.check_mode
    traces = Traces(Path(want["root"]), runner(module, PROGRAM_SECONDS))
    try:
        traces.units(want["units"], act)
        traces.mounts(act)
        traces.links(act)
        traces.firewall(act)
        traces.credentials(want["homes"], act)
        traces.folders(act)
    except OSError as error:
        module.fail_json(
            msg="%s. What was removed before: %s. Run the same command again"
            % (error, ", ".join(traces.removed) or "nothing"),
            removed=traces.removed,
        )
    module.exit_json(changed=bool(traces.removed), removed=traces.removed)


if __name__ == "__main__":
    main()
