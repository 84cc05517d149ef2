"""Checks that there is a site, and that its state may be read, before either is used.

What must not be here: reading a site's files (``appliance.adapters.site.files``) or its journal
(``appliance.adapters.control_plane.journal``).
"""

from __future__ import annotations

import os
import re
import shlex
from pathlib import Path
from typing import Final

from appliance.errors import ConfigError, Refused

STATE: Final = ".appliance"
JOURNAL: Final = f"{STATE}/journal"
# Any of them is enough; a site with invalid files still has a history.
_SIGNS: Final = ("hosts.yml", "group_vars", JOURNAL)


def run_log(directory: Path, run: str, step: str) -> Path | None:
    """The log of one step of a run, or the folder of the run; None where this machine has neither.

    Args:
        directory: the site's.
        run: its id.
        step: as its record names it; a record may be another machine's.
    """
    folder = directory / STATE / "runs" / run
    log = folder / step / "ansible.log"
    if re.fullmatch(r"[a-z_]+", step) and log.is_file():
        return log
    return folder if folder.is_dir() else None


def no_site(directory: Path) -> ConfigError:
    """The error for a missing site, or for a file of a site in place of its directory."""
    if directory.is_file():
        folder = next((one for one in directory.parents if (one / "hosts.yml").is_file()), None)
        return ConfigError(
            f"{directory} is a file; --site takes the directory of the site",
            hint=f"--site {shlex.quote(str(folder or directory.parent))}",
        )
    return ConfigError(
        f"there is no site at {directory}",
        hint="check --site; a new site is made with: appliance site init "
        f"{shlex.quote(str(directory))}",
    )


def require_some_site(directory: Path) -> None:
    """Refuse a directory without a site, valid or not, and without a journal.

    Raises:
        ConfigError: the directory has neither.
    """
    if not any(os.access(directory / sign, os.F_OK) for sign in _SIGNS):
        raise no_site(directory)


def require_state(directory: Path) -> None:
    """Refuse a site whose state belongs to another user, for example after a run with sudo.

    Raises:
        Refused: this user may not read it; the hint says how to change the owner.
    """
    for folder in (directory / STATE, directory / JOURNAL):
        if os.access(folder, os.F_OK) and not os.access(folder, os.R_OK | os.X_OK):
            raise Refused(
                f"you may not read {folder}: it belongs to another user, for example after a run "
                "with sudo",
                hint='change its owner: sudo chown -R "$USER" '
                f"{shlex.quote(str(directory / STATE))}",
            )
