"""The variables of the registry's roles and of role ``kubernetes_node``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from appliance.errors import BundleRefused
from appliance.model.bundle.manifest import DAMAGED, BundleManifest
from appliance.model.components.registry import pod_guard
from appliance.model.site.files.secrets import REGISTRY_PASSWORD
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars, VaultRef

if TYPE_CHECKING:
    from appliance.model.components.base import PlannedRun


WORKER_IMAGES = ("pause", "kube-proxy", "flannel")
CONTROL_PLANE_IMAGES = (
    *WORKER_IMAGES,
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns"),
)
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def variables(run: PlannedRun) -> Vars:
    """The registry and its clients, and the programs of a member.

    Raises:
        BundleRefused: the bundle names a program that is no file name.
    """
    site, manifest = run.desired.site, run.manifest
    return {
        "container_registry_packages": manifest.packages_of("artifacts", "registry"),
        "container_registry_name": site.registry_name,
        "container_registry_port": site.registry_port,
        "container_registry_password": VaultRef(REGISTRY_PASSWORD),
        "container_registry_addresses": [site.services_node.ip],
        "container_registry_images": dict(manifest.images),
        "registry_trust_registry": site.settings.registry,
        "registry_trust_ca_certificate": CA_CERTIFICATE,
        "kubernetes_node_artifacts_url": f"https://{site.settings.artifacts}",
        "kubernetes_node_registry": site.settings.registry,
        "kubernetes_node_binaries": _files(manifest, "binary", ("kubeadm", "kubelet", "kubectl")),
        "kubernetes_node_cni_plugins": _files(manifest, "cni"),
        "kubernetes_node_packages": manifest.packages_of("kubernetes"),
    }


def node_variables(run: PlannedRun, node: Node) -> Vars:
    """The images that the node runs, and the firewall rules that keep pods from its services."""
    own = CONTROL_PLANE_IMAGES if CONTROL_PLANE in node.groups else WORKER_IMAGES
    node_facts = run.observed.node_facts
    return {
        "kubernetes_node_images": [
            {"name": name, "digest": digest}
            for name, digest in run.manifest.images.items()
            if name.partition(":")[0] in own
        ],
        "kubernetes_node_guard_rules": list(pod_guard.rules(node, run.desired.site, node_facts)),
    }


def _files(manifest: BundleManifest, kind: str, only: tuple[str, ...] = ()) -> list[Vars]:
    found = [
        {"name": item.name, "sha256": item.sha256}
        for item in manifest.artifacts
        if item.kind == kind and (not only or item.name in only)
    ]
    # Each becomes a file of that name in a folder of programs.
    if strange := [file["name"] for file in found if not _FILE_NAME.fullmatch(file["name"])]:
        raise BundleRefused(
            f"the bundle has a {kind} called {strange[0]!r}, which is not a file name", hint=DAMAGED
        )
    return found
