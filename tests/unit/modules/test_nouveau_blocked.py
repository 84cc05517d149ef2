"""Nouveau is blocked for every boot, unloaded now, and said to be in use when it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.modules.loading import load

nouveau = load("nouveau_blocked", role="gpu_node")


class Machine:
    """Answers modprobe and update-initramfs."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)
        self.rc = 0
        self.calls: list[list[str]] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        self.calls.append(argv)
        return self.rc, "", "Module nouveau is in use." if self.rc else ""

    def load(self) -> None:
        Path(self.root + nouveau.LOADED).mkdir(parents=True)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(nouveau.shutil, "which", lambda name: f"/usr/sbin/{name}")
    return Machine(tmp_path)


def test_the_drop_in_is_written_once_and_the_ram_disks_renewed(machine: Machine) -> None:
    assert nouveau.block(machine.run, machine.root, False)
    text = Path(machine.root + nouveau.DROP_IN).read_text()
    assert "\nblacklist nouveau\noptions nouveau modeset=0\n" in text
    assert machine.calls == [["/usr/sbin/update-initramfs", "-u", "-k", "all"]]
    assert nouveau.block(machine.run, machine.root, False) == []


def test_ram_disks_that_could_not_be_renewed_are_tried_again(machine: Machine) -> None:
    machine.rc = 1
    with pytest.raises(nouveau.InUse, match="update-initramfs failed"):
        nouveau.block(machine.run, machine.root, False)
    machine.rc = 0
    assert nouveau.block(machine.run, machine.root, False)


def test_a_machine_without_ram_disks_needs_none(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nouveau.shutil, "which", lambda _name: None)
    assert nouveau.block(machine.run, machine.root, False)
    assert machine.calls == []


def test_a_loaded_module_is_unloaded(machine: Machine) -> None:
    assert nouveau.unload(machine.run, machine.root, False) == []
    machine.load()
    assert nouveau.unload(machine.run, machine.root, False) == ["nouveau is unloaded"]
    assert machine.calls == [["modprobe", "-r", "nouveau"]]


def test_a_module_in_use_is_a_reason_to_reboot(machine: Machine) -> None:
    machine.load()
    machine.rc = 1
    with pytest.raises(nouveau.InUse, match=r"in use.*reboot this node"):
        nouveau.unload(machine.run, machine.root, False)


def test_check_mode_changes_nothing(machine: Machine) -> None:
    machine.load()
    assert nouveau.block(machine.run, machine.root, True)
    assert nouveau.unload(machine.run, machine.root, True)
    assert machine.calls == []
    assert not Path(machine.root + nouveau.DROP_IN).exists()
