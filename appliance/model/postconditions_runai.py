"""When is step ``runai`` done? Its parts, in the order in which its playbook brings them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from appliance.model.access import fingerprint
from appliance.model.cluster import Cluster
from appliance.model.gpu import values_digest
from appliance.model.runai_origin import origins
from appliance.model.site_certificate import days_left, ends_soon
from appliance.model.site_runai import Runai
from appliance.model.surroundings import BACKEND_RELEASE, CLUSTER_RELEASE
from appliance.model.vendor_bundle import VendorBundle

if TYPE_CHECKING:
    from appliance.model.cluster import HelmRelease
    from appliance.model.desired import Desired
    from appliance.model.photograph import Photograph
    from appliance.model.postconditions import Observed
    from appliance.model.site import Node

RELEASES = (("runai-backend", BACKEND_RELEASE), ("runai", CLUSTER_RELEASE))


def runai(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The name is served, the bundle in its place, both releases deployed, every pod ready."""
    yield from own_dns(node, desired, observed.photographs[node.name])
    yield from bundle(node, desired, observed)
    if node.name == desired.site.vendor_node.name:
        yield from certificate(desired, observed.photographs[node.name])
        yield from releases(desired, observed)


def own_dns(node: Node, desired: Desired, photo: Photograph) -> Iterator[str]:
    """Where the site has no DNS, the services host answers for the backend's name."""
    runai = desired.site.settings.runai
    if runai is None or not runai.own_dns or node.name != desired.site.services_node.name:
        return
    unit = photo.unit("dnsmasq")
    if unit.get("active") != "active":
        yield "dnsmasq does not run, which answers for the backend's name"
    elif unit.get("enabled") != "enabled":
        yield "dnsmasq, which answers for the backend's name, would not start at boot"


def certificate(desired: Desired, photo: Photograph) -> Iterator[str]:
    """The backend's is the one that the site brings, or one of the site's CA that lasts."""
    runai = desired.site.settings.runai
    if desired.backend_certificate is not None:
        wanted = fingerprint(desired.backend_certificate)
        if wanted is not None and photo.at("runai.certificate.sha256") != wanted:
            yield "the backend's certificate on it is not the one that site.yml names"
    elif runai is not None and runai.certificate is None:
        seen = photo.at("runai.certificate") or {}
        yield from ends_soon("the backend's certificate", desired, photo, seen)


def certificate_days(photo: Photograph) -> float | None:
    """How many days the backend's certificate on a node is still good for; None: not seen."""
    return days_left(photo, photo.at("runai.certificate.not_after"))


def site_values(desired: Desired) -> dict[str, Mapping[str, Any]]:
    """Release -> the values for it that the site's files hold; those of the vault are not seen."""
    wanted = desired.site.settings.runai or Runai()
    found: dict[str, Mapping[str, Any]] = {}
    for release, role, own in (
        ("runai-backend", "runai_backend", wanted.values),
        ("runai-cluster", "runai_cluster", wanted.cluster_values),
    ):
        instead = desired.override(role, "values")
        found[release] = instead if isinstance(instead, Mapping) else own
    return found


def releases(desired: Desired, observed: Observed) -> Iterator[str]:
    """Backend and cluster part, as helm and the API tell them.

    A release without a note of the site's values, as an earlier version left it, differs, too. That
    is harmless: ``helm_release`` compares all values, and runs helm only where those differ.
    """
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        yield "there is no cluster yet"
        return
    for namespace, name in RELEASES:
        release = cluster.release(namespace, name)
        if release is None:
            yield f"{name} is not installed"
        else:
            yield from _made_from(release, desired, observed)
    for pod in cluster.vendor_pods:
        if not pod.ready and pod.phase != "Succeeded":
            yield f"pod {pod.namespace}/{pod.name} is not ready: {pod.reason or pod.phase}"


def _made_from(release: HelmRelease, desired: Desired, observed: Observed) -> Iterator[str]:
    found = vendor_bundle(desired, observed)
    origin = origins(desired, found)[release.name] if found else None
    if release.status != "deployed":
        yield f"the release {release.name} is {release.status}, not deployed"
    elif release.chart_sha256 is None:
        yield f"the release {release.name} was not finished, or not made by this product"
    elif release.site_values_sha256 != values_digest(site_values(desired)[release.name]):
        yield f"the release {release.name} has other values than site.yml"
    elif origin is not None and release.origin_sha256 != values_digest(origin):
        yield f"the release {release.name} was made from another vendor bundle or site.yml"
    elif release.name == BACKEND_RELEASE and _has_another_certificate(release, desired, observed):
        yield f"the release {release.name} has another certificate than the one on the node"


def _has_another_certificate(release: HelmRelease, desired: Desired, observed: Observed) -> bool:
    photo = observed.photographs.get(desired.site.vendor_node.name)
    there = photo.at("runai.certificate.sha256") if photo else None
    return there is not None and release.certificate_sha256 != there


def vendor_bundle(desired: Desired, observed: Observed) -> VendorBundle | None:
    """The bundle at hand; without one, that which was unpacked on the node before."""
    if desired.vendor_bundle is not None:
        return desired.vendor_bundle
    photo = observed.photographs.get(desired.site.vendor_node.name)
    kept = photo.at("runai.bundle") if photo else None
    return VendorBundle.from_record(kept) if kept else None


def bundle(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Unpacked byte for byte, prepared for this site's registry, and there is what it pushed."""
    if node.name != desired.site.vendor_node.name:
        return
    photo = observed.photographs[node.name]
    found = vendor_bundle(desired, observed)
    if found is None:
        yield "has no vendor bundle"
        return
    if photo.at("runai.bundle.sha256") != found.sha256 or not photo.at("runai.unpacked"):
        yield f"the vendor bundle of Run:ai {found.version} is not unpacked on it"
        return
    if photo.at("runai.prepared") != desired.site.settings.registry:
        yield f"prepare_installation.sh of Run:ai {found.version} has not run to its end"
    services = observed.photographs.get(desired.site.services_node.name)
    held = (services.at("registry.images") if services else None) or {}
    images = found.contents.images
    absent = [image.tag for image in images if not any(name in held for name in image.names)]
    if absent:
        yield (
            f"the registry lacks {len(absent)} of {len(images)} images of the vendor bundle, "
            f"first {absent[0]}"
        )
