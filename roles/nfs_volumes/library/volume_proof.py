#!/usr/bin/python
"""Ansible module: a pod on every Ready node writes to a volume of a StorageClass, as 1001."""

from __future__ import annotations

import contextlib
import fcntl
import json
from pathlib import Path

from ansible.module_utils.appliance_kubectl import ARGUMENTS, Kubectl, KubectlError, condition
from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: volume_proof
short_description: Pods of every node write to a volume
description:
  - Makes a volume of the class and a claim for it, and one pod a node that writes as the user of
    Run:ai's databases; then takes all of it away.
  - That it was proved is an annotation of the StorageClass, so that it is done once an export.
  - One proof at a time, because all have the same namespace. The module of a run that was killed
    works on; its proof is waited for, and counts.
options:
  storage_class: {description: Name of the StorageClass, type: str, required: true}
  server: {description: The NFS server, type: str, required: true}
  path: {description: The exported folder, type: str, required: true}
  folder: {description: The folder in it that the pods write to, type: str, required: true}
  image: {description: Image with a shell at /bin/busybox, type: str, required: true}
  user: {description: Who writes, type: int, default: 1001}
  timeout_seconds: {description: How long pods are waited for, type: int, default: 120}
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Prove the volumes
  volume_proof:
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
WRITE = (
    'f=/volume/pod-$NODE; echo $NODE >$f && sync && test "$(cat $f)" = "$NODE" && rm $f'
    ' || { echo "wrote as $(id -u), folder: $(ls -ldn /volume)"; exit 1; }'
)


class ProofError(Exception):
    """A pod did not write; the text says why."""


def claim_objects(want):
    """Return namespace, volume and claim."""
    claim = {"namespace": NAME, "name": NAME}
    common = {"storageClassName": want["storage_class"], "accessModes": ["ReadWriteMany"]}
    volume = {
        "capacity": {"storage": "1Gi"},
        "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": claim,
        "nfs": {"server": want["server"], "path": "%s/%s" % (want["path"], want["folder"])},
    }
    request = {"resources": {"requests": {"storage": "1Gi"}}, "volumeName": NAME}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAME}},
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": NAME},
            "spec": dict(common, **volume),
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": claim,
            "spec": dict(common, **request),
        },
    ]


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
    """Return why a pod has not written: its end, what it waits for, or its last warning."""
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
    name = "involvedObject.name=%s" % pod["metadata"]["name"]
    events = kubectl.get("--namespace=" + NAME, "events", "--field-selector=" + name) or {}
    warnings = [e for e in events.get("items", []) if e.get("type") == "Warning"]
    if warnings:
        last = warnings[-1]
        return "%s: %s" % (last.get("reason"), " ".join(last.get("message", "").split()))
    return "still %s" % status.get("phase", "unknown")


def wait(kubectl, seconds, nodes):
    """Wait until the pod of every node wrote, or say why one did not."""
    until = kubectl.clock() + seconds
    while True:
        pods = (kubectl.get("--namespace=" + NAME, "pods") or {}).get("items", [])
        there = {pod["spec"].get("nodeName") for pod in pods}
        gone = [node for node in nodes if node not in there]
        if gone:
            raise ProofError(
                "the pods of %s are gone: somebody deleted them, or the namespace %s; run again"
                % (", ".join(gone), NAME)
            )
        phases = [pod.get("status", {}).get("phase") for pod in pods]
        if all(phase == "Succeeded" for phase in phases):
            return
        if "Failed" in phases or kubectl.clock() >= until:
            open_pods = [pod for pod in pods if pod.get("status", {}).get("phase") != "Succeeded"]
            raise ProofError(
                "; ".join(
                    "the pod of %s did not write to its volume: %s"
                    % (pod["spec"].get("nodeName"), why_not(kubectl, pod))
                    for pod in open_pods
                )
            )
        kubectl.sleep(0.5)


def remove(kubectl, wait):
    """Take everything of the proof away; the volume's folder stays, and is empty."""
    patience = ["--timeout=60s"] if wait else ["--wait=false"]
    for arguments in (["namespace", NAME], ["persistentvolume", NAME]):
        call = ["delete", "--ignore-not-found", *patience, *arguments]
        kubectl.call(call, seconds=DELETE_SECONDS)


def prove(kubectl, want, run):
    """Run the proof; return the nodes that took part."""
    remove(kubectl, wait=True)  # what a run that was killed left
    nodes = (kubectl.get("nodes") or {}).get("items", [])
    ready = [node["metadata"]["name"] for node in nodes if condition(node)[0] == "True"]
    if not ready:
        raise ProofError("no node is Ready, so no pod can write to a volume: kubectl get nodes")
    objects = claim_objects(want) + [pod_object(node, want) for node in ready]
    try:
        for item in objects:
            apply(kubectl, item, run, want)
        wait(kubectl, want["timeout_seconds"], ready)
    finally:
        remove(kubectl, wait=False)
    return ready


def source_of(want):
    """Return which export is proved."""
    return "%s:%s" % (want["server"], want["path"])


def is_proved(kubectl, want):
    """Return whether the StorageClass says that this export was proved."""
    held = kubectl.get("storageclass", want["storage_class"]) or {"metadata": {}}
    return held["metadata"].get("annotations", {}).get(ANNOTATION) == source_of(want)


@contextlib.contextmanager
def alone(kubectl, seconds, lock):
    """Hold the lock of all proofs on this node; wait for another one so long, and no longer."""
    until = kubectl.clock() + seconds
    lock.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with lock.open("w") as handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if kubectl.clock() >= until:
                    raise ProofError(
                        "another run has been proving the volumes for more than %d s: see who "
                        "holds %s (fuser -v), let it end, and run again" % (seconds, lock)
                    ) from None
            kubectl.sleep(0.5)
        yield


def prove_alone(kubectl, want, run, lock=LOCK):
    """Prove the volumes and write it down; None where another run did so meanwhile."""
    # What the other one may take: what was left is taken away, pods are waited for, and again.
    longest = want["timeout_seconds"] + want["patience_seconds"] + 4 * DELETE_SECONDS
    with alone(kubectl, longest, lock):
        if is_proved(kubectl, want):
            return None
        nodes = prove(kubectl, want, run)
        note = "%s=%s" % (ANNOTATION, source_of(want))
        kubectl.call(["annotate", "--overwrite", "storageclass", want["storage_class"], note])
        return nodes


def apply(kubectl, item, run, want):
    """Create one object; a Namespace needs a moment before a pod may be made in it."""
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
        nodes = prove_alone(kubectl, want, run)
    except (KubectlError, ProofError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=nodes is not None, nodes=nodes or [])


if __name__ == "__main__":
    main()
