"""Look at files and folders of which others may have written any: no link is followed.

Python 3.8, standard library, self-contained. What must not be here: any change.
"""

from __future__ import annotations

import fnmatch
import os
import stat

HOSTS = ("# BEGIN appliance", "# END appliance")
SMALL = 1 << 20


def small_text(path):
    """Return the text of a regular file of at most a megabyte, None without one; no link."""
    try:
        handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return None
        return stream.read(SMALL).decode("utf-8", "replace")


def names_in(folder):
    """Return the names in a folder that is no link, sorted; none without one."""
    if folder.is_symlink() or not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir())


def is_there(path):
    """Return whether there is anything of that name, a broken link included."""
    return os.path.lexists(str(path))


def is_one_of(name, patterns):
    """Return whether a name fits one of the patterns of a shell."""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def block_of(lines):
    """Return where our lines in /etc/hosts begin and end; None without both marks in order."""
    for end in [number for number, line in enumerate(lines) if line == HOSTS[1]]:
        begins = [number for number in range(end) if lines[number] == HOSTS[0]]
        if begins:
            return begins[-1], end
    return None
