"""What the services node, and the container runtime of each node, hold.

Root there may have written any of it: a strict reader decides what counts. What must not be here:
what may go (:mod:`appliance.model.upkeep.care.supply`).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from appliance.adapters.local.content import find_content_root
from appliance.adapters.ssh.node_modules import started
from appliance.errors import ApplianceError, ClusterError
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.upkeep.care.supply import NodeImage, Revision, StoredBundle, Supply

if TYPE_CHECKING:
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.model.site.settings import Node

SECONDS: Final = 120
MOST_BYTES: Final = 64 << 20
STORAGE: Final = "/var/lib/docker-registry"
_SHA: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_NAME: Final = re.compile(r"[a-z0-9][A-Za-z0-9._/:-]{0,400}")
_WORD: Final = re.compile(r"[\x21-\x7e]{1,600}")
_RELEASE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}|")
Found = TypeVar("Found")


class SiteSupply:
    """Looks at one site.

    Args:
        nodes: SSH to them.
        python: the interpreter on the nodes.
    """

    def __init__(self, nodes: SshNodes, python: str) -> None:
        self._nodes = nodes
        self._python = python

    def supply(self, services: Node, *, own_registry: bool) -> Supply:
        """The bundles of the services node, and the images of its registry.

        Raises:
            NodeUnreachable: it does not answer.
            ClusterError: it could not be read, or what it says is not readable.
        """
        source = _module("appliance_supply").encode()
        words = (self._python, "-", *((STORAGE,) if own_registry else ()))
        answer = self._nodes.run_as_root(services, shlex.join(words), stdin=source, timeout=SECONDS)
        if answer.code != 0:
            raise _unreadable(services, answer.errors.strip()[-300:] or "no answer")
        return _read(services, lambda: supply_of(read_json(answer.output, most_bytes=MOST_BYTES)))

    def images(
        self, asked: Sequence[Node], runtime: str
    ) -> tuple[Mapping[str, tuple[NodeImage, ...]], tuple[str, ...]]:
        """Node -> its images, all asked at once; and a sentence for each without an answer."""
        with ThreadPoolExecutor(16) as pool:
            answers = list(pool.map(lambda node: self._images(node, runtime), asked))
        pairs = zip(asked, answers, strict=True)
        found = {node.name: one for node, one in pairs if not isinstance(one, str)}
        return found, tuple(one for one in answers if isinstance(one, str))

    def _images(self, node: Node, runtime: str) -> tuple[NodeImage, ...] | str:
        names = ("appliance_programs", "appliance_node_images")
        sources = [(name, _module(name)) for name in names]
        try:
            answer = self._nodes.run_as_root(
                node,
                shlex.join((self._python, "-", runtime)),
                stdin=started(sources),
                timeout=SECONDS,
            )
            if answer.code != 0:
                return f"{node.name}: {answer.errors.strip()[-300:] or 'no answer'}"
            document = read_json(answer.output, most_bytes=MOST_BYTES)
            return _read(node, lambda: images_of(document))
        except Unreadable as error:
            return f"{node.name}: its list of images is not readable: {error}"
        except ApplianceError as error:
            return error.message


def _module(name: str) -> str:
    folder: Path = find_content_root() / "playbooks/module_utils"
    return (folder / f"{name}.py").read_text()


def _unreadable(node: Node, why: object) -> ClusterError:
    return ClusterError(
        f"{node.name}: what it holds could not be read: {why}",
        hint="see whether it is well: appliance status; then run the same command again",
    )


def _read(node: Node, reader: Callable[[], Found]) -> Found:
    try:
        return reader()
    except (Unreadable, ValueError, LookupError, TypeError) as error:
        raise _unreadable(node, error) from error


def supply_of(document: Any) -> Supply:
    """Read what the services node says.

    Raises:
        ValueError, LookupError, TypeError: it has another form.
    """
    found = _mapping(document)
    bundles = tuple(_bundle(_mapping(one)) for one in _list(found["bundles"]))
    registry = found["registry"]
    if registry is None:
        return Supply(bundles)
    held = _mapping(registry)
    blobs = {_text(d, _DIGEST): _count(n) for d, n in _mapping(held["blobs"]).items()}
    revisions = tuple(_revision(_mapping(one)) for one in _list(held["revisions"]))
    return Supply(bundles, revisions, blobs, read_only=held["read_only"] is True)


def _bundle(one: Mapping[str, Any]) -> StoredBundle:
    images = one["images"]
    verified = one["verified"]
    if isinstance(verified, bool) or not isinstance(verified, int):
        raise TypeError("a bundle has no place")
    return StoredBundle(
        digest=_text(one["digest"], _SHA),
        release=_text(one["release"], _RELEASE),
        images=None if images is None else _images(_mapping(images)),
        served=one["served"] is True,
        verified=verified,
        own_bytes=_count(one["own_bytes"]),
    )


def _images(listed: Mapping[str, Any]) -> Mapping[str, str]:
    return {_text(name, _NAME): _text(digest, _DIGEST) for name, digest in listed.items()}


def _revision(one: Mapping[str, Any]) -> Revision:
    return Revision(
        repository=_text(one["repository"], _NAME),
        digest=_text(one["digest"], _DIGEST),
        tags=tuple(_text(tag, _WORD) for tag in _list(one["tags"])),
        size_bytes=_count(one["bytes"]),
        blobs=tuple(_text(blob, _DIGEST) for blob in _list(one["blobs"])),
        children=tuple(_text(child, _DIGEST) for child in _list(one["children"])),
    )


def images_of(document: Any) -> tuple[NodeImage, ...]:
    """Read what a node says of its images.

    Raises:
        ValueError, LookupError, TypeError: it has another form.
    """
    found = _mapping(document)
    used = {str(one) for one in _list(found["used"])}
    rows = [_mapping(one) for one in _list(found["images"])]
    return tuple(
        NodeImage(
            name=_text(row["name"], _WORD),
            digest=row["digest"] if _DIGEST.fullmatch(str(row["digest"])) else "",
            size_bytes=_count(row["bytes"]),
            used=str(row["id"]) in used or str(row["name"]) in used,
        )
        for row in rows
    )


def _mapping(value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError("a part of it is no object")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("a part of it is no list")
    return value


def _text(value: object, form: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not form.fullmatch(value):
        raise ValueError("a text has another form")
    return value


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 60:
        raise ValueError("a size is no number")
    return value
