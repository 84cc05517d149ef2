"""Was the shared storage tested from a node? Judged from the record of the mount that tried it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from appliance.model.site.shared_storage import WRITER, Export
from appliance.model.state.cluster.cluster import Cluster

if TYPE_CHECKING:
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.observed import Observed


def record_of(facts: NodeFacts, export: Export) -> dict[str, Any]:
    """The record of the export as it is mounted now; empty where another, or none, was tested."""
    found: dict[str, Any] = facts.at("storage.proof") or {}
    same = (found.get("server"), found.get("path")) == (export.server, export.path)
    # A record of an earlier release names no options: server and node negotiated.
    return found if same and _words(found, "options") == export.mount_options else {}


def client_faults(facts: NodeFacts, export: Export) -> Iterator[str]:
    """Yield what a member lacks to mount the export, or to have tested it."""
    if "nfs-common" not in (facts.at("packages.installed") or {}):
        yield "nfs-common is not installed"
    if not facts.at("storage.client"):
        yield "its kernel has no NFS client"
    test = record_of(facts, export)
    if not test:
        how = f" with {','.join(export.mount_options)}" if export.mount_options else ""
        yield f"no write test as user {WRITER} to {export.source}{how} is recorded"
        return
    there = test.get("folders")
    absent = [name for name in export.folders if there is not None and name not in there]
    if absent:
        yield f"{export.source} lacks a folder that user {WRITER} may write: {absent[0]}"


def is_in_use(observed: Observed, export: Export) -> bool:
    """Whether pods have written to volumes of the export: it may be full, and is not refused."""
    cluster = observed.cluster
    return isinstance(cluster, Cluster) and cluster.storage.tested == export.source


def _words(found: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(found.get(key) or ())
