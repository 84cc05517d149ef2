"""When is step ``runai`` done? Its parts, in the order of its playbook."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appliance.model.bundle.release.runai_versions import minor_of, trusting
from appliance.model.bundle.vendor.bundle import VendorBundle
from appliance.model.components.base.members import without_cluster
from appliance.model.components.runai import address
from appliance.model.components.runai.cluster_values import cluster_values, laid_over
from appliance.model.components.runai.origin import origins
from appliance.model.components.runai.pods import pods_in_the_way, without_the_authority
from appliance.model.site.runai_settings import Runai
from appliance.model.site.settings import Node
from appliance.model.state.certificates import days_left, ends_soon, fingerprint, values_digest
from appliance.model.state.cluster.cluster import Cluster, HelmRelease
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE, CLUSTER_RELEASE
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts

if TYPE_CHECKING:
    from appliance.model.state.observed import Observed

# Run:ai's page of researcher authentication, charts up to 2.8: the cluster's half of the switch.
AUTHENTICATED: dict[str, Any] = {
    "runai-operator": {"config": {"researcher-service": {"args": {"authEnabled": True}}}}
}
RELEASES = (("runai-backend", BACKEND_RELEASE), ("runai", CLUSTER_RELEASE))


def runai(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The name resolves, the bundle is unpacked, both releases are deployed, all pods ready."""
    yield from own_dns(node, desired, observed.node_facts[node.name])
    yield from address.unmet(node, desired, observed)
    yield from bundle(node, desired, observed)
    if node.name == desired.site.vendor_node.name:
        yield from certificate(desired, observed.node_facts[node.name])
        yield from releases(desired, observed)


def own_dns(node: Node, desired: Desired, facts: NodeFacts) -> Iterator[str]:
    """Where the site has no DNS, the services host resolves the backend's name."""
    runai = desired.site.settings.runai
    if runai is None or not runai.own_dns or node.name != desired.site.services_node.name:
        return
    unit = facts.unit("dnsmasq")
    if unit.get("active") != "active":
        yield "dnsmasq, which resolves the backend's name, does not run"
    elif unit.get("enabled") != "enabled":
        yield "dnsmasq, which resolves the backend's name, does not start at boot"


def certificate(desired: Desired, facts: NodeFacts) -> Iterator[str]:
    """The backend uses the site's own certificate, or a current one of the site's CA."""
    runai = desired.site.settings.runai
    if desired.backend_certificate is not None:
        wanted = fingerprint(desired.backend_certificate)
        if wanted is not None and facts.at("runai.certificate.sha256") != wanted:
            yield "its certificate for the backend is not the one in site.yml"
    elif runai is not None and runai.certificate is None:
        seen = facts.at("runai.certificate") or {}
        yield from ends_soon("the backend's certificate", desired, facts, seen)


def certificate_days(facts: NodeFacts) -> float | None:
    """Return the days until the backend's certificate on a node expires; None: not seen."""
    return days_left(facts, facts.at("runai.certificate.not_after"))


def site_values(desired: Desired) -> dict[str, Mapping[str, Any]]:
    """Return each release's values from the site's files, without those of the vault."""
    wanted = desired.site.settings.runai or Runai()
    found: dict[str, Mapping[str, Any]] = {}
    for release, role, own in (
        ("runai-backend", "runai_backend", wanted.values),
        ("runai-cluster", "runai_cluster", cluster_values(desired.site.settings)),
    ):
        instead = desired.override(role, "values")
        found[release] = instead if isinstance(instead, Mapping) else own
    if wanted.access.enabled:
        found["runai-cluster"] = laid_over(AUTHENTICATED, found["runai-cluster"])
    return found


def releases(desired: Desired, observed: Observed) -> Iterator[str]:
    """Backend and cluster part are deployed, as reported by helm and the API, ready and connected.

    A release of an earlier version has no digest of the site's values, so it differs as well. That
    is harmless: ``helm_release`` compares all values, and runs helm only where those differ.
    """
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield without_cluster(observed)
        return
    for namespace, name in RELEASES:
        release = cluster.release(namespace, name)
        if release is None:
            yield f"{name} is not installed"
        else:
            yield from _made_from(release, desired, observed)
    for pod in pods_in_the_way(cluster.vendor_pods):
        yield f"pod {pod.namespace}/{pod.name} is not ready: {pod.why_unready}"
    found = vendor_bundle(desired, observed)
    named = trusting(minor_of(found.version) if found else None)
    for pod in without_the_authority(cluster.vendor_pods, named):
        yield f"pod {pod.where} was not given the CA of the backend's certificate"
    settings = desired.site.settings.runai
    # With a file that a person downloaded, nobody logs in to ask.
    if cluster.runai_unconfirmed and settings and not settings.cluster_values_file:
        yield f"Run:ai's backend did not list the cluster '{settings.cluster_name}' yet"


def _made_from(release: HelmRelease, desired: Desired, observed: Observed) -> Iterator[str]:
    found = vendor_bundle(desired, observed)
    origin = origins(desired, found)[release.name] if found else None
    if release.status != "deployed":
        yield f"the release {release.name} is {release.status}, not deployed"
    elif release.chart_sha256 is None:
        yield f"the release {release.name} is unfinished, or was not installed by this product"
    elif release.site_values_sha256 != values_digest(site_values(desired)[release.name]):
        yield f"the values of release {release.name} differ from site.yml"
    elif origin is not None and release.origin_sha256 != values_digest(origin):
        yield f"the release {release.name} was installed from another vendor bundle or site.yml"
    elif release.name == BACKEND_RELEASE and _has_another_certificate(release, desired, observed):
        yield f"the release {release.name} does not have the certificate of the node"


def _has_another_certificate(release: HelmRelease, desired: Desired, observed: Observed) -> bool:
    facts = observed.node_facts.get(desired.site.vendor_node.name)
    there = facts.at("runai.certificate.sha256") if facts else None
    return there is not None and release.certificate_sha256 != there


def vendor_bundle(desired: Desired, observed: Observed) -> VendorBundle | None:
    """Return the given bundle, else the one unpacked on the node."""
    if desired.vendor_bundle is not None:
        return desired.vendor_bundle
    facts = observed.node_facts.get(desired.site.vendor_node.name)
    kept = facts.at("runai.bundle") if facts else None
    return VendorBundle.from_record(kept) if kept else None


def bundle(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The bundle is unpacked, prepared for this registry, and its images were pushed."""
    if node.name != desired.site.vendor_node.name:
        return
    facts = observed.node_facts[node.name]
    found = vendor_bundle(desired, observed)
    if found is None:
        yield "no vendor bundle is unpacked on it"
        return
    if facts.at("runai.bundle.sha256") != found.sha256 or not facts.at("runai.unpacked"):
        yield f"the vendor bundle of Run:ai {found.version} is not unpacked on it"
        return
    if facts.at("runai.prepared") != desired.site.settings.registry:
        yield f"prepare_installation.sh of Run:ai {found.version} has not completed"
    if found.cli is not None and not facts.at("runai.admin_cli"):
        yield "no program /usr/local/bin/runai-adm"
    services = observed.node_facts.get(desired.site.services_node.name)
    held = (services.at("registry.images") if services else None) or {}
    images = found.contents.images
    absent = [image.tag for image in images if not any(name in held for name in image.names)]
    if absent:
        yield (
            f"the registry lacks {len(absent)} of {len(images)} images of the vendor bundle, "
            f"first {absent[0]}"
        )
