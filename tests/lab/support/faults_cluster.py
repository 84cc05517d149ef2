"""Faults of a running cluster and of its services; each asserts that it is in force, and ends."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from appliance.adapters.control_plane.lock import FOLDER as LOCK
from appliance.model.control.lock import EXPIRY_SECONDS, Holder
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.faults import address_of, shell, ssh_answers, wait, wait_for_ssh

TOKENS = "secret --field-selector type=bootstrap.kubernetes.io/token"
MANIFESTS = "/etc/kubernetes/manifests"
HEALTHZ = "curl -sk --max-time 2 https://127.0.0.1:6443/healthz | grep -qx ok"


def switch_off(node: str) -> None:
    """The machine loses its power, if it has any."""
    subprocess.run(["podman", "kill", node], check=False, capture_output=True, timeout=300)
    assert not ssh_answers(address_of(node))


def switch_on(node: str) -> None:
    """Somebody presses its button, and it boots."""
    subprocess.run(["podman", "start", node], check=True, capture_output=True, timeout=300)
    wait("systemd", node, "systemctl is-system-running | grep -qE 'running|degraded'", 240)


@contextmanager
def power_off(node: str) -> Iterator[None]:
    """The machine is off; at the end it is on again and has booted."""
    address = address_of(node)
    switch_off(node)
    try:
        yield
    finally:
        switch_on(node)
    wait_for_ssh(address)


@contextmanager
def unit_stopped(node: str, unit: str) -> Iterator[None]:
    """A service does not run; whoever wants it has to start it."""
    shell(node, f"systemctl stop {unit}")
    assert shell(node, f"systemctl is-active {unit} || true") != "active"
    yield
    wait(unit, node, f"systemctl is-active {unit}", 60)


@contextmanager
def docker_hung(node: str) -> Iterator[None]:
    """The Docker daemon takes connections and answers nothing."""
    shell(node, "pkill -STOP -x dockerd")
    try:
        assert shell(node, "timeout 2 docker ps >/dev/null 2>&1; echo $?") == "124"
        yield
    finally:
        shell(node, "pkill -CONT -x dockerd")
    wait("Docker", node, "timeout 5 docker ps")


@contextmanager
def stale_lock(node: str) -> Iterator[None]:
    """Somebody's command died on another machine long ago, and left its lock behind."""
    holder = Holder("other", "node maintain", "bob", "a laptop that is gone", "a DIMM", "T")
    line = holder.as_line().replace("'", "'\\''")
    beat = 'read b </proc/sys/kernel/random/boot_id; echo "$b 0.0"'
    shell(node, f"mkdir -p {LOCK}; printf %s '{line}' >{LOCK}/holder; {{ {beat}; }} >{LOCK}/beat")
    try:
        assert float(shell(node, "cut -d' ' -f1 /proc/uptime")) > EXPIRY_SECONDS
        assert shell(node, f"cat {LOCK}/holder").startswith("other ")
        yield
    finally:
        shell(node, f"grep -q '^other ' {LOCK}/holder && rm {LOCK}/holder {LOCK}/beat || true")


@contextmanager
def api_down(node: str) -> Iterator[None]:
    """The API server's manifest is gone, and so is the API server."""
    shell(node, f"mv {MANIFESTS}/kube-apiserver.yaml /root/")
    try:
        wait("the API server to end", node, f"! {HEALTHZ}", 60)
        yield
    finally:
        shell(
            node,
            f"test -e {MANIFESTS}/kube-apiserver.yaml || "
            f"mv /root/kube-apiserver.yaml {MANIFESTS}/; rm -f /root/kube-apiserver.yaml",
        )
    wait("the API server", node, HEALTHZ, 120)


@contextmanager
def etcd_paused(node: str) -> Iterator[None]:
    """etcd is frozen: the API server runs, and can read and write nothing."""
    find = "docker ps -q --filter label=io.kubernetes.container.name=etcd"
    container = shell(node, find)
    shell(node, f"docker pause {container}")
    try:
        assert shell(node, f"docker inspect -f '{{{{.State.Paused}}}}' {container}") == "true"
        yield
    finally:
        # A kubelet that gave up on it has started another by then.
        shell(node, f"docker unpause {container} 2>/dev/null || true")
    wait("the API server", node, HEALTHZ, 120)


