"""Every step, in order: those of the components, and the two that belong to none."""

from __future__ import annotations

from typing import Final

from appliance.model.components.base.component import (
    Step,
    all_but_jumpboxes,
    cluster_members,
    control_plane_nodes,
)
from appliance.model.components.gpu.operator import gpu_nodes
from appliance.model.plan.components import COMPONENTS
from appliance.model.site.settings import Node, Site

PREFLIGHT = Step(
    "preflight", "every node meets the requirements and reaches the others", all_but_jumpboxes, None
)
# Only the node that was asked for is emptied; node_remove verifies it.
NODE_RESET = Step(
    "node_reset",
    "no cluster data is left on the node",
    cluster_members,
    None,
    command="node_remove",
)
# Its workflow decides in which order, and verifies each.
NODE_BARE = Step(
    "node_bare",
    "nothing that the product put there is on the node",
    all_but_jumpboxes,
    None,
    command="reset",
    disturbs="Docker or containerd, the registry, the mirror and shared storage end on the node",
)
# One control-plane node after the other; its workflow verifies each.
KUBERNETES_CERTIFICATES = Step(
    "kubernetes_certificates",
    "the certificates of Kubernetes are valid for long enough",
    control_plane_nodes,
    None,
    command="cluster certificates renew",
    disturbs="etcd and the API server of one node after the other restart, each within a minute",
)
# One node after the other; its workflow verifies each.
KUBELET_CERTIFICATE = Step(
    "kubelet_certificate",
    "the kubelets have certificates that are valid for long enough",
    cluster_members,
    None,
    command="cluster certificates renew",
    disturbs="the kubelet restarts; pods keep running",
)


def _vendor_node(site: Site) -> tuple[Node, ...]:
    return (site.vendor_node,) if site.settings.runai is not None else ()


def _runai(name: str, summary: str, disturbs: str = "") -> Step:
    """A step of an upgrade of Run:ai; its workflow verifies it."""
    return Step(name, summary, _vendor_node, None, command="runai upgrade", disturbs=disturbs)


RUNAI_BACKUP = _runai(
    "runai_backup", "volumes outlive their claims, database and values are saved on the node"
)
RUNAI_PREPARE = _runai(
    "runai_prepare", "the new bundle is prepared, and the values of both releases are merged"
)
RUNAI_UPGRADE = _runai(
    "runai_upgrade",
    "backend and cluster part have the new version, with the same projects",
    "the backend's web page, logins and new jobs fail while its pods restart; running jobs go on",
)
RUNAI_ROLLBACK = _runai("runai_rollback", "backend and cluster part have the version before")
UPGRADE: Final = "cluster upgrade"
KUBERNETES_IMAGES = Step(
    "kubernetes_images",
    "the registry and every member have the images of the release",
    all_but_jumpboxes,
    None,
    command=UPGRADE,
)
# On emptied nodes only, while their kubelet knows both runtimes.
KUBERNETES_RUNTIME = Step(
    "kubernetes_runtime",
    "the node's pods run on the release's container runtime",
    cluster_members,
    None,
    command=UPGRADE,
    disturbs="every pod of the emptied node starts again; Docker is stopped and disabled there",
)
DOCKER_REMOVAL = Step(
    "docker_removal",
    "no data of a Docker that runs no pods any more",
    cluster_members,
    None,
    command=UPGRADE,
)
# Its workflow decides what goes, and looks again afterwards.
CLEANUP = Step(
    "cleanup",
    "registry, mirror and nodes hold nothing of bundles that nothing needs",
    all_but_jumpboxes,
    None,
    command="cluster cleanup",
    disturbs="the registry takes no pushes while it frees blobs, minutes at most; pulls go on",
)
# Its workflow decides which nodes, and verifies each.
KUBERNETES_UPGRADE = Step(
    "kubernetes_upgrade",
    "the node runs the release's Kubernetes",
    cluster_members,
    None,
    command=UPGRADE,
    disturbs="etcd and the API server of one node after the other restart; each node is emptied",
)
# Its workflow decides which nodes, and verifies each.
NODE_PATCH = Step(
    "node_patch",
    "the node has the updates of the bundle, in effect",
    all_but_jumpboxes,
    None,
    command="node patch",
    disturbs="each node is emptied, and boots where an update needs it",
)


def _gpu_nodes(site: Site) -> tuple[Node, ...]:
    return (*site.control_plane, *gpu_nodes(site)) if site.settings.gpu is not None else ()


# Its workflow decides which node gets what, and verifies each.
GPU_UPGRADE = Step(
    "gpu_upgrade",
    "the GPU Operator and the drivers are those of the bundle",
    _gpu_nodes,
    None,
    command="gpu upgrade",
    disturbs="the operator's pods restart; each node with GPUs is emptied, and may restart",
)
# All control-plane nodes at once; its workflow verifies them.
CLUSTER_RESTORE = Step(
    "cluster_restore",
    "etcd holds what the snapshot has, and everything watches the API from there on",
    cluster_members,
    None,
    command="cluster restore",
    disturbs="the whole control plane is away for minutes; pods that watch the API restart",
)
STEPS: tuple[Step, ...] = (
    PREFLIGHT,
    *(step for component in COMPONENTS for step in component.steps),
    NODE_RESET,
    NODE_BARE,
    KUBERNETES_CERTIFICATES,
    KUBELET_CERTIFICATE,
    RUNAI_BACKUP,
    RUNAI_PREPARE,
    RUNAI_UPGRADE,
    RUNAI_ROLLBACK,
    KUBERNETES_IMAGES,
    KUBERNETES_RUNTIME,
    DOCKER_REMOVAL,
    CLEANUP,
    KUBERNETES_UPGRADE,
    NODE_PATCH,
    GPU_UPGRADE,
    CLUSTER_RESTORE,
)
BY_NAME = {step.name: step for step in STEPS}
INSTALL: tuple[Step, ...] = tuple(step for step in STEPS if step.command == "install")
