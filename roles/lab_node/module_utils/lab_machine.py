"""What a lab changes on the machine it runs on, and the way back."""

from __future__ import annotations

import json
from pathlib import Path

from ansible.module_utils.lab_commands import LABEL, STATE_DIR, lines

CONTROL_GROUPS = Path("/sys/fs/cgroup")
RECORD = STATE_DIR / "host-sysctls.json"

# Set before the first lab: every systemd and kubelet of every node counts against one limit.
REQUIRED = {"fs.inotify.max_user_instances": 4096, "fs.inotify.max_user_watches": 524288}

# What podman's bridge and the nodes' kubelets, which share this kernel, set by themselves. A value
# that no lab sets is the operator's own: it is not restored after the last lab.
SET_BY_LABS = {
    **{name: str(value) for name, value in REQUIRED.items()},
    "kernel.keys.root_maxbytes": "25000000",
    "kernel.keys.root_maxkeys": "1000000",
    "kernel.panic": "10",
    "kernel.panic_on_oops": "1",
    "net.ipv4.ip_forward": "1",
    "vm.overcommit_memory": "1",
    "vm.panic_on_oom": "0",
}
FORWARDING = "net.ipv4.ip_forward"
LINKS = Path("/sys/class/net")


def path_of(name):
    """Where the kernel shows a sysctl."""
    return Path("/proc/sys", name.replace(".", "/"))


def read(name):
    """Read one sysctl; None where this kernel has none of that name."""
    try:
        return path_of(name).read_text(encoding="utf-8").strip()
    except OSError:
        return None


def write(name, value):
    """Set one sysctl of the running kernel."""
    path_of(name).write_text(value, encoding="utf-8")


def other_labs(lab):
    """Name the labs that have containers on this machine, but for this one."""
    found = lines(
        "ps", "--all", "--filter", "label=" + LABEL, "--format", '{{index .Labels "' + LABEL + '"}}'
    )
    return sorted(set(found) - {lab})


def prepare(check_mode):
    """Record the sysctls once and raise the limits that labs need; return what was changed."""
    if not RECORD.exists() and not check_mode:
        values = {name: read(name) for name in SET_BY_LABS}
        known = {name: value for name, value in values.items() if value is not None}
        partial = RECORD.with_suffix(".partial")
        partial.write_text(json.dumps(known), encoding="utf-8")
        partial.rename(RECORD)
    changes = []
    for name, wanted in REQUIRED.items():
        value = read(name)
        if value is not None and int(value) < wanted:
            if not check_mode:
                write(name, str(wanted))
            changes.append("{0}: {1} -> {2}".format(name, value, wanted))
    return changes


def restore(lab):
    """Put back what labs set, when this was the last one; return what was changed.

    Packets stay forwarded while there is a bridge that is no lab's: a Docker that came later, or
    virtual machines, need that.
    """
    if not RECORD.exists() or other_labs(lab):
        return []
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    changes = []
    for name, value in recorded.items():
        now = read(name)
        if now == value or now != SET_BY_LABS.get(name):
            continue
        if name != FORWARDING or not bridges():
            write(name, value)
            changes.append("{0}: {1} -> {2}".format(name, now, value))
    RECORD.unlink()
    return changes


def bridges():
    """Name the bridges of this machine; those of labs are gone when this is asked."""
    return sorted(path.parent.name for path in LINKS.glob("*/bridge"))


def remove_control_groups(container_ids):
    """Remove what the nodes' systemd, docker and kubelets left below their containers' groups."""
    removed = []
    for container in container_ids:
        # On v1 and hybrid hosts one tree per controller, on v2 one; podman's own parent on top.
        for pattern in ("*/libpod-{0}*", "*/*/libpod-{0}*", "*/*/*/libpod-{0}*"):
            for top in CONTROL_GROUPS.glob(pattern.format(container)):
                remove_tree(top)
                removed.append(str(top))
    return removed


def remove_tree(top):
    """Remove a control group with all groups below it; files vanish with their folder."""
    for folder in [path for path in top.iterdir() if path.is_dir()]:
        remove_tree(folder)
    top.rmdir()
