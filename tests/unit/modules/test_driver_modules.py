"""NVIDIA's modules are built for each kernel that may boot, and never replaced while in use."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.modules.loading import load

driver = load("driver_modules", role="gpu_driver")
VERSION, KERNEL, OTHER = "535.183.06", "5.4.0-216-generic", "5.15.0-139-generic"


class Machine:
    """Answers modinfo, dkms and modprobe."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.built = {KERNEL: VERSION}
        self.builds = VERSION
        self.rc = 0
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        self.calls.append(argv)
        if argv[0] == "modinfo":
            found = self.built.get(argv[2])
            return (0, found + "\n", "") if found else (1, "", "Module nvidia not found.")
        if argv[0] == "dkms" and not self.rc:
            self.built[argv[3]] = self.builds
        return self.rc, "", "it does not compile" if self.rc else ""

    def loaded(self, version: str) -> None:
        path = Path(self.root + driver.LOADED)
        path.parent.mkdir(parents=True)
        path.write_text(version + "\n")

    def changing(self) -> list[list[str]]:
        return [argv for argv in self.calls if argv[0] != "modinfo"]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_kernel_that_has_the_driver_is_left_alone(machine: Machine) -> None:
    assert driver.build(machine.run, KERNEL, VERSION, False) == []
    assert machine.changing() == []


def test_a_kernel_without_the_driver_gets_it(machine: Machine) -> None:
    (change,) = driver.build(machine.run, OTHER, VERSION, False)
    assert change.startswith(OTHER)
    assert machine.changing() == [["dkms", "autoinstall", "-k", OTHER]]


def test_another_product_that_dkms_cannot_build_does_not_matter(machine: Machine) -> None:
    def run(argv: list[str]) -> tuple[int, str, str]:
        rc, out, err = machine.run(argv)
        return (11 if argv[0] == "dkms" else rc), out, err

    assert driver.build(run, OTHER, VERSION, False)


def test_in_check_mode_nothing_is_built_or_loaded(machine: Machine) -> None:
    assert driver.build(machine.run, OTHER, VERSION, True)
    assert driver.load(machine.run, VERSION, machine.root, True)
    assert machine.changing() == []


@pytest.mark.parametrize(("rc", "builds"), [(10, VERSION), (0, "525.60.13")])
def test_a_driver_that_is_not_made_names_the_kernel_and_the_log(
    machine: Machine, rc: int, builds: str
) -> None:
    machine.rc, machine.builds = rc, builds
    with pytest.raises(driver.DriverError) as error:
        driver.build(machine.run, OTHER, VERSION, False)
    assert OTHER in str(error.value)
    assert f"/var/lib/dkms/nvidia/{VERSION}/build/make.log" in str(error.value)


def test_the_driver_is_loaded_once_with_what_cuda_opens(machine: Machine) -> None:
    assert driver.load(machine.run, VERSION, machine.root, False)
    assert machine.calls == [["modprobe", "nvidia"], ["modprobe", "nvidia-uvm"]]
    machine.loaded(VERSION)
    assert driver.load(machine.run, VERSION, machine.root, False) == []


def test_another_driver_at_work_asks_for_a_reboot(machine: Machine) -> None:
    machine.loaded("525.60.13")
    with pytest.raises(driver.DriverError, match=r"525\.60\.13 is loaded .* reboot this node"):
        driver.load(machine.run, VERSION, machine.root, False)
    assert machine.calls == []


def test_a_module_that_the_kernel_refuses_names_secure_boot(machine: Machine) -> None:
    machine.rc = 1
    with pytest.raises(driver.DriverError, match="Secure Boot"):
        driver.load(machine.run, VERSION, machine.root, False)


def test_what_is_loaded_is_told_so_that_an_upgrade_knows_whether_to_restart(
    machine: Machine,
) -> None:
    assert driver.loaded_version(machine.root) == ""
    machine.loaded("525.60.13")
    assert driver.loaded_version(machine.root) == "525.60.13"


@pytest.mark.parametrize(
    ("loaded", "files", "fault"),
    [
        ("", ["boot/vmlinuz-5.15.0-139-generic"], ""),
        ("535.183.06", ["boot/vmlinuz-5.15.0-139-generic"], ""),
        ("525.60.13", ["boot/vmlinuz-5.15.0-139-generic"], "kernel 5.15.0-139-generic of another"),
        (
            "525.60.13",
            [
                "boot/vmlinuz-5.4.0-216-generic",
                "var/lib/dkms/nvidia/535.183.06/5.4.0-150-generic/x86_64/module/nvidia.ko",
            ],
            "dkms has not built nvidia for 5.4.0-216-generic",
        ),
        ("525.60.13", ["boot/initrd.img-5.4.0-99-generic"], "initrd.img-5.4.0-150-generic is"),
        ("525.60.13", [], ""),
    ],
)
def test_a_node_does_not_restart_for_a_driver_that_it_would_not_come_up_with(
    tmp_path: Path, loaded: str, files: list[str], fault: str
) -> None:
    for name in ("proc/sys/kernel/osrelease", "boot/vmlinuz-5.4.0-150-generic", *files):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("5.4.0-150-generic\n" if "osrelease" in name else "")
    if not fault:
        driver.require_boot(tmp_path, loaded, "535.183.06")
        return
    with pytest.raises(driver.DriverError, match=fault):
        driver.require_boot(tmp_path, loaded, "535.183.06")
