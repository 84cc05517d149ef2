"""What this installation is: where its content is, its releases, and what it was made from.

Nothing is parsed here, so that ``--version`` and completion are quick. One rule for the content:
``<package>/_content`` if present (a wheel), else the repository root.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Final

import appliance

PACKAGE: Final = Path(appliance.__file__).parent
RELEASES: Final = PACKAGE / "releases"
DEFAULT: Final = "default"
# Written into a wheel when it is built.
COMMIT_FILE: Final = "commit"
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")


def find_content_root() -> Path:
    """The folder that holds ``playbooks``, ``roles``, ``hardware`` and ``inventories``."""
    inside = PACKAGE / "_content"
    return inside if inside.is_dir() else PACKAGE.parent


def list_releases() -> tuple[str, ...]:
    """The names of this installation's releases, the oldest first: 1.23.5 before 1.23.17."""
    return tuple(sorted((path.stem for path in RELEASES.glob("*.yml")), key=_by_numbers))


def _by_numbers(name: str) -> list[tuple[int, str]]:
    parts = re.split(r"(\d+)", name)
    return [(int(part), "") if part.isdigit() else (0, part) for part in parts]


def default_release() -> str:
    """The release of a new site and of a new lab where none is named: the file says it."""
    return (RELEASES / DEFAULT).read_text(encoding="ascii").strip()


def find_commit() -> str | None:
    """The commit that this installation was made from; None if nothing says it.

    Of a source tree it is the commit that is checked out: the files may differ from it.
    """
    root = find_content_root()
    found = _installed_commit() if root != PACKAGE.parent else _checked_out(root)
    return found if found and _COMMIT.fullmatch(found) else None


def version_of(distribution: str) -> str | None:
    """The version of an installed distribution, or None."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _installed_commit() -> str | None:
    """As the wheel says, else as pip wrote down where it got the source."""
    with suppress(OSError, UnicodeDecodeError):
        return (find_content_root() / COMMIT_FILE).read_text(encoding="ascii").strip()
    with suppress(metadata.PackageNotFoundError, ValueError, AttributeError):
        told = metadata.distribution("appliance").read_text("direct_url.json") or "{}"
        return str(json.loads(told).get("vcs_info", {}).get("commit_id"))
    return None


def _checked_out(root: Path) -> str | None:
    """The commit of git's HEAD, read from its files: there may be no git here."""
    with suppress(OSError, UnicodeDecodeError):
        git = root / ".git"
        if git.is_file():
            git = root / git.read_text(encoding="utf-8").partition("gitdir:")[2].strip()
        head = (git / "HEAD").read_text(encoding="utf-8").strip()
        name = head.partition("ref: ")[2]
        return _commit_of(git, name) if name else head
    return None


def _commit_of(git: Path, name: str) -> str | None:
    common = git
    with suppress(OSError, UnicodeDecodeError):
        common = git / (git / "commondir").read_text(encoding="utf-8").strip()
    for folder in (git, common):
        with suppress(OSError, UnicodeDecodeError):
            return (folder / name).read_text(encoding="ascii").strip()
    with suppress(OSError, UnicodeDecodeError):
        for line in (common / "packed-refs").read_text(encoding="utf-8").splitlines():
            commit, _, ref = line.partition(" ")
            if ref == name:
                return commit
    return None
