"""Names of a backup's files and of the parts in it.

A backup is ``SITE-YYYYMMDDTHHMMSSZ.backup``; beside it, written last, is ``SAME.backup.json``.
Names come from nodes and from storage of others, so each is judged before it is used. What must
not be here: reading or writing files.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

SUFFIX: Final = ".backup"
SIDECAR_SUFFIX: Final = ".backup.json"
PARTIAL_SUFFIX: Final = ".partial"
# While a backup is being removed: what its file was.
REMOVING_SUFFIX: Final = ".backup.removing"
MANIFEST: Final = "manifest.json"

# What to do next where a backup, its name or its key does not do.
ANOTHER_BACKUP: Final = "use another backup; list them: appliance cluster backup list"
SEE_BACKUPS: Final = "see the backups: appliance cluster backup list"
ANOTHER_KEY: Final = "its recipients: appliance cluster backup list; name another: --identity KEY"

# The kinds of parts; each is the first folder of its parts' names.
ETCD: Final = "etcd"
CONTROL_PLANE: Final = "control_plane"
SITE: Final = "site"
STATE: Final = "state"
RUNAI: Final = "runai"
TLS: Final = "tls"
REGISTRY: Final = "registry"
VOLUMES: Final = "volumes"
OBJECTS: Final = "objects"
IMAGES: Final = "images"
KINDS: Final = (
    *(ETCD, CONTROL_PLANE, SITE, STATE, RUNAI, TLS, REGISTRY, VOLUMES, OBJECTS),
    IMAGES,
)

SNAPSHOT: Final = "etcd/snapshot.db"
COUNTS: Final = "runai/counts.json"
RUNAI_RELEASES: Final = "runai/releases.json"
GLOBALS: Final = "runai/globals.sql"
RUNAI_CONFIG: Final = "runai/runaiconfig.yml"
INVENTORY: Final = "registry/inventory.json"
DIGEST: Final = "objects/digest.json"
IMAGE_RECORD: Final = "images/images.json"
# Before the sha256 of a manifest or a layer.
IMAGE_BLOBS: Final = "images/blobs/sha256/"

_STAMP: Final = "%Y%m%dT%H%M%SZ"
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}-[0-9]{8}T[0-9]{6}Z")
_UNFIT: Final = re.compile(r"[^A-Za-z0-9._-]+")
# Of a file: no name of ours is longer, and a place of others may list any.
LONGEST_FILE: Final = 255
_LONGEST_SITE: Final = 80
_LONGEST_NAME: Final = 1024
_LONGEST_STEP: Final = 200
_DEEPEST: Final = 16


def backup_id(site: str, moment: float) -> str:
    """The name of a backup without its suffix.

    Args:
        site: the site's name, of any characters.
        moment: when it was begun, in seconds since 1970.
    """
    plain = _UNFIT.sub("-", site).strip("-._")[:_LONGEST_SITE] or "site"
    return f"{plain}-{stamp(moment)}"


def stamp(moment: float) -> str:
    """A moment as the part of a name, from seconds since 1970."""
    return datetime.fromtimestamp(moment, UTC).strftime(_STAMP)


def is_backup_id(text: str) -> bool:
    """Whether it is a name that :func:`backup_id` makes."""
    return _ID.fullmatch(text) is not None and id_moment(text) is not None


def id_moment(text: str) -> float | None:
    """When a backup was begun, by its name, in seconds since 1970; None: it is no such name."""
    try:
        found = datetime.strptime(text.rpartition("-")[2], _STAMP)
    except ValueError:
        return None
    return found.replace(tzinfo=UTC).timestamp()


def kind_of(name: str) -> str:
    """The kind of a part, by its name."""
    return name.partition("/")[0]


def is_part_name(name: str) -> bool:
    """Whether a part may have this name: below the folder of a kind, and nowhere else."""
    if not name.isprintable() or len(name.encode(errors="replace")) > _LONGEST_NAME:
        return False
    steps = name.split("/")
    return (
        2 <= len(steps) <= _DEEPEST
        and steps[0] in KINDS
        and all(_is_step(step) for step in steps[1:])
    )


def _is_step(step: str) -> bool:
    fits = 0 < len(step.encode(errors="replace")) <= _LONGEST_STEP
    return fits and step not in (".", "..") and "\\" not in step


def plain_words(text: str, most: int = 500) -> str:
    """Text of others as one line that a terminal and our documents may show."""
    shown = "".join(letter if letter.isprintable() else " " for letter in text[: 4 * most])
    return " ".join(shown.split())[:most] or "?"
