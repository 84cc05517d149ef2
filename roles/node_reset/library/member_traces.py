#!/usr/bin/python
"""Ansible module: remove all traces of cluster membership from this node."""

from __future__ import annotations

import pwd
import re
import shutil
import stat
from pathlib import Path

from ansible.module_utils.appliance_firewall import without_rules
from ansible.module_utils.appliance_mounts import below, mounts_of, require_local
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.containerd_pods import ContainerdPods
from ansible.module_utils.member_folders import (
    FOLDERS,
    KUBELET,
    require_own,
    resolved,
    snapshots,
)
from ansible.module_utils.reset_evidence import ARGUMENTS, SERVER, Evidence, host_of, refusal

DOCUMENTATION = r"""
module: member_traces
short_description: Remove the traces of a cluster member
description:
  - Stops the kubelet and its companion units, removes the kubelet's containers, unmounts
    pods' volumes, removes kubeadm's files, the kubelet's identity, etcd's data, the pod network's
    links, files and firewall rules.
  - Removes the private keys and logins of a node that served the site, and lets its web server
    forget them; the web server keeps its other services.
    - Fails where Docker or containerd does not list its containers, before the mark is removed.
  - Removes the snapshots of etcd that the tool saved here; each holds every Secret of the cluster.
  - Docker, containerd, their images, other containers, Docker's own rules, programs, packages and
    everything else stay.
  - Run it after C(kubeadm reset), which leaves much of this, or alone, where kubeadm is missing.
  - Refuses a machine that is not verified to be the node, before any change.
  - Links in the folders' paths are resolved; nothing is deleted while anything is mounted below
    them, on another file system, or on network storage.
options:
  node_name: {description: The node's name in the cluster, type: str, required: true}
  machine_id: {description: Machine-id of the probed machine, type: str, required: true}
  api_hosts: {description: Names and addresses of the cluster's API, type: list, elements: str,
    required: true}
  ca_sha256: {description: sha256 of the cluster's CA; empty where unknown, type: str, default: ""}
  vouched: {description: The caller's evidence besides the CA, type: str, default: "",
    choices: ["", ca, serial, machine, removal, operator]}
  units: {description: Units to stop and disable, type: list, elements: str,
    default: [kubelet.service]}
  homes: {description: Login users whose ~/.kube/config is removed, type: list, elements: str,
    default: []}
  snapshots_kept: {description: Whether snapshots of etcd stay, type: bool, default: false}
  root: {description: The folder used as /, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Remove what is left of the member
  member_traces:
    node_name: w2
    machine_id: 0123456789abcdef0123456789abcdef
    api_hosts: [k8s.example.com]
    ca_sha256: "{{ ca }}"
    units: [kubelet.service]
"""

RETURN = r"""
removed: {description: What was removed, type: list, elements: str, returned: always}
"""

# Stopping the kubelet's units and unmounting may block.
PROGRAM_SECONDS = 180
# A pod may leave millions of files; the next run continues after this limit.
DELETE_SECONDS = 1200
# On a former services node, or one that pushed to the registry; written by their roles.
CONFIGURATION = ("etc/nginx/conf.d/appliance.conf",)
PRIVATE = (
    "etc/appliance/registry/nginx.conf",
    "etc/appliance/registry/login/config.json",
    "etc/appliance/registry/pull/config.json",
    "etc/appliance/registry/pull/config.json.appliance",
    "etc/appliance/tls/artifacts.crt",
    "etc/appliance/tls/artifacts.key",
    "etc/appliance/tls/artifacts.key.new",
    "etc/appliance/tls/registry.crt",
    "etc/appliance/tls/registry.key",
    "etc/appliance/tls/registry.key.new",
)
WEB_SERVER = "nginx.service"
DOCKER = "docker.service"
# Only the kubelet sets these labels: for pause containers and for all others.
POD_LABEL, POD_PREFIX = "io.kubernetes.pod.uid", "k8s_"
# A folder for each container of Docker's that runs: of the system's containerd, or its own.
TASKS = (
    "run/containerd/io.containerd.runtime.v2.task/moby",
    "run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
)
STUCK = "look at it with: sudo docker ps --filter name=k8s_; restart Docker, or reboot the machine"
LINKS = ("cni0", "flannel.1", "flannel-v6.1", "kube-ipvs0", "nodelocaldns")
# Both kinds of iptables: kube-proxy chooses one, and the node's default may be the other.
FIREWALLS = (
    ("iptables-nft-save", "iptables-nft-restore", None),
    ("iptables-legacy-save", "iptables-legacy-restore", "proc/net/ip_tables_names"),
    ("ip6tables-nft-save", "ip6tables-nft-restore", None),
    ("ip6tables-legacy-save", "ip6tables-legacy-restore", "proc/net/ip6_tables_names"),
)
CHAIN = r"(?:KUBE|FLANNEL|CNI|APPLIANCE)-"
OWN_CHAIN = re.compile(r"-A %s" % CHAIN)
OURS = re.compile(r"^(?::%s|-A %s)|-[jg] %s|--comment \"?(?:flanneld|cni:) ?" % ((CHAIN,) * 3))


