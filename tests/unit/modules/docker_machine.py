"""A node whose kubelet runs pods on Docker: what its programs answer, and what they change."""

from __future__ import annotations

from pathlib import Path
from typing import Final

FLAGS: Final = "var/lib/kubelet/kubeadm-flags.env"
UNIT: Final = "etc/systemd/system/kubelet.service"
LEASE: Final = "var/lib/cni/networks/cbr0/198.19.1.7"
PODS: Final = {
    "c1": "k8s_POD_etcd-cp1_kube-system_u1_0",
    "c2": "k8s_etcd_etcd-cp1_kube-system_u1_0",
    "c3": "k8s_POD_kube-apiserver-cp1_kube-system_u2_0",
    "c4": "k8s_kube-apiserver_kube-apiserver-cp1_kube-system_u2_0",
    "c5": "k8s_kube-proxy_kube-proxy-x_kube-system_u3_0",
}
ON_DOCKER: Final = (
    'KUBELET_KUBEADM_ARGS="--network-plugin=cni --pod-infra-container-image=r:5000/pause:3.6 '
    '--node-ip=192.0.2.1"\n'
)
ON_CONTAINERD: Final = (
    'KUBELET_KUBEADM_ARGS="--node-ip=192.0.2.1 --container-runtime=remote '
    "--container-runtime-endpoint=unix:///run/containerd/containerd.sock "
    '--pod-infra-container-image=r:5000/pause:3.7"\n'
)


class Killed(Exception):
    """The run was killed before this program did anything."""


class DockerMachine:
    """Plays systemctl, docker, ip and iptables.

    Args:
        root: the folder used as /.

    Attributes:
        killed_at: the number of the changing call before which the run is killed; None: never.
        calls: every call that changes something.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[str] = []
        self.killed_at: int | None = None
        self.active = {"kubelet.service", "docker.service", "docker.socket"}
        self.enabled = set(self.active)
        self.containers = dict(PODS)
        self.ended: list[str] = []
        self.foreign: dict[str, str] = {}
        self.silent = False
        self.host_ports = True
        for name, text in (
            (FLAGS, ON_DOCKER),
            (UNIT, "[Unit]\nAfter=network-online.target docker.service\n"),
            (LEASE, "x"),
            ("var/lib/cni/networks/cbr0/last_reserved_ip.0", "x"),
            ("sys/class/net/docker0/mtu", "1500"),
        ):
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def which(self, _name: str) -> str:
        return "/usr/bin/docker"

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        words = " ".join(argv)
        if argv[0] == "systemctl" and argv[1] in ("is-active", "is-enabled"):
            found = self.active if argv[1] == "is-active" else self.enabled
            yes, no = ("active", "inactive") if argv[1] == "is-active" else ("enabled", "disabled")
            return (0, yes + "\n", "") if argv[2] in found else (3, no + "\n", "")
        if argv[:2] == ["docker", "ps"]:
            return self._listed("--filter" in argv)
        if argv[0] == "iptables" and "-S" in argv:
            return 0, "-N CNI-HOSTPORT-DNAT\n" + "-A CNI-HOSTPORT-DNAT x\n" * self.host_ports, ""
        self.calls.append(words)
        if self.killed_at is not None and len(self.calls) == self.killed_at:
            raise Killed
        return self._change(argv)

    def _listed(self, only_pods: bool) -> tuple[int, str, str]:
        if self.silent or "docker.service" not in self.active:
            return 1, "", "Cannot connect to the Docker daemon"
        found = self.containers if only_pods else {**self.containers, **self.foreign}
        return 0, "".join(f"{key} {name} running\n" for key, name in found.items()), ""

    def _change(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "systemctl":
            self._switch(argv[1], argv[-1])
        elif argv[:2] == ["docker", "stop"]:
            self.ended += [self.containers[key] for key in argv[4:]]
        elif argv[:2] == ["docker", "rm"]:
            for key in argv[5:]:
                self.containers.pop(key, None)
        elif argv[:3] == ["ip", "link", "delete"]:
            (self.root / "sys/class/net/docker0/mtu").unlink()
            (self.root / "sys/class/net/docker0").rmdir()
        elif argv[0] == "iptables":
            self.host_ports = False
        else:
            return 127, "", f"not played: {argv}"
        return 0, "", ""

    def _switch(self, verb: str, unit: str) -> None:
        if verb == "start":
            self.active.add(unit)
            return
        self.active.discard(unit)
        if verb == "disable":
            self.enabled.discard(unit)

    def state(self) -> dict[str, object]:
        """What the change is about."""
        return {
            "flags": (self.root / FLAGS).read_text(),
            "unit": (self.root / UNIT).read_text(),
            "lease": (self.root / LEASE).exists(),
            "bridge": (self.root / "sys/class/net/docker0").exists(),
            "containers": dict(self.containers),
            "docker": self.active & {"docker.service", "docker.socket"},
            "at boot": self.enabled & {"docker.service", "docker.socket"},
            "kubelet": "kubelet.service" in self.active,
            "host ports": self.host_ports,
        }
