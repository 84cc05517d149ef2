#!/usr/bin/python
"""Ansible module: end Docker's part on an emptied node, and point its kubelet at containerd."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from ansible.module_utils.appliance_files import write
from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: docker_replaced
short_description: Replace Docker by containerd as the runtime of the kubelet
description:
  - Run it on a node without pods of users, after containerd has the images.
  - Stops the kubelet, ends and removes the containers of pods, etcd last, and stops and disables
    Docker. Removes Docker's bridge, the stale addresses of pods and their stale host ports.
    Docker, its images and its volumes stay.
  - The file of the kubelet's flags is written last. Until it names containerd, a second run goes
    through everything again; afterwards the module changes nothing.
  - Does not start the kubelet.
  - Refuses, before any change, a Docker that runs containers which are no pods.
options:
  socket: {description: "containerd's socket, as unix://PATH", type: str, required: true}
  sandbox_image: {description: The pause image of the release, type: str, required: true}
  flags: {description: File of the kubelet's flags, type: path,
    default: /var/lib/kubelet/kubeadm-flags.env}
  unit: {description: The kubelet's unit, type: path,
    default: /etc/systemd/system/kubelet.service}
  root: {description: The folder used as / for everything else, type: path, default: /}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Replace Docker
  docker_replaced:
    socket: unix:///run/containerd/containerd.sock
    sandbox_image: registry.rack.example:5000/pause:3.7
"""

RETURN = r"""
did: {description: What was done, type: list, elements: str, returned: always}
"""

# What docker stop gives a container before SIGKILL. An API server may wait a minute for connections
# that stay open, and loses nothing; its requests have ended, or are repeated.
GRACE_SECONDS, API_SECONDS, ETCD_SECONDS = 30, 10, 60
PROGRAM_SECONDS = 300
POD_LABEL, POD_PREFIX = "io.kubernetes.pod.uid", "k8s_"
API = re.compile(r"^k8s_kube-apiserver_")
ETCD = re.compile(r"^k8s_etcd_")
SANDBOX = "k8s_POD_"
UNITS = ("docker.socket", "docker.service")
# A folder for each container of Docker's that runs: of the system's containerd, or its own.
TASKS = (
    "run/containerd/io.containerd.runtime.v2.task/moby",
    "run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
)
# host-local of flannel's network: a file for each address of a pod.
LEASES = "var/lib/cni/networks/cbr0"
BRIDGE = "docker0"
# The chain in which the plugin portmap has a rule for each host port of a pod.
HOST_PORTS = "CNI-HOSTPORT-DNAT"
# Flags of dockershim, which a later kubelet does not know; and those that are set anew.
OLD_FLAGS = frozenset(
    {
        *("--network-plugin", "--network-plugin-mtu", "--cni-bin-dir", "--cni-conf-dir"),
        *("--cni-cache-dir", "--docker-endpoint", "--image-pull-progress-deadline"),
        *("--container-runtime", "--container-runtime-endpoint", "--pod-infra-container-image"),
    }
)
VARIABLE = re.compile(r'^(KUBELET_KUBEADM_ARGS=)"?(.*?)"?[ \t]*$', re.MULTILINE)
AFTER = re.compile(r"^(After=.*)\bdocker\.service\b", re.MULTILINE)


class ReplaceError(Exception):
    """Docker cannot be replaced; the text says why and what to do."""


def flags_with(text, socket, sandbox_image):
    """Return kubeadm's file of flags for a kubelet on a runtime's socket; other flags stay.

    Raises:
        ReplaceError: it has no line of kubeadm.
    """
    found = VARIABLE.search(text)
    if found is None:
        raise ReplaceError(
            "the file of the kubelet's flags has no KUBELET_KUBEADM_ARGS; kubeadm wrote none: "
            "take the node out and in again (appliance node remove, appliance node rejoin)"
        )
    kept = []
    words = iter(found.group(2).split())
    for word in words:
        name, equals, _ = word.partition("=")
        if name not in OLD_FLAGS:
            kept.append(word)
        elif not equals:
            next(words, None)
    kept += [
        "--container-runtime=remote",
        "--container-runtime-endpoint=%s" % socket,
        "--pod-infra-container-image=%s" % sandbox_image,
    ]
    line = '%s"%s"' % (found.group(1), " ".join(kept))
    return text[: found.start()] + line + text[found.end() :]


