"""A small site and the facts of its nodes, bare and converged, to build cases from."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Interface
from pathlib import Path
from typing import Any

from appliance.adapters.local.content import load_release
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.components.base.component import PlannedRun
from appliance.model.components.registry import pod_guard
from appliance.model.components.runai.origin import origins
from appliance.model.components.runai.unmet import site_values
from appliance.model.site.settings import Node, Site, SiteSettings
from appliance.model.site.shared_storage import export_of, provisioner_of
from appliance.model.state.certificates import fingerprint, values_digest
from appliance.model.state.cluster.cluster import (
    Cluster,
    ClusterNode,
    ClusterState,
    ClusterStorage,
    HelmRelease,
    Volume,
)
from appliance.model.state.cluster.pods import Pod
from appliance.model.state.cluster.resources import Resources
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.nodes.roles import LABELS, RolesView, inventory_roles
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Choice
from tests import samples_gpu

VERSION = "v1.23.5"
INDEX_DIGEST = "a1" * 32
BUNDLE_DIGEST = "ab" * 32
IMAGES = {
    name: "sha256:" + f"{index:02x}" * 32
    for index, name in enumerate(
        (
            "kube-apiserver:v1.23.5",
            "kube-controller-manager:v1.23.5",
            "kube-scheduler:v1.23.5",
            "kube-proxy:v1.23.5",
            "etcd:3.5.1-0",
            "coredns:v1.8.6",
            "pause:3.6",
            "flannel:v0.19.2",
            "busybox:1.35.0",
            "nfs-subdir-external-provisioner:v4.0.2",
        )
    )
}
CA = "ca" * 32
BACKEND_CERTIFICATE = "be" * 32
EXTERNAL_CA = "-----BEGIN CERTIFICATE-----\nRVhURVJOQUw=\n-----END CERTIFICATE-----\n"
EXTERNAL_CA_SHA256 = fingerprint(EXTERNAL_CA)


def settings(**changes: Any) -> SiteSettings:
    """The settings of the sample site; keys can be replaced."""
    return SiteSettings.model_validate(
        {
            "appliance_release": "k8s-1.23.5-r1",
            "operating_system": "debian-12",
            "domain": "rack.test",
            "registry": "registry.rack.test:5000",
            "artifacts": "artifacts.rack.test:9443",
            "control_plane_endpoint": {"name": "api.rack.test"},
            **changes,
        }
    )


def site(masters: int = 1, workers: int = 2, **changes: Any) -> Site:
    """Control planes cp1.. (cp1 also serves), workers w1..; 198.18.7.0/24.

    Workers have GPUs when the site says what it wants of them.
    """
    group = "cpu_workers" if changes.get("gpu") is None else "gpu_workers"
    nodes = []
    for number in range(1, masters + 1):
        groups = {"control_plane"} | ({"services"} if number == 1 else set())
        nodes.append(_node(f"cp{number}", 10 + number, groups))
    nodes += [_node(f"w{number}", 20 + number, {group}) for number in range(1, workers + 1)]
    return Site("rack", Path("/nowhere/rack"), settings(**changes), tuple(nodes))


def _node(name: str, host: int, groups: set[str]) -> Node:
    prefix = 24 if host < 256 else 16
    address = IPv4Interface(f"{IPv4Address('198.18.7.0') + host}/{prefix}")
    return Node(name, address, frozenset(groups))


def manifest() -> BundleManifest:
    """A manifest with the sample's images."""
    return BundleManifest.parse(
        {
            "schema": 1,
            "release": "k8s-1.23.5-r1",
            "os": "debian-12",
            "architecture": "amd64",
            "tool_version": "0.1.0",
            "created": "2026-01-01T00:00:00Z",
            "artifacts": [],
            "images": IMAGES,
            "packages": {"docker.io": "20.10.24", "chrony": "4.3", "nginx-light": "1.22"},
            "package_roots": {"runtime": ["docker.io"], "time": ["chrony"]},
            "files": [{"path": "apt/Packages", "sha256": INDEX_DIGEST, "size": 1}],
        }
    )


def desired(of: Site | None = None, *, with_bundle: bool = True) -> Desired:
    """The wish for a site, with or without a bundle at hand."""
    found = manifest() if with_bundle else None
    if found and of and of.settings.gpu:
        found = samples_gpu.manifest_with_gpus(found)
    return Desired(
        of or site(),
        load_release("k8s-1.23.5-r1"),
        found,
        BUNDLE_DIGEST if found else None,
        registry_ca=EXTERNAL_CA if of and of.settings.external_registry else None,
    )


CLUSTER_CA = "/etc/kubernetes/pki/ca.crt"
CLUSTER_CA_SHA256 = "c1" * 32


