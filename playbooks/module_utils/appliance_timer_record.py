"""What a timer's program writes down of its runs, and who else is at work on this node.

A run is written down before it begins, so one that was killed shows. Python 3.8, standard
library. What must not be here: what a timer does.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import sys
import time
from pathlib import Path

from ansible.module_utils import appliance_files

HOME = Path("/var/lib/appliance/timers")
SETTINGS = Path("/etc/appliance/timers")
LOCK = Path("/var/lib/appliance/lock")
RESTORES = Path("/var/lib/appliance/restore")
PROC = Path("/proc")
SCHEMA = 1
# As commands of the control host do (appliance/model/control/lock.py, EXPIRY_SECONDS).
EXPIRY_SECONDS = 120.0
LONGEST = 500
_MOST_BYTES = 1 << 16
# A program's last words may have what it was given; a record is readable by more than root.
_SECRET = re.compile(
    r"(?i)([\w.-]*(?:passw|secret|token|bearer|credential|api[_-]?key|private)[\w.-]*[\"']?"
    r"\s*(?:[:=]|\s)\s*)(\"[^\"]*\"|'[^']*'|\S+)"
)
_LOGIN = re.compile(r"(://)[^/@\s]+@")


class Skipped(Exception):
    """Nothing was done, and nothing is wrong; the text has the reason."""


class TimerError(Exception):
    """It was not done; the text has the reason."""


def say(text):
    """Write a line for the journal."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def plain(text, most=LONGEST):
    """Return text of others as one printable line, without what looks like a secret."""
    shown = "".join(one if one.isprintable() else " " for one in str(text)[: 4 * most])
    shown = _LOGIN.sub(r"\1***@", _SECRET.sub(r"\1***", " ".join(shown.split())))
    return shown[:most] or "no reason"


def settings(name):
    """Return what this site says of a timer.

    Raises:
        TimerError: there is nothing that can be read.
    """
    path = SETTINGS / (name + ".json")
    try:
        with path.open("rb") as stream:
            found = json.loads(stream.read(_MOST_BYTES))
    except (OSError, ValueError) as error:
        raise TimerError("%s cannot be read: %s" % (path, error)) from error
    if not isinstance(found, dict):
        raise TimerError("%s is no JSON object" % path)
    return found


def record(name):
    """Return what was written down of a timer; an empty one if there is none."""
    try:
        with (HOME / (name + ".json")).open("rb") as stream:
            found = json.loads(stream.read(_MOST_BYTES))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(name, document):
    text = json.dumps(dict(document, schema=SCHEMA), sort_keys=True) + "\n"
    appliance_files.write(HOME / (name + ".json"), text, 0o600)


@contextlib.contextmanager
def alone(name):
    """Let one run of a timer be at work on this node.

    Raises:
        Skipped: another one is.
    """
    HOME.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle = os.open(str(HOME / (name + ".lock")), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Skipped("another run of this timer is at work") from error
        yield
    finally:
        os.close(handle)


def require_no_command():
    """Require that no command of a control host is at work on this site.

    Raises:
        Skipped: one is; it has the site's lock, and renewed it a moment ago.
    """
    try:
        line = (LOCK / "holder").read_bytes()[:_MOST_BYTES].decode("utf-8", "replace").strip()
        boot, _, up = (LOCK / "beat").read_text().strip().partition(" ")
    except OSError:
        return
    now = (PROC / "uptime").read_text().split()[0]
    here = (PROC / "sys/kernel/random/boot_id").read_text().strip()
    try:
        age = float(now) - float(up)
    except ValueError:
        return
    if line and boot == here and age < EXPIRY_SECONDS:
        raise Skipped("%s is at work on this site" % _command(line))


def require_no_restore():
    """Require that no restore of etcd was killed in the middle of its work on this node.

    Raises:
        TimerError: one was: what runs here may be half of two clusters.
    """
    for path in sorted(RESTORES.glob("*/mark.json")):
        # A claim of a new machine has no end; its restore has a folder of its own.
        if not path.parent.name.startswith("new-") and not _is_ended(path):
            raise TimerError(
                "a restore of etcd did not end on this node: run the same appliance cluster "
                "restore again; if this node was joined anew since, move %s away" % path.parent
            )


def _is_ended(path):
    try:
        with path.open("rb") as stream:
            return "end" in json.loads(stream.read(_MOST_BYTES))["acts"]
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _command(line):
    try:
        return plain(json.loads(line.partition(" ")[2])["command"], 80)
    except (ValueError, LookupError, TypeError):
        return "a command"


def carry_out(name, work):
    """Do the work of a timer, write down how it ended, and return the exit code.

    Args:
        name: of the timer.
        work: callable() -> dict of what is told of a run that was done.
    """
    try:
        with alone(name):
            return _recorded(name, work)
    except Skipped as error:
        say("skipped: %s" % error)
    except (TimerError, OSError) as error:
        say("failed: %s" % plain(error))
        return 1
    return 0


def _recorded(name, work):
    known, began = record(name), int(time.time())
    kept = {key: known[key] for key in ("success", "failures") if key in known}
    _write(name, dict(kept, last={"began": began, "outcome": "began"}))
    try:
        done, outcome, why = work(), "done", ""
    except Skipped as error:
        done, outcome, why = {}, "skipped", plain(error)
    except BaseException as error:
        failures = int(kept.get("failures") or 0) + 1
        ended = isinstance(error, (SystemExit, KeyboardInterrupt))
        why = "it was ended from outside" if ended else plain(error)
        last = {"began": began, "ended": int(time.time()), "outcome": "failed", "why": why}
        _write(name, dict(kept, last=last, failures=failures))
        say("failed: %s" % why)
        if ended:
            raise
        return 1
    last = dict(done, began=began, ended=int(time.time()), outcome=outcome, why=why)
    if outcome == "done":
        _write(name, {"last": last, "success": last, "failures": 0})
    else:
        _write(name, dict(kept, last=last))
    say("%s: %s" % (outcome, why or _told(done)))
    return 0


def _told(done):
    return ", ".join("%s %s" % (key, done[key]) for key in sorted(done)) or "nothing was due"
