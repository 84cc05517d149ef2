#!/usr/bin/python
"""Ansible module: kernel settings, swap, static hosts and update guards, live and after a boot."""

from __future__ import annotations

import errno
import fnmatch
import os
import re
import time
from pathlib import Path

from ansible.module_utils.appliance_programs import runner
from ansible.module_utils.basic import AnsibleModule

DOCUMENTATION = r"""
module: host_settings
short_description: Bring the base settings of a host, live and for the next boot
description:
  - Kernel modules and sysctls by drop-in and live; a module built into the kernel counts as loaded.
  - Swap off now and at the next boot; the lines of fstab are commented, with a backup.
  - A marked block of C(/etc/hosts), written in place where the file is a bind mount.
  - Holds on installed packages that match patterns, and a blacklist for unattended-upgrades.
  - Refuses, before the first change, when another file would overrule a sysctl at the next boot.
options:
  sysctls: {description: Keys and values, type: dict, required: true}
  modules: {description: Kernel modules, type: list, elements: str, required: true}
  swap_managed: {description: Whether swap is turned off for good, type: bool, required: true}
  hosts: {description: Addresses and their names, type: dict, required: true}
  hold_patterns:
    description: Installed packages that match are put on hold
    type: list
    elements: str
    required: true
  update_blacklist:
    description: Package name prefixes that unattended-upgrades leaves alone
    type: list
    elements: str
    required: true
  automatic_updates_enabled:
    description: Whether apt-daily's timers may run
    type: bool
    required: true
author: [Hyperscalers]
"""

EXAMPLES = r"""
- name: Bring the base settings
  host_settings:
    sysctls: {net.ipv4.ip_forward: "1"}
    modules: [overlay]
    swap_managed: true
    hosts: {192.0.2.11: [node1.example, node1]}
    hold_patterns: [linux-image-*]
    update_blacklist: [linux-]
    automatic_updates_enabled: true
"""

RETURN = r"""
changes: {description: One line for each change, type: list, returned: always}
"""

SYSCTL_FILE = "/etc/sysctl.d/90-appliance.conf"
SYSCTL_DIRS = ("/etc/sysctl.d", "/run/sysctl.d", "/usr/local/lib/sysctl.d", "/usr/lib/sysctl.d")
MODULES_FILE = "/etc/modules-load.d/appliance.conf"
HOSTS_FILE = "/etc/hosts"
FSTAB = "/etc/fstab"
UPDATES_FILE = "/etc/apt/apt.conf.d/52appliance-unattended-upgrades"
BEGIN, END = "# BEGIN appliance", "# END appliance"
HEADER = "# Written by appliance; changes are overwritten.\n"
# Emptying a large swap takes minutes.
PROGRAM_SECONDS = 900
TIMERS = ("apt-daily.timer", "apt-daily-upgrade.timer")


class SettingsError(Exception):
    """A setting cannot be brought; the sentence says what to do."""


class Host:
    """The host: files below a root, commands, and a list of what was changed."""

    def __init__(self, run, check_mode, root="/"):
        self.run = run
        self.check_mode = check_mode
        self.root = Path(root)
        self.changes = []

    def path(self, name):
        """Return a path below the root."""
        return self.root / str(name).lstrip("/")

    def read(self, name):
        """Return the text of a file, or an empty string where there is none.

        Raises:
            SettingsError: it is there and cannot be read: it is not taken for an empty one.
        """
        try:
            # A comment in another encoding stays byte for byte.
            return self.path(name).read_text(encoding="utf-8", errors="surrogateescape")
        except (FileNotFoundError, NotADirectoryError):
            return ""
        except OSError as error:
            raise SettingsError("%s cannot be read: %s" % (name, error.strerror)) from error

    def write(self, name, text, why):
        """Bring a file to a text; atomically, unless it is a bind mount, which no rename takes."""
        if self.read(name) == text and self.path(name).exists():
            return
        self.changes.append("%s: %s" % (name, why))
        if self.check_mode:
            return
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name("." + path.name + ".new")
        with new.open("w", encoding="utf-8", errors="surrogateescape") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        new.chmod(path.stat().st_mode & 0o7777 if path.exists() else 0o644)
        try:
            new.replace(path)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            path.write_text(text, encoding="utf-8", errors="surrogateescape")
            new.unlink()

    def act(self, why, argv, tolerated=(0,)):
        """Run a changing command and note it."""
        self.changes.append(why)
        if self.check_mode:
            return
        rc, out, err = self.run(argv)
        if rc not in tolerated:
            raise SettingsError("%s failed: %s" % (" ".join(argv), (err or out).strip()))