def bare(node: Node) -> dict[str, Any]:
    """What the probe says of a freshly imaged node."""
    return {
        "schema": 1,
        "probe_version": "1",
        "taken_at": 1_700_000_000.0,
        "standin": [],
        "unreadable": [],
        "host": {
            "hostname": node.name,
            "product_uuid": f"uuid-{node.name}",
            "machine_id": node.name,
        },
        "os": {"id": "debian", "version_id": "12", "architecture": "x86_64"},
        "dmi": {"vendor": "Sample", "product": "Box", "serial": f"SN-{node.name}"},
        "sysctl": {"net.ipv4.ip_forward": "0"},
        "sysctl_persisted": {},
        "modules": {"loaded": [], "builtin": [], "persisted": []},
        "swap": {"active": [], "fstab": [], "units": []},
        "clock": {"epoch": 1_700_000_000.0, "service": "systemd-timesyncd"},
        "resolver": {"nameservers": [], "search": [], "hosts": {}},
        "packages": {"apt_sources": [], "installed": {}, "holds": []},
        "services": {},
        "runtime": {"docker": None, "containerd": None},
        "kubernetes": {
            "kubeadm_version": None,
            "kubelet_version": None,
            "kubelet_active": False,
            "manifests": [],
            "pki": [],
            "kubeconfigs": [],
            "etcd_data": {"present": False},
            "api_healthz": None,
        },
        "nics": [{"name": "eth0", "addresses": [str(node.address)], "mtu": 1500}],
        "artifacts": {"present": False, "complete": False, "serving": {"ok": False}},
        "registry": {
            "configured": False,
            "images": {},
            "missing_blobs": [],
            "serving": {"ok": False, "error": "refused"},
            "logins": {"the kubelet": {}, "the appliance": {}},
        },
        "trust": {"site_ca_sha256": None, "docker": {}},
    }


def converged(node: Node, desired: Desired) -> dict[str, Any]:
    """What the probe says of the node when everything is as it should be."""
    found = copy.deepcopy(bare(node))
    keys = ("net.bridge.bridge-nf-call-iptables", "net.bridge.bridge-nf-call-ip6tables")
    found["sysctl"] = dict.fromkeys((*keys, "net.ipv4.ip_forward"), "1")
    found["sysctl_persisted"] = dict(found["sysctl"])
    found["modules"] = {"loaded": [], "builtin": ["br_netfilter", "overlay"], "persisted": []}
    found["resolver"]["hosts"] = {a: list(n) for a, n in desired.host_names.items()}
    found["clock"]["service"] = "chrony"
    found["artifacts"]["package_source"] = _package_source(desired)
    found["artifacts"]["serving"] = {"ok": True}
    found["registry"]["serving"] = {"ok": True, "code": 200}
    found["trust"] = {"site_ca_sha256": CA, "docker": {desired.site.settings.registry: CA}}
    if external := desired.site.settings.external_registry:
        found["trust"]["docker"] = {desired.site.settings.registry: EXTERNAL_CA_SHA256}
        users = {desired.site.settings.registry: external.puller} if external.puller else {}
        found["registry"]["logins"] = {"the kubelet": users, "the appliance": users}
    found["runtime"]["docker"] = {
        "version": "20.10.24+dfsg1",
        "cgroup_driver": "systemd",
        "foreign_running": [],
    }
    found["services"] = {"docker": {"active": "active", "enabled": "enabled"}}
    endpoint = desired.site.settings.control_plane_endpoint
    found["kubernetes"] |= {
        "kubeadm_version": VERSION,
        "kubelet_version": VERSION,
        "kubelet_active": True,
        "kubeconfigs": [
            {
                "path": "/etc/kubernetes/kubelet.conf",
                "server": f"https://{endpoint.name}:{endpoint.port}",
            }
        ],
        "pki": [{"path": CLUSTER_CA, "sha256": CLUSTER_CA_SHA256}],
    }
    if "control_plane" in node.groups:
        found["kubernetes"] |= {
            "manifests": ["etcd.yaml", "kube-apiserver.yaml"],
            "etcd_data": {"present": True},
            "api_healthz": {"ok": True},
        }
    found |= _storage(node, desired)
    if node.in_cluster:
        hooks = [f"-A {hook} -j {pod_guard.CHAIN}" for hook in pod_guard.HOOKS]
        found["firewall"] = {"pod_guard": [*hooks, *pod_guard.rules(node, desired.site)]}
        found["services"][pod_guard.UNIT] = {"active": "active", "enabled": "enabled"}
    if node.name == desired.site.services_node.name:
        found["artifacts"] |= {"present": True, "complete": True, "bundle_digest": BUNDLE_DIGEST}
        images = desired.manifest.images if desired.manifest else IMAGES
        found["registry"] |= {"configured": True, "images": dict(images)}
        if desired.site.settings.runai and desired.site.settings.runai.own_dns:
            found["services"]["dnsmasq"] = {"active": "active", "enabled": "enabled"}
    if desired.site.settings.gpu:
        samples_gpu.see_gpus(found, node)
    return found


