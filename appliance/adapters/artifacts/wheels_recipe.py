"""What the tool's wheel closure depends on, so that it is made again only when that changes."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from appliance.adapters.artifacts.wheels import PROJECT, checkout

_SHIPPED = ("appliance", "playbooks", "roles", "hardware", "inventories/example")
_TOP = ("pyproject.toml", "README.md")
_NOT_SHIPPED = {"__pycache__", ".appliance", ".mypy_cache", ".ruff_cache"}


def closure_recipe() -> dict[str, object]:
    """Our own content, the versions that run beside us, and the Python that runs them."""
    return {
        "own": own_content(checkout()),
        "beside": sorted(
            f"{item.metadata['Name']}=={item.version}" for item in metadata.distributions()
        ),
        "python": sys.version_info[:2],
        "machine": os.uname().machine,
    }


def own_content(tree: Path | None) -> str:
    """A digest of the source tree's shipped files, or of the installed ones."""
    found = hashlib.sha256()
    if tree is None:
        found.update((metadata.distribution(PROJECT).read_text("RECORD") or "").encode())
        return found.hexdigest()
    for path in sorted(_files(tree)):
        found.update(f"{path.relative_to(tree)}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _files(tree: Path) -> Iterator[Path]:
    yield from (tree / name for name in _TOP if (tree / name).is_file())
    for name in _SHIPPED:
        for folder, below, files in os.walk(tree / name):
            below[:] = [item for item in below if item not in _NOT_SHIPPED]
            yield from (Path(folder, file) for file in files)
