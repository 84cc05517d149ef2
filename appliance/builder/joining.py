"""The folder in the target of a join that says how far it is, and the lock of the target.

A kill leaves it at any point: what is not whole in it only costs time. What must not be here: the
parts and their bytes (see ``join.py``).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from appliance.adapters.bundle.parts_media import PartsDocuments, is_parts_folder
from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.errors import Refused
from appliance.model.bundle.carry.parts import (
    INDEX,
    PARTS_DELTA,
    PARTS_MANIFEST,
    PARTS_SIGNATURE,
)
from appliance.model.documents.strict_json import read_json

# The folder's name in the target; it holds the documents of the media.
JOINING: Final = ".joining"
_STATE: Final = "state.json"
_PARTIAL: Final = f".{INDEX}.partial"
_NAMES: Final = (_STATE, PARTS_SIGNATURE, PARTS_DELTA, PARTS_MANIFEST, _PARTIAL, INDEX)
_MOST_STATE_BYTES: Final = 1 << 20


@dataclass
class State:
    """How far a join is.

    Attributes:
        done: the parts whose bytes are in the target.
        seen: part -> where its file was last seen.
    """

    done: set[int] = field(default_factory=set)
    seen: dict[int, str] = field(default_factory=dict)


class JoiningFolder:
    """The folder of one target."""

    def __init__(self, target: Path) -> None:
        self.path = target / JOINING

    @property
    def is_begun(self) -> bool:
        """Whether a join began here, and kept the documents of its media."""
        return not self.path.is_symlink() and is_parts_folder(self.path)

    @property
    def is_ours(self) -> bool:
        """Whether it is a folder with nothing but names of a join, whole or not."""
        if self.path.is_symlink() or not self.path.is_dir():
            return False
        return all(_is_our_name(path.name) for path in self.path.iterdir())

    def begin(self, documents: PartsDocuments) -> None:
        """Keep the documents; the index comes last, when the others are on the disk."""
        if not self.is_begun:
            self.path.mkdir(exist_ok=True)
            (self.path / PARTS_MANIFEST).write_bytes(documents.raw_manifest)
            if documents.raw_delta is not None:
                (self.path / PARTS_DELTA).write_bytes(documents.raw_delta)
            (self.path / _PARTIAL).write_bytes(documents.raw_index)
            os.sync()
            (self.path / _PARTIAL).replace(self.path / INDEX)
        if documents.signature is not None:
            (self.path / PARTS_SIGNATURE).write_bytes(documents.signature)

    def signature(self) -> bytes | None:
        """The signature that a medium had; None if none had one."""
        path = self.path / PARTS_SIGNATURE
        return path.read_bytes() if path.is_file() else None

    def keep(self, state: State) -> None:
        """Remember how far it is."""
        document: dict[str, Any] = {
            "done": sorted(state.done),
            "seen": {str(number): path for number, path in sorted(state.seen.items())},
        }
        replace_file(self.path / _STATE, json.dumps(document) + "\n", mode=COMMITTABLE)

    def state(self, count: int) -> State:
        """How far an earlier call was; nothing where its record is missing or damaged."""
        try:
            document = read_json(read_plain(self.path / _STATE, most_bytes=_MOST_STATE_BYTES))
            done = {n for n in document["done"] if type(n) is int and 1 <= n <= count}
            seen = {int(n): str(where) for n, where in document["seen"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return State()
        return State(done, seen)

    def forget(self) -> None:
        """Remove what a join wrote; a file of somebody else stays, and its folder with it."""
        if self.path.is_symlink() or not self.path.is_dir():
            return
        for path in list(self.path.iterdir()):
            if _is_our_name(path.name):
                path.unlink()
        with suppress(OSError):
            self.path.rmdir()


def _is_our_name(name: str) -> bool:
    """Whether a join writes a file of this name; a kill leaves names of files half written."""
    return name in _NAMES or (name.startswith(f".{_STATE}.") and name.endswith(".new"))


@contextmanager
def alone_in(target: Path) -> Iterator[None]:
    """Let one join at a time write into a folder, which it makes.

    Raises:
        Refused: another one is at work.
        OSError: the folder cannot be made.
    """
    target.mkdir(parents=True, exist_ok=True)
    handle = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # file systems without locks
            _lock(handle, target)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, target: Path) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise Refused(
            f"another join writes into {target}: nothing was changed",
            hint="wait until it has finished, then run the same command again",
        ) from None
