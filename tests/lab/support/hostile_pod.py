"""What a hostile pod or host of the LAN does to the registry and the shared storage.

Programs of the node run in the network of a pod: what the network lets through is what counts, and
an image with such programs in it is not needed for that.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.lab.conftest import LabSite
from tests.lab.support.cluster import KUBECTL, busybox, kubectl

NAME = "hostile"
# Tries one request after the other; prints the status of each, or why there is none.
REQUESTS = """
import hashlib, http.client, json, socket, ssl, sys
address, name, ca, image, digest = sys.argv[1:6]
repository, _, tag = image.rpartition(":")
context = ssl.create_default_context(cafile=ca)
mine = json.dumps({"schemaVersion": 2, "mine": True})
kind = {"Content-Type": "application/vnd.docker.distribution.manifest.v2+json"}
tries = {
    "read": ("GET", "/v2/%s/tags/list" % repository, None),
    "push": ("POST", "/v2/hostile/blobs/uploads/", None),
    "overwrite": ("PUT", "/v2/%s/manifests/%s" % (repository, tag), mine),
    "delete": ("DELETE", "/v2/%s/manifests/%s" % (repository, digest), None),
}
found = {}
for what, (method, path, body) in tries.items():
    try:
        plain = socket.create_connection((address, 5000), timeout=2)
        line = http.client.HTTPConnection(name, 5000, timeout=10)
        line.sock = context.wrap_socket(plain, server_hostname=name)
        line.request(method, path, body, kind if body else {})
        found[what] = line.getresponse().status
    except socket.timeout:
        found[what] = "timeout"
    except OSError as error:
        found[what] = type(error).__name__
print(json.dumps(found))
"""
REFUSED = {"push": 401, "overwrite": 401, "delete": 401}
# What the login leaves to anyone, and what is left to a pod.
OPEN = {"read": 200, **REFUSED}
CUT_OFF = dict.fromkeys(("read", *REFUSED), "timeout")
# Mounts the export as the node does, and writes to it; says how far it came.
MOUNT = """
folder=$(mktemp -d)
if ! timeout 20 mount -t nfs -o soft,timeo=20,retrans=1 {source} $folder 2>/dev/null; then
    rmdir $folder; echo not mounted; exit 0
fi
if setpriv --reuid={user} --regid={user} --clear-groups touch $folder/hostile-{user} 2>/dev/null
then rm -f $folder/hostile-{user}; echo written; else echo mounted; fi
umount $folder; rmdir $folder
"""


@contextmanager
def pod_on(lab: LabSite, short: str) -> Iterator[int]:
    """A pod on a node; yields a process of it there."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME},
        "spec": {
            "nodeName": lab.node(short),
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            "containers": [
                {
                    "name": NAME,
                    "image": busybox(lab),
                    "command": ["/bin/busybox", "sleep", "3600"],
                }
            ],
        },
    }
    lab.shell("cp1", f"echo '{json.dumps(pod)}' | {KUBECTL} apply -f -")
    ready = f"{KUBECTL} wait --for=condition=Ready pod/{NAME} --timeout=120s"
    lab.shell("cp1", ready)
    which = f"docker ps --quiet --filter name=k8s_{NAME}_{NAME}_"
    try:
        yield int(lab.shell(short, f"docker inspect -f '{{{{.State.Pid}}}}' $({which})"))
    finally:
        lab.shell("cp1", f"{KUBECTL} delete pod {NAME} --wait=true")


@contextmanager
def guard_lifted(lab: LabSite, short: str) -> Iterator[None]:
    """The node's rules are gone, and nothing writes them again."""
    lab.shell(short, "systemctl stop pod-guard; iptables -t mangle -F APPLIANCE-PODS")
    try:
        yield
    finally:
        lab.shell(short, "systemctl start pod-guard")


@contextmanager
def service_for(lab: LabSite, address: str) -> Iterator[str]:
    """A Service whose endpoint is the registry, as anyone may write one; yields its address."""
    port = {"port": 5000, "protocol": "TCP"}
    meta = {"apiVersion": "v1", "metadata": {"name": NAME}}
    subset = {"addresses": [{"ip": address}], "ports": [port]}
    items = [
        {**meta, "kind": "Service", "spec": {"ports": [port]}},
        {**meta, "kind": "Endpoints", "subsets": [subset]},
    ]
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
    lab.shell("cp1", f"echo '{listed}' | {KUBECTL} apply -f -")
    try:
        yield kubectl(lab, f"get service {NAME} -o jsonpath='{{.spec.clusterIP}}'").strip()
    finally:
        lab.shell("cp1", f"{KUBECTL} delete service {NAME}")


def requests(lab: LabSite, short: str, address: str, inside: int | None = None) -> dict[str, Any]:
    """Ask the registry from a node, or from the network of a process there."""
    network = ["nsenter", "--target", str(inside), "--net"] if inside else []
    argv = ["podman", "exec", "-i", lab.node(short), *network, "python3", "-"]
    return _asked([*argv, *_arguments(lab, address, "/etc/appliance/ca.crt")])


def requests_of_the_lan(lab: LabSite, folder: Path) -> dict[str, Any]:
    """Ask the registry from this machine, which has an address of the lab's LAN."""
    ca = folder / "ca.crt"
    ca.write_text(lab.shell("cp1", "cat /etc/appliance/ca.crt"))
    return _asked([sys.executable, "-", *_arguments(lab, lab.address("cp1"), str(ca))])


def _arguments(lab: LabSite, address: str, ca: str) -> list[str]:
    registry, _, image = busybox(lab).partition("/")
    digest = json.loads((lab.bundle / "manifest.json").read_text())["images"][image]
    return [address, registry.partition(":")[0], ca, image, digest]


def _asked(argv: list[str]) -> dict[str, Any]:
    done = subprocess.run(
        argv, input=REQUESTS, capture_output=True, text=True, timeout=90, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def mount(lab: LabSite, short: str, inside: int, source: str, user: int) -> str:
    """Mount the export and write to it as a user, from the network of a process."""
    script = MOUNT.format(source=source, user=user)
    argv = ["podman", "exec", "-i", lab.node(short), "nsenter", "--target", str(inside), "--net"]
    done = subprocess.run(
        [*argv, "sh"], input=script, capture_output=True, text=True, timeout=90, check=False
    )
    return done.stdout.strip()
