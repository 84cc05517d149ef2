#!/usr/bin/python
"""Ansible module: test writing to a volume of a StorageClass, by a pod on every Ready node."""

from __future__ import annotations

import contextlib
import fcntl
import json
from pathlib import Path

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError, condition
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: volume_write_test
short_description: Test writing to a volume with a pod on every node
description:
  - Creates a claim of the class, and on each node one pod that writes as the user of Run:ai's
    databases; then removes all of them. The class's provisioner makes the volume; where it has
    none, the module makes one of the test's folder.
  - A volume that the provisioner made leaves its empty folder in the export, as every volume does.
  - Records the success as an annotation of the StorageClass, so that it is tested once per export.
  - One test at a time, because all use the same namespace. The module of a killed run continues;
    this waits for its test and uses the result.
options:
  storage_class: {description: Name of the StorageClass, type: str, required: true}
  server: {description: The NFS server, type: str, required: true}
  path: {description: The exported folder, type: str, required: true}
  folder: {description: The folder in it that the pods write to, type: str, required: true}
  image: {description: Image with a shell at /bin/busybox, type: str, required: true}
  provisioned: {description: Whether the class has a provisioner, type: bool, default: false}
  user: {description: The user that writes, type: int, default: 1001}
  timeout_seconds: {description: How long to wait for pods, type: int, default: 120}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long to wait for an unready server, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Test the volumes
  volume_write_test:
    storage_class: appliance-nfs
    server: 198.51.100.4
    path: /srv/runai
    folder: appliance-proof
    image: registry.example:5000/busybox@sha256:0000
"""

RETURN = r"""
nodes: {description: The nodes whose pods wrote, type: list, returned: success}
"""

NAME = "appliance-storage-proof"
ANNOTATION = "appliance.dev/storage-proven"
LOCK = Path("/run/appliance/volume-proof.lock")
DELETE_SECONDS = 65
# More than any volume that exists claims to hold, so that the claim is not bound to one of them.
# NFS enforces no capacity.
BEYOND_EVERY_VOLUME = "1Pi"
WRITE = (
    'f=/volume/pod-$NODE; echo $NODE >$f && sync && test "$(cat $f)" = "$NODE" && rm $f'
    ' || { echo "wrote as $(id -u), folder: $(ls -ldn /volume)"; exit 1; }'
)


class WriteTestError(Exception):
    """A pod did not write; the text has the reason."""


def claim_objects(want):
    """Return namespace and claim, and the claim's volume where nothing makes one."""
    claim = {"namespace": NAME, "name": NAME}
    common = {"storageClassName": want["storage_class"], "accessModes": ["ReadWriteMany"]}
    size = BEYOND_EVERY_VOLUME if want["provisioned"] else "1Gi"
    request = {"resources": {"requests": {"storage": size}}}
    objects = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}}]
    if not want["provisioned"]:
        request["volumeName"] = NAME
        volume = {
            "capacity": {"storage": size},
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": claim,
            "nfs": {"server": want["server"], "path": "%s/%s" % (want["path"], want["folder"])},
        }
        objects.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": NAME},
                "spec": dict(common, **volume),
            }
        )
    objects.append(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim,
            "spec": dict(common, **request),
        }
    )
    return objects


def pod_object(node, want):
    """Return the pod of one node."""
    container = {
        "name": "write",
        "image": want["image"],
        "command": ["/bin/busybox", "sh", "-c", WRITE],
        "env": [{"name": "NODE", "value": node}],
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "volume", "mountPath": "/volume"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAME, "name": "write-" + node},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "tolerations": [{"operator": "Exists"}],
            "securityContext": {"runAsUser": want["user"], "runAsGroup": want["user"]},
            "containers": [container],
            "volumes": [{"name": "volume", "persistentVolumeClaim": {"claimName": NAME}}],
        },
    }


def why_not(kubectl, pod):
    """Return why a pod has not written: its exit, its waiting reason, or its last warning."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses", []):
        state = container.get("state", {})
        if state.get("terminated"):
            return "ended with %(exitCode)s: " % state["terminated"] + " ".join(
                state["terminated"].get("message", "").split()
            )
        waiting = state.get("waiting", {})
        if waiting.get("reason") not in (None, "ContainerCreating"):
            return "%s: %s" % (waiting["reason"], waiting.get("message", ""))
    claim = kubectl.get("--namespace=" + NAME, "persistentvolumeclaim", NAME) or {}
    if claim and claim.get("status", {}).get("phase") != "Bound":
        said = last_event(kubectl, NAME, ("Normal", "Warning"))
        return "its claim got no volume (%s)" % (said or "no event")
    return last_event(kubectl, pod["metadata"]["name"], ("Warning",)) or "still %s" % status.get(
        "phase", "unknown"
    )


def last_event(kubectl, name, types):
    """Return the last event of an object of the test in words, or an empty string."""
    named = "involvedObject.name=%s" % name
    events = kubectl.get("--namespace=" + NAME, "events", "--field-selector=" + named) or {}
    found = [event for event in events.get("items", []) if event.get("type") in types]
    if not found:
        return ""
    return "%s: %s" % (found[-1].get("reason"), " ".join(found[-1].get("message", "").split()))


def wait(kubectl, seconds, nodes):
    """Wait until the pod of every node has written, or raise the reason why one did not."""
    until = kubectl.clock() + seconds
    while True:
        pods = (kubectl.get("--namespace=" + NAME, "pods") or {}).get("items", [])
        there = {pod["spec"].get("nodeName") for pod in pods}
        gone = [node for node in nodes if node not in there]
        if gone:
            raise WriteTestError(
                "the pods of %s are gone: they or the namespace %s were deleted; run again"
                % (", ".join(gone), NAME)
            )
        phases = [pod.get("status", {}).get("phase") for pod in pods]
        if all(phase == "Succeeded" for phase in phases):
            return
        if "Failed" in phases or kubectl.clock() >= until:
            open_pods = [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]
            raise WriteTestError(
                "; ".join(
                    "the pod of %s did not write to its volume: %s"
                    % (pod["spec"].get("nodeName"), why_not(kubectl, pod))
                    for pod in open_pods
                )
            )
        kubectl.sleep(0.5)


def remove(kubectl, wait):
    """Remove all objects of the test; the volume's empty folder stays."""
    patience = ["--timeout=60s"] if wait else ["--wait=false"]
    volumes = [["persistentvolume", name] for name in volumes_of(kubectl)]
    for arguments in (["namespace", NAME], *volumes):
        call = ["delete", "--ignore-not-found", *patience, *arguments]
        kubectl.call(call, seconds=DELETE_SECONDS)


