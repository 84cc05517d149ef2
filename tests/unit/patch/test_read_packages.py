"""What nodes say of their packages, read from their answers; hostile ones too."""

from __future__ import annotations

import subprocess
from importlib import import_module
from pathlib import Path

import pytest

from appliance.adapters.ssh.packages import MOST_LINES, SCRIPT, parse
from appliance.model.patch.services import is_lasting, unit_of
from tests.prerequisites import require
from tests.unit.modules.loading import load

# dpkg-query ends each line with the third letter of the state, mostly a space.
PACKAGES = (
    "libc6 2.31-0ubuntu9 amd64 ii ",
    "libc6 2.31-0ubuntu9 i386 ii ",
    "tzdata 2024a all ii ",
    "docker.io 20.10.24 amd64 hi ",
    "gone 1.0 amd64 rc ",
    "half 1.0 amd64 iF ",
    "broken 1.0 amd64 iiR",
)
ANSWER = """architecture amd64
kernel 5.4.0-150-generic
boot 1f0e
asked
asked libc6
interrupted
device / 64769
device /boot 64770
device /usr 64769
free / 250 4096
free /boot 50 4096
free /usr 250 4096
stale /system.slice/cron.service
stale /init.scope
stale /kubepods/besteffort/pod1/2f3c
stale /user.slice/user-0.slice/session-4.scope
stale /system.slice/a b.service
stale /system.slice/\x1b[31m.service
lost pc /dev/disk/by-id/ata-OLD
lost pc /dev/sdb
lost efi /dev/sda 15
grub 0
grub "Advanced options for Ubuntu>Ubuntu, with Linux 5.4.0-150-generic"
dkms mlnx-ofed/5.8/5.4.0-150-generic
dkms mlnx-ofed/5.8/build
dkms mlnx-ofed/5.9/5.4.0-216-generic
dkms zfs
nvidia 5.4.0-150-generic/updates/dkms/nvidia.ko
unbooted libc6:amd64.list
unbooted libc6:i386.list
unbooted tzdata.list
unbooted UPPER.list
unbooted
kept 1700000000.5 /etc/ssh/sshd_config.ucf-dist
""" + "".join(f"package {line}\n" for line in PACKAGES)


def test_an_answer_is_read_whole() -> None:
    found = parse("w1", ANSWER)
    assert (found.node, found.kernel, found.boot) == ("w1", "5.4.0-150-generic", "1f0e")
    assert found.packages == {"libc6": "2.31-0ubuntu9", "tzdata": "2024a", "docker.io": "20.10.24"}
    assert (found.held, found.foreign) == (frozenset({"docker.io"}), frozenset({"libc6"}))
    assert (found.half, found.interrupted) == (("broken", "half"), True)
    assert (found.reboot_asked, found.reboot_for) == (True, ("libc6",))
    assert found.free_bytes == {"/": 1_024_000, "/boot": 204_800}
    assert found.kept_files == {"/etc/ssh/sshd_config.ucf-dist": "1700000000.5"}
    assert (found.stale, found.unbooted) == (("cron.service", "init.scope"), ("libc6", "tzdata"))
    assert found.lost_disks == {"pc": ("/dev/disk/by-id/ata-OLD", "/dev/sdb")}
    assert found.dkms == {"mlnx-ofed": {"5.4.0-150-generic", "5.4.0-216-generic"}}
    assert found.nvidia_kernels == {"5.4.0-150-generic"}
    assert found.boots_by_choice


# The control group of a process with a replaced file -> its unit, and whether that lasts.
GROUPS = {
    "/system.slice/rsyslog.service": ("rsyslog.service", False),
    "/system.slice/dbus.service": ("dbus.service", True),
    "/system.slice/system-getty.slice/getty@tty1.service": ("getty@tty1.service", True),
    "/system.slice/systemd-networkd.service": ("systemd-networkd.service", True),
    "/init.scope": ("init.scope", True),
    "/": ("", False),
    "/user.slice/user-0.slice/session-4.scope": ("", False),
    "/user.slice/user-0.slice/user@0.service": ("", False),
    "/kubepods/besteffort/pod1/2f3c": ("", False),
    "/kubepods.slice/kubepods-besteffort.slice/docker-2f3c.scope": ("", False),
    "/system.slice/docker-2f3c.scope": ("", False),
    "/system.slice/appliance-packages.service": ("", False),
}


@pytest.mark.parametrize("group", GROUPS)
def test_the_plan_and_the_role_mean_the_same_units(group: str, tmp_path: Path) -> None:
    unit, lasts = GROUPS[group]
    assert (unit_of(group), is_lasting(unit)) == (unit, lasts)
    load("updates_in_effect", role="node_patch")
    of_role = import_module("ansible.module_utils.replaced_files")
    process = tmp_path / "proc/7"
    process.mkdir(parents=True)
    (process / "cgroup").write_text(f"1:name=systemd:{group}\n")
    (process / "maps").write_text("7f r-xp 0 08:01 9 /usr/lib/libz.so.1 (deleted)\n")
    assert of_role.stale_units(tmp_path) == ([unit] if unit else [])
    assert of_role.lasting(unit) is lasts


def test_a_node_in_peace_says_only_what_is_there() -> None:
    quiet = "architecture amd64\nkernel 6.1\nboot x\npackage a 1 amd64 ii \n"
    found = parse("w1", quiet)
    assert (found.interrupted, found.reboot_asked, found.half, found.foreign) == (
        *(False, False, (), frozenset()),
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no architecture"),
        ("architecture amd64\n", "no kernel"),
        ("architecture amd64\nkernel 5\nboot x\n", "no installed package"),
        (ANSWER + "package UPPER 1 amd64 ii \n", "a package without a name"),
        (ANSWER + "package\n", "a package without a name"),
        (ANSWER.replace("kernel 5.4.0-150-generic", "kernel \x1b[31m"), "no kernel"),
        ("x\n" * (MOST_LINES + 1), "more than 20000 lines"),
    ],
)
def test_what_is_no_answer_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse("w1", text)


def test_the_script_tells_of_this_machine() -> None:
    require("dpkg-query")
    done = subprocess.run(["sh", "-c", SCRIPT], check=True, capture_output=True, text=True)
    found = parse("here", done.stdout)
    status = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", "dpkg"], check=True, capture_output=True, text=True
    )
    assert found.packages["dpkg"] == status.stdout
    assert found.free_bytes["/"] > 0
    assert found.boot
