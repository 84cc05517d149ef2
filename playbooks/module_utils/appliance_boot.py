"""Which kernel a machine boots next, and why it would not come up with it.

GRUB boots the newest kernel, unless GRUB_DEFAULT names another entry. Python 3.8, standard library.
"""

from __future__ import annotations

import re

_KERNEL = re.compile(r"(?P<series>\d+\.\d+)\.(?P<rest>[\d.-]*\d)-(?P<flavour>[a-z][\w-]*)")


def by_choice(root):
    """Return whether GRUB_DEFAULT names an entry of the boot menu; else the newest kernel boots."""
    folder, chosen = root / "etc/default", ""
    for path in [folder / "grub", *sorted((folder / "grub.d").glob("*.cfg"))]:
        for value in re.findall(r"(?m)^[ \t]*GRUB_DEFAULT=(.*)$", text_of(path)):
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
    running = text_of(root / "proc/sys/kernel/osrelease")
    newest, faults = newest_kernel(root, running), []
    disks = [path.name for path in (root / "boot").glob("initrd.img-*")]
    if disks and not _size(root / ("boot/initrd.img-" + newest)):
        faults.append("/boot/initrd.img-%s is missing or empty" % newest)
    if (root / "lib/modules" / running).is_dir() and not (root / "lib/modules" / newest).is_dir():
        faults.append("/lib/modules/%s is missing" % newest)
    faults += ["dkms has not built %s for %s" % (name, newest) for name in _unbuilt(root, newest)]
    faults += [
        "/etc/fstab mounts %s from %s, which is absent: correct it, or add nofail" % (where, what)
        for what, where in _absent_devices(root)
    ]
    other = _other_line(root, newest)
    if other:
        faults.append("kernel %s of another series or flavour is newer, and would boot" % other)
    return faults


def _absent_devices(root):
    """Return what /etc/fstab needs for the boot and is not there: systemd would wait, and stop."""
    found = []
    for line in text_of(root / "etc/fstab").splitlines():
        words = line.split()
        if len(words) < 4 or words[0].startswith("#") or words[2] == "swap":
            continue
        path = _device(root, words[0])
        if path is not None and not {"nofail", "noauto"} & set(words[3].split(",")):
            # Names of file systems differ in their case only, by who wrote them.
            there = {one.name.lower() for one in path.parent.glob("*")}
            if path.name.lower() not in there:
                found.append((words[0], words[1]))
    return found


def _device(root, what):
    """Return the file of a device in /etc/fstab; None: it is named in another way."""
    kind, _, name = what.replace('"', "").partition("=")
    if kind in ("UUID", "PARTUUID") and name:
        return root / "dev/disk" / ("by-" + kind.lower()) / name
    return root / what.lstrip("/") if what.startswith("/dev/") else None


def _unbuilt(root, newest):
    """Return the modules that dkms has for the running kernel, and not for the newest."""
    running, found = text_of(root / "proc/sys/kernel/osrelease"), {}
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


def text_of(path):
    """Return what a file says; empty where it cannot be read."""
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