def volumes_of(kubectl):
    """Return the names of the volumes that the test's own claim has, or had."""
    volumes = (kubectl.get("persistentvolumes") or {}).get("items", [])
    claims = [(item, item.get("spec", {}).get("claimRef") or {}) for item in volumes]
    ours = {"namespace": NAME, "name": NAME}
    return [
        item["metadata"]["name"]
        for item, claim in claims
        if {key: claim.get(key) for key in ours} == ours
    ]


def test(kubectl, want, run):
    """Run the test; return its nodes."""
    remove(kubectl, wait=True)  # left over from a killed run
    nodes = (kubectl.get("nodes") or {}).get("items", [])
    ready = [node["metadata"]["name"] for node in nodes if condition(node)[0] == "True"]
    if not ready:
        raise WriteTestError("no node is Ready, so no pod can write to a volume: kubectl get nodes")
    objects = claim_objects(want) + [pod_object(node, want) for node in ready]
    try:
        for item in objects:
            apply(kubectl, item, run, want)
        wait(kubectl, want["timeout_seconds"], ready)
    finally:
        remove(kubectl, wait=False)
    return ready


def source_of(want):
    """Return the export under test."""
    return "%s:%s" % (want["server"], want["path"])


def is_proved(kubectl, want):
    """Return whether the StorageClass records that this export was tested."""
    held = kubectl.get("storageclass", want["storage_class"]) or {"metadata": {}}
    return held["metadata"].get("annotations", {}).get(ANNOTATION) == source_of(want)


@contextlib.contextmanager
def alone(kubectl, seconds, lock):
    """Hold the lock of all tests on this node; wait a limited time for another test."""
    until = kubectl.clock() + seconds
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with lock.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if kubectl.clock() >= until:
                    raise WriteTestError(
                        "another run has tested the volumes for more than %d s: find the holder of "
                        "%s (fuser -v), let it end, and run again" % (seconds, lock)
                    ) from None
            kubectl.sleep(0.5)
        yield


def run_alone(kubectl, want, run, lock=LOCK):
    """Test the volumes and record it; None where another run did so meanwhile."""
    # The time of the other test: removal of leftovers, waiting for pods, and removal again.
    longest = want["timeout_seconds"] + want["patience_seconds"] + 4 * DELETE_SECONDS
    with alone(kubectl, longest, lock):
        if is_proved(kubectl, want):
            return None
        nodes = test(kubectl, want, run)
        note = "%s=%s" % (ANNOTATION, source_of(want))
        kubectl.call(["annotate", "--overwrite", "storageclass", want["storage_class"], note])
        return nodes


def apply(kubectl, item, run, want):
    """Create one object; a Namespace needs a moment before it accepts a pod."""
    argv = [want["kubectl"], "--kubeconfig=" + want["kubeconfig"], "apply", "--filename=-"]
    until = kubectl.clock() + want["patience_seconds"]
    while True:
        rc, out, err = run(argv, data=json.dumps(item))
        if rc == 0:
            return
        if kubectl.clock() >= until:
            raise KubectlError("kubectl apply of %s: %s" % (item["kind"], (err or out).strip()))
        kubectl.sleep(1)


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            storage_class={"type": "str", "required": True},
            server={"type": "str", "required": True},
            path={"type": "str", "required": True},
            folder={"type": "str", "required": True},
            image={"type": "str", "required": True},
            provisioned={"type": "bool", "default": False},
            user={"type": "int", "default": 1001},
            timeout_seconds={"type": "int", "default": 120},
        ),
        supports_check_mode=True,
    )
    want = module.params
    kubectl = Kubectl.of(module)
    if module.check_mode and not kubectl.is_possible():
        module.exit_json(changed=True, nodes=[])
    try:
        if is_proved(kubectl, want):
            module.exit_json(changed=False, nodes=[])
        if module.check_mode:
            module.exit_json(changed=True, nodes=[])
        nodes = run_alone(kubectl, want, run)
    except (KubectlError, WriteTestError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=nodes is not None, nodes=nodes or [])


if __name__ == "__main__":
    main()
