"""Remember which packages this product brought to a node, so that a reset takes away no others.

A package counts as brought if it was absent before a run of apt, is there after it, is in the
bundle's package index, and was one of those that our apt was about to install: a run that was
killed is remembered by a later one, and somebody else may install packages in between. What a run
removed is remembered as replaced, and what it was asked for then as its replacement: a reset leaves
that in place.

Python 3.8, standard library. What must not be here: removing a package.
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

from ansible.module_utils.appliance_files import write

RECORD = Path("/var/lib/appliance/packages.json")
# Where our runs of apt keep the bundle's index; apt's own program reads it, compressed or not.
LISTS = Path("/var/lib/appliance/apt/lists")
# Beside it: what our runs were about to install since :func:`begin`, one name a line.
PLANNED = Path("/var/lib/appliance/apt/planned")
APT_HELPER = "/usr/lib/apt/apt-helper"
_PACKAGE = re.compile(r"^Package: (\S+)$", re.MULTILINE)
KEYS = ("brought", "replaced", "instead", "held")


def read(path=RECORD):
    """Return the record, {} without one; each of KEYS is a list of names where it is there.

    Raises:
        ValueError: the file is not a record of ours.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found = json.loads(text)
    keys = (*KEYS, "pending")
    if not isinstance(found, dict) or not all(
        isinstance(found.get(key, []), list) and all(isinstance(n, str) for n in found.get(key, []))
        for key in keys
    ):
        raise ValueError("%s is not a record of packages" % path)
    return {key: found[key] for key in keys if key in found}


def _save(record, path):
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(record, indent=1, sort_keys=True) + "\n", 0o644)


def begin(names, path=RECORD, planned=PLANNED):
    """Remember what is installed before apt runs; what an interrupted run remembered stays."""
    record = read(path)
    if "pending" not in record:
        with contextlib.suppress(FileNotFoundError):
            Path(planned).unlink()
        _save(dict(record, pending=sorted(names)), path)


def end(names, index, wanted=(), path=RECORD, planned=PLANNED):
    """Remember what came since :func:`begin`; without one, nothing is remembered.

    Args:
        names: what is installed now.
        index: the names in the bundle's package index.
        wanted: what was asked for.
        path: the record.
        planned: the file of what our runs were about to install; without one, nothing was ours.
    """
    record = read(path)
    if "pending" not in record:
        return
    before, now = set(record.pop("pending")), set(names)
    came, gone = (now - before) & set(index) & _lines_of(planned), before - now
    found = {key: set(record.get(key, ())) for key in KEYS}
    found["brought"] |= came
    found["replaced"] |= gone
    found["instead"] |= set(wanted) & came if gone else set()
    _save({key: sorted(value) for key, value in found.items() if value}, path)


def _lines_of(path):
    try:
        return set(Path(path).read_text(encoding="utf-8").split())
    except FileNotFoundError:
        return set()


def held(names, path=RECORD):
    """Remember packages that were not on hold before."""
    record = read(path)
    record["held"] = sorted({*record.get("held", ()), *names})
    _save(record, path)


def index_names(run, lists=LISTS):
    """Return the names of the packages in the index that apt read last; none without one.

    Args:
        run: callable(argv) -> (rc, stdout, stderr).
        lists: the folder of apt's lists.

    Raises:
        ValueError: an index cannot be read.
    """
    names = set()
    for path in sorted(lists.glob("*Packages*")) if lists.is_dir() else ():
        rc, out, err = run([APT_HELPER, "cat-file", str(path)])
        if rc != 0:
            raise ValueError("%s cannot be read: %s" % (path, (err or out).strip()))
        names |= set(_PACKAGE.findall(out))
    return names
