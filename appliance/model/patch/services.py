"""What restarts when a package changes: services by their package, or the machine.

The table is of Ubuntu 20.04's packages: the units that each package ships and restarts in its
``postinst``. What a library's users are is not known beforehand; role ``node_patch`` looks for
processes that still use a replaced file, as needrestart does.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Final

# Package -> the units that it restarts.
_SERVICES: Final = {
    "accountsservice": "accounts-daemon",
    "apparmor": "apparmor",
    "atd": "atd",
    "cron": "cron",
    "irqbalance": "irqbalance",
    "multipath-tools": "multipathd",
    "networkd-dispatcher": "networkd-dispatcher",
    "nfs-common": "rpc-statd",
    "open-iscsi": "iscsid",
    "openssh-server": "ssh",
    "policykit-1": "polkit",
    "rpcbind": "rpcbind",
    "rsyslog": "rsyslog",
    "smartmontools": "smartd",
    "snapd": "snapd",
    "udisks2": "udisks2",
    "unattended-upgrades": "unattended-upgrades",
}
# Packages that every process uses, or that cannot be restarted: the machine is.
_MACHINE: Final = (
    "libc6",
    "dbus",
    "systemd",
    "libsystemd0",
    "libssl*",
    "amd64-microcode",
    "intel-microcode",
    "linux-firmware",
)
# Of these no process maps a file, so nothing but the time of their installation shows them.
_UNMAPPED: Final = ("amd64-microcode", "intel-microcode", "linux-firmware")
# The same two as in module_utils/replaced_files.py of role node_patch, which acts on them.
_LASTING: Final = re.compile(
    r"init\.scope|(dbus|polkit|docker|containerd|kubelet|keepalived|haproxy"
    r"|systemd-(logind|machined|networkd|resolved|journald|udevd)|(serial-)?getty@.*)\.service"
)
_ELSEWHERE: Final = re.compile(r"user@.*\.service|appliance-.*\.service|(?!init\.scope$).*\.scope")
# Packages of libraries that services load: who uses one is seen only afterwards.
_LIBRARY: Final = "lib*"


def restarts(changed: Iterable[str]) -> tuple[str, ...]:
    """The services that restart because their own package changes."""
    return tuple(sorted({_SERVICES[name] for name in changed if name in _SERVICES}))


def needs_reboot(name: str) -> bool:
    """Whether a change of the package takes effect only with the next boot."""
    return any(fnmatchcase(name, pattern) for pattern in _MACHINE)


def is_library(name: str) -> bool:
    """Whether running services may go on with the old file until they restart."""
    return fnmatchcase(name, _LIBRARY)


def takes_effect_unseen(name: str) -> bool:
    """Whether only the time of a package's installation shows that the boot for it is owed."""
    return name in _UNMAPPED


def is_lasting(unit: str) -> bool:
    """Whether a unit is not restarted on a running machine."""
    return _LASTING.fullmatch(unit) is not None


def unit_of(cgroup: str) -> str:
    """The systemd unit that a process is of, by the path of its control group.

    Empty: it has none, or it is of a login, of a container, or of the tool's own jobs.
    """
    parts = cgroup.split("/")
    if any(part.startswith("kubepods") for part in parts):
        return ""
    unit = next((p for p in reversed(parts) if p.endswith((".service", ".scope"))), "")
    return "" if _ELSEWHERE.fullmatch(unit) else unit
