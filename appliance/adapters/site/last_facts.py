"""The last facts of a site's nodes: ``<site>/.appliance/facts/``, one file a node, and the cluster.

Every look writes what it saw, each file whole or not at all. What could not be kept stops no
command. What must not be here: what is kept (:mod:`appliance.model.upgrade.rehearsal.last_facts`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.model.state.cluster.cluster import Cluster, ClusterState
from appliance.model.state.observed import Look
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.losses import Documents
from appliance.model.upgrade.rehearsal.handmade import Handmade, handmade_of
from appliance.model.upgrade.rehearsal.last_facts import (
    MOST_BYTES,
    HandmadeSettings,
    LastCluster,
    LastFacts,
    cluster_of,
    machine_of,
    member_of,
    read_last_cluster,
    read_last_facts,
)

FACTS: Final = "facts"
CLUSTER: Final = "cluster.json"
AT_A_TIME: Final = 16


@dataclass(frozen=True)
class KeptSite:
    """What is kept of a site.

    Attributes:
        nodes: node -> its last facts.
        cluster: None: no look has seen it.
        unread: one sentence for each file that is no such document.
    """

    nodes: Mapping[str, LastFacts] = field(default_factory=dict)
    cluster: LastCluster | None = None
    unread: tuple[str, ...] = ()


class LastFactsFiles:
    """The files of one site.

    Args:
        state_directory: the site's ``.appliance``.
        names: of its nodes; others are not kept.
        now: the time as UTC, ISO 8601.
        note: tells the operator what could not be kept, once.
    """

    def __init__(
        self,
        state_directory: Path,
        names: Iterable[str],
        now: Callable[[], str],
        note: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._folder = state_directory / FACTS
        self._names = frozenset(names)
        self._now = now
        self._note = note
        self._known: dict[str, LastFacts] = {}
        self._cluster: LastCluster | None = None
        self._failed = False

    def saw_nodes(self, look: Look) -> None:
        """Keep the facts of the nodes that answered."""
        seen = self._now()
        self._keep(
            replace(self._before(name), machine=machine_of(facts, seen))
            for name, facts in look.node_facts.items()
            if name in self._names
        )

    def saw_cluster(self, cluster: ClusterState) -> None:
        """Keep what the API says of its nodes, where it answered."""
        if not isinstance(cluster, Cluster):
            return
        seen = self._now()
        self._keep(
            replace(self._before(name), member=member_of(node, seen))
            for name, node in cluster.nodes.items()
            if name in self._names
        )
        before = self._cluster_before()
        self._keep_cluster(replace(cluster_of(cluster, seen), handmade=before.handmade))

    def saw_documents(self, documents: Documents) -> None:
        """Keep what of them is hand-made, where they were read."""
        found = handmade_of(documents)
        if isinstance(found, Silence):
            return
        seen = self._now()
        of_all: tuple[Handmade, ...] = found.get("", ())
        self._keep(
            replace(self._before(name), handmade=HandmadeSettings(seen, settings))
            for name, settings in found.items()
            if name in self._names
        )
        self._keep_cluster(replace(self._cluster_before(), handmade=HandmadeSettings(seen, of_all)))

    def read(self) -> KeptSite:
        """Everything that is kept; what cannot be read is named."""
        nodes: dict[str, LastFacts] = {}
        unread: list[str] = []
        for name in sorted(self._names):
            path = self._path(name)
            try:
                nodes[name] = self._read_node(name)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                unread.append(f"{path}: {error}")
        cluster = None
        try:
            cluster = read_last_cluster(read_plain(self._folder / CLUSTER, most_bytes=MOST_BYTES))
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            unread.append(f"{self._folder / CLUSTER}: {error}")
        return KeptSite(nodes, cluster, tuple(unread))

    def _path(self, name: str) -> Path:
        return self._folder / "nodes" / f"{name}.json"

    def _read_node(self, name: str) -> LastFacts:
        found = read_last_facts(read_plain(self._path(name), most_bytes=MOST_BYTES))
        if found.node != name:
            raise ValueError(f"it is of node {found.node}, expected {name}")
        return found

    def _before(self, name: str) -> LastFacts:
        """What was kept of a node before; nothing where that cannot be read."""
        if name not in self._known:
            try:
                self._known[name] = self._read_node(name)
            except (OSError, ValueError):
                self._known[name] = LastFacts(name)
        return self._known[name]

    def _cluster_before(self) -> LastCluster:
        if self._cluster is None:
            self._cluster = self.read_cluster() or LastCluster()
        return self._cluster

    def read_cluster(self) -> LastCluster | None:
        """What is kept of the cluster; None where nothing readable is."""
        try:
            return read_last_cluster(read_plain(self._folder / CLUSTER, most_bytes=MOST_BYTES))
        except (OSError, ValueError):
            return None

    def _keep(self, found: Iterable[LastFacts]) -> None:
        kept = list(found)
        self._known |= {one.node: one for one in kept}
        if kept:
            with ThreadPoolExecutor(min(len(kept), AT_A_TIME)) as pool:
                list(pool.map(lambda one: self._write(self._path(one.node), one.as_json()), kept))

    def _keep_cluster(self, cluster: LastCluster) -> None:
        self._cluster = cluster
        self._write(self._folder / CLUSTER, cluster.as_json())

    def _write(self, path: Path, document: Mapping[str, Any]) -> None:
        try:
            replace_file(path, json.dumps(document, indent=1, sort_keys=True) + "\n")
        except OSError as error:
            if not self._failed:
                self._failed = True
                self._note(f"the last facts were not kept: {path}: {error.strerror or error}")
