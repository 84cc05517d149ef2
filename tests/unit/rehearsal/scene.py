"""A site of which every look was kept, to be changed in one place for a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from appliance.model.site.settings import Node, Site
from appliance.model.upgrade.rehearsal.handmade import Handmade
from appliance.model.upgrade.rehearsal.last_facts import (
    HandmadeSettings,
    LastCluster,
    LastFacts,
    Machine,
    Member,
)
from appliance.model.upgrade.rehearsal.likeness import SeenSite
from tests import samples

SEEN = "2026-11-01T00:00:00+00:00"
MACHINE = Machine(
    SEEN, "ubuntu-20.04", "5.4.0-216-generic", "Quanta", "D43N-3U", 128, 512 << 30, {}, "nfs"
)
MEMBER = Member(SEEN, "v1.23.5", "docker://20.10.24")
PROFILING = Handmade("kube-apiserver", ("profiling",), "false", "absent", value=["false"])
PODS = Handmade("kubelet", ("maxPods",), "250", "110", value=250)
MEMORY = Handmade("coredns", ("resources", "limits", "memory"), "1Gi", "170Mi", value="1Gi")


def facts(node: Node, **changes: Any) -> LastFacts:
    """What is kept of a node."""
    return replace(LastFacts(node.name, MACHINE, MEMBER, HandmadeSettings(SEEN)), **changes)


def seen(
    masters: int = 1,
    workers: int = 2,
    *,
    nodes: Mapping[str, Mapping[str, Any]] | None = None,
    unseen: tuple[str, ...] = (),
    cluster: LastCluster | None = None,
    site: Site | None = None,
) -> SeenSite:
    """What is known of a site; ``nodes``: node -> what of its facts is otherwise."""
    of = site or samples.site(masters, workers)
    kept = {
        node.name: facts(node, **(nodes or {}).get(node.name, {}))
        for node in of.nodes
        if node.name not in unseen
    }
    known = cluster or LastCluster(SEEN, "v1.23.5", "", HandmadeSettings(SEEN))
    return SeenSite(of, "k8s-1.23.5-r1", "v1.23.5", kept, known)


def handmade(*settings: Handmade) -> dict[str, HandmadeSettings]:
    """Hand-made settings of a node."""
    return {"handmade": HandmadeSettings(SEEN, settings)}
