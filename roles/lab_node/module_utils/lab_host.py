"""What a lab changes on the machine it runs on, and the way back."""

from __future__ import annotations

import json
import os

from ansible.module_utils.lab_commands import LABEL, STATE_DIR, lines

RECORD = os.path.join(STATE_DIR, "host-sysctls.json")

# Set before the first lab: every systemd and kubelet of every node counts against one limit.
REQUIRED = {"fs.inotify.max_user_instances": 4096, "fs.inotify.max_user_watches": 524288}

# Recorded before the first lab and put back after the last: what podman's bridge and the nodes'
# kubelets, which share this kernel, set by themselves.
RECORDED = (
    *REQUIRED,
    "kernel.keys.root_maxbytes",
    "kernel.keys.root_maxkeys",
    "kernel.panic",
    "kernel.panic_on_oops",
    "net.ipv4.ip_forward",
    "vm.max_map_count",
    "vm.overcommit_memory",
    "vm.panic_on_oom",
    "vm.swappiness",
)


def path_of(name):
    """Where the kernel shows a sysctl."""
    return os.path.join("/proc/sys", name.replace(".", "/"))


def read(name):
    """Read one sysctl; None where this kernel has none of that name."""
    try:
        with open(path_of(name), encoding="utf-8") as handle:
            return handle.read().strip()
    except OSError:
        return None


def write(name, value):
    """Set one sysctl of the running kernel."""
    with open(path_of(name), "w", encoding="utf-8") as handle:
        handle.write(value)


def other_labs(lab):
    """Name the labs that have containers on this machine, but for this one."""
    found = lines(
        "ps", "--all", "--filter", "label=" + LABEL, "--format", '{{index .Labels "' + LABEL + '"}}'
    )
    return sorted(set(found) - {lab})


def prepare(check_mode):
    """Record the sysctls once and raise the limits that labs need; return what was changed."""
    if not os.path.exists(RECORD) and not check_mode:
        values = {name: read(name) for name in RECORDED}
        partial = RECORD + ".partial"
        with open(partial, "w", encoding="utf-8") as handle:
            json.dump({name: value for name, value in values.items() if value is not None}, handle)
        os.rename(partial, RECORD)
    changes = []
    for name, wanted in REQUIRED.items():
        value = read(name)
        if value is not None and int(value) < wanted:
            if not check_mode:
                write(name, str(wanted))
            changes.append("{0}: {1} -> {2}".format(name, value, wanted))
    return changes


def restore(lab):
    """Put the recorded sysctls back when this was the last lab; return what was changed."""
    if not os.path.exists(RECORD) or other_labs(lab):
        return []
    with open(RECORD, encoding="utf-8") as handle:
        recorded = json.load(handle)
    changes = []
    for name, value in recorded.items():
        now = read(name)
        if now is not None and now != value:
            write(name, value)
            changes.append("{0}: {1} -> {2}".format(name, now, value))
    os.unlink(RECORD)
    return changes


def remove_control_groups(container_ids):
    """Remove what the nodes' systemd, docker and kubelets left below their containers' groups."""
    removed = []
    for container in container_ids:
        for folder, subfolders, _files in os.walk("/sys/fs/cgroup"):
            name = "libpod-" + container
            for match in [s for s in subfolders if s.startswith(name)]:
                removed.append(remove_tree(os.path.join(folder, match)))
                subfolders.remove(match)
            if folder.count("/") > 6:
                subfolders.clear()
    return removed


def remove_tree(top):
    """Remove a control group with all groups below it; files vanish with their folder."""
    for folder, _subfolders, _files in os.walk(top, topdown=False):
        os.rmdir(folder)
    return top
