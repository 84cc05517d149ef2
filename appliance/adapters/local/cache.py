"""The content-addressed cache: every file by its sha256, every result by its recipe.

``sha256/<hex>`` holds content, ``keys/<key>.json`` the result of a recipe, ``work/`` unfinished
work, which survives an interruption. Files appear by an atomic rename: a killed build leaves no
incomplete file. What must not be here: the meaning of the files.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from appliance.errors import BuildFailed

_CHUNK = 1 << 20


def cache_directory() -> Path:
    """``APPLIANCE_CACHE``, else ``appliance`` below the user's cache folder."""
    if chosen := os.environ.get("APPLIANCE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "appliance"


def recipe_key(recipe: Mapping[str, Any]) -> str:
    """The key of a recipe: of all inputs that the result depends on."""
    text = json.dumps(recipe, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


class Cache:
    """One cache folder; safe for several builds at a time."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or cache_directory()).resolve()
        self._content = self.root / "sha256"
        self._keys = self.root / "keys"
        self._incoming = self.root / "incoming"
        try:
            for folder in (self._content, self._keys, self._incoming):
                folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BuildFailed(
                f"the cache {self.root} cannot be used: {error.strerror}",
                hint="set APPLIANCE_CACHE to a folder that you can write to",
            ) from error

    def path(self, sha256: str) -> Path:
        """The path of some content, whether or not it is in the cache."""
        return self._content / sha256

    def holds(self, sha256: str, size: int) -> bool:
        """Whether the cache has the content, by its size; it is hashed again when it is used."""
        try:
            return self.path(sha256).stat().st_size == size
        except OSError:
            return False

    def adopt(self, path: Path) -> tuple[str, int]:
        """Move a finished file into the cache; return its sha256 and size."""
        digest, size = digest_of(path)
        if self.holds(digest, size):
            path.unlink()
            return digest, size
        target = self.path(digest)
        if path.stat().st_dev != self._content.stat().st_dev:
            moved = self._temporary()
            shutil.copyfile(path, moved)
            path.unlink()
            path = moved
        path.chmod(0o644)
        path.replace(target)
        return digest, size

    def add_bytes(self, content: bytes) -> tuple[str, int]:
        """Store bytes; return their sha256 and size."""
        path = self._temporary()
        path.write_bytes(content)
        return self.adopt(path)

    def recall(self, key: str) -> dict[str, Any] | None:
        """The stored result of a recipe, if there is one."""
        try:
            result = json.loads((self._keys / f"{key}.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return result if isinstance(result, dict) else None

    def remember(self, key: str, outcome: Mapping[str, Any]) -> None:
        """Store the result of a recipe."""
        path = self._temporary()
        path.write_text(json.dumps(outcome, sort_keys=True), encoding="utf-8")
        path.replace(self._keys / f"{key}.json")

    def made(self, key: str, make: Callable[[], Path]) -> tuple[str, int]:
        """The sha256 and size of a recipe's file, which is made only once."""
        with self.alone(key):
            result = self.recall(key)
            if result is None or not self.holds(result["sha256"], result["size"]):
                digest, size = self.adopt(make())
                result = {"sha256": digest, "size": size}
                self.remember(key, result)
            return result["sha256"], result["size"]

    def work(self, name: str) -> Path:
        """A folder for unfinished work; it stays until it is removed."""
        folder = self.root / "work" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Wait until no other build works on the same thing."""
        folder = self.root / "locks"
        folder.mkdir(exist_ok=True)
        with (folder / recipe_key({"name": name})).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def place(self, sha256: str, destination: Path, *, executable: bool = False) -> None:
        """Copy content to its destination and hash it; an identical file there is kept.

        Raises:
            BuildFailed: the cached file is damaged; it is removed.
        """
        mode = 0o755 if executable else 0o644
        source = self.path(sha256)
        if destination.is_file() and not destination.is_symlink():
            same_size = destination.stat().st_size == source.stat().st_size
            if same_size and digest_of(destination)[0] == sha256:
                destination.chmod(mode)
                return
        destination.parent.mkdir(parents=True, exist_ok=True)
        partial = destination.with_name(f".{destination.name}.partial")
        digest = hashlib.sha256()
        with source.open("rb") as stream, partial.open("wb") as copy:
            while piece := stream.read(_CHUNK):
                digest.update(piece)
                copy.write(piece)
        if digest.hexdigest() != sha256:
            partial.unlink()
            source.unlink()
            raise BuildFailed(
                f"removed a damaged file from the cache: {source}",
                hint="run the same command again; only this file is fetched or built again",
            )
        partial.chmod(mode)
        partial.replace(destination)

    def _temporary(self) -> Path:
        handle, name = tempfile.mkstemp(dir=self._incoming)
        os.close(handle)
        return Path(name)


def digest_of(path: Path) -> tuple[str, int]:
    """Hex sha256 and size of a file."""
    digest = hashlib.sha256()
    size = 0
    with path.open("rb", buffering=0) as stream:
        while piece := stream.read(_CHUNK):
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
