"""STANDIN for a member of a cluster, with things that are none of its. Runs on the node."""

import subprocess
from pathlib import Path

UNITS = ("kubelet", "keepalived", "docker", "docker-registry-tls", "nginx")
UNIT = """[Unit]
Description=STANDIN
[Service]
ExecStart=/bin/sleep infinity
ExecReload=/bin/true
[Install]
WantedBy=multi-user.target
"""
FILES = (
    "/etc/kubernetes/pki/ca.crt",
    "/etc/kubernetes/kubelet.conf",
    "/var/lib/etcd/member/wal",
    "/var/lib/cni/networks/cbr0",
    "/var/lib/kubelet/pki/kubelet.pem",
    "/run/flannel/subnet.env",
    "/etc/cni/net.d/10-flannel.conflist",
    "/root/.kube/config",
    "/etc/appliance/tls/artifacts.crt",
    "/etc/appliance/tls/registry.key",
    "/etc/appliance/tls/their.key",
    "/etc/appliance/registry/nginx.conf",
    "/etc/appliance/registry/login/config.json",
    "/etc/nginx/conf.d/appliance.conf",
    "/etc/nginx/conf.d/their.conf",
    "/var/lib/appliance/etcd-snapshots/20260101T000000Z-member.db",
    "/var/lib/appliance/etcd-snapshots/their.db",
    "/data/people/alice/.kube/config",
    "/srv/kept",
    "/var/lib/appliance/archive/kept",
)
SERVER = "clusters:\n- cluster:\n    server: https://api.test:6443\n"
TEXTS = {
    # STANDIN: the module looks at the bytes, and converge.yml has their sha256.
    "ca.crt": "-----BEGIN CERTIFICATE-----\nbGVmdA==\n-----END CERTIFICATE-----\n",
    "kubelet.conf": SERVER,
    "config": SERVER,
}
VOLUMES = Path("/var/lib/kubelet/pods/p/volumes")


def call(*command):
    """Run a command that must succeed."""
    subprocess.run(command, check=True)  # noqa: S603 - arguments of the test's own


call("useradd", "--home-dir", "/data/people/alice", "alice")
for unit in UNITS:
    Path(f"/etc/systemd/system/{unit}.service").write_text(UNIT)
for name in FILES:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(TEXTS.get(Path(name).name, "left\n"))
VOLUMES.mkdir(parents=True)
call("systemctl", "daemon-reload")
call("systemctl", "enable", "--now", *UNITS)
call("mount", "-t", "tmpfs", "tmpfs", str(VOLUMES))
for link in ("cni0", "flannel.1", "docker0"):
    call("ip", "link", "add", link, "type", "bridge")
