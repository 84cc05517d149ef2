"""Volumes of a site: their claims by the API, their folders by the node that serves the export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, Annotated, Any, Final, TypeVar

from pydantic import Field

from appliance.adapters.backup.sources import (
    MODULES,
    SILENCE_SECONDS,
    NodeStream,
    first_line,
    object_in,
    unreadable,
)
from appliance.adapters.kubernetes.claims import read_claims
from appliance.adapters.ssh.node_modules import module_program
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.backup.names import VOLUMES
from appliance.model.backup.volumes.choice import Measured, MeasuredVolumes
from appliance.model.backup.volumes.view import VolumesView, read_kept, read_view
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, typed
from appliance.model.site.shared_storage import Export, export_of

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.connection import ApiConnection
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.backup.record import Part
    from appliance.model.backup.volumes.choice import Choice
    from appliance.model.backup.volumes.record import Claim, VolumeRecord
    from appliance.model.backup.volumes.restore import Target
    from appliance.model.site.settings import Node, Site

T = TypeVar("T")
SAVING: Final = (*MODULES, "appliance_volume_archive", "appliance_volume_backup")
RESTORING: Final = (*SAVING, "appliance_volume_extract", "appliance_volume_restore")
# A volume of some TB, over a disk of 100 MB/s.
WORK_SECONDS: Final = 12 * 3600.0
NODE_SECONDS: Final = 24 * 3600.0
AGAIN: Final = "correct the cause, then run the same command again: it goes on"
_OF: Final = "the volumes"
_CHUNK: Final = 1 << 18
_Bytes = Annotated[int, Field(ge=0, le=1 << 62)]


@dataclass(frozen=True)
class _Seen:
    entries: _Bytes
    data_bytes: _Bytes
    fault: Annotated[str, Field(max_length=4000)]


@dataclass(frozen=True)
class _Look:
    volumes: Annotated[dict[Line, _Seen], Field(max_length=10_000)]
    free_bytes: _Bytes


class NodeVolumes:
    """The volumes of one site.

    Args:
        site: the site.
        nodes: SSH to its nodes.
        api: the cluster's API.
    """

    def __init__(self, site: Site, nodes: SshNodes, api: ApiConnection) -> None:
        self._site, self._nodes, self._api = site, nodes, api
        self._python = site.settings.ssh.python

    def claims(self) -> Sequence[Claim]:
        """Every claim that is bound, and who uses it."""
        return read_claims(self._api)

    def measure(self, choice: Choice) -> MeasuredVolumes:
        """How much each folder holds."""
        node, export = self._served()
        want = {"act": "look", "export": export.path, "volumes": _wanted(choice)}
        answer = self._ask(node, SAVING, want)
        try:
            found = typed(answer, _Look)
        except Unreadable as error:
            raise _deceives(node, error) from error
        seen = {
            claim: Measured(one.entries, one.data_bytes, one.fault)
            for claim, one in found.volumes.items()
        }
        return MeasuredVolumes(seen, found.free_bytes)

    @contextmanager
    def of_volumes(self, choice: Choice, folder: str) -> Iterator[NodeStream]:
        """Ask the node for archives; it begins at once."""
        node, export = self._served()
        want = {
            "act": "gather",
            "node": node.name,
            "kinds": [VOLUMES],
            "folder": f"{folder}-{VOLUMES}"[:120],
            "export": export.path,
            "volumes": _wanted(choice),
        }
        script, program = module_program(self._python, SAVING, [json.dumps(want)])
        how = {"silence": SILENCE_SECONDS, "seconds": NODE_SECONDS, "work": WORK_SECONDS}
        with self._nodes.stream_as_root(node, script, [program], **how) as pieces:
            yield NodeStream(node, [VOLUMES], pieces)

    # -- the way back

    def look(self, key: str, targets: Sequence[Target]) -> VolumesView:
        """What a restore is planned by; nothing changes."""
        node, _ = self._served()
        answer = self._ask(node, RESTORING, self._about("look", key, targets))
        try:
            return read_view(answer)
        except Unreadable as error:
            raise _deceives(node, error) from error

    def load(
        self,
        key: str,
        targets: Sequence[Target],
        one: tuple[VolumeRecord, Part],
        backup: tuple[str, str],
        content: IO[bytes],
    ) -> None:
        """Make a new folder of an archive beside the present one, and compare it."""
        record, part = one
        told = {
            "size": part.size,
            "sha256": part.sha256,
            "digest": record.digest,
            "data_bytes": record.data_bytes,
            "counts": dict(record.counts),
        }
        want = self._about("load", key, targets)
        want.update(claim=record.claim, told=told, backup=backup[0], file_sha256=backup[1])
        self._act(want, lambda found: str(found["digest"]), self._pieces(content))

    def swap(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        """Let the new folders take the names; claim -> the name that keeps what was there."""
        return self._act(self._about("swap", key, targets), read_kept)

    def end(self, key: str, targets: Sequence[Target]) -> Mapping[str, str]:
        """Note that it ended; what is kept, as :meth:`swap` tells it."""
        return self._act(self._about("end", key, targets), read_kept)

    def _pieces(self, content: IO[bytes]) -> Iterable[bytes]:
        return iter(lambda: content.read(_CHUNK), b"")

    def _about(self, act: str, key: str, targets: Sequence[Target]) -> dict[str, Any]:
        _, export = self._served()
        folders = [{"claim": one.claim, "folder": one.folder} for one in targets]
        stamp = key.rpartition(".")[2]
        return {"act": act, "export": export.path, "key": key, "stamp": stamp, "volumes": folders}

    def _served(self) -> tuple[Node, Export]:
        export = export_of(self._site)
        if export is None or export.node is None:
            raise AssertionError("no node of the site serves an export")
        return export.node, export

    def _act(
        self,
        want: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
        given: Iterable[bytes] = (),
    ) -> T:
        """Something that changes the node; what its answer says.

        Raises:
            ClusterError: it failed, or the connection broke.
        """
        node, _ = self._served()
        try:
            return read(self._ask(node, RESTORING, want, given))
        except NodeUnreachable as error:
            raise ClusterError(error.message, hint=AGAIN, details=error.details) from error
        except (Unreadable, LookupError, TypeError, ValueError) as error:
            raise ClusterError(_deceives(node, error).message, hint=AGAIN) from error

    def _ask(
        self,
        node: Node,
        modules: Sequence[str],
        want: Mapping[str, Any],
        given: Iterable[bytes] = (),
    ) -> dict[str, Any]:
        script, program = module_program(self._python, modules, [json.dumps(dict(want))])
        how = {"silence": SILENCE_SECONDS, "seconds": NODE_SECONDS, "work": WORK_SECONDS}
        with self._nodes.stream_as_root(node, script, chain([program], given), **how) as answer:
            line, _ = first_line(node, answer)
        return object_in(node, line, _OF)


def _wanted(choice: Choice) -> list[dict[str, str]]:
    return [
        {
            "claim": one.claim.claim,
            "volume": one.claim.volume,
            "uid": one.claim.uid,
            "folder": one.folder,
        }
        for one in choice.volumes
    ]


def _deceives(node: Node, why: object) -> NodeUnreachable:
    return unreadable(node, _OF, why)
