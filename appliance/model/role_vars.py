"""Site + release + bundle + choice -> the variables of every role, as an Ansible inventory.

The one place that knows role variables outside the roles. Secrets appear as references to
``vault.yml`` (:class:`VaultRef`), never as values; all text is data and no template. A site's
``role_overrides`` come last.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import BundleRefused
from appliance.model import pod_guard
from appliance.model.bundle import DAMAGED
from appliance.model.groups import CONTROL_PLANE
from appliance.model.jump import NOTHING_FORWARDED, jump_command
from appliance.model.machine_identity import identity_of
from appliance.model.role_overrides import allowed_overrides
from appliance.model.role_vars_access import access_vars
from appliance.model.role_vars_gpu import gpu_host_variables, gpu_variables
from appliance.model.role_vars_runai import dns_vars, runai_vars
from appliance.model.role_vars_storage import server_group, storage_vars
from appliance.model.site_secrets import REGISTRY_PASSWORD
from appliance.model.steps import INSTALL
from appliance.model.vault_ref import CA_CERTIFICATE, CA_KEY, VaultRef

if TYPE_CHECKING:
    from appliance.model.bundle import BundleManifest
    from appliance.model.desired import Desired
    from appliance.model.plan import Choice
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node, Site

WORKER_IMAGES = ("pause", "kube-proxy", "flannel")
CONTROL_PLANE_IMAGES = (
    *WORKER_IMAGES,
    *("kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "coredns"),
)
API_PORT = 6443
_FILE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
Vars = dict[str, Any]


def run_inventory(
    desired: Desired,
    observed: Observed,
    choice: Choice,
    *,
    bundle_directory: str | None,
) -> dict[str, Any]:
    """The run's inventory: connection, leader, and each role's variables.

    Args:
        desired: with a manifest, from the bundle at hand or from the one in custody.
        observed: for facts a role must be told (serials, interface names).
        choice: leader and actions, as planned.
        bundle_directory: the bundle on the control host, or None when custody is enough.

    Raises:
        BundleRefused: there is no manifest to take versions and digests from.
    """
    manifest = desired.manifest
    if manifest is None:
        raise BundleRefused(
            "no bundle is at hand, and the site has none in custody that it takes",
            hint="appliance install --bundle DIR",
        )
    site = desired.site
    everyone: Vars = {
        **connection_vars(site),
        **_preflight(desired, observed),
        **_host(desired),
        **_certificates(),
        **_artifacts(desired, manifest, bundle_directory),
        **_runtime(manifest),
        **_registry(site, manifest),
        **_kubernetes(desired, manifest),
        **_control_plane(desired, choice),
        **_flannel(site, manifest),
        **storage_vars(desired, manifest),
        **gpu_variables(desired, manifest),
        **runai_vars(desired, observed),
        **dns_vars(desired, manifest),
        **access_vars(desired),
    }
    hosts = {
        node.name: {
            "ansible_host": node.ip,
            **_time(desired, node),
            **_kubernetes_host(node, desired, observed, manifest),
            **_member(desired, observed, choice, node),
            **gpu_host_variables(desired, node, observed.photographs.get(node.name)),
        }
        for node in site.nodes
    }
    overrides = allowed_overrides(site.settings.role_overrides)
    leader = {choice.leader: None} if choice.leader else {}
    return {
        "all": {
            "vars": {**everyone, **overrides},
            "hosts": hosts,
            "children": {
                "appliance_leader": {"hosts": leader},
                "appliance_nfs_server": server_group(desired),
                "appliance_vendor": {"hosts": {site.vendor_node.name: None}},
                **_of_steps(site),
            },
        }
    }


def _of_steps(site: Site) -> Vars:
    """Group -> the nodes that a step concerns: none, where the site has no such part.

    With them the plain ``install.yml`` runs for a site without storage, GPUs or Run:ai too.
    """
    return {
        f"appliance_{step.name}": {"hosts": dict.fromkeys(node.name for node in step.nodes(site))}
        for step in INSTALL
        if not step.by_port
    }


def connection_vars(site: Site) -> Vars:
    """How Ansible reaches the nodes, as the probe does."""
    connection = site.settings.ssh
    words = ["-o", f"UserKnownHostsFile={site.known_hosts}", "-o", "StrictHostKeyChecking=yes"]
    words += [*NOTHING_FORWARDED, "-o", "ClearAllForwardings=yes"]
    if proxy := jump_command(site):
        words += ["-o", f"ProxyCommand={proxy}"]
    found: Vars = {
        "ansible_user": connection.user,
        "ansible_port": connection.port,
        "ansible_ssh_common_args": shlex.join(words),
        "ansible_become": connection.become,
        "ansible_python_interpreter": connection.python,
    }
    if connection.private_key:
        found["ansible_ssh_private_key_file"] = connection.private_key
    return found


def _preflight(desired: Desired, observed: Observed) -> Vars:
    site = desired.site
    services = site.services_node.ip
    names: dict[str, list[str]] = {}
    for address, known in desired.host_names.items():
        for name in known:
            if "." in name:
                names.setdefault(name, []).append(address)
    return {
        # Who was not seen is left out or in maintenance: nobody has to reach it now.
        "preflight_peers": {
            node.name: node.ip for node in site.nodes if node.name in observed.photographs
        },
        "preflight_mtu": site.settings.network.mtu,
        "preflight_names": names,
        "preflight_endpoints": [
            f"{services}:{site.artifacts_port}",
            f"{services}:{site.registry_port}",
        ],
    }


def _host(desired: Desired) -> Vars:
    return {"host_base_hosts": {a: list(names) for a, names in desired.host_names.items()}}


def _certificates() -> Vars:
    return {
        "site_certificate_ca_certificate": CA_CERTIFICATE,
        "site_certificate_ca_key": CA_KEY,
    }


def _packages(manifest: BundleManifest, *groups: str) -> dict[str, str]:
    """The roots of some groups with their exact versions.

    A role may bring the packages of the next one with its own: every run of apt costs seconds, and
    the next one then finds them there.
    """
    return manifest.packages_of(*groups)


def _artifacts(desired: Desired, manifest: BundleManifest, directory: str | None) -> Vars:
    site = desired.site
    found: Vars = {
        "artifact_server_bundle_digest": desired.bundle_digest,
        "artifact_server_signature": desired.signature.text if desired.signature else "",
        "artifact_server_index_digest": manifest.package_index_sha256,
        "artifact_server_packages": _packages(manifest, "artifacts", "registry"),
        "artifact_server_name": site.artifacts_name,
        "artifact_server_port": site.artifacts_port,
        "artifact_server_addresses": [site.services_node.ip],
        "artifact_client_url": f"https://{site.settings.artifacts}",
        "artifact_client_ca_certificate": CA_CERTIFICATE,
        "artifact_client_bundle_digest": desired.bundle_digest,
        "artifact_client_index_digest": manifest.package_index_sha256,
        "time_sync_packages": _packages(manifest, "time"),
        "time_sync_allowed_networks": [str(network) for network in site.lan_cidrs],
        "time_sync_may_set_clock": site.settings.time.may_set_clock,
    }
    if directory:
        found["artifact_server_bundle_dir"] = directory
    return found


def _time(desired: Desired, node: Node) -> Vars:
    site = desired.site
    masters = [master.ip for master in site.control_plane]
    outside = list(site.settings.ntp_servers)
    orphan = not outside and CONTROL_PLANE in node.groups
    return {
        "time_sync_servers": outside or ([] if orphan else masters),
        "time_sync_orphan_enabled": orphan,
        "time_sync_peers": [ip for ip in masters if ip != node.ip] if orphan else [],
    }


def _runtime(manifest: BundleManifest) -> Vars:
    return {"docker_engine_packages": _packages(manifest, "runtime", "kubernetes")}


def _registry(site: Site, manifest: BundleManifest) -> Vars:
    return {
        "container_registry_packages": _packages(manifest, "artifacts", "registry"),
        "container_registry_name": site.registry_name,
        "container_registry_port": site.registry_port,
        "container_registry_password": VaultRef(REGISTRY_PASSWORD),
        "container_registry_addresses": [site.services_node.ip],
        "container_registry_images": dict(manifest.images),
        "registry_trust_registry": site.settings.registry,
        "registry_trust_ca_certificate": CA_CERTIFICATE,
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
            f"the bundle has a {kind} called {strange[0]!r}, which is no file name", hint=DAMAGED
        )
    return found


def _kubernetes(desired: Desired, manifest: BundleManifest) -> Vars:
    return {
        "kubernetes_node_artifacts_url": f"https://{desired.site.settings.artifacts}",
        "kubernetes_node_registry": desired.site.settings.registry,
        "kubernetes_node_binaries": _files(manifest, "binary", ("kubeadm", "kubelet", "kubectl")),
        "kubernetes_node_cni_plugins": _files(manifest, "cni"),
        "kubernetes_node_packages": _packages(manifest, "kubernetes"),
    }


def _kubernetes_host(
    node: Node, desired: Desired, observed: Observed, manifest: BundleManifest
) -> Vars:
    own = CONTROL_PLANE_IMAGES if CONTROL_PLANE in node.groups else WORKER_IMAGES
    wanted = [
        {"name": name, "digest": digest}
        for name, digest in manifest.images.items()
        if name.partition(":")[0] in own
    ]
    return {
        "kubernetes_node_images": wanted,
        "kubernetes_node_guard_rules": list(
            pod_guard.rules(node, desired.site, observed.photographs)
        ),
    }


def _control_plane(desired: Desired, choice: Choice) -> Vars:
    site, settings = desired.site, desired.site.settings
    endpoint = settings.control_plane_endpoint
    address = f"{endpoint.name}:{endpoint.port}"
    sans = [endpoint.name]
    if endpoint.virtual_address:
        sans.append(str(endpoint.virtual_address))
    for node in site.control_plane:
        sans.extend((node.name, f"{node.name}.{settings.domain}", node.ip))
    ignored = list(settings.kubernetes.ignore_preflight_errors)
    found: Vars = {
        "kubeadm_control_plane_leader": choice.leader,
        "kubeadm_control_plane_kubernetes_version": desired.kubernetes_version.removeprefix("v"),
        "kubeadm_control_plane_registry": settings.registry,
        "kubeadm_control_plane_endpoint": address,
        "kubeadm_control_plane_pod_subnet": str(settings.network.pod_cidr),
        "kubeadm_control_plane_service_subnet": str(settings.network.service_cidr),
        "kubeadm_control_plane_cert_sans": sans,
        "kubeadm_control_plane_ignore_preflight_errors": ignored,
        "kubeadm_control_plane_kubelet_configuration": dict(settings.kubernetes.kubelet),
        "kubeadm_control_plane_kube_proxy_configuration": dict(settings.kubernetes.kube_proxy),
        "kubeadm_control_plane_kubeconfig_path": str(site.state_directory / "kubeconfig"),
        "kubeadm_control_plane_login_user": settings.ssh.user,
        "kubeadm_worker_leader": choice.leader,
        "kubeadm_worker_endpoint": address,
        "kubeadm_worker_ignore_preflight_errors": ignored,
        "api_balancer_enabled": endpoint.balancer == "keepalived",
        "api_balancer_packages": _packages(desired.manifest, "balancer")
        if desired.manifest
        else {},
        "api_balancer_port": endpoint.port,
        "api_balancer_backends": [
            {"name": node.name, "address": node.ip} for node in site.control_plane
        ],
    }
    if endpoint.balancer == "keepalived" and endpoint.virtual_address:
        prefix = site.control_plane[0].address.network.prefixlen
        found["api_balancer_virtual_address"] = f"{endpoint.virtual_address}/{prefix}"
        found["api_balancer_router_id"] = int(endpoint.virtual_address) % 255 or 255
    return found


def _member(desired: Desired, observed: Observed, choice: Choice, node: Node) -> Vars:
    if not node.in_cluster:
        return {}
    photo = observed.photographs.get(node.name)
    serial = (photo.serial if photo else None) or ""
    told = identity_of(photo).annotations() if photo else {}
    stale = node.name in choice.stale
    if CONTROL_PLANE not in node.groups:
        return {
            "kubeadm_worker_action": "join" if node.name in choice.joining else "none",
            "kubeadm_worker_address": node.ip,
            "kubeadm_worker_dmi_serial": serial,
            "kubeadm_worker_machine_annotations": told,
            "kubeadm_worker_remove_stale_node": stale,
        }
    action = choice.actions.get(node.name, "none")
    masters = [master.name for master in desired.site.control_plane]
    return {
        "kubeadm_control_plane_action": "init" if action == "resume" else action,
        "kubeadm_control_plane_address": node.ip,
        "kubeadm_control_plane_dmi_serial": serial,
        "kubeadm_control_plane_machine_annotations": told,
        "kubeadm_control_plane_remove_stale_node": stale,
        "api_balancer_address": node.ip,
        "api_balancer_interface": _interface(desired, photo.at("nics") if photo else None, node),
        "api_balancer_priority": 150 - masters.index(node.name),
    }


def _interface(desired: Desired, nics: list[Mapping[str, Any]] | None, node: Node) -> str:
    """The NIC that carries the node's address, else the one the site names."""
    for nic in nics or ():
        if any(str(a).partition("/")[0] == node.ip for a in nic.get("addresses") or ()):
            return str(nic["name"])
    return desired.site.settings.network.interface or ""


def _flannel(site: Site, manifest: BundleManifest) -> Vars:
    image = next((name for name in manifest.images if name.startswith("flannel:")), "")
    return {
        "flannel_registry": site.settings.registry,
        "flannel_image": image,
        "flannel_image_digest": manifest.images.get(image, ""),
        "flannel_pod_cidr": str(site.settings.network.pod_cidr),
        "flannel_interface": site.settings.network.interface or "",
    }
