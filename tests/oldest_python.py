"""The Python of Ubuntu 20.04, where this machine has one: on PATH, or among pyenv's."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

VERSION = (3, 8)
NAME = "python{}.{}".format(*VERSION)


@functools.cache
def oldest_python() -> Path | None:
    """A Python 3.8 that starts, or None."""
    for path in _candidates():
        asked = [str(path), "-I", "-c", "import sys; print(*sys.version_info[:2])"]
        done = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=60)
        if done.stdout.split() == [str(number) for number in VERSION]:
            return path
    return None


def require_oldest_python() -> Path:
    """The same; a test is left out where there is none."""
    found = oldest_python()
    if found is None:
        pytest.skip(f"no {NAME} on this machine: neither on PATH nor in pyenv's versions")
    return found


def _candidates() -> Iterator[Path]:
    if on_path := shutil.which(NAME):
        yield Path(on_path)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(root.glob(f"versions/{VERSION[0]}.{VERSION[1]}.*/bin/{NAME}"))
