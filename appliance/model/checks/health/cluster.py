"""Checks of the cluster: version, nodes, StorageClasses, IngressClasses, Prometheus."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any, Final

from appliance.model.bundle.release.runai_versions import (
    LINES,
    brings_its_own,
    dotted,
    minor_of,
    runs_on,
    supported_range,
    what_it_lacks,
)
from appliance.model.checks.engine import Need, Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.components.storage.unmet import storage
from appliance.model.node.maintenance_claims import claims_of
from appliance.model.site.shared_storage import (
    PROVISIONER,
    PROVISIONER_NAMESPACE,
    STORAGE_CLASS,
    export_of,
    members_of_filer,
)
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.prerequisites import Prerequisites
from appliance.model.state.facts.storage_record import client_faults
from appliance.model.state.findings import Finding, Severity
from appliance.model.state.upgrade import mark_of

CLUSTER = "cluster"
NGINX = "nginx"


def version(inputs: HealthInputs) -> Answers:
    """The vendor's range for the version of the vendor bundle."""
    running = inputs.cluster.version if inputs.cluster else inputs.desired.kubernetes_version
    if running != inputs.desired.kubernetes_version:
        # site.yml has the new release from the beginning of an upgrade on.
        mark = mark_of(inputs.observed.cluster)
        goes_on = mark is not None and not mark.over
        yield Finding(
            CLUSTER,
            "cluster_version",
            "warning" if goes_on else "error",
            f"Kubernetes {running}",
            f"{inputs.desired.kubernetes_version}, the version of the release",
            mark.command
            if mark is not None and goes_on
            else "set appliance_release in site.yml to the release with this Kubernetes version",
        )
    named = running if inputs.cluster else f"{running} (of the release; no cluster answers)"
    if inputs.bundle_name is None:
        yield f"{named}; no runai.vendor_bundle in site.yml"
        return
    kubernetes, vendor = minor_of(running) or (0, 0), inputs.vendor_version
    fitting = f"{supported_range(running)} for Kubernetes {dotted(kubernetes)}"
    if vendor is None:
        yield Finding(
            CLUSTER,
            "cluster_version",
            "warning",
            f"{inputs.bundle_name}, a file name without a version",
            f"runai-<version>.tar[.gz] or runai-air-gapped-<version>.tar[.gz] of {fitting}",
            "rename the file to its original name",
        )
        return
    if _unfit(inputs):
        lacking = what_it_lacks(vendor)
        yield Finding(
            CLUSTER,
            "cluster_version",
            "error",
            f"Run:ai {dotted(vendor)} ({inputs.bundle_name}) for Kubernetes {running}"
            + (f": {lacking}" if lacking else ""),
            f"Run:ai {fitting}",
            "ask the vendor for a bundle of such a version",
        )
    else:
        low, high = LINES[vendor].kubernetes
        yield f"{named}; Run:ai {dotted(vendor)} supports {dotted(low)} to {dotted(high)}"


def _unfit(inputs: HealthInputs) -> bool:
    """Whether the vendor's version is known and not for this Kubernetes."""
    running = inputs.cluster.version if inputs.cluster else inputs.desired.kubernetes_version
    return inputs.vendor_version is not None and not runs_on(inputs.vendor_version, running)


FITTING: Final = Need[HealthInputs](
    lambda inputs: not _unfit(inputs),
    "this Run:ai version does not support this Kubernetes version",
)


def nodes_ready(inputs: HealthInputs) -> Answers:
    """Run:ai's pods need nodes that take pods."""
    cluster = inputs.cluster
    if cluster is None:
        yield Finding(
            CLUSTER,
            "nodes_ready",
            "error",
            "no answer from the Kubernetes API",
            "a Ready cluster",
            "see what is wrong: appliance status; then: appliance install --until workers",
        )
        return
    for node in inputs.site.cluster_members:
        member = inputs.states[node.name].member
        if member is None or not member.ready or member.unschedulable:
            seen = "no member" if member is None else member.not_ready_reason or "not Ready"
            cordoned = member is not None and member.ready
            yield Finding(
                node.name,
                "nodes_ready",
                "warning" if cordoned else "error",
                "a cordoned node" if cordoned else seen,
                "a Ready, schedulable node",
                _next(node.name, is_member=member is not None, cordoned=cordoned),
            )
    yield f"{sum(node.ready for node in cluster.nodes.values())} Ready"


def _next(name: str, *, is_member: bool, cordoned: bool) -> str:
    """What to do about a node that takes no pods; no kubeconfig is needed for it."""
    if cordoned:
        return (
            f"in maintenance: appliance node return {name}; else somebody cordoned it by kubectl: "
            f"ask before kubectl uncordon {name}"
        )
    if is_member:
        return f"appliance node logs {name} --since 1h; then: appliance plan"
    return "see what is missing: appliance plan"


def maintenance(inputs: HealthInputs) -> Answers:
    """Plans skip a node in maintenance: name who started it, and any doubt about that."""
    for claim in claims_of(inputs.observed.cluster, inputs.recorded):
        yield Finding(
            claim.node,
            "maintenance",
            "error" if claim.is_doubtful else "warning",
            claim.sentence(),
            "a maintenance that 'appliance node maintain' started"
            if claim.is_doubtful
            else "a node in service",
            claim.hint(),
        )
    yield "all members"


