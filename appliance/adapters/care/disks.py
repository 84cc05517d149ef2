"""How full the nodes' disks were: ``<site>/.appliance/facts/disks/``, one file a node.

Every look adds a sample where the last one is some hours old. What could not be kept stops no
command. What must not be here: what growth means (:mod:`appliance.model.checks.health.disks`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import replace_file
from appliance.model.state.facts.disk_history import (
    MOST_BYTES,
    DiskHistory,
    read_disk_history,
    used_of,
    with_sample,
)

if TYPE_CHECKING:
    from appliance.model.state.observed import Look


class DiskFiles:
    """The files of one site.

    Args:
        state_directory: the site's ``.appliance``.
        names: of its nodes; others are not kept.
    """

    def __init__(self, state_directory: Path, names: Collection[str]) -> None:
        self._folder = state_directory / "facts" / "disks"
        self._names = frozenset(names)

    def saw_nodes(self, look: Look) -> None:
        """Keep how full the disks of the nodes are that answered."""
        for name, facts in look.node_facts.items():
            if name not in self._names or facts.received_at is None:
                continue
            before = self._read(name)
            after = with_sample(before, facts.received_at, used_of(facts))
            if after != before:
                self._write(after)

    def read(self) -> Mapping[str, DiskHistory]:
        """Node -> what is kept of it; a file that is none counts as absent."""
        return {name: self._read(name) for name in sorted(self._names)}

    def _read(self, name: str) -> DiskHistory:
        try:
            found = read_disk_history(read_plain(self._path(name), most_bytes=MOST_BYTES))
        except (OSError, ValueError):
            return DiskHistory(name)
        return found if found.node == name else DiskHistory(name)

    def _write(self, history: DiskHistory) -> None:
        try:
            replace_file(self._path(history.node), json.dumps(history.as_json()) + "\n")
        except OSError:
            # The last facts, which are written beside it, tell the operator of a full disk.
            return

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
