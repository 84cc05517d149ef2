"""What each of Ansible's worker processes would load and build again, once before they are forked.

A worker runs one task on one host and ends. Without this it loads every filter for its first
template, and each play builds the archive of each of its modules again.
"""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path

from ansible import constants
from ansible.plugins import loader
from ansible.plugins.callback import CallbackBase
from ansible.release import __version__

DOCUMENTATION = """
name: prepared_workers
type: aggregate
short_description: Loads what all workers use before they are forked
description:
  - Loads filters, tests and the plugins of a connection in Ansible's main process.
  - Keeps the archives of modules for the next play, in the user's cache.
author: the appliance
options: {}
"""

_HERE = Path(__file__).resolve().parent.parent
_SOURCES = (
    "playbooks/library",
    "playbooks/module_utils",
    "roles/*/library",
    "roles/*/module_utils",
)


UNUSED_SECONDS = 7 * 86400


class CallbackModule(CallbackBase):
    """Prepares a play; it tells nothing."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "prepared_workers"

    def v2_playbook_on_start(self, playbook):  # noqa: ARG002 - as Ansible calls it
        """Before the first worker."""
        for kind in (loader.filter_loader, loader.test_loader):
            for _ in kind.all():
                pass
        loader.connection_loader.get("capped_ssh", class_only=True)
        loader.become_loader.get("sudo", class_only=True)
        loader.shell_loader.get("sh", class_only=True)
        loader.action_loader.get("normal", class_only=True)
        with contextlib.suppress(OSError):
            keep_archives(Path(constants.DEFAULT_LOCAL_TMP), cache_folder())
        # Workers share the memory of what is never collected.
        gc.freeze()


def cache_folder() -> Path:
    """The appliance's cache, as its adapters name it; this process does not load them."""
    if chosen := os.environ.get("APPLIANCE_CACHE"):
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "appliance"


def keep_archives(temporary: Path, cache: Path) -> None:
    """Have Ansible find and leave its archives in the cache, apart for each state of the sources.

    Ansible unpickles them: the folder is used only if no other user can write to it.
    """
    top = cache / "modules"
    top.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = top.lstat()
    if (about.st_mode, about.st_uid) != (0o40700, os.geteuid()) or _others_may_rename(top):
        return
    folder = top / digest_of(sources())
    folder.mkdir(mode=0o700, exist_ok=True)
    os.utime(folder)
    prune(top, used=folder)
    # Ansible removes its temporary folder at the end, and of this one the link alone.
    (temporary / "ansiballz_cache").symlink_to(folder)


def _others_may_rename(top: Path) -> bool:
    """Whether another user could put a folder of the same name in this one's place."""
    for folder in top.resolve().parents:
        about = folder.stat()
        shared = about.st_mode & 0o022 and not about.st_mode & stat.S_ISVTX
        if shared or about.st_uid not in (0, os.geteuid()):
            return True
    return False


def prune(top: Path, used: Path) -> None:
    """Remove archives of sources that no play used for a week, also where a clock was ahead."""
    now = used.stat().st_mtime
    for folder in top.iterdir():
        if folder != used and abs(folder.stat().st_mtime - now) > UNUSED_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)


def sources() -> list[Path]:
    """Every file that an archive may be built from, apart from Ansible's own."""
    top = _HERE.parent
    return sorted(path for each in _SOURCES for path in top.glob(f"{each}/*.py"))


def digest_of(paths: Iterable[Path]) -> str:
    """The state of some files, and of Ansible, by which archives are apart."""
    release = Path(constants.__file__).stat()
    found = [
        __version__,
        constants.__file__,
        release.st_mtime_ns,
        constants.DEFAULT_MODULE_COMPRESSION,
    ]
    for path in paths:
        about = path.stat()
        found.append((str(path), about.st_mtime_ns, about.st_size, about.st_ino))
    return hashlib.sha256(repr(found).encode()).hexdigest()[:16]