def storage_class(inputs: HealthInputs) -> Answers:
    """The backend's database and metrics need volumes; how depends on its generation."""
    found = inputs.prerequisites or Prerequisites()
    default = found.default_storage_classes
    if len(default) > 1:
        yield Finding(
            CLUSTER,
            "storage_class",
            "error",
            f"{len(default)} default StorageClasses: {', '.join(default)}",
            "one default StorageClass: with several, the API rejects claims without a class",
            f"kubectl annotate storageclass {shlex.quote(default[1])} "
            "storageclass.kubernetes.io/is-default-class-",
        )
        return
    nfs = inputs.site.settings.nfs
    if brings_its_own(inputs.vendor_version) and nfs is not None:
        yield f"NFS {nfs.server}:{nfs.path}"
    elif default:
        yield f"default StorageClass {default[0]}"
    else:
        yield Finding(
            CLUSTER,
            "storage_class",
            "error",
            f"no default StorageClass (of {len(found.storage_classes)}) and no shared folder",
            "110 GB for volumes: nfs: in site.yml, or a default StorageClass",
            "add nfs: {server: ..., path: ...} to site.yml; then: appliance install",
        )


def shared_storage(inputs: HealthInputs) -> Answers:
    """The export answers everywhere, user 1001 can write to it, and the volumes exist."""
    export = export_of(inputs.site)
    if export is None:
        yield _left_over(inputs.cluster) or Skipped("no nfs: in site.yml")
        return
    if inputs.cluster is None or not inputs.cluster.storage.is_class:
        yield Skipped("not installed yet: the step storage creates and tests it")
        return
    for node in inputs.site.nodes:
        if node.name not in inputs.observed.node_facts:
            continue
        if node.in_cluster or node == export.node:
            faults = [("storage", text) for text in storage(node, inputs.desired, inputs.observed)]
            if node in members_of_filer(inputs.site):
                own = client_faults(inputs.observed.node_facts[node.name], export)
                faults += [("storage_client", text) for text in own]
            for step, text in faults:
                yield Finding(
                    node.name,
                    "shared_storage",
                    "error",
                    text,
                    f"{export.source} usable on every member, as after step {step}",
                    f"appliance install --only {step}",
                )
    yield export.source


def _left_over(cluster: Cluster | None) -> Finding | None:
    """What an earlier nfs: of site.yml made; nothing deletes it, because volumes may use it."""
    storage = cluster.storage if cluster else None
    if storage is None or not storage.is_class:
        return None
    maker = " and its provisioner" if storage.provisioner == PROVISIONER else ""
    many = len(storage.volumes)
    namespace = f"; kubectl delete namespace {PROVISIONER_NAMESPACE}" if maker else ""
    return Finding(
        CLUSTER,
        "shared_storage",
        "warning",
        f"the StorageClass {STORAGE_CLASS}{maker} of an earlier nfs:, with {many} volumes",
        "nfs: in site.yml, or no class of it",
        "put nfs: back into site.yml"
        if many
        else f"put nfs: back into site.yml, or: kubectl delete storageclass {STORAGE_CLASS}"
        + namespace,
    )


def ingress_class(inputs: HealthInputs) -> Answers:
    """The backend brings its own nginx, and a second one collides with it."""
    found = inputs.prerequisites or Prerequisites()
    nginx = next((one for one in found.ingress_classes if one.name == NGINX), None)
    if nginx is None or nginx.is_runais:
        yield str(nginx) if nginx else f"no IngressClass {NGINX} yet: Run:ai installs its own"
    elif _switched_off(inputs, "nginx-ingress", "ingress-nginx"):
        yield f"{nginx}; Run:ai's own controller is disabled in site.yml"
    else:
        yield Finding(
            CLUSTER,
            "ingress_class",
            _if_version_is_known(inputs),
            f"an IngressClass {nginx} that is not Run:ai's",
            "no IngressClass of this name: Run:ai up to 2.8 installs its own",
            "remove the other controller; or keep it, with cluster_values: "
            "{ingress-nginx: {enabled: false}} under runai: in site.yml",
        )


def prometheus(inputs: HealthInputs) -> Answers:
    """The cluster part brings its own Prometheus, and a second one would fight with it."""
    found = inputs.prerequisites or Prerequisites()
    names = ", ".join(str(one) for one in found.prometheuses)
    others = [one for one in found.prometheuses if not one.is_runais]
    if others and not _switched_off(inputs, "kube-prometheus-stack"):
        yield Finding(
            CLUSTER,
            "prometheus",
            "warning",
            f"an existing Prometheus: {others[0]}",
            "no other Prometheus: Run:ai up to 2.8 installs its own, and two operators conflict",
            "to keep the existing one: cluster_values: {kube-prometheus-stack: {enabled: false}} "
            "under runai: in site.yml, and its address in values",
        )
    else:
        yield names or "none yet: Run:ai installs its own"


def _if_version_is_known(inputs: HealthInputs) -> Severity:
    return "error" if inputs.vendor_version is not None else "warning"


def _switched_off(inputs: HealthInputs, *charts: str) -> bool:
    for values in (inputs.runai.values, inputs.runai.cluster_values):
        for chart in charts:
            part: Any = values.get(chart)
            if isinstance(part, Mapping) and part.get("enabled") is False:
                return True
    return False