def _storage(node: Node, desired: Desired) -> dict[str, Any]:
    """The sections that speak of shared storage, when the site has some."""
    export = export_of(desired.site)
    if export is None:
        return {}
    place = {"server": export.server, "path": export.path}
    test = {"options": list(export.mount_options), "folders": list(export.folders)}
    local = {"exists": True, "owner": 1001, "folders": list(export.folders)}
    found: dict[str, Any] = {
        "storage": {
            "client": "kernel",
            "export": {**place, "reachable": True, "error": None},
            "local": local if node == export.node else None,
            "served": None,
            "proof": {**place, **test, "fsync_ms": 2.0, "root_squashed": False},
        },
        "packages": {"apt_sources": [], "installed": {"nfs-common": "1:2.6"}},
    }
    if node == export.node:
        found["storage"]["served"] = "kernel"
        units = {"docker", "nfs-server"} if node.in_cluster else {"nfs-server"}
        found["services"] = {name: {"active": "active", "enabled": "enabled"} for name in units}
    return found


def _package_source(desired: Desired) -> dict[str, str]:
    line = f"deb [trusted=yes] https://{desired.site.settings.artifacts}/apt ./"
    return {"line": line, "index_sha256": INDEX_DIGEST}


def storage(desired: Desired) -> ClusterStorage:
    """What the API holds of the site's shared storage, when all is well."""
    export = export_of(desired.site)
    if export is None:
        return ClusterStorage()
    volumes = {
        name: Volume(f"{export.source}/{folder}", "Available")
        for name, folder in export.volumes.items()
    }
    return ClusterStorage(
        is_class=True,
        is_default=True,
        tested=export.source,
        provisioner=provisioner_of(desired.manifest.images if desired.manifest else ()),
        provisioner_ready=True,
        mount_options=export.mount_options,
        volumes=volumes,
    )


def node_facts(documents: dict[str, dict[str, Any]]) -> dict[str, NodeFacts]:
    """Documents as facts."""
    return {name: NodeFacts(document) for name, document in documents.items()}


def _vendor(desired: Desired) -> dict[str, Any]:
    """What Run:ai's releases leave in the API."""
    if desired.site.settings.runai is None:
        return {}
    names = {"runai-backend": "runai-backend", "runai": "runai-cluster"}
    return {
        "releases": tuple(
            HelmRelease(
                space,
                name,
                "deployed",
                chart_sha256="c" * 64,
                values_sha256="d" * 64,
                site_values_sha256=values_digest(site_values(desired)[name]),
                origin_sha256=_origin(desired, name),
                certificate_sha256=BACKEND_CERTIFICATE,
            )
            for space, name in names.items()
        ),
        "vendor_pods": (
            Pod("runai-backend", "runai-backend-backend-1", "w1", ready=True),
            Pod("runai", "runai-agent-1", "w1", ready=True),
            Pod("runai", "migration-1", "w1", ready=False, phase="Succeeded"),
        ),
    }


def _origin(desired: Desired, release: str) -> str | None:
    found = desired.vendor_bundle
    return values_digest(origins(desired, found)[release]) if found else None


def roles(desired: Desired) -> RolesView:
    """Run:ai's labels as the inventory has them, and no RunaiConfig."""
    found = inventory_roles(desired.site).items()
    return RolesView({name: {LABELS[role]: "" for role in given} for name, given in found})


def cluster(desired: Desired) -> Cluster:
    """A healthy cluster of every member of the site."""
    members = desired.site.cluster_members
    pods = [Pod("kube-system", "coredns-1", "cp1", ready=True, app="kube-dns")]
    for node in members:
        apps = ["flannel", "kube-proxy"]
        if "control_plane" in node.groups:
            apps += ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
        pods += [
            Pod("kube-system", f"{app}-{node.name}", node.name, ready=True, app=app) for app in apps
        ]
    found = Cluster(
        nodes={
            node.name: ClusterNode(
                node.name,
                ready=True,
                version=VERSION,
                internal_ip=node.ip,
                control_plane="control_plane" in node.groups,
                serial=f"SN-{node.name}",
                network_tested="2026-01-01T00:00:00+00:00",
                allocatable=Resources(64_000, 512 << 30, 110),
            )
            for node in members
        },
        pods=tuple(pods),
        version=VERSION,
        pod_network="10.244.0.0/16",
        storage=storage(desired),
        **_vendor(desired),
        roles=roles(desired) if desired.site.settings.runai else None,
    )
    return samples_gpu.cluster_with_gpus(found, desired) if desired.site.settings.gpu else found


def annotated(found: ClusterState, names: Sequence[str], key: str, value: str | None) -> Cluster:
    """A cluster with another annotation on some of its nodes."""
    assert isinstance(found, Cluster)
    nodes = dict(found.nodes)
    for name in names:
        others = {k: v for k, v in nodes[name].annotations.items() if k != key}
        kept = others if value is None else {**others, key: value}
        nodes[name] = replace(nodes[name], annotations=kept)
    return replace(found, nodes=nodes)


def planned_run(desired: Desired, observed: Observed | None = None) -> PlannedRun:
    """What role variables are computed from: nothing chosen, the bundle on site."""
    assert desired.manifest is not None
    seen = observed or Observed({}, cluster(desired))
    return PlannedRun(desired, seen, Choice(leader=""), desired.manifest)