# --- kernel -------------------------------------------------------------------------------------


def sysctl_files(host):
    """Return the files systemd-sysctl reads, in the order in which later ones win."""
    found = {}
    for directory in SYSCTL_DIRS:
        folder = host.path(directory)
        for path in sorted(folder.glob("*.conf")) if folder.is_dir() else []:
            found.setdefault(path.name, "%s/%s" % (directory, path.name))
    return [found[name] for name in sorted(found)]


def overruled(host, wanted):
    """Return sentences for keys that a file read after ours sets to something else."""
    faults = []
    later = [name for name in sysctl_files(host) if Path(name).name > Path(SYSCTL_FILE).name]
    for name in later:
        for number, line in enumerate(host.read(name).splitlines(), 1):
            key, _, value = line.partition("=")
            key = key.strip().lstrip("-").replace("/", ".")
            value = value.strip()
            if key in wanted and value != wanted[key]:
                faults.append(
                    "%s:%d sets %s = %s, which would win over the %s that is needed at the next "
                    "boot; remove that line" % (name, number, key, value, wanted[key])
                )
    return faults


def module_loaded(host, name):
    """Return whether a module is loaded or built in."""
    plain = name.replace("-", "_")
    if host.path("/sys/module/" + plain).exists():
        return True
    release = os.uname().release
    builtin = host.read("/lib/modules/%s/modules.builtin" % release)
    if re.search(r"/%s\.ko\b" % re.escape(name), builtin) or re.search(
        r"/%s\.ko\b" % re.escape(plain), builtin
    ):
        return True
    return plain in live_without_module(host)


def live_without_module(host):
    """Return modules whose work is there although the kernel does not list them (built in)."""
    found = set()
    if host.path("/proc/sys/net/bridge/bridge-nf-call-iptables").exists():
        found.add("br_netfilter")
    if re.search(r"\boverlay$", host.read("/proc/filesystems"), re.MULTILINE):
        found.add("overlay")
    if host.path("/proc/sys/net/netfilter/nf_conntrack_max").exists():
        found.add("nf_conntrack")
    return found


def bring_modules(host, modules):
    """Load modules now and at boot."""
    host.write(MODULES_FILE, HEADER + "".join(m + "\n" for m in modules), "modules at boot")
    for name in modules:
        if not module_loaded(host, name):
            host.act("module %s loaded" % name, ["modprobe", name])


def bring_sysctls(host, wanted):
    """Set sysctls now and at boot."""
    text = HEADER + "".join("%s = %s\n" % item for item in sorted(wanted.items()))
    host.write(SYSCTL_FILE, text, "sysctls at boot")
    for key, value in sorted(wanted.items()):
        name = "/proc/sys/" + key.replace(".", "/")
        live = " ".join(host.read(name).split())
        if live == value:
            continue
        host.changes.append("sysctl %s: %s -> %s" % (key, live or "absent", value))
        if not host.check_mode:
            try:
                with host.path(name).open("w") as stream:
                    stream.write(value)
            except OSError as error:
                raise SettingsError("sysctl %s cannot be set: %s" % (key, error)) from error


# --- swap ---------------------------------------------------------------------------------------


def without_swap(fstab):
    """Return fstab with its swap lines commented out."""
    lines = []
    for line in fstab.splitlines():
        fields = line.split()
        swap = len(fields) > 2 and not line.lstrip().startswith("#") and fields[2] == "swap"
        lines.append("# appliance: no swap: " + line if swap else line)
    return "".join(line + "\n" for line in lines)


def bring_swap_off(host):
    """Turn swap off now, and keep it off at boot."""
    active = [line.split()[0] for line in host.read("/proc/swaps").splitlines()[1:]]
    units = swap_units(host)
    if active:
        host.act("swap off: " + ", ".join(active), ["swapoff", "-a"])
    before = host.read(FSTAB)
    after = without_swap(before)
    if after != before and before.rstrip("\n") + "\n" != after:
        backup = "%s.appliance-%s" % (FSTAB, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()))
        host.write(backup, before, "backup")
        host.write(FSTAB, after, "swap lines commented out")
    for unit in units:
        host.act("%s masked" % unit, ["systemctl", "mask", unit])


