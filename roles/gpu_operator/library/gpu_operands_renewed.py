#!/usr/bin/python
"""Ansible module: the operands on one emptied node are those of the operator that runs."""

from __future__ import annotations

import time

from ansible.module_utils.appliance_kubectl import ARGUMENTS, end_by
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: gpu_operands_renewed
short_description: Delete pods of operands on one node that are of an older template
description:
  - Waits until the operator has written the bundle's images into its DaemonSets. Then deletes each
    pod on the node whose revision is not its DaemonSet's newest; its DaemonSet makes it anew.
  - The driver's pod goes first. Its init container stops what uses the driver, and unloads it.
  - Deletes no other pod, and none on a node that takes pods: the node has to be cordoned.
options:
  node: {description: Name of the node, type: str, required: true}
  namespace: {description: Of the operator and its operands, type: str, required: true}
  images: {description: "Name of an image -> its digest in the bundle.", type: dict, required: true}
  deadline_seconds:
    description: How long the operator may take to write its DaemonSets.
    type: int
    default: 300
  kubeconfig: {description: Whose rights are used, type: path, default: /etc/kubernetes/admin.conf}
  kubectl: {description: The program, type: path, default: /usr/local/bin/kubectl}
  patience_seconds: {description: How long an unready server is waited for, type: int, default: 60}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Replace the operands of gpu2
  gpu_operands_renewed:
    node: gpu2
    namespace: gpu-operator
    images: {driver: "sha256:00"}
"""

RETURN = r"""
deleted: {description: Names of the pods that were deleted, type: list, returned: success}
"""

DRIVER = "nvidia-driver-daemonset"
HASH = "controller-revision-hash"
POLL_SECONDS = 2


class NotRenewed(Exception):
    """The operands cannot be renewed; the text has the reason and the next action."""


def items(found):
    """Return the objects of a list that may be absent."""
    return (found or {}).get("items", [])


def images_of(daemon_set):
    """Return the images of a DaemonSet's template."""
    spec = daemon_set["spec"]["template"]["spec"]
    containers = [*spec.get("initContainers", []), *spec.get("containers", [])]
    return [container.get("image", "") for container in containers]


def behind(daemon_sets, images):
    """Return the DaemonSets that name another digest for an image of the bundle."""
    found = []
    for one in daemon_sets:
        for image in images_of(one):
            path, _, digest = image.partition("@")
            name = path.rpartition("/")[2].partition(":")[0]
            if name in images and digest and digest != images[name]:
                found.append(one["metadata"]["name"])
                break
    return sorted(found)


def newest(revisions):
    """Return uid of a DaemonSet -> hash of its newest revision."""
    found = {}
    for one in revisions:
        for owner in one["metadata"].get("ownerReferences", []):
            number = one.get("revision", 0)
            if number >= found.get(owner["uid"], (-1, ""))[0]:
                found[owner["uid"]] = (number, one["metadata"].get("labels", {}).get(HASH, ""))
    return {uid: digest for uid, (_, digest) in found.items()}


def outdated(pods, hashes):
    """Return the names of pods of an older revision, the driver's first."""
    found = []
    for pod in pods:
        meta = pod["metadata"]
        owners = [o for o in meta.get("ownerReferences", []) if o.get("kind") == "DaemonSet"]
        wanted = hashes.get(owners[0]["uid"]) if owners else None
        if wanted and meta.get("labels", {}).get(HASH) != wanted and not _is_ending(pod):
            found.append((meta.get("labels", {}).get("app") != DRIVER, meta["name"]))
    return [name for _, name in sorted(found)]


def _is_ending(pod):
    return "deletionTimestamp" in pod["metadata"]


def require_cordoned(kubectl, node):
    """Refuse a node on which pods of users may start meanwhile.

    Raises:
        NotRenewed: it is none, or it takes pods.
    """
    found = kubectl.get("node", node)
    if found is None or not found.get("spec", {}).get("unschedulable"):
        raise NotRenewed(
            "node %s takes pods, expected a node out of service; run: appliance gpu upgrade" % node
        )


def wait_for_operator(kubectl, want, clock=time.monotonic, sleep=time.sleep):
    """Wait until no DaemonSet names another digest than the bundle's.

    Raises:
        NotRenewed: one still does.
    """
    until = clock() + want["deadline_seconds"]
    while True:
        found = items(kubectl.get("daemonsets", "--namespace=" + want["namespace"]))
        late = behind(found, want["images"])
        if not late:
            return
        if clock() >= until:
            raise NotRenewed(
                "the GPU Operator has not written the bundle's images into %s within %d s; read "
                "its log: kubectl -n %s logs deployment/gpu-operator"
                % (", ".join(late), want["deadline_seconds"], want["namespace"])
            )
        sleep(POLL_SECONDS)


def converge(kubectl, want, check_mode):
    """Return the names of the pods that were deleted."""
    require_cordoned(kubectl, want["node"])
    wait_for_operator(kubectl, want)
    space = "--namespace=" + want["namespace"]
    on_node = "--field-selector=spec.nodeName=" + want["node"]
    hashes = newest(items(kubectl.get("controllerrevisions", space)))
    names = outdated(items(kubectl.get("pods", space, on_node)), hashes)
    for name in names if not check_mode else ():
        kubectl.call(["delete", "pod", name, space, "--wait=false", "--ignore-not-found"])
    return names


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec=dict(
            ARGUMENTS,
            node={"type": "str", "required": True},
            namespace={"type": "str", "required": True},
            images={"type": "dict", "required": True},
            deadline_seconds={"type": "int", "default": 300},
        ),
        supports_check_mode=True,
    )
    end_by(module, converge, "deleted", (NotRenewed,), unseen_changes=True)


if __name__ == "__main__":
    main()