@contextmanager
def partition(node: str, other: str) -> Iterator[None]:
    """No packet passes between two nodes; everybody else reaches both."""
    theirs = address_of(other)
    rule = f"INPUT -s {theirs} -j DROP"
    shell(node, f"iptables -I {rule}")
    try:
        assert (
            shell(node, f"ping -c 1 -W 1 {theirs} >/dev/null && echo through || echo cut") == "cut"
        )
        yield
    finally:
        shell(node, f"iptables -D {rule}")
    assert (
        shell(node, f"ping -c 1 -W 2 {theirs} >/dev/null && echo through || echo cut") == "through"
    )


@contextmanager
def no_names(node: str) -> Iterator[None]:
    """The node knows no name: its hosts file lost ours, and no DNS server answers."""
    shell(node, "cp /etc/hosts /root/hosts; cp /etc/resolv.conf /root/resolv.conf")
    # Bind mounts of the container: written in place, never replaced.
    shell(
        node,
        "echo '127.0.0.1 localhost' > /etc/hosts; echo 'nameserver 198.18.255.253' > "
        "/etc/resolv.conf",
    )
    try:
        assert shell(node, "grep -c . /etc/hosts") == "1"
        yield
    finally:
        shell(node, "cat /root/resolv.conf > /etc/resolv.conf; rm /root/resolv.conf /root/hosts")


@contextmanager
def no_tokens(control_plane: str) -> Iterator[None]:
    """Every bootstrap token has expired: the controller has cleared them away."""
    shell(control_plane, f"{KUBECTL} -n kube-system delete {TOKENS}")
    left = shell(control_plane, f"{KUBECTL} -n kube-system get {TOKENS} -o name")
    assert left == ""
    yield


@contextmanager
def another_ca(control_plane: str) -> Iterator[None]:
    """What a joining node is shown of the cluster names another CA: its hash does not match."""
    read = f"{KUBECTL} -n kube-public get configmap cluster-info -o jsonpath={{.data.kubeconfig}}"
    before = shell(control_plane, read)
    shell(
        control_plane,
        "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -days 1 "
        "-subj /CN=STANDIN-other -out /root/other.crt 2>/dev/null",
    )
    pem = shell(control_plane, "cat /root/other.crt && rm /root/other.crt") + "\n"
    other = base64.b64encode(pem.encode()).decode()
    changed = re.sub(r"(certificate-authority-data: ).*", rf"\g<1>{other}", before)
    assert changed != before

    def say(text: str) -> None:
        patch = json.dumps({"data": {"kubeconfig": text}})
        shell(
            control_plane,
            f"{KUBECTL} -n kube-public patch configmap cluster-info --patch-file /dev/stdin",
            stdin=patch,
        )

    say(changed)
    try:
        assert other in shell(control_plane, read)
        yield
    finally:
        say(before)
    assert shell(control_plane, read) == before.strip()


@contextmanager
def corrupted_blob(node: str) -> Iterator[None]:
    """The registry's largest layer is cut short; nobody puts it right but the product."""
    root = "/var/lib/docker-registry/docker/registry/v2/blobs/sha256"
    find = f"find {root} -name data -printf '%s %p\\n' | sort -n | tail -n 1"
    size, path = shell(node, find).split()
    shell(node, f"truncate --size=1000 {path}")
    assert shell(node, f"stat -c %s {path}") == "1000"
    yield
    assert shell(node, f"stat -c %s {path}") == size


@contextmanager
def services_lost(node: str) -> Iterator[None]:
    """The bundle in custody, the registry's images and both services are gone, as on a new disk."""
    shell(
        node,
        "systemctl stop nginx docker-registry; "
        "cd /var/lib && rm -rf appliance/bundle appliance/bundles docker-registry/docker",
    )
    assert (
        shell(
            node,
            "cd /var/lib && ls appliance/bundles docker-registry 2>/dev/null | grep -v : || true",
        )
        == ""
    )
    yield
    wait("the registry", node, "systemctl is-active docker-registry nginx", 60)