def swap_units(host):
    """Return swap units that could come back at boot without fstab."""
    _, out, _ = host.run(
        ["systemctl", "list-units", "--type=swap", "--all", "--no-legend", "--plain"]
    )
    rows = [line.split() for line in out.splitlines() if line.split()]
    return [row[0] for row in rows if row[0].endswith(".swap") and row[1] != "masked"]


# --- names --------------------------------------------------------------------------------------


def with_block(text, hosts):
    """Return /etc/hosts with our block brought up to date; the rest is left as it is."""
    lines, inside = [], False
    for line in text.splitlines():
        if line.strip() == BEGIN:
            inside = True
        elif line.strip() == END:
            inside = False
        elif not inside:
            lines.append(line)
    lines.append(BEGIN)
    lines += ["%s %s" % (address, " ".join(names)) for address, names in sorted(hosts.items())]
    lines.append(END)
    return "".join(line + "\n" for line in lines)


def contradictions(text, hosts):
    """Return sentences for lines outside our block that give one of our names another address."""
    right = {name: address for address, names in hosts.items() for name in names}
    faults, inside = [], False
    for number, line in enumerate(text.splitlines(), 1):
        inside = (inside or line.strip() == BEGIN) and line.strip() != END
        fields = line.partition("#")[0].split()
        if inside or len(fields) < 2 or fields[0].startswith("127.") or ":" in fields[0]:
            continue
        for name in fields[1:]:
            if right.get(name, fields[0]) != fields[0]:
                faults.append(
                    "%s:%d gives %s the address %s, the site says %s; remove that line"
                    % (HOSTS_FILE, number, name, fields[0], right[name])
                )
    return faults


# --- updates ------------------------------------------------------------------------------------


def bring_update_guards(host, want):
    """Hold what matches, keep unattended-upgrades off it, and see to apt-daily's timers."""
    quoted = "".join('    "%s";\n' % prefix for prefix in want["update_blacklist"])
    text = "%sUnattended-Upgrade::Package-Blacklist {\n%s};\n" % (HEADER.replace("#", "//"), quoted)
    host.write(UPDATES_FILE, text, "unattended-upgrades kept off")
    query = ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Abbrev}\\n"]
    rows = [line.split() for line in host.run(query)[1].splitlines()]
    loose = sorted(
        row[0]
        for row in rows
        if len(row) > 1
        and row[1] == "ii"
        and any(fnmatch.fnmatchcase(row[0], pattern) for pattern in want["hold_patterns"])
    )
    if loose:
        host.act("on hold: " + ", ".join(loose), ["apt-mark", "hold", *loose])
    if not want["automatic_updates_enabled"]:
        stop_timers(host)


def stop_timers(host):
    """Stop and disable apt-daily's timers."""
    for timer in TIMERS:
        _, out, _ = host.run(["systemctl", "show", "-p", "ActiveState,UnitFileState", timer])
        if "ActiveState=active" in out or "UnitFileState=enabled" in out:
            host.act("%s disabled" % timer, ["systemctl", "disable", "--now", timer])


def converge(host, want):
    """Refuse what contradicts, then bring everything; return the changes."""
    sysctls = {key: str(value) for key, value in want["sysctls"].items()}
    faults = overruled(host, sysctls) + contradictions(host.read(HOSTS_FILE), want["hosts"])
    if faults:
        raise SettingsError("; ".join(faults))
    bring_modules(host, want["modules"])
    bring_sysctls(host, sysctls)
    if want["swap_managed"]:
        bring_swap_off(host)
    host.write(HOSTS_FILE, with_block(host.read(HOSTS_FILE), want["hosts"]), "names of the site")
    bring_update_guards(host, want)
    return host.changes


def main():
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "sysctls": {"type": "dict", "required": True},
            "modules": {"type": "list", "elements": "str", "required": True},
            "swap_managed": {"type": "bool", "required": True},
            "hosts": {"type": "dict", "required": True},
            "hold_patterns": {"type": "list", "elements": "str", "required": True},
            "update_blacklist": {"type": "list", "elements": "str", "required": True},
            "automatic_updates_enabled": {"type": "bool", "required": True},
        },
        supports_check_mode=True,
    )
    host = Host(runner(module, PROGRAM_SECONDS), module.check_mode)
    try:
        changes = converge(host, module.params)
    except (SettingsError, OSError) as error:
        module.fail_json(msg=str(error), changes=host.changes)
    module.exit_json(changed=bool(changes), changes=changes)


if __name__ == "__main__":
    main()
