"""The secret of a site by which names are replaced: the same names in each of its bundles."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from appliance.adapters.local.state_files import write_once
from appliance.errors import Refused

FILE: Final = "support-names.key"
_BYTES: Final = 32


def site_key(state: Path) -> bytes:
    """The key in a site's state; made when it is asked for first.

    Raises:
        Refused: the file is no key.
    """
    path = state / FILE
    with suppress(FileExistsError):
        if not path.exists():
            write_once(path, secrets.token_hex(_BYTES) + "\n")
    try:
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise Refused(f"{path} is no key", hint=f"delete it: rm {path}; then repeat the command")
    return key
