"""Can the vendor's bundle be installed: whole, of a version we carry, with room for it?"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from appliance.model.cluster import Cluster
from appliance.model.postconditions_runai import vendor_bundle as bundle_of
from appliance.model.preflight.finding import Finding, Subject
from appliance.model.surroundings import BACKEND_RELEASE
from appliance.model.vendor_bundle import GIGABYTE, Needs, short_of_space, supported_range

_PURPOSES = {"unpack": "to unpack it", "docker": "for Docker", "registry": "for the registry"}
# Folders that a site may have file systems of their own at.
UNPACK, DOCKER, REGISTRY = "/var/lib/appliance/runai", "/var/lib/docker", "/var/lib/docker-registry"


def vendor_bundle(subject: Subject) -> Iterator[Finding]:
    """The bundle at hand is whole and fits the release; without one, it is unpacked already."""
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
            f"no vendor bundle {desired.vendor_bundle_file} on the control host, and none unpacked",
            "the vendor's runai-<version>.tar[.gz]",
            "put it there, or correct runai.vendor_bundle in site.yml",
        )
        return
    for fault in found.faults(desired.release.versions.kubernetes):
        yield subject.site_error(
            "vendor_bundle",
            f"{found.contents.file_name}: {fault}",
            f"a whole bundle of Run:ai {supported_range(desired.release.versions.kubernetes)}",
            f"appliance runai inspect {desired.vendor_bundle_file}",
        )
    if not found.contents.images:
        registry = subject.site.settings.registry
        yield subject.warning(
            "vendor_bundle",
            f"{found.contents.file_name}: no docker-archive inside, so nobody can tell beforehand "
            "what its script pushes, nor prove that it is in the registry",
            "docker-archives of the images, as in the bundles of Run:ai's air-gapped installs",
            f"after the install compare with the vendor's list: curl https://{registry}/v2/_catalog",
        )


def vendor_bundle_version(subject: Subject) -> Iterator[Finding]:
    """The backend that runs is of the same version: nothing here upgrades a Run:ai."""
    found, cluster = subject.desired.vendor_bundle, subject.observed.cluster
    if found is None or not _is_here(subject) or not isinstance(cluster, Cluster):
        return
    release = cluster.release(BACKEND_RELEASE, BACKEND_RELEASE)
    running = (subject.photo.at("runai.bundle") or {}).get("version")
    if release is None or release.status != "deployed" or running in (None, found.version):
        return
    yield subject.site_error(
        "vendor_bundle_version",
        f"{found.contents.file_name}, which is Run:ai {found.version}, "
        f"where {running} is installed",
        f"the bundle of Run:ai {running}: an upgrade of Run:ai has steps of its own between two "
        "versions, and this release of the appliance has none of them",
        f"name the bundle of {running} again as runai.vendor_bundle in site.yml",
    )


def vendor_bundle_space(subject: Subject) -> Iterator[Finding]:
    """Room for what is unpacked, loaded and pushed, before the first byte is sent."""
    settings, found = subject.site.settings.runai, subject.desired.vendor_bundle
    photo = subject.photo
    if settings is None or found is None or not (_is_here(subject) or subject.serves):
        return
    vendor = subject.observed.photographs.get(subject.site.vendor_node.name)
    if vendor is None or vendor.at("runai.bundle.sha256") == found.sha256:
        return
    needs = found.needs_bytes(settings.minimum_free_gb)
    folders = _folders(subject)
    left = Needs(
        max(needs.unpack - int(photo.at("runai.held_bytes") or 0), 0), needs.docker, needs.registry
    )
    for short in short_of_space(left, photo.items("filesystems"), folders):
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
            + f"; at least {settings.minimum_free_gb} GB are asked for to unpack it "
            "(runai.minimum_free_gb)",
        )


def _is_here(subject: Subject) -> bool:
    return subject.node.name == subject.site.vendor_node.name


def _folders(subject: Subject) -> dict[str, str]:
    found = {"unpack": UNPACK, "docker": DOCKER} if _is_here(subject) else {}
    return {**found, "registry": REGISTRY} if subject.serves else found


def registry_login(subject: Subject) -> Iterator[Finding]:
    """Pods pull without a login."""
    settings = subject.site.settings.runai
    if settings is None or not settings.vendor_bundle or not _is_here(subject):
        return
    code = subject.photo.at("registry.serving.code")
    if code in (401, 403):
        name = subject.site.settings.registry
        yield subject.error(
            "registry_login",
            f"https://{name}/v2/ answering {code}: it asks for a login to read",
            "a registry that gives images without one; the login is for pushes and deletions",
            f"see who answers: curl -ik -H 'Authorization: Bearer anonymous' https://{name}/v2/",
        )
