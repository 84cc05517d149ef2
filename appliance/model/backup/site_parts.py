"""Which parts of a backup make a site's directory on a control host that lost everything.

A site is trusted by Ansible, so only files that a site may have are written; the rest is named.
What must not be here: writing them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from appliance.model.backup.names import SITE, STATE
from appliance.model.site.vault_ref import CA_FILE

if TYPE_CHECKING:
    from appliance.model.backup.record import Manifest, Part

KNOWN_HOSTS: Final = "known_hosts"
# Keys of machines that are lost: kept to be read, trusted by nothing.
OLD_KEYS: Final = "known_hosts.old"
_STATE_FOLDER: Final = ".appliance"
_NEEDED: Final = ("hosts.yml", "group_vars/all/site.yml", "group_vars/all/vault.yml")
_PLAIN: Final = (*_NEEDED, CA_FILE, KNOWN_HOSTS, "known_bundle", "allowed_signers", ".gitignore")
_NODE: Final = re.compile(r"host_vars/[A-Za-z0-9][A-Za-z0-9.-]{0,252}\.yml")
_BESIDE: Final = re.compile(
    r"([A-Za-z0-9][A-Za-z0-9._-]{0,100}/)?[A-Za-z0-9][A-Za-z0-9._-]{0,150}\.(md|txt|crt|pem|pub)"
)
_VALUES: Final = re.compile(r"runai-[A-Za-z0-9._-]{1,150}\.ya?ml")
STATE_FOLDERS: Final = ("passports", "journal")
_RECORD: Final = re.compile(r"journal/[0-9A-Za-z-]{1,100}\.json")
_PASSPORT: Final = re.compile(r"passports/[A-Za-z0-9][A-Za-z0-9.-]{0,252}\.json")
# Of what nodes have copies of, in one backup.
MOST_COPIES: Final = 8000
MOST_COPY_BYTES: Final = 128 << 20
MOST_FILE_BYTES: Final = 64 << 20
MOST_BYTES: Final = 512 << 20
MOST_FILES: Final = 20_000


@dataclass(frozen=True)
class SiteParts:
    """What of a backup becomes a site's directory.

    Attributes:
        files: part -> path below the directory.
        left_out: parts of the site that are not written.
        missing: files without which there is no site.
        too_large: they are more than any site has.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    too_large: bool = False


def is_state_part(name: str) -> bool:
    """Whether a part is a record of the journal or a passport, by its name."""
    return name.startswith(f"{STATE}/") and bool(_path_of(name))


def site_parts(manifest: Manifest) -> SiteParts:
    """Choose the parts that make the site's directory, and its history."""
    parts = (*manifest.of_kind(SITE), *manifest.of_kind(STATE))
    files = {part.name: path for part in parts if (path := _path_of(part.name))}
    left_out = tuple(part.name for part in manifest.of_kind(SITE) if part.name not in files)
    missing = tuple(name for name in _NEEDED if name not in files.values())
    return SiteParts(files, left_out, missing, too_large=_too_large(parts, files))


def _too_large(parts: Sequence[Part], files: Mapping[str, str]) -> bool:
    sizes = [part.size for part in parts if part.name in files]
    largest = max(sizes, default=0)
    return largest > MOST_FILE_BYTES or sum(sizes) > MOST_BYTES or len(sizes) > MOST_FILES


def _path_of(part: str) -> str:
    """Where a part is written; empty: nowhere."""
    kind, _, name = part.partition("/")
    if kind == STATE:
        known = _RECORD.fullmatch(name) or _PASSPORT.fullmatch(name)
        return f"{_STATE_FOLDER}/{name}" if known else ""
    if name == KNOWN_HOSTS:
        return OLD_KEYS
    fits = name in _PLAIN or _NODE.fullmatch(name) or _VALUES.fullmatch(name)
    return name if fits or _is_beside(name) else ""


def _is_beside(name: str) -> bool:
    """A certificate or a note of a person: no program and no setting, by its suffix."""
    if _BESIDE.fullmatch(name) is None:
        return False
    return name.partition("/")[0] not in ("group_vars", "host_vars")
