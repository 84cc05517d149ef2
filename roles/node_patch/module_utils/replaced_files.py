"""What still uses files that a package replaced, and why a machine must boot.

A program or library that dpkg replaced is shown as ``(deleted)`` in the maps of each process that
still has the old one; needrestart looks at the same. Python 3.8, standard library.
"""

from __future__ import annotations

import re

# dpkg replaces these; what is deleted elsewhere (/tmp, /dev/zero, memfd) is no package's.
_OF_PACKAGES = re.compile(r"\s(/usr|/lib\d*|/bin|/sbin)/\S.* \(deleted\)$")
# A restart of these would end every login or every container, or is refused by systemd.
_LASTING = re.compile(
    r"init\.scope|(dbus|polkit|docker|containerd|kubelet|keepalived|haproxy"
    r"|systemd-(logind|machined|networkd|resolved|journald|udevd)|(serial-)?getty@.*)\.service"
)
# A login goes on with its own files until it ends; a container has no files of the node.
_ELSEWHERE = re.compile(r"user@.*\.service|appliance-.*\.service|(?!init\.scope$).*\.scope")
_KERNEL = re.compile(r"(?P<series>\d+\.\d+)\.(?P<rest>[\d.-]*\d)-(?P<flavour>[a-z][\w-]*)")


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
    boot = _text(root / "proc/sys/kernel/random/boot_id")
    if boot_from and boot == boot_from:
        reasons.append("it was asked for")
    running = _text(root / "proc/sys/kernel/osrelease")
    newest = newest_kernel(root, running)
    if newest != running:
        reasons.append("kernel %s is installed, and %s runs" % (newest, running))
    if (root / "run/reboot-required").exists():
        names = sorted(set(_text(root / "run/reboot-required.pkgs").split()))
        reasons.append("%s asked for it" % (", ".join(names) or "a package"))
    return reasons


def by_choice(root):
    """Return whether GRUB_DEFAULT names an entry of the boot menu; else the newest kernel boots."""
    folder, chosen = root / "etc/default", ""
    for path in [folder / "grub", *sorted((folder / "grub.d").glob("*.cfg"))]:
        for value in re.findall(r"(?m)^[ \t]*GRUB_DEFAULT=(.*)$", _text(path)):
            chosen = value.strip().strip("'\"")
    return chosen not in ("", "0")


def newest_kernel(root, running):
    """Return the kernel of the next boot: the newest of the running one's series and flavour."""
    now = _KERNEL.fullmatch(running)
    if now is None or by_choice(root):
        return running
    found = {running: _numbers(now)}
    for path in (root / "boot").glob("vmlinuz-*"):
        name = path.name[len("vmlinuz-") :]
        match = _KERNEL.fullmatch(name)
        if match and [match["series"], match["flavour"]] == [now["series"], now["flavour"]]:
            found[name] = _numbers(match)
    return max(found, key=lambda name: found[name])


def boot_faults(root):
    """Return why the machine would not come up again with its newest kernel.

    A machine on which no kernel has an initial RAM disk needs none.
    """
    running = _text(root / "proc/sys/kernel/osrelease")
    newest, faults = newest_kernel(root, running), []
    disks = [path.name for path in (root / "boot").glob("initrd.img-*")]
    if disks and not _size(root / ("boot/initrd.img-" + newest)):
        faults.append("/boot/initrd.img-%s is missing or empty" % newest)
    if (root / "lib/modules" / running).is_dir() and not (root / "lib/modules" / newest).is_dir():
        faults.append("/lib/modules/%s is missing" % newest)
    faults += ["dkms has not built %s for %s" % (name, newest) for name in _unbuilt(root, newest)]
    other = _other_line(root, newest)
    if other:
        faults.append("kernel %s of another series or flavour is newer, and would boot" % other)
    return faults


def _unbuilt(root, newest):
    """Return the modules that dkms has for the running kernel, and not for the newest."""
    running, found = _text(root / "proc/sys/kernel/osrelease"), {}
    for path in (root / "var/lib/dkms").glob("*/*/*"):
        found.setdefault(path.parents[1].name, set()).add(path.name)
    return sorted(name for name, has in found.items() if running in has and newest not in has)


def _other_line(root, newest):
    """Return a kernel of another series or flavour that boots instead; empty: there is none."""
    own = _KERNEL.fullmatch(newest)
    if own is None or by_choice(root):
        return ""
    found = {}
    for path in (root / "boot").glob("vmlinuz-*"):
        match = _KERNEL.fullmatch(path.name[len("vmlinuz-") :])
        if match:
            found[match.group()] = _all_numbers(match)
    other = max(found, key=lambda name: found[name], default=newest)
    return other if found.get(other, []) > _all_numbers(own) else ""


def _size(path):
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _all_numbers(match):
    return [int(part) for part in match["series"].split(".")] + _numbers(match)


def _numbers(match):
    return [int(part) for part in re.findall(r"\d+", match["rest"])]


def _text(path):
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
