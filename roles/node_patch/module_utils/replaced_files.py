"""What still uses files that a package replaced, and why a machine must boot.

A program or library that dpkg replaced is shown as ``(deleted)`` in the maps of each process that
still has the old one; needrestart looks at the same. Python 3.8, standard library.
"""

from __future__ import annotations

import re

from ansible.module_utils.appliance_boot import newest_kernel, text_of

# dpkg replaces these; what is deleted elsewhere (/tmp, /dev/zero, memfd) is no package's.
_OF_PACKAGES = re.compile(r"\s(/usr|/lib\d*|/bin|/sbin)/\S.* \(deleted\)$")
# A restart of these would end every login or every container, or is refused by systemd.
_LASTING = re.compile(
    r"init\.scope|(dbus|polkit|docker|containerd|kubelet|keepalived|haproxy"
    r"|systemd-(logind|machined|networkd|resolved|journald|udevd)|(serial-)?getty@.*)\.service"
)
# A login goes on with its own files until it ends; a container has no files of the node.
_ELSEWHERE = re.compile(r"user@.*\.service|appliance-.*\.service|(?!init\.scope$).*\.scope")


def lasting(unit):
    """Return whether a unit is not restarted on a running machine."""
    return _LASTING.fullmatch(unit) is not None


def stale_units(root):
    """Return the units of processes that still use replaced files, sorted.

    Processes of logins and of containers are left out.
    """
    found = set()
    for folder in (root / "proc").glob("[0-9]*"):
        unit = _unit(folder)
        if unit and not _ELSEWHERE.fullmatch(unit) and _uses_replaced(folder):
            found.add(unit)
    return sorted(found)


def _uses_replaced(folder):
    try:
        with (folder / "maps").open(errors="replace") as lines:
            return any(_OF_PACKAGES.search(line.rstrip("\n")) for line in lines)
    except OSError:
        return False


def _unit(folder):
    """Return the systemd unit of a process; empty: it has none, or has ended."""
    try:
        lines = (folder / "cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    paths = {}
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        paths[controllers] = path
    parts = (paths.get("name=systemd") or paths.get("") or "").split("/")
    if any(part.startswith("kubepods") for part in parts):
        return ""
    return next((p for p in reversed(parts) if p.endswith((".service", ".scope"))), "")


def boot_reasons(root, boot_from):
    """Return why the machine must boot, as far as files say so."""
    reasons = []
    boot = text_of(root / "proc/sys/kernel/random/boot_id")
    if boot_from and boot == boot_from:
        reasons.append("it was asked for")
    running = text_of(root / "proc/sys/kernel/osrelease")
    newest = newest_kernel(root, running)
    if newest != running:
        reasons.append("kernel %s is installed, and %s runs" % (newest, running))
    if (root / "run/reboot-required").exists():
        names = sorted(set(text_of(root / "run/reboot-required.pkgs").split()))
        reasons.append("%s asked for it" % (", ".join(names) or "a package"))
    return reasons
