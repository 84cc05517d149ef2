"""Images of the registry that a node of the site runs: saved and brought back by that node."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from appliance.adapters.backup.sources import (
    MODULES,
    SILENCE_SECONDS,
    NodeStream,
    first_line,
    object_in,
    unreadable,
)
from appliance.adapters.backup.volumes.on_node import AGAIN, NODE_SECONDS, WORK_SECONDS
from appliance.adapters.ssh.node_modules import module_program
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.backup.names import IMAGES
from appliance.model.backup.restoring.images import (
    ImagesView,
    MeasuredImages,
    SavedImage,
    read_view,
)
from appliance.model.documents.strict_json import Unreadable
from appliance.model.documents.typed_json import Line, typed

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.backup.record import Part
    from appliance.model.site.settings import Site

SAVING: Final = (*MODULES, "appliance_image_backup")
RESTORING: Final = (*SAVING, "appliance_registry_push", "appliance_image_restore")
_OF: Final = "the images"
_Number = Annotated[int, Field(ge=0, le=1 << 62)]


@dataclass(frozen=True)
class _Look:
    images: _Number
    blobs: _Number
    bytes: _Number
    faults: Annotated[dict[Line, Line], Field(max_length=1000)]


class NodeImages:
    """The registry of one site.

    Args:
        site: the site.
        nodes: SSH to its nodes.
    """

    def __init__(self, site: Site, nodes: SshNodes) -> None:
        self._node, self._nodes = site.services_node, nodes
        self._registry = site.settings.registry
        self._python = site.settings.ssh.python

    def measure(self) -> MeasuredImages:
        """What the registry has."""
        answer = self._ask(SAVING, {"act": "look"})
        try:
            found = typed(answer, _Look)
        except Unreadable as error:
            raise self._deceives(error) from error
        return MeasuredImages(found.images, found.blobs, found.bytes, found.faults)

    @contextmanager
    def of_images(self, folder: str) -> Iterator[NodeStream]:
        """Ask for all of it; it begins at once."""
        want = self._about(
            {"act": "gather", "node": self._node.name, "kinds": [IMAGES], "folder": _own(folder)}
        )
        script, program = module_program(self._python, SAVING, [json.dumps(want)])
        with self._nodes.stream_as_root(self._node, script, [program], **_LIMITS) as pieces:
            yield NodeStream(self._node, [IMAGES], pieces)

    # -- the way back

    def look(self, images: Mapping[str, str]) -> ImagesView:
        """What the registry has otherwise than name -> digest; nothing changes."""
        answer = self._ask(RESTORING, {"act": "look"}, [_said({"images": dict(images)})])
        try:
            return read_view(answer)
        except Unreadable as error:
            raise self._deceives(error) from error

    def load(
        self,
        backup: str,
        images: Sequence[SavedImage],
        blobs: Sequence[Part],
        pieces: Iterable[bytes],
    ) -> Sequence[str]:
        """Push images that are lacking still; their names.

        Raises:
            ClusterError: it failed, or the connection broke.
        """
        more = {
            "blobs": [(part.sha256, part.size) for part in blobs],
            "listed": [
                {"name": i.name, "digest": i.digest, "media_type": i.media_type, "size": i.size}
                for i in images
            ],
        }
        want = {"act": "load", "folder": _own(backup)}
        try:
            found = self._ask(RESTORING, want, chain([_said(more)], pieces))
            return [str(name) for name in found["pushed"]]
        except NodeUnreachable as error:
            raise ClusterError(error.message, hint=AGAIN, details=error.details) from error
        except (LookupError, TypeError) as error:
            raise ClusterError(self._deceives(error).message, hint=AGAIN) from error

    def _about(self, want: Mapping[str, Any]) -> dict[str, Any]:
        return {"registry": self._registry, **want}

    def _ask(
        self, modules: Sequence[str], want: Mapping[str, Any], given: Iterable[bytes] = ()
    ) -> dict[str, Any]:
        words = [json.dumps(self._about(want))]
        script, program = module_program(self._python, modules, words)
        pieces = chain([program], given)
        with self._nodes.stream_as_root(self._node, script, pieces, **_LIMITS) as answer:
            line, _ = first_line(self._node, answer)
        return object_in(self._node, line, _OF)

    def _deceives(self, why: object) -> NodeUnreachable:
        return unreadable(self._node, _OF, why)


_LIMITS: Final = {"silence": SILENCE_SECONDS, "seconds": NODE_SECONDS, "work": WORK_SECONDS}


def _own(name: str) -> str:
    """The name of a folder on the node that is this run's own."""
    return f"{name[:100]}-{IMAGES}"


def _said(document: Mapping[str, Any]) -> bytes:
    """A line before the content: a list of images is too long for an argument."""
    return json.dumps(document).encode() + b"\n"
