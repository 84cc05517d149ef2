#!/usr/bin/python
"""Ansible module: a service is enabled and runs with the configuration on disk."""

from __future__ import annotations

import functools
import hashlib
import json
import socket
import time
from pathlib import Path

from ansible.module_utils.appliance_programs import run
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: service_current
short_description: Run a service with the configuration on disk
description:
  - Enables and starts a unit, and restarts it when one of its files changed after it started.
  - Reloads systemd first, if a unit file changed.
  - Unlike a handler, this also works after the run that changed the file was killed.
options:
  unit: {description: Name of the unit with its suffix, type: str, required: true}
  files:
    description: The files it reads at its start; one that does not exist counts as empty
    type: list
    elements: path
    default: []
  conflicting:
    description: Units that do the same work; they are stopped and masked where they exist
    type: list
    elements: str
    default: []
  port: {description: A local TCP port that answers when the service is ready, type: int}
  socket: {description: A local socket that answers when the service is ready, type: path}
  ready_seconds: {description: How long to wait for one of them, type: int, default: 30}
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Run chrony with our configuration
  service_current:
    unit: chrony.service
    files: [/etc/chrony/chrony.conf]
"""

RETURN = r"""
did: {description: "Any of masked, enabled, started, restarted", type: list, returned: always}
"""

# systemd itself gives a service 90 s to stop and as much to start.
PROGRAM_SECONDS = 300
UNITS = Path("/etc/systemd/system")
STAMPS = Path("/run/appliance/services")


class ServiceError(Exception):
    """The service does not run."""


class Unit:
    """One systemd unit and the record of its last start."""

    def __init__(self, name, files, run, stamps=STAMPS):
        self.name = name
        self._files = [Path(name) for name in files]
        self._run = run
        self._stamp = stamps / (name + ".json")

    def systemctl(self, *arguments):
        """Run systemctl; a failure includes the last lines of the journal."""
        rc, out, err = self._run(["systemctl", *arguments, self.name])
        if rc != 0:
            raise ServiceError("systemctl %s failed: %s%s" % (arguments[0], err, self.journal()))
        return out

    def has_unit_files(self):
        """Return whether one of the files is a unit or a drop-in."""
        return any(UNITS in path.parents for path in self._files)

    def reload_units(self):
        """Reload systemd; a failure shows when the unit starts."""
        self._run(["systemctl", "daemon-reload"])

    def journal(self):
        """Return the last lines of the unit's log."""
        lines = self._run(
            ["journalctl", "--unit", self.name, "--lines", "6", "--no-pager", "-o", "cat"]
        )[1]
        return "; its last lines: " + " | ".join(lines.splitlines())

    def state(self):
        """Return the relevant properties."""
        names = "LoadState,ActiveState,UnitFileState,InvocationID,ActiveEnterTimestampMonotonic"
        names += ",NeedDaemonReload"
        out = self.systemctl("show", "-p", names)
        return dict(line.partition("=")[::2] for line in out.splitlines() if "=" in line)

    def digest(self):
        """Return a digest over names and contents of the files."""
        found = hashlib.sha256()
        for path in self._files:
            content = path.read_bytes() if path.is_file() else b""
            found.update(b"%s %d " % (str(path).encode(), len(content)) + content)
        return found.hexdigest()

    def newest(self):
        """Return when the newest file was written (epoch)."""
        return max([path.stat().st_ctime for path in self._files if path.is_file()] or [0.0])

    def is_current(self, state):
        """Return whether the running process has read the files on disk."""
        try:
            stamp = json.loads(self._stamp.read_text())
        except (OSError, ValueError):
            stamp = {}
        if stamp.get("invocation") == state.get("InvocationID"):
            return stamp.get("digest") == self.digest()
        since = time.monotonic() - int(state.get("ActiveEnterTimestampMonotonic") or 0) / 1e6
        return self.newest() < time.time() - since

    def remember(self):
        """Record the files of the running unit, until the next boot."""
        self._stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp = {"invocation": self.state().get("InvocationID"), "digest": self.digest()}
        self._stamp.write_text(json.dumps(stamp))


def needed(unit, state):
    """Return the necessary actions, in order."""
    did = []
    if state.get("UnitFileState") not in ("enabled", "static", "indirect", "alias", "generated"):
        did.append("enabled")
    if state.get("ActiveState") != "active":
        did.append("started")
    elif not unit.is_current(state):
        did.append("restarted")
    return did


def connect(place):
    """Connect to a local port (a number) or socket (a path)."""
    if isinstance(place, int):
        socket.create_connection(("127.0.0.1", place), 1).close()
        return
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(1)
        line.connect(place)


def wait_for(place, seconds, clock=time.monotonic, sleep=time.sleep):
    """Wait until a local port or socket accepts connections; return whether it does."""
    until = clock() + seconds
    while True:
        try:
            connect(place)
        except OSError:
            if clock() >= until:
                return False
            sleep(0.1)
        else:
            return True


def mask_conflicting(names, run, check_mode):
    """Stop and mask conflicting units; return what was done."""
    did = []
    for name in names:
        other = Unit(name, [], run)
        state = other.state()
        if state.get("LoadState") == "loaded":
            did.append("masked " + name)
            if not check_mode:
                other.systemctl("mask", "--now")
    return did


def converge(unit, check_mode, place, ready_seconds):
    """Enable, start or restart the unit; return what was done."""
    state = unit.state()
    if state.get("LoadState") != "loaded" and not check_mode:
        # An older systemd caches that a unit was absent.
        unit.reload_units()
        state = unit.state()
    if state.get("LoadState") != "loaded" and not check_mode:
        raise ServiceError(
            "%s is %s: its package is not installed, or it was masked"
            % (unit.name, state.get("LoadState"))
        )
    did = needed(unit, state)
    if check_mode:
        return did
    # systemd does not always notice a drop-in in a new folder, so check our own unit files.
    if did and (state.get("NeedDaemonReload") == "yes" or unit.has_unit_files()):
        unit.reload_units()
    if "enabled" in did:
        unit.systemctl("enable")
    if "started" in did or "restarted" in did:
        unit.systemctl("restart")
    if place and not wait_for(place, ready_seconds):
        name = "port %d" % place if isinstance(place, int) else place
        raise ServiceError(
            "%s does not answer on %s after %d s%s"
            % (unit.name, name, ready_seconds, unit.journal())
        )
    unit.remember()
    return did


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "unit": {"type": "str", "required": True},
            "files": {"type": "list", "elements": "path", "default": []},
            "conflicting": {"type": "list", "elements": "str", "default": []},
            "port": {"type": "int"},
            "socket": {"type": "path"},
            "ready_seconds": {"type": "int", "default": 30},
        },
        supports_check_mode=True,
    )
    want = module.params
    limited = functools.partial(run, seconds=PROGRAM_SECONDS)
    unit = Unit(want["unit"], want["files"], limited)
    try:
        did = mask_conflicting(want["conflicting"], limited, module.check_mode)
        did += converge(
            unit, module.check_mode, want["port"] or want["socket"], want["ready_seconds"]
        )
    except (ServiceError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(changed=bool(did), did=did)


if __name__ == "__main__":
    main()
