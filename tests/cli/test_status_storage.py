"""What ``status`` says of the shared storage."""

from __future__ import annotations

from typing import Any

from appliance.cli.commands.status.view import storage_sentence
from appliance.model.state.cluster.cluster import NoCluster
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


PROOF = {"server": "198.51.100.4", "path": "/srv/runai", "fsync_ms": 2.0}


def test_free_space_the_threshold_and_the_slowest_fsync_are_shown() -> None:
    slow = {**PROOF, "fsync_ms": 7.25, "free_bytes": 60 * 10**9, "version": "4.1"}
    found = _sentence({"w2": {"proof": slow}}, nfs=NFS)
    assert found == (
        "storage: 198.51.100.4:/srv/runai, NFS 4.1, 60 GB free at its test (needed before first "
        "use: 50 GB), slowest fsync 7.2 ms (limit 25)"
    )


def test_the_free_space_of_our_own_server_is_current() -> None:
    local = {"free_bytes": 60 * 10**9}
    own = {"server": "cp1", "path": "/srv/runai"}
    found = _sentence({"cp1": {"local": local}}, nfs=own)
    assert "60 GB free (needed before first use: 110 GB)" in str(found)


def test_unverified_and_missing_parts_are_reported() -> None:
    bare = {name: {"proof": None} for name in ("cp1", "w1", "w2")}
    assert str(_sentence(bare, nfs=NFS)).endswith("not tested yet")
    gone = {"reachable": False, "error": "port 2049: connection refused"}
    assert _sentence({"cp1": {"export": gone}}, nfs=NFS) == (
        "storage: 198.51.100.4:/srv/runai is not available: port 2049: connection refused"
    )
