"""Whether there is a site, and whether its state may be read: asked before either is used.

What must not be here: reading a site's files (``appliance.adapters.site_files``) or its journal
(``appliance.adapters.journal``).
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import Final

from appliance.errors import ConfigError, Refused

STATE: Final = ".appliance"
JOURNAL: Final = f"{STATE}/journal"
# Any of them; a site whose files are broken has a history all the same.
_SIGNS: Final = ("hosts.yml", "group_vars", JOURNAL)


def no_site(directory: Path) -> ConfigError:
    """Make the error that says that there is no site."""
    return ConfigError(
        f"there is no site at {directory}",
        hint=f"make one with: appliance site init {shlex.quote(str(directory))}",
    )


def require_some_site(directory: Path) -> None:
    """Refuse a place that has neither a site, whole or broken, nor a journal.

    Raises:
        ConfigError: it has none.
    """
    if not any(os.access(directory / sign, os.F_OK) for sign in _SIGNS):
        raise no_site(directory)


def require_state(directory: Path) -> None:
    """Refuse a site whose state is kept from us, as after one command under sudo.

    Raises:
        Refused: we may not read it; says how to get it back.
    """
    for folder in (directory / STATE, directory / JOURNAL):
        if os.access(folder, os.F_OK) and not os.access(folder, os.R_OK | os.X_OK):
            raise Refused(
                f"you may not read {folder}: it is another user's, as after a run with sudo",
                hint=f'make it yours: sudo chown -R "$USER" {shlex.quote(str(directory / STATE))}',
            )