def is_replaced(text, socket):
    """Whether the flags name the socket already."""
    found = VARIABLE.search(text)
    return bool(found) and "--container-runtime-endpoint=%s" % socket in found.group(2).split()


class Node:
    """One node on Docker.

    Args:
        root: the folder used as /.
        run: callable(argv) -> (rc, stdout, stderr).
        act: whether to change anything.
        which: finds a program.
    """

    def __init__(self, root, run, act=True, which=shutil.which):
        self._root, self._run, self._act, self._which = Path(root), run, act, which
        self.did = []

    def _call(self, *command):
        rc, out, err = self._run(list(command))
        if rc != 0:
            raise ReplaceError("%s: %s" % (" ".join(command), (err or out).strip()))
        return out

    def _do(self, words, *command):
        self.did.append(words)
        if self._act and command:
            self._call(*command)

    def _state(self, unit):
        """Return (is it active, is it enabled)."""
        active = self._run(["systemctl", "is-active", unit])[1].strip()
        enabled = self._run(["systemctl", "is-enabled", unit])[1].strip()
        return active in ("active", "activating", "reloading", "deactivating"), enabled

    def containers(self):
        """Return (pods' containers, running containers that are no pods): identity -> name.

        A stopped Docker has none, unless they outlived it: then it is started.
        """
        if not self._which("docker"):
            return {}, {}
        if not self._state("docker.service")[0]:
            if not any(self._is_filled(name) for name in TASKS):
                return {}, {}
            self._do("started Docker, whose containers outlived it", "systemctl", "start",
                     "docker.service")  # fmt: skip
            if not self._act:
                return {}, {}
        form = "{{.ID}} {{.Names}} {{.State}}"
        listed = ["docker", "ps", "--all", "--no-trunc", "--format", form]
        pods = self._rows([*listed, "--filter", "label=%s" % POD_LABEL])
        ours = {key: name for key, (name, _) in pods.items() if name.startswith(POD_PREFIX)}
        foreign = {
            key: name
            for key, (name, state) in self._rows(listed).items()
            if key not in ours and state in ("running", "paused", "restarting")
        }
        return ours, foreign

    def _rows(self, argv):
        rc, out, err = self._run(argv)
        if rc != 0:
            raise ReplaceError(
                "Docker does not list its containers: %s; restart it, then run this again: "
                "sudo systemctl restart docker" % (err or out).strip()
            )
        rows = (line.split() for line in out.splitlines())
        return {row[0]: (row[1], row[2]) for row in rows if len(row) > 2}

    def _is_filled(self, name):
        folder = self._root / name
        return folder.is_dir() and any(folder.iterdir())

    def stop_kubelet(self):
        """Stop the kubelet, so that no container comes back."""
        if self._state("kubelet.service")[0]:
            self._do("stopped the kubelet", "systemctl", "stop", "kubelet.service")

    def end_containers(self, found):
        """End the programs of pods, the API server and etcd last, and remove the containers."""
        programs = {key for key, name in found.items() if not name.startswith(SANDBOX)}
        api = {key for key in programs if API.match(found[key])}
        etcd = {key for key in programs if ETCD.match(found[key])}
        for words, keys, seconds in (
            ("ended %d containers of pods", programs - api - etcd, GRACE_SECONDS),
            ("ended %d API servers", api, API_SECONDS),
            ("ended %d containers of etcd", etcd, ETCD_SECONDS),
        ):
            if keys:
                self._do(words % len(keys), "docker", "stop", "--time", str(seconds),
                         *sorted(keys))  # fmt: skip
        if not found:
            return
        self._do(
            "removed %d containers of pods" % len(found),
            *("docker", "rm", "--force", "--volumes", "--", *sorted(found)),
        )
        left = sorted(self.containers()[0].values()) if self._act else []
        if left:
            raise ReplaceError(
                "%d containers of pods still exist (%s); look at them: sudo docker ps --filter "
                "name=k8s_; then run this again" % (len(left), ", ".join(left[:3]))
            )

    def disable_docker(self):
        """Stop Docker, and let it start neither at boot nor on demand."""
        for unit in UNITS:
            active, enabled = self._state(unit)
            if active or enabled in ("enabled", "enabled-runtime"):
                self._do("disabled %s" % unit, "systemctl", "disable", "--now", unit)
        left = [name for name in TASKS if self._is_filled(name)]
        if left and self._act:
            raise ReplaceError("containers of Docker run without it (/%s); reboot" % left[0])

    def clean_network(self):
        """Remove Docker's bridge, and what pods that are gone hold of the pod network."""
        if (self._root / "sys/class/net" / BRIDGE).exists():
            self._do("removed the link %s" % BRIDGE, "ip", "link", "delete", BRIDGE)
        folder = self._root / LEASES
        stale = sorted(folder.glob("[0-9]*")) if folder.is_dir() else []
        if stale:
            self.did.append("removed %d addresses of pods that are gone" % len(stale))
            for path in stale if self._act else ():
                path.unlink()
        table = ["iptables", "--wait", "10", "-t", "nat"]
        rc, out, _ = self._run([*table, "-S", HOST_PORTS])
        if rc == 0 and any(line.startswith("-A") for line in out.splitlines()):
            self._do("removed host ports of pods that are gone", *table, "-F", HOST_PORTS)

    def order(self, path):
        """Start the kubelet after containerd; the same line as role kubernetes_node writes."""
        text = path.read_text()
        new = AFTER.sub(r"\1containerd.service", text)
        if new != text:
            self.did.append("put the kubelet after containerd")
            if self._act:
                write(path, new)

    def point(self, path, text):
        """Write the flags: from here on Docker is replaced."""
        self.did.append("pointed the kubelet at containerd")
        if self._act:
            write(path, text)


