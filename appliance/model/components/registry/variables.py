"""The variables of the registry's roles and of role ``kubernetes_node``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from appliance.errors import BundleRefused, ConfigError
from appliance.model.bundle.manifest import DAMAGED, BundleManifest
from appliance.model.components.registry import pod_guard
from appliance.model.site.files.secrets import REGISTRY_PASSWORD, pull_secret, push_secret
from appliance.model.site.groups import CONTROL_PLANE
from appliance.model.site.settings import Node
from appliance.model.site.vault_ref import CA_CERTIFICATE, Vars, VaultRef

if TYPE_CHECKING:
    from appliance.model.components.base.component import PlannedRun
    from appliance.model.state.desired import Desired


WORKER_IMAGES = ("pause", "kube-proxy", "flannel")
CONTROL_PLANE_IMAGES = (
    *WORKER_IMAGES,
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns"),
)
# crictl is in the bundles of releases whose kubeadm asks for it.
NODE_PROGRAMS: Final = ("kubeadm", "kubelet", "kubectl", "crictl")
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def variables(run: PlannedRun) -> Vars:
    """The registry and its clients, and the programs of a member.

    Raises:
        BundleRefused: the bundle names a program that is no file name.
        ConfigError: the CA of the organisation's registry was not read.
    """
    site, manifest = run.desired.site, run.manifest
    return {
        **_login(run),
        "container_registry_packages": manifest.packages_of("artifacts", "registry"),
        "container_registry_name": site.registry_name,
        "container_registry_port": site.registry_port,
        "container_registry_addresses": [site.services_node.ip],
        "container_registry_images": dict(manifest.images),
        "registry_trust_registry": site.settings.registry,
        "kubernetes_node_artifacts_url": f"https://{site.settings.artifacts}",
        "kubernetes_node_registry": site.image_prefix,
        "kubernetes_node_binaries": _files(manifest, "binary", NODE_PROGRAMS),
        "kubernetes_node_runtime": run.desired.release.runtime.name,
        "kubernetes_node_cni_plugins": _files(manifest, "cni"),
        "kubernetes_node_packages": manifest.packages_of("kubernetes"),
    }


def _login(run: PlannedRun) -> Vars:
    """Who pushes and pulls, and the CA that signed for the registry."""
    site = run.desired.site
    external = site.settings.external_registry
    if external is None:
        return {
            "container_registry_password": VaultRef(REGISTRY_PASSWORD),
            "registry_trust_ca_certificate": CA_CERTIFICATE,
        }
    if not run.desired.registry_ca:
        raise ConfigError(
            f"the registry's CA {external.ca} was not read",
            hint="copy it there, or correct external_registry.ca in site.yml",
        )
    push, pull = push_secret(site), pull_secret(site)
    return {
        "container_registry_project": external.project or "",
        "container_registry_user": external.pusher or "",
        "container_registry_password": VaultRef(push) if push else "",
        "container_registry_ca_certificate": run.desired.registry_ca,
        "registry_trust_ca_certificate": run.desired.registry_ca,
        "registry_trust_user": external.puller or "",
        "registry_trust_password": VaultRef(pull) if pull else "",
    }


def groups(desired: Desired) -> dict[str, Vars]:
    """The services node where it pushes to the organisation's registry, and runs none itself."""
    external = desired.site.settings.external_registry
    hosts = {desired.site.services_node.name: None} if external else {}
    return {"appliance_external_registry": {"hosts": hosts}}


def probe_arguments(desired: Desired) -> tuple[str, ...]:
    """How the organisation's registry is asked, before anything of it is on a node."""
    external = desired.site.settings.external_registry
    if external is None or desired.registry_ca is None:
        return ()
    at = ("--registry-address", str(external.address)) if external.address else ()
    prefix = desired.site.image_prefix
    return ("--registry-ca", desired.registry_ca, "--registry-prefix", prefix, *at)


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
