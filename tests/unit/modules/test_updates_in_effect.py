"""What still uses replaced files is found, and a machine boots only for a reason."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

module = load("updates_in_effect", role="node_patch")
RUNNING = "5.4.0-150-generic"
OLD = "7f00-7f01 r-xp 00000000 08:01 99 /usr/lib/x86_64-linux-gnu/libz.so.1 (deleted)\n"
OWN = "7f00-7f01 rw-s 00000000 00:01 99 /dev/zero (deleted)\n7f02 r--p 0 0 0 /memfd:x (deleted)\n"


class Machine:
    """A /proc of the test, and systemctl."""

    def __init__(self, root: Path) -> None:
        self.root, self.pid, self.rc = root, 1, 0
        self.restarted: list[str] = []
        self.boot("1f0e")
        self.write("proc/sys/kernel/osrelease", RUNNING + "\n")
        self.write(f"boot/vmlinuz-{RUNNING}", "")

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def boot(self, identity: str) -> None:
        self.write("proc/sys/kernel/random/boot_id", identity + "\n")

    def process(self, cgroup: str, maps: str = OLD) -> int:
        self.pid += 1
        self.write(f"proc/{self.pid}/maps", maps)
        self.write(f"proc/{self.pid}/cgroup", f"12:cpu:/\n1:name=systemd:{cgroup}\n")
        return self.pid

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        unit = argv[-1]
        self.restarted.append(unit)
        for folder in (self.root / "proc").glob("[0-9]*"):
            if not self.rc and unit in (folder / "cgroup").read_text():
                (folder / "maps").write_text("")
        return self.rc, "", "it did not start"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def converge(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, *, boot_from: str = "", check: bool = False
) -> Any:
    class Asked:
        params = {"boot_from": boot_from}  # noqa: RUF012
        check_mode = check

    monkeypatch.setattr(module, "runner", lambda _module: machine.run)
    monkeypatch.setattr(module, "Path", lambda _root: machine.root)
    return module.converge(Asked)


def test_a_service_with_a_replaced_library_is_restarted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.process("/system.slice/rsyslog.service")
    machine.process("/system.slice/cron.service", maps=OWN)
    done = converge(machine, monkeypatch)
    assert done == {"changed": True, "restarted": ["rsyslog.service"], "boot": []}
    assert converge(machine, monkeypatch)["changed"] is False


@pytest.mark.parametrize(
    "cgroup",
    [
        "/user.slice/user-0.slice/session-4.scope",
        "/user.slice/user-0.slice/user@0.service/init.scope/x.service",
        "/kubepods/besteffort/pod1/2f3c",
        "/kubepods.slice/kubepods-besteffort.slice/docker-2f3c.scope",
        "/system.slice/docker-2f3c.scope",
        "/system.slice/appliance-packages.service",
        "/",
    ],
)
def test_logins_containers_and_our_own_jobs_are_left_alone(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, cgroup: str
) -> None:
    machine.process(cgroup)
    if "x.service" in cgroup:
        cgroup = cgroup.replace("/init.scope/x.service", "")
        machine.write(f"proc/{machine.pid}/cgroup", f"1:name=systemd:{cgroup}\n")
    assert converge(machine, monkeypatch) == {"changed": False, "restarted": [], "boot": []}


@pytest.mark.parametrize("unit", ["dbus.service", "docker.service", "systemd-logind.service"])
def test_a_service_that_cannot_be_restarted_is_a_reason_to_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    machine.process(f"/system.slice/{unit}")
    done = converge(machine, monkeypatch)
    assert (done["restarted"], done["boot"]) == ([], [f"{unit} still uses a replaced file"])


def test_systemd_itself_is_a_reason_to_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.process("/init.scope")
    assert converge(machine, monkeypatch)["boot"] == ["init.scope still uses a replaced file"]


def test_a_service_that_does_not_restart_is_a_reason_to_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.process("/system.slice/rsyslog.service")
    machine.rc = 1
    assert converge(machine, monkeypatch)["boot"] == [
        "rsyslog.service did not restart: it did not start"
    ]


@pytest.mark.parametrize(
    ("kernels", "boots"),
    [
        ((), False),
        (("5.4.0-216-generic",), True),
        (("5.4.0-99-generic", "5.15.0-139-generic", "5.4.0-216-lowlatency"), False),
    ],
)
def test_a_newer_kernel_of_the_running_ones_line_is_a_reason_to_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, kernels: tuple[str, ...], boots: bool
) -> None:
    for kernel in kernels:
        machine.write(f"boot/vmlinuz-{kernel}", "")
    machine.process("/system.slice/rsyslog.service")
    done = converge(machine, monkeypatch)
    assert bool(done["boot"]) == boots
    # Where the machine boots, nothing is restarted before.
    assert machine.restarted == ([] if boots else ["rsyslog.service"])


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        ({}, "/boot/initrd.img-5.4.0-216-generic is missing or empty"),
        ({"boot/initrd.img-5.4.0-216-generic": ""}, "is missing or empty"),
        (
            {"boot/initrd.img-5.4.0-216-generic": "cpio"},
            "/lib/modules/5.4.0-216-generic is missing",
        ),
    ],
)
def test_a_machine_that_would_not_come_up_does_not_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, made: dict[str, str], fault: str
) -> None:
    machine.write(f"boot/initrd.img-{RUNNING}", "cpio")
    machine.write(f"lib/modules/{RUNNING}/modules.dep", "")
    machine.write("boot/vmlinuz-5.4.0-216-generic", "")
    for name, text in made.items():
        machine.write(name, text)
    with pytest.raises(module.NoBoot, match=fault):
        converge(machine, monkeypatch)
    machine.write("boot/initrd.img-5.4.0-216-generic", "cpio")
    machine.write("lib/modules/5.4.0-216-generic/modules.dep", "")
    assert len(converge(machine, monkeypatch)["boot"]) == 1


NEWEST = "5.4.0-216-generic"


@pytest.mark.parametrize(
    ("made", "fault"),
    [
        ([f"var/lib/dkms/ofed/5.8/{RUNNING}/x86_64/module/a.ko"], f"not built ofed for {NEWEST}"),
        (
            [f"var/lib/dkms/ofed/5.{n}/{k}/x86_64/a.ko" for n, k in ((8, RUNNING), (9, NEWEST))],
            "",
        ),
        (["var/lib/dkms/old/1/5.4.0-99-generic/x86_64/module/a.ko"], ""),
        (["boot/vmlinuz-5.15.0-139-generic"], "kernel 5.15.0-139-generic of another series"),
        (["boot/vmlinuz-5.4.0-220-lowlatency"], "kernel 5.4.0-220-lowlatency of another series"),
        (["boot/vmlinuz-5.3.0-64-generic", "boot/vmlinuz-5.4.0-216-lowlatency"], ""),
    ],
)
def test_a_machine_that_would_lose_a_driver_or_change_its_line_does_not_boot(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, made: list[str], fault: str
) -> None:
    machine.write(f"boot/vmlinuz-{NEWEST}", "")
    for name in made:
        machine.write(name, "")
    if not fault:
        assert len(converge(machine, monkeypatch)["boot"]) == 1
        return
    with pytest.raises(module.NoBoot, match=fault):
        converge(machine, monkeypatch)


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("UUID=0a1b / ext4 errors=remount-ro 0 1", False),
        ("UUID=dead /data xfs defaults 0 2", True),
        ("UUID=dead /data xfs defaults,nofail 0 2", False),
        ("UUID=dead /data xfs noauto 0 2", False),
        ("UUID=dead none swap sw 0 0", False),
        ("# UUID=dead /data xfs defaults 0 2", False),
        ("UUID=ABcd-12 /boot/efi vfat umask=0077 0 1", False),
        ("/dev/sdz1 /data xfs defaults 0 2", True),
        ("/dev/sda1 /data xfs defaults 0 2", False),
        ("nfs.rack.test:/data /data nfs hard 0 0", False),
        ("LABEL=data /data xfs defaults 0 2", False),
    ],
)
def test_a_machine_does_not_boot_while_fstab_needs_a_disk_that_is_absent(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, line: str, absent: bool
) -> None:
    for name in ("dev/disk/by-uuid/0a1b", "dev/disk/by-uuid/abCD-12", "dev/sda1"):
        machine.write(name, "")
    machine.write("etc/fstab", f"# <file system> <mount point>\n{line}\n")
    if not absent:
        assert converge(machine, monkeypatch, boot_from="1f0e")["boot"]
        return
    with pytest.raises(module.NoBoot, match=r"/etc/fstab mounts /data from \S+, which is absent"):
        converge(machine, monkeypatch, boot_from="1f0e")


@pytest.mark.parametrize(
    ("files", "boots"),
    [
        ({"grub": "GRUB_DEFAULT=0\n"}, True),
        ({"grub": "#GRUB_DEFAULT=2\n"}, True),
        ({"grub": 'GRUB_DEFAULT="1>2"\n'}, False),
        ({"grub": "GRUB_DEFAULT=0\n", "grub.d/50-site.cfg": "GRUB_DEFAULT=saved\n"}, False),
    ],
)
def test_where_somebody_chose_an_entry_of_the_boot_menu_a_newer_kernel_is_no_reason(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], boots: bool
) -> None:
    machine.write(f"boot/vmlinuz-{NEWEST}", "")
    for name, text in files.items():
        machine.write(f"etc/default/{name}", text)
    assert bool(converge(machine, monkeypatch)["boot"]) == boots


def test_a_machine_without_initial_ram_disks_boots(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write("boot/vmlinuz-5.4.0-216-generic", "")
    assert len(converge(machine, monkeypatch)["boot"]) == 1


def test_a_package_that_asked_for_a_boot_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.write("run/reboot-required", "*** System restart required ***\n")
    machine.write("run/reboot-required.pkgs", "libc6\ndbus\nlibc6\n")
    assert converge(machine, monkeypatch)["boot"] == ["dbus, libc6 asked for it"]


def test_a_boot_that_was_asked_for_happens_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert converge(machine, monkeypatch, boot_from="1f0e")["boot"] == ["it was asked for"]
    machine.boot("2a2b")
    assert converge(machine, monkeypatch, boot_from="1f0e")["boot"] == []


def test_check_mode_restarts_nothing(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.process("/system.slice/rsyslog.service")
    done = converge(machine, monkeypatch, check=True)
    assert (done["restarted"], machine.restarted) == (["rsyslog.service"], [])


def test_a_process_that_ends_meanwhile_is_no_fault(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.truncate(machine.root / f"proc/{machine.process('/system.slice/a.service')}/cgroup", 0)
    (machine.root / "proc/999").mkdir()
    assert converge(machine, monkeypatch)["changed"] is False
