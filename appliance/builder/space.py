"""Free space for a build: too little of it is known to be fatal before anything is fetched."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from appliance.errors import BundleRefused

# Less than any bundle has: Kubernetes' own binaries and images alone are more.
SMALLEST_BUNDLE_BYTES: Final = 10**9


def require_space(folder: Path, needed_bytes: int, what: str) -> None:
    """Refuse a folder whose file system has too little free space.

    Args:
        folder: it may not exist yet.
        needed_bytes: what is certainly needed there.
        what: what it is needed for, in words.

    Raises:
        BundleRefused: there is less.
    """
    there = next(path for path in (folder, *folder.parents) if path.is_dir())
    free = shutil.disk_usage(there).free
    if free < needed_bytes:
        raise BundleRefused(
            f"{folder} has {_gigabytes(free)} free, and {what} needs {_gigabytes(needed_bytes)} "
            "at least",
            hint=f"free space there, or name another place; df -h {there} shows it",
        )


def _gigabytes(size: int) -> str:
    return f"{size / 10**9:.1f} GB"