def replace(node, want):
    """Go through all steps in order; nothing where the flags name the socket.

    Raises:
        ReplaceError: a step failed; a second run goes on.
    """
    path = Path(want["flags"])
    text = path.read_text()
    if is_replaced(text, want["socket"]):
        return
    wanted = flags_with(text, want["socket"], want["sandbox_image"])
    ours, foreign = node.containers()
    if foreign:
        raise ReplaceError(
            "Docker runs containers that are no pods, which would end with it: %s; move or stop "
            "them. Nothing was changed" % ", ".join(sorted(foreign.values())[:5])
        )
    node.stop_kubelet()
    # The kubelet may have started more until it stopped.
    node.end_containers(node.containers()[0] or ours)
    node.disable_docker()
    node.clean_network()
    node.order(Path(want["unit"]))
    node.point(path, wanted)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "socket": {"type": "str", "required": True},
            "sandbox_image": {"type": "str", "required": True},
            "flags": {"type": "path", "default": "/var/lib/kubelet/kubeadm-flags.env"},
            "unit": {"type": "path", "default": "/etc/systemd/system/kubelet.service"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    act = not module.check_mode
    node = Node(module.params["root"], runner(module, PROGRAM_SECONDS), act)
    try:
        replace(node, module.params)
    except (ReplaceError, OSError) as error:
        module.fail_json(
            msg="%s. Done before: %s" % (error, ", ".join(node.did) or "nothing"), did=node.did
        )
    module.exit_json(changed=bool(node.did), did=node.did)


if __name__ == "__main__":
    main()
