"""What was seen and asked for, as one document of a bundle; and the strict way back.

Facts of nodes are documents of their own. What must not be here: judging what was seen
(:mod:`appliance.model.support.judgement`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from appliance.errors import BundleRefused
from appliance.model.bundle.manifest import BundleManifest
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, NodeName, typed
from appliance.model.site.files.view import node_as_json
from appliance.model.site.settings import Node, NodeSettings, Site, SiteSettings
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster, Unreachable
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Fault, Observed

SITE: Final = "site.json"
OBSERVED: Final = "observed.json"
# The states of a cluster by their names in the document.
_STATES: Final[Mapping[str, type[ClusterState]]] = {
    "none": NoCluster,
    "unreachable": Unreachable,
    "cluster": Cluster,
}


@dataclass(frozen=True)
class Wish:
    """What of the desired state is no secret and no file of this machine."""

    release: Line
    bundle_digest: Line | None = None
    cluster_values_sha256: Line | None = None
    founded: str = ""
    vendor_bundle_file: str = ""
    returning: tuple[Line, ...] = ()
    removed: tuple[NodeName, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """One look, read from a bundle: facts are added by :func:`with_facts`.

    Attributes:
        wish: what was asked for.
        cluster: what the API told.
        faults: why nodes have no facts.
        manifest: of the bundle on site; None where none was read.
    """

    site: Site
    wish: Wish
    cluster: ClusterState
    faults: tuple[Fault, ...] = ()
    manifest: BundleManifest | None = None


def site_document(site: Site) -> dict[str, Any]:
    """The site by its schema: what no schema knows is not in it, neither are comments."""
    return {
        "name": site.name,
        "settings": site.settings.model_dump(mode="json"),
        "nodes": [node_as_json(node) for node in site.nodes],
        "warnings": list(site.warnings),
    }


def observed_document(site: Site, desired: Desired, observed: Observed) -> dict[str, Any]:
    """What was asked for and what was seen, without the facts of the nodes.

    Args:
        site: with all nodes of the inventory.
        desired: without those that were removed on purpose.
        observed: of one look.
    """
    cluster = observed.cluster
    state = next(name for name, kind in _STATES.items() if isinstance(cluster, kind))
    kept = {node.name for node in desired.site.nodes}
    wish = Wish(
        release=desired.release.name,
        bundle_digest=desired.bundle_digest,
        cluster_values_sha256=desired.cluster_values_sha256,
        founded=desired.founded,
        vendor_bundle_file=desired.vendor_bundle_file,
        returning=tuple(sorted(desired.returning)),
        removed=tuple(node.name for node in site.nodes if node.name not in kept),
    )
    return {
        "schema": 1,
        "wish": asdict(wish),
        "cluster": {
            "state": state,
            "seen": TypeAdapter(type(cluster)).dump_python(cluster, mode="json"),
        },
        "faults": [asdict(fault) for fault in observed.faults],
        "manifest": _told(desired.manifest.as_json()) if desired.manifest else None,
    }


def read_recorded(site: Any, observed: Any) -> Recorded:
    """The documents of a bundle, field by field.

    Raises:
        Unreadable: a field is missing, of another type, or of a value that no site has.
    """
    if not isinstance(site, Mapping) or not isinstance(observed, Mapping):
        raise Unreadable("it is not a JSON object")
    manifest = observed.get("manifest")
    return Recorded(
        site=_site(site),
        wish=typed(observed.get("wish"), Wish),
        cluster=_cluster(observed.get("cluster")),
        faults=tuple(typed(one, Fault) for one in _list(observed.get("faults"))),
        manifest=_manifest(manifest),
    )


def desired_of(recorded: Recorded, desired: Desired) -> Desired:
    """The desired state of a bundle; ``desired`` brings the release that it names."""
    wish = recorded.wish
    return replace(
        desired,
        site=recorded.site.without(wish.removed),
        manifest=recorded.manifest,
        bundle_digest=wish.bundle_digest,
        cluster_values_sha256=wish.cluster_values_sha256,
        vendor_bundle_unread=bool(wish.vendor_bundle_file),
        vendor_bundle_file=wish.vendor_bundle_file,
        founded=wish.founded,
        returning=frozenset(wish.returning),
    )


def _site(document: Mapping[str, Any]) -> Site:
    name = typed(document.get("name"), Line)
    settings = _valid(SiteSettings, document.get("settings"))
    nodes = tuple(_node(one) for one in _list(document.get("nodes")))
    if len({node.name for node in nodes}) != len(nodes) or not nodes:
        raise Unreadable("nodes: none, or one is there twice")
    return Site(name=name, directory=Path("/nonexistent"), settings=settings, nodes=nodes)


def _node(document: Any) -> Node:
    if not isinstance(document, Mapping):
        raise Unreadable("nodes: not an object")
    own = {key: value for key, value in document.items() if key not in ("name", "groups")}
    settings = _valid(NodeSettings, own)
    return Node(
        name=typed(document.get("name"), NodeName),
        groups=frozenset(typed(group, Line) for group in _list(document.get("groups"))),
        **dict(settings),
    )


def _cluster(document: Any) -> ClusterState:
    if not isinstance(document, Mapping) or document.get("state") not in _STATES:
        raise Unreadable("cluster: no state that this version knows")
    return typed(document.get("seen"), _STATES[str(document["state"])])


def _told(manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    """The manifest with its packages as a list: the value beside ``base-passwd`` looks secret."""
    pairs = sorted(manifest["packages"].items())
    return {**manifest, "packages": [{"name": name, "version": version} for name, version in pairs]}


def _manifest(document: Any) -> BundleManifest | None:
    if document is None:
        return None
    if not isinstance(document, Mapping):
        raise Unreadable("manifest: not an object")
    packages = document.get("packages")
    if isinstance(packages, list):
        read = [one for one in packages if isinstance(one, Mapping)]
        named = {str(one.get("name")): one.get("version") for one in read}
        document = {**document, "packages": named}
    try:
        return BundleManifest.parse(document)
    except BundleRefused as error:
        raise Unreadable(error.message) from None


def _valid(kind: Any, document: Any) -> Any:
    try:
        return kind.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise Unreadable(f"{where}: {first['msg']}") from None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Unreadable("it lacks a list")
    return value
