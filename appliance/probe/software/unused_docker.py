"""The images that only the store of an unused Docker has: images_only_here."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Set

from ..source import Source

CONTAINERD = "unix:///run/containerd/containerd.sock"
# Of names; more are counted by whoever removes them.
MOST_NAMES = 200
UNTAGGED = "untagged"


def images_only_here(
    source: Source, data_root: str, registry: Optional[str]
) -> Optional[List[str]]:
    """Return images that neither containerd nor the site's registry has; None where unknown.

    An image without a name is ``untagged``. The registry is as images name it, e.g. HOST:PORT.
    """
    names = _names(source, data_root) if registry else None
    if not names:
        return None if names is None else []
    argv = ["crictl", "--runtime-endpoint", CONTAINERD, "--image-endpoint", CONTAINERD]
    found = source.json_command("crictl-images", [*argv, "images", "--output", "json"], quiet=True)
    if not isinstance(found, dict) or not isinstance(found.get("images"), list):
        source.unseen("containerd did not list its images", "runtime.docker.images_only_here")
        return None
    there = {one.get("id") for one in found["images"] if isinstance(one, dict)}
    left: Set[str] = set()
    for identity, known in names.items():
        if identity not in there and not _is_in_registry(known, registry):
            tags = [name for name in known if "@" not in name]
            left.update(tags or known or {UNTAGGED})
    return sorted(left)[:MOST_NAMES]


def _names(source: Source, data_root: str) -> Optional[Dict[str, Set[str]]]:
    """Return identity -> tags and digests of each image; None where the store cannot be read."""
    found: Dict[str, Set[str]] = {}
    for driver in source.names(data_root + "/image"):
        folder = "%s/image/%s" % (data_root, driver)
        for name in source.names(folder + "/imagedb/content/sha256"):
            found.setdefault("sha256:" + name, set())
        if not source.exists(folder + "/repositories.json"):
            continue
        document = source.document(folder + "/repositories.json")
        repositories = document.get("Repositories") if isinstance(document, dict) else None
        if not isinstance(repositories, dict):
            source.unseen("%s: of another form" % folder, "runtime.docker.images_only_here")
            return None
        for references in repositories.values():
            for name, identity in _pairs(references):
                found.setdefault(identity, set()).add(name)
    return found


def _pairs(references: Any) -> List[List[str]]:
    items = references.items() if isinstance(references, dict) else ()
    return [[str(name)[:300], str(identity)] for name, identity in items]


def _is_in_registry(names: Set[str], registry: Optional[str]) -> bool:
    """Whether the site's registry has given, or taken, this very image."""
    return any(name.startswith("%s/" % registry) and "@sha256:" in name for name in names)
