"""A site whose services node runs a registry on loopback, and the SSH to it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.backup.volumes.images import NodeImages
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Site
from tests import samples
from tests.unit.modules.image_registry import Registry, ServicesNode, restoring, saving


class Nodes:
    """SSH to the services node, which runs its programs in this process.

    Attributes:
        acts: what was asked, in its order.
        cut: after how many bytes what the node sends to a backup ends; None: it does not.
        ending: what ends it there; None: the connection breaks.
        happens: called before each act.
    """

    def __init__(self, node: ServicesNode) -> None:
        self.node = node
        self.acts: list[str] = []
        self.cut: int | None = None
        self.ending: BaseException | None = None
        self.happens: Callable[[str], None] = lambda _act: None

    @contextmanager
    def stream_as_root(
        self, node: Any, script: str, pieces: Iterable[bytes], **how: float
    ) -> Iterator[Iterator[bytes]]:
        assert how["silence"] < how["work"] <= how["seconds"]
        want = json.loads(shlex.split(script)[-1])
        self.happens(want["act"])
        self.acts.append(want["act"])
        yield self._output(node.name, want, iter(pieces))

    def _output(self, name: str, want: dict[str, Any], pieces: Iterator[bytes]) -> Iterator[bytes]:
        next(pieces)  # the program
        yield b"\n\n"
        if want["act"] == "gather":
            sent = self.node.sent()
            for start in range(0, len(sent[: self.cut]), 70_000):
                yield sent[start : min(start + 70_000, self.cut or len(sent))]
            if self.cut is not None:
                raise self.ending or NodeUnreachable(f"{name}: the connection broke")
            return
        try:
            given = b"".join(pieces)
            found = self.node.act(want, given) if given else self.node.look()
        except (*saving.ERRORS, *restoring.ERRORS) as error:
            raise NodeUnreachable(f"{name}: {error}") from error
        yield json.dumps(found).encode() + b"\n"


class Scene:
    """A site, the node with its registry, and the way to it."""

    def __init__(self, registry: Registry, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.registry = registry
        self.nodes = Nodes(ServicesNode(registry, folder, patch))
        self.site: Site = samples.site(1, 2, runai={})
        self.images = images_of(self)


def images_of(scene: Scene) -> NodeImages:
    """The registry of the scene, as commands ask for it."""
    nodes: Any = scene.nodes
    return NodeImages(scene.site, nodes)
