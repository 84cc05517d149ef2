"""What ``status`` says of the shared storage."""

from __future__ import annotations

from typing import Any

from appliance.cli.status.view import storage_sentence
from appliance.model.state.cluster import NoCluster
from appliance.model.state.observed import Observed
from tests import samples

NFS = {"server": "198.51.100.4", "path": "/srv/runai", "minimum_free_gb": 50}


def _sentence(changes: dict[str, Any], **settings: Any) -> str | None:
    site = samples.site(**settings)
    desired = samples.desired(site)
    documents = {node.name: samples.converged(node, desired) for node in site.nodes}
    for name, storage in changes.items():
        documents[name]["storage"] |= storage
    return storage_sentence(site, Observed(samples.node_facts(documents), NoCluster()))


def test_a_site_without_storage_has_no_line() -> None:
    assert _sentence({}) is None


def test_free_space_the_threshold_and_the_slowest_fsync_are_shown() -> None:
    proof = {"server": "198.51.100.4", "path": "/srv/runai", "fsync_ms": 7.25}
    seen = {"visible": True, "free_bytes": 60 * 10**9}
    found = _sentence({"cp1": {"export": seen}, "w2": {"proof": proof}}, nfs=NFS)
    assert found == (
        "storage: 198.51.100.4:/srv/runai, 60 GB free (needed before first use: 50 GB), "
        "slowest fsync 7.2 ms (limit 25)"
    )


def test_unverified_and_missing_parts_are_reported() -> None:
    seen = {"visible": True, "free_bytes": 60 * 10**9}
    bare = {name: {"proof": None} for name in ("w1", "w2")}
    found = _sentence({"cp1": {"export": seen, "proof": None}, **bare}, nfs=NFS)
    assert str(found).endswith("not tested yet")
    gone = {"visible": False, "error": "connection refused"}
    assert _sentence({"cp1": {"export": gone}}, nfs=NFS) == (
        "storage: 198.51.100.4:/srv/runai is not available: connection refused"
    )
