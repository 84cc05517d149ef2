"""The vault files of a site as they lie on the disk: encrypted, whole, and without a conflict.

Nothing is opened here, so a damaged file is never taken for a wrong password. Each vault that this
tool wrote is kept as an encrypted copy: an editor that was open, or an older file from version
control, may replace it later. What must not be here: the password and the secrets
(``appliance.adapters.site.vault``).
"""

from __future__ import annotations

import binascii
import hashlib
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from appliance.adapters.local.state_files import STATE, write_once
from appliance.model.site.files.diagnostics import SiteFault

_HEADER: Final = re.compile(rb"\$ANSIBLE_VAULT;1\.[12];AES256(;[^\s;]+)?")
# A salt and an HMAC of 32 bytes each, then whole blocks of AES; all as hexadecimal digits.
_DIGITS, _BLOCK_DIGITS = 64, 32
_RESTORE: Final = (
    "restore it from version control (git log -- {}) or from a backup; no password opens it so"
)
COPIES: Final = Path(STATE, "vault-copies")
# Those that were kept last; older ones make room.
MOST_COPIES: Final = 50
_COPY: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{12}\.yml")
_CONFLICT: Final = re.compile(r"(<{7}|>{7})( .*)?\s*")


def conflict_fault(text: str, file: str) -> SiteFault | None:
    """The first marker that an unfinished merge of git left in a file."""
    for number, line in enumerate(text.splitlines(), 1):
        if _CONFLICT.fullmatch(line):
            return SiteFault(
                file,
                number,
                "git's merge conflict markers begin here",
                "keep one of the two versions and delete the lines <<<<<<<, ======= and >>>>>>>",
            )
    return None


def vault_faults(content: bytes, file: str, restore: str) -> Iterator[SiteFault]:
    """Faults of an encrypted file, as far as they show without its password.

    Args:
        content: the bytes of the file.
        file: its name in faults.
        restore: what to do about a file that is empty.
    """
    if not content.strip():
        yield SiteFault(file, 1, "the file is empty", restore)
        return
    conflict = conflict_fault(content.decode("utf-8", "replace"), file)
    if conflict is not None:
        remedy = f"take one version whole: git checkout --ours {file}, or --theirs {file}"
        yield SiteFault(file, conflict.line, conflict.problem, remedy)
        return
    lines = [line.strip() for line in content.split(b"\n")]
    if not _HEADER.fullmatch(lines[0]):
        yield SiteFault(
            file,
            1,
            "the file is not encrypted: every secret in it is readable",
            f"in the site's directory, encrypt it: ansible-vault encrypt {file}",
        )
        return
    for number, line in enumerate(lines[1:], 2):
        if re.fullmatch(rb"[0-9a-f]*", line) is None:
            yield SiteFault(file, number, "the encrypted text is damaged", _RESTORE.format(file))
            return
    if not _is_whole(b"".join(lines[1:])):
        last = max(number for number, line in enumerate(lines, 1) if line)
        problem = "the encrypted text is cut off or damaged"
        yield SiteFault(file, last, problem, _RESTORE.format(file))


def _is_whole(digits: bytes) -> bool:
    """Whether salt, HMAC and cipher text have their lengths; a cut almost always breaks them."""
    try:
        parts = binascii.unhexlify(digits).split(b"\n")
    except binascii.Error:
        return False
    if len(parts) != 3 or [len(part) for part in parts[:2]] != [_DIGITS, _DIGITS]:
        return False
    return bool(parts[2]) and len(parts[2]) % _BLOCK_DIGITS == 0


def keep_copy(site: Path, encrypted: str) -> None:
    """Keep a vault as this tool wrote it, in the site's state on this machine.

    Args:
        site: the site's directory.
        encrypted: the content of the vault's file.

    Raises:
        OSError: it could not be written.
    """
    folder = site / COPIES
    digest = hashlib.sha256(encrypted.encode()).hexdigest()[:12]
    moment = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path = folder / f"{moment}-{digest}.yml"
    if not path.exists():
        write_once(path, encrypted)
    ours = sorted(one for one in folder.iterdir() if _COPY.fullmatch(one.name))
    for old in ours[:-MOST_COPIES]:
        old.unlink(missing_ok=True)
