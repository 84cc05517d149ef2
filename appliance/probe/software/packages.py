"""Installed packages and package manager locks: packages."""

from __future__ import annotations

import fcntl
import json
import re
import stat
import struct
import time
from typing import Any, Dict, List, NamedTuple, Optional

from ..network.naming import mask
from ..source import SEARCH_PATH, Source

INTEREST = re.compile(
    r"^(docker|containerd|runc$|chrony$|nginx|kube|cri-|conntrack$|socat$|ebtables$|ethtool$"
    r"|iptables$|nftables$|haproxy$|keepalived$|unattended-upgrades$|nfs-common$|linux-image-"
    r"|linux-headers-|linux-modules-|linux-generic|nvidia-|libnvidia|cuda"
    r"|xserver-xorg-video-nvidia-|podman$|snapd$|ntp$"
    r"|systemd$|openssh-server$|helm$|cloud-init$|ufw$|firewalld$)"
)
LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
)
# Retries and delay for a lock whose holder ended during the check.
TRIES = 5
PAUSE_SECONDS = 0.05
STATUS = "/var/lib/dpkg/status"
BLACKLIST = "Unattended-Upgrade::Package-Blacklist"


class Holder(NamedTuple):
    """The holder of a lock ("pid command"), and its systemd unit."""

    text: Optional[str] = None
    unit: Optional[str] = None


def apt_config(source: Source) -> Dict[str, List[str]]:
    """Return every apt setting with its values, merged by apt."""
    text = source.command("apt-config-dump", ["apt-config", "dump"], quiet=True)
    values: Dict[str, List[str]] = {}
    for line in (text or "").splitlines():
        match = re.match(r'(\S+) "(.*)";$', line)
        if match:
            key = match.group(1)
            key = key[:-2] if key.endswith("::") else key
            values.setdefault(key, []).append(match.group(2))
    return values


def packages(source: Source, apt: Dict[str, List[str]]) -> Optional[Dict[str, Any]]:
    """Return the package manager's state: locks, interrupted work, versions, holds, sources."""
    text = source.text(STATUS)
    if text is None:
        source.note("no dpkg status: not a Debian system, or not readable")
        return None
    installed: Dict[str, str] = {}
    holds: List[str] = []
    broken: List[str] = []
    for name, status, version in _stanzas(text):
        want, error, state = [*status.split(), "", "", ""][:3]
        if state == "installed" and INTEREST.match(name):
            installed[name] = version
        if want == "hold" and state == "installed":
            holds.append(name)
        if error != "ok" or state not in ("installed", "config-files", "not-installed"):
            broken.append("%s: %s" % (name, state if error == "ok" else status))
    updates = [name for name in source.names("/var/lib/dpkg/updates") if name.isdigit()]
    unfinished = [entry for entry in broken if not entry.endswith("triggers-pending")]
    holder = _lock_holder(source)
    return {
        "manager_lock_held_by": holder.text,
        "manager_lock_unit": holder.unit,
        "dpkg_interrupted": bool(updates or unfinished),
        "broken": broken,
        "installed": installed,
        "holds": sorted(holds),
        "apt_sources": _sources(source),
        "unattended_upgrades": _unattended(apt, installed),
    }


def programs(source: Source) -> Dict[str, Optional[bool]]:
    """Return whether each requested program is on the path; None where that is unknown."""
    return {name: _is_there(source, name) for name in source.request.programs}


def _is_there(source: Source, name: str) -> Optional[bool]:
    seen = False
    for folder in SEARCH_PATH.split(":"):
        try:
            mode = source.path(folder + "/" + name).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            seen = seen or source.path(folder).is_dir()
            continue
        except OSError as error:
            source.note("%s/%s: %s" % (folder, name, error.strerror))
            return None
        if stat.S_ISREG(mode) and mode & 0o111:
            return True
    return False if seen else None


def _stanzas(text: str) -> Any:
    """Yield (name, status, version) of every stanza; other fields are ignored."""
    for stanza in text.split("\n\n"):
        name = status = version = ""
        for line in stanza.split("\n"):
            if line.startswith("Package: "):
                name = line[9:]
            elif line.startswith("Status: "):
                status = line[8:]
            elif line.startswith("Version: "):
                version = line[9:]
        if name and status:
            yield name, status, version


def _lock_holder(source: Source) -> Holder:
    """Return the holder of one of the package manager's locks."""
    if not source.live:
        recorded = json.loads(source.recorded("package-locks") or "{}")
        text = next((str(recorded[name]) for name in LOCKS if name in recorded), None)
        return Holder(text, _unit(source, text.split()[0]) if text else None)
    for name in LOCKS:
        holder = _holder_of(source, name)
        if holder.text:
            return holder
    return Holder()


def _holder_of(source: Source, name: str) -> Holder:
    """Return the holder of one lock; retry if it ends before it can be read."""
    pid = 0
    for attempt in range(TRIES):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        pid = _lock_pid(source, name)
        if not pid:
            return Holder()
        unit = _unit(source, str(pid))
        line = source.text("/proc/%d/cmdline" % pid) or ""
        words = line.replace("\0", " ").strip()
        # Last: a process that still has a command line had its unit just before.
        if words:
            return Holder(("%d %s" % (pid, words))[:200], unit)
    return Holder("%d (without a command line)" % pid, _unit(source, str(pid)))


def _unit(source: Source, pid: str) -> Optional[str]:
    """Return a process's systemd unit; None where it has none, or has ended."""
    paths = {}
    for line in (source.text("/proc/%s/cgroup" % pid) or "").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        paths[controllers] = path
    # Version 1 has a separate hierarchy for systemd; version 2 has only one, without a name.
    parts = (paths.get("name=systemd") or paths.get("") or "").split("/")
    return next((p for p in reversed(parts) if p.endswith((".service", ".scope"))), None)


def _lock_pid(source: Source, name: str) -> int:
    """Return the process that locks this file; the query (F_GETLK) takes no lock."""
    try:
        with source.path(name).open("rb") as file:
            question = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0)
            answer = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, question))
    except FileNotFoundError:
        return 0
    except PermissionError:
        source.note("package manager locks: needs root")
        return 0
    except OSError as error:
        source.note("%s: %s" % (name, error.strerror))
        return 0
    return int(answer[4]) if answer[0] != fcntl.F_UNLCK else 0


def _sources(source: Source) -> List[Dict[str, str]]:
    found = []
    for line in source.lines("/etc/apt/sources.list"):
        found.append({"file": "/etc/apt/sources.list", "line": mask(line)})
    folder = "/etc/apt/sources.list.d"
    for name in source.names(folder):
        file = folder + "/" + name
        if name.endswith(".list"):
            found += [{"file": file, "line": mask(line)} for line in source.lines(file)]
        elif name.endswith(".sources"):
            found += [
                {"file": file, "line": mask(line)}
                for line in source.lines(file)
                if line.startswith(("URIs:", "Suites:", "Enabled:"))
            ]
    return found


def _unattended(apt: Dict[str, List[str]], installed: Dict[str, str]) -> Dict[str, Any]:
    periodic = apt.get("APT::Periodic::Unattended-Upgrade", ["0"])[-1]
    return {
        "installed": "unattended-upgrades" in installed,
        "enabled": periodic not in ("0", ""),
        "blacklist": [value for value in apt.get(BLACKLIST, []) if value],
    }
