"""Can the vendor's bundle be installed: complete, of a supported version, with enough space?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from appliance.model.bundle.release.runai_versions import supported_range
from appliance.model.bundle.vendor.bundle import GIGABYTE, Needs, short_of_space
from appliance.model.components.base.subject import Subject
from appliance.model.components.runai.address import runai_address
from appliance.model.components.runai.unmet import vendor_bundle as bundle_of
from appliance.model.components.runai.upgrade.evidence import is_begun_by_helm
from appliance.model.components.runai.upgrade.record import begun_upgrade, way_out
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE
from appliance.model.state.findings import Finding

_PURPOSES = {"unpack": "to unpack it", "docker": "for Docker", "registry": "for the registry"}
# Folders that may be file systems of their own.
DOCKERS = ("docker.io", "docker-ce")
UNPACK, DOCKER, REGISTRY = "/var/lib/appliance/runai", "/var/lib/docker", "/var/lib/docker-registry"


def vendor_bundle(subject: Subject) -> Iterator[Finding]:
    """The given bundle is complete and fits the release, or a bundle is already unpacked."""
    settings = subject.site.settings.runai
    if settings is None or not settings.vendor_bundle or not _is_here(subject):
        return
    desired = subject.desired
    found = bundle_of(desired, subject.observed)
    if found is None and desired.vendor_bundle_unread:
        return
    if found is None:
        yield subject.site_error(
            "vendor_bundle",
            f"no vendor bundle {desired.vendor_bundle_file} on the control host, and none is "
            "unpacked on the node",
            "the vendor's runai-<version>.tar[.gz]",
            "copy it there, or correct runai.vendor_bundle in site.yml",
        )
        return
    for fault in found.faults(desired.release.versions.kubernetes):
        yield subject.site_error(
            "vendor_bundle",
            f"{found.contents.file_name}: {fault}",
            f"a complete bundle of Run:ai {supported_range(desired.release.versions.kubernetes)}",
            f"appliance runai inspect {desired.vendor_bundle_file}",
        )
    if not found.contents.images:
        registry = subject.site.settings.registry
        yield subject.warning(
            "vendor_bundle",
            f"{found.contents.file_name}: no docker-archive inside, so its images can be "
            "neither listed before the install nor verified in the registry",
            "docker-archives of the images, as in the bundles of Run:ai's air-gapped installs",
            f"after the install, compare with the vendor's list: curl https://{registry}/v2/_catalog",
        )


def vendor_docker(subject: Subject) -> Iterator[Finding]:
    """The vendor's script finds a Docker: a release on containerd brings none."""
    release = subject.desired.release
    settings = subject.site.settings.runai
    if settings is None or release.runtime.name == "docker" or not _is_here(subject):
        return
    installed = subject.facts.at("packages.installed") or {}
    if any(name in installed for name in DOCKERS):
        return
    yield subject.site_error(
        "vendor_docker",
        f"no Docker on the node where the vendor's script runs, and {release.name} brings none",
        "Docker, which prepare_installation.sh loads and pushes its images with",
        f"install {' or '.join(release.reached_from) or 'a release on Docker'}, then: appliance "
        f"cluster upgrade --to {release.name}",
    )


def vendor_bundle_version(subject: Subject) -> Iterator[Finding]:
    """The installed backend has the same version, and no upgrade is under way: an install stops."""
    begun = begun_upgrade(subject.facts)
    if begun is not None and begun.is_open and _is_here(subject):
        yield subject.site_error(
            "vendor_bundle_version",
            f"an upgrade of Run:ai from {begun.source_version} to {begun.target_version} that "
            "did not end",
            "the upgrade ended or taken back",
            way_out(begun, is_begun_by_helm(begun, subject.desired, subject.observed)),
        )
        return
    found, cluster = subject.desired.vendor_bundle, subject.observed.cluster
    if found is None or not _is_here(subject) or not isinstance(cluster, Cluster):
        return
    release = cluster.release(BACKEND_RELEASE, BACKEND_RELEASE)
    running = (subject.facts.at("runai.bundle") or {}).get("version")
    if release is None or release.status != "deployed" or running in (None, found.version):
        return
    yield subject.site_error(
        "vendor_bundle_version",
        f"{found.contents.file_name}, which is Run:ai {found.version}, "
        f"where {running} is installed",
        f"the bundle of Run:ai {running}: an install does not upgrade it",
        "to upgrade: appliance runai upgrade FILE; else set runai.vendor_bundle in site.yml to "
        f"the bundle of {running}",
    )


def vendor_bundle_space(subject: Subject) -> Iterator[Finding]:
    """There is space to unpack, load and push the bundle, checked before it is sent."""
    settings, found = subject.site.settings.runai, subject.desired.vendor_bundle
    facts = subject.facts
    if settings is None or found is None or not (_is_here(subject) or subject.serves):
        return
    vendor = subject.observed.node_facts.get(subject.site.vendor_node.name)
    if vendor is None or vendor.at("runai.bundle.sha256") == found.sha256:
        return
    needs = found.needs_bytes(settings.minimum_free_gb)
    folders = _folders(subject)
    left = Needs(
        max(needs.unpack - int(facts.at("runai.held_bytes") or 0), 0), needs.docker, needs.registry
    )
    for short in short_of_space(left, facts.items("filesystems"), folders):
        yield subject.error(
            "vendor_bundle_space",
            f"{short.free / GIGABYTE:.1f} GB free on {short.mount}",
            f"{short.need / GIGABYTE:.1f} GB for {found.contents.file_name}: "
            f"{', '.join(_PURPOSES[purpose] for purpose in short.purposes)}",
            subject.ssh(
                shlex.quote(
                    f"sudo du -xh --max-depth=2 {shlex.quote(str(short.mount))} | sort -h | tail"
                )
            )
            + f"; unpacking it needs at least {settings.minimum_free_gb} GB "
            "(runai.minimum_free_gb)",
        )


def _is_here(subject: Subject) -> bool:
    return subject.node.name == subject.site.vendor_node.name


def _folders(subject: Subject) -> dict[str, str]:
    found = {"unpack": UNPACK, "docker": DOCKER} if _is_here(subject) else {}
    own = subject.site.settings.external_registry is None
    return {**found, "registry": REGISTRY} if subject.serves and own else found


def registry_login(subject: Subject) -> Iterator[Finding]:
    """Pods can pull images without a login; from an organisation's registry, nodes log in."""
    settings, external = subject.site.settings.runai, subject.site.settings.external_registry
    if external is not None:
        return
    if settings is None or not settings.vendor_bundle or not _is_here(subject):
        return
    code = subject.facts.at("registry.serving.code")
    if code in (401, 403):
        name = subject.site.settings.registry
        yield subject.error(
            "registry_login",
            f"https://{name}/v2/ answering {code}: reading requires a login",
            "a registry that requires a login for pushes and deletions only",
            f"check which server answers: curl -ik -H 'Authorization: Bearer anonymous' https://{name}/v2/",
        )


CHECKS = (
    vendor_bundle,
    vendor_docker,
    vendor_bundle_version,
    vendor_bundle_space,
    registry_login,
    runai_address,
)
