"""What people and kills do to the environments: no dead end, no lie, nothing of another user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.tool import making
from appliance.adapters.tool import place as place_module
from appliance.adapters.tool.environment import RECEIPT, read_receipt
from appliance.builder.wheel_needs import requirements
from appliance.errors import BundleRefused, CommandFailed, Refused
from appliance.model.bundle.tool import unfit_wheels
from appliance.workflows.self.upgrade import go_back
from tests.unit.tool.machine import HERE, NEW, OLD, Killed, Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(place_module, "__version__", OLD)
    return Machine(tmp_path)


def test_a_kill_while_a_half_environment_is_removed_leaves_one_that_is_known(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The receipt says that the folder is ours: it goes last."""
    machine.dies_at = 4
    with pytest.raises(Killed):
        machine.upgrade()
    machine.dies_at = 0
    half = machine.folder / "tool-0.2.0"
    (half / "zlib").mkdir()
    removed: list[str] = []
    unlink, rmtree = os.unlink, shutil.rmtree

    def killed(path: Any, *args: Any, **more: Any) -> None:
        removed.append(Path(path).name)
        if len(removed) == 3:
            raise Killed(path)
        unlink(path, *args, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", killed)
        patch.setattr(shutil.rmtree, "avoids_symlink_attacks", rmtree.avoids_symlink_attacks)
        with pytest.raises(Killed):
            machine.upgrade()
    assert RECEIPT not in removed
    assert read_receipt(half) is not None
    machine.upgrade()
    assert machine.in_use() == NEW
    assert machine.launcher.resolve().parent.parent == half


def test_a_new_version_that_was_removed_by_hand_is_made_again_with_a_way_back(
    machine: Machine,
) -> None:
    """The launcher leads nowhere; the person types the kept program of the present version."""
    machine.upgrade()
    shutil.rmtree(machine.folder / "tool-0.2.0")
    offer = machine.offer()
    from_old = machine.environment(machine.tool)
    machine_place = place_module.Environments(from_old, offer, machine.notes.append, machine.run)
    with machine_place.held():
        new = machine_place.prepare()
        machine_place.make(new)
        machine_place.switch(new)
    assert machine.in_use() == NEW
    assert go_back(machine.place(None)).version == OLD
    assert machine.in_use() == OLD


def test_back_to_itself_is_refused_and_not_called_done(machine: Machine) -> None:
    machine.upgrade()
    receipt = machine.folder / "tool-0.2.0" / RECEIPT
    text = receipt.read_text().replace(
        str(machine.tool / "bin/appliance-0.1.0"), str(machine.folder / "tool-0.2.0/bin/appliance")
    )
    receipt.write_text(text)
    with pytest.raises(Refused, match="in use already, so there is no version to go back to"):
        go_back(machine.place(None))
    assert machine.in_use() == NEW


def test_back_twice_by_the_version_that_is_no_longer_typed_says_what_is_in_use(
    machine: Machine,
) -> None:
    machine.upgrade()
    place = machine.place(None)
    assert go_back(place).version == OLD
    assert go_back(place).version == OLD
    assert machine.in_use() == OLD


def test_a_whole_environment_that_no_longer_starts_is_not_the_end(machine: Machine) -> None:
    """Its Python was upgraded by the machine's package manager, or somebody removed files."""
    machine.upgrade()
    go_back(machine.place(None))
    whole = machine.folder / "tool-0.2.0"
    program = whole / "bin/appliance"
    machine.broken[program] = "bad interpreter"
    with pytest.raises(CommandFailed) as failed:
        machine.upgrade()
    assert f"mv {whole} " in str(failed.value.hint)
    whole.rename(machine.folder / "aside")
    machine.broken.clear()
    assert machine.upgrade().outcome == "switched"
    assert machine.in_use() == NEW


def test_root_does_not_upgrade_the_tool_of_a_user(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user could exchange what root starts, and could not upgrade it any more."""
    if os.geteuid() == 0:
        os.chown(machine.tool / "bin", 12345, 12345)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    machine.offer()
    with pytest.raises(Refused, match="belongs to another user, and this is root") as refused:
        machine.upgrade()
    assert "sudo -u" in str(refused.value.hint)
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("*tool-*"))


def test_others_may_start_what_somebody_with_a_strict_umask_made(machine: Machine) -> None:
    before = os.umask(0o077)
    try:
        machine.upgrade()
        assert os.umask(0o077) == 0o077, "the caller's own umask is as before"
    finally:
        os.umask(before)
    for path in (machine.folder / "tool-0.2.0").rglob("*"):
        if path.name != RECEIPT:
            assert path.stat().st_mode & 0o044 == 0o044, path


def test_what_a_kill_left_before_the_receipt_was_whole_is_removed(machine: Machine) -> None:
    left = machine.folder / ".tool-0.2.0.abcd"
    left.mkdir()
    (left / f".{RECEIPT}.x1.new").write_text("{")
    theirs = machine.folder / ".tool-0.2.0.mine"
    theirs.mkdir()
    (theirs / "thesis.tex").write_text("years")
    machine.upgrade()
    assert not left.exists()
    assert (theirs / "thesis.tex").read_text() == "years"
    assert making.is_whole(machine.folder / "tool-0.2.0", NEW, machine.offer().digest)


@pytest.mark.parametrize(
    "version", ["3.11/../../media/stick/python", "/media/stick/python", "3.x", "2.7", "-c", "3."]
)
def test_a_bundle_does_not_choose_which_program_is_started(machine: Machine, version: str) -> None:
    """A dry run starts the Pythons that an unsigned manifest names."""
    with pytest.raises(BundleRefused, match="is no version of Python"):
        machine.offer(pythons=(HERE, version))
    assert not machine.started


def test_a_wheel_for_no_python_at_all_is_only_unfit() -> None:
    wheels = ["odd-1-cp3x-abi3-any.whl", "odder-1-cp3-abi3-linux_x86_64.whl"]
    assert unfit_wheels(wheels, "3.11", ()) == (wheels[1],)


@pytest.mark.parametrize(
    "line",
    [
        "--index-url https://elsewhere.example/simple",
        "-r /etc/passwd",
        "appliance @ file:///media/stick/other.whl --hash=sha256:" + "0" * 64,
        "appliance==0.2.0",
        "appliance==0.2.0 --config-settings=a=b --hash=sha256:" + "0" * 64,
        "appliance==0.2.0 \\",
    ],
)
def test_a_list_of_wheels_that_gives_pip_another_order_is_refused(
    machine: Machine, line: str
) -> None:
    """Options in the list overrule those of the command line, as --no-index."""
    offer = machine.offer(requirements_end=line)
    with pytest.raises(BundleRefused, match=r"requirements\.txt:2 is not a wheel with its digest"):
        machine.upgrade(offer)
    assert not [words for words in machine.started if "install" in words]
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("*tool-*"))


def test_what_a_build_writes_is_a_plain_list(tmp_path: Path) -> None:
    """With markers, several digests and local versions."""
    names = [
        "b_c-1.0+cu_1-py3-none-any.whl",
        "a-1-cp311-cp311-manylinux_2_17_x86_64.whl",
        "a-1-cp312-cp312-manylinux_2_17_x86_64.whl",
        "z.y-2.0rc1-py3-none-any.whl",
    ]
    listed = tmp_path / "requirements.txt"
    listed.write_text(requirements(dict.fromkeys(names, "0" * 64)))
    making._require_plain(listed)
    assert " ; python_version" in listed.read_text()