# If a table changes between our read and our write, iptables-restore refuses it as a whole.
ATTEMPTS = 3


def removal(text):
    """Return (input that removes the rules of kube-proxy, flannel and CNI, their number).

    The text is for ``iptables-restore --noflush``, which keeps everything that it does not name.
    """
    return without_rules(text, OURS, OWN_CHAIN)


class Traces:
    """The traces of a member on this node."""

    def __init__(self, root, run, delete, which=shutil.which, account=pwd.getpwnam):
        self._root = root
        self._run = run
        self._delete = delete
        self._which = which
        self._account = account
        self.removed = []

    def _call(self, *command, **more):
        rc, out, err = self._run(list(command), **more)
        if rc != 0:
            raise OSError("%s: %s" % (" ".join(command), (err or out).strip()))
        return out

    def units(self, names, act):
        """Stop and disable units."""
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

    def containers(self, act):
        """Remove the kubelet's containers that kubeadm left, and no other container.

        A stopped Docker has no containers, unless they survived it.
        """
        found = self._pod_containers()
        self.removed += ["container %s" % name for name in sorted(found.values())]
        if not found or not act:
            return
        argv = ["docker", "rm", "--force", "--volumes", "--", *sorted(found)]
        rc, out, err = self._run(argv)
        left = sorted(self._pod_containers().values())
        if rc != 0 or left:
            why = (err or out).strip() or "docker rm reported success"
            raise OSError(
                "%d containers of pods still exist (%s): %s; %s"
                % (len(left), ", ".join(left[:3]), why, STUCK)
            )

    def pods(self, act):
        """Remove the kubelet's pods of containerd."""
        pods = ContainerdPods(self._root, self._run, self._which)
        found = pods.found()
        self.removed += ["pod %s" % identity[:13] for identity in found]
        if found and act:
            pods.remove()

    def _pod_containers(self):
        """Return identity -> name of the containers that the kubelet made."""
        outlived = [name for name in TASKS if self._is_filled(name)]
        _, active, _ = self._run(["systemctl", "is-active", DOCKER])
        there = self._which("docker") and active.strip() in ("active", "activating", "reloading")
        if not there and outlived:
            raise OSError(
                "Docker does not run, but some of its containers do (/%s); start Docker, or reboot "
                "the machine" % outlived[0]
            )
        if not there:
            return {}
        label = "label=%s" % POD_LABEL
        argv = ["docker", "ps", "--all", "--no-trunc", "--filter", label]
        rc, out, err = self._run([*argv, "--format", "{{.ID}} {{.Names}}"])
        if rc != 0:
            raise OSError(
                "Docker does not list the containers of pods: %s; %s"
                % ((err or out).strip(), STUCK)
            )
        pairs = (line.split(None, 1) for line in out.splitlines())
        return {pair[0]: pair[1] for pair in pairs if pair[1:] and pair[1].startswith(POD_PREFIX)}

    def _is_filled(self, name):
        folder = self._root / name
        return folder.is_dir() and any(folder.iterdir())

    def mounts(self, act):
        """Unmount the pods' mounts, the innermost first."""
        kubelet = str((self._root / KUBELET).resolve())
        paths = [path for path, _ in mounts_of(self._root) if below(path, kubelet)]
        for path in sorted(paths, reverse=True):
            self.removed.append("mount %s" % path)
            if act:
                # Without resolving the path: that would contact an unreachable server.
                self._call("umount", "--no-canonicalize", "--lazy", path)

    def folders(self, act):
        """Empty the folders that only a member has, each on its own file system."""
        require_own(self._root, FOLDERS)
        folders = resolved(self._root, FOLDERS)
        if act:
            require_local(self._root, folders)
        for folder in folders:
            device = folder.stat().st_dev
            for path in sorted(folder.iterdir()):
                self.removed.append(str(path))
                state = path.lstat()
                if stat.S_ISDIR(state.st_mode) and state.st_dev != device:
                    raise OSError("%s is on another file system than %s" % (path, folder))
                if act:
                    self._empty(path)

    def _empty(self, path):
        argv = ["rm", "--recursive", "--force", "--one-file-system", "--", str(path)]
        rc, out, err = self._delete(argv)
        if rc != 0:
            raise OSError("%s: %s" % (" ".join(argv), (err or out).strip()))

    def credentials(self, homes, hosts, act):
        """Remove the kubeconfigs of login users that contain only this cluster."""
        for user in homes:
            path = self._home(user) / ".kube/config"
            servers = SERVER.findall(path.read_text(errors="replace")) if path.is_file() else []
            if servers and all(host_of(server) in hosts for server in servers):
                self.removed.append(str(path))
                if act:
                    path.unlink()

    def _home(self, user):
        """Return a user's home; /root or /home/NAME for an unknown user."""
        try:
            folder = self._account(user).pw_dir
        except KeyError:
            folder = "/root" if user == "root" else "/home/%s" % user
        return self._root / folder.lstrip("/")

    def snapshots(self, act):
        """Remove the tool's snapshots of etcd on this machine."""
        for path in snapshots(self._root):
            self.removed.append(str(path))
            if act:
                path.unlink()

    def served(self, act):
        """Remove only keys and logins of a former services node.

        The private files go last: the run after a killed one finds them, and reloads again.
        """
        configuration, private = self._there(CONFIGURATION), self._there(PRIVATE)
        if not configuration and not private:
            return
        folders = {str(Path(name).parent) for name in (*CONFIGURATION, *PRIVATE)}
        require_own(self._root, ["etc/appliance", "etc/nginx", *sorted(folders)])
        self.removed += [str(path) for path in (*configuration, *private)]
        if not act:
            return
        for path in configuration:
            path.unlink()
        _, active, _ = self._run(["systemctl", "is-active", WEB_SERVER])
        if active.strip() == "active":
            self._call("systemctl", "reload", WEB_SERVER)
        for path in private:
            path.unlink()

    def _there(self, names):
        """Return the existing files and links among them."""
        paths = [self._root / name for name in names]
        return [path for path in paths if path.is_symlink() or path.is_file()]

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
            told, dropped = removal(self._call(save))
            if dropped:
                self.removed.append("%d rules of %s" % (dropped, save.rpartition("-")[0]))
                if act:
                    self._take_away(save, restore, told)

    def _take_away(self, save, restore, told):
        """Remove rules by name; read them again if they changed meanwhile."""
        for attempt in range(1, ATTEMPTS + 1):
            argv = [restore, "--noflush", "--wait=5"]
            rc, out, err = self._run(argv, data=told)
            if rc == 0:
                return
            if attempt == ATTEMPTS:
                raise OSError("%s: %s" % (" ".join(argv), (err or out).strip()))
            told, dropped = removal(self._call(save))
            if not dropped:
                return

    def _in_use(self, tables):
        """Return whether the legacy kernel tables exist; a query would create them."""
        if tables is None:
            return True
        path = self._root / tables
        return path.is_file() and bool(path.read_text().strip())


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            **ARGUMENTS,
            "units": {"type": "list", "elements": "str", "default": ["kubelet.service"]},
            "homes": {"type": "list", "elements": "str", "default": []},
            "snapshots_kept": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    want, act = module.params, not module.check_mode
    root = Path(want["root"])
    run, delete = runner(module, PROGRAM_SECONDS), runner(module, DELETE_SECONDS)
    traces = Traces(root, run, delete)
    try:
        evidence = Evidence(root)
        why = refusal(evidence, want)
        if why:
            module.fail_json(msg="%s. Nothing was removed" % why, removed=[])
        traces.units(want["units"], act)
        traces.containers(act)
        traces.pods(act)
        traces.mounts(act)
        traces.links(act)
        traces.firewall(act)
        traces.credentials(want["homes"], want["api_hosts"], act)
        traces.served(act)
        if not want["snapshots_kept"]:
            traces.snapshots(act)
        traces.folders(act)
        if act:
            evidence.end()
    except OSError as error:
        module.fail_json(
            msg="%s. Removed before: %s. Run the same command again"
            % (error, ", ".join(traces.removed) or "nothing"),
            removed=traces.removed,
        )
    module.exit_json(changed=bool(traces.removed), removed=traces.removed)


if __name__ == "__main__":
    main()
