"""Images that kubeadm writes into its pods: another registry, or a version of its own, is found.

The version itself is what an upgrade changes: one that the release raises is no loss. Sources:
cmd/kubeadm/app/images/images.go, and phases/uploadconfig/uploadconfig.go for the old registry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.pod_form import mapping
from appliance.model.upgrade.handmade.settings_diff import Change, shown

# kubeadm of 1.23.15 and later renders the new name where ClusterConfiguration has the old one.
_OFFICIAL: Final = ("registry.k8s.io", "k8s.gcr.io")
_VERSION: Final = re.compile(r"v?(\d{1,4})\.(\d{1,4})\.(\d{1,4})(?:-\d{1,4})?")


def image_changes(
    name: str, image: object, configured: object, newest: str = ""
) -> Iterator[Change]:
    """What of an image is not kubeadm's.

    Args:
        name: of the image: a component, ``kube-proxy`` or ``coredns``.
        image: as the container has it.
        configured: ClusterConfiguration.
        newest: the version to which an upgrade leads; empty: the version is not compared.
    """
    cluster = mapping(configured)
    own = _own(name, cluster)
    repository, _, tag = str(image).rpartition(":")
    prefixes = _prefixes(
        name, str(own.get("imageRepository") or cluster.get("imageRepository") or "")
    )
    fixed = str(own.get("imageTag") or "")
    if repository in [f"{prefix}/{name}" for prefix in prefixes] and _is_release(
        tag, fixed, newest
    ):
        return
    rendered = f"{prefixes[0]}/{name}:{fixed or newest or 'its version'}"
    yield Change("container.image", shown(image if isinstance(image, str) else "absent"), rendered)


def _own(name: str, cluster: Mapping[str, Any]) -> Mapping[str, Any]:
    if name == "etcd":
        return mapping(mapping(cluster.get("etcd")).get("local"))
    return mapping(cluster.get("dns")) if name == "coredns" else {}


def _prefixes(name: str, repository: str) -> list[str]:
    found = list(_OFFICIAL) if repository in ("", *_OFFICIAL) else [repository]
    # Only the official registry has it in a folder.
    is_foldered = name == "coredns" and found[0] in _OFFICIAL
    return [f"{one}/coredns" for one in found] if is_foldered else found


def _is_release(tag: str, fixed: str, newest: str) -> bool:
    """Whether a tag is the configured one, or else a release not newer than an upgrade's."""
    if fixed:
        return tag == fixed
    found, limit = _VERSION.fullmatch(tag), _VERSION.fullmatch(newest)
    if found is None:
        return False
    return limit is None or [*map(int, found.groups())] <= [*map(int, limit.groups())]
