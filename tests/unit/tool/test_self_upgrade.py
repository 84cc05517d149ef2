"""The upgrade of this tool: refused whole, or switched at its end; killed anywhere, it heals."""

from __future__ import annotations

import dataclasses
import os
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from appliance.adapters.tool import place as place_module
from appliance.adapters.tool.environment import RECEIPT, read_receipt
from appliance.adapters.tool.switch import held
from appliance.errors import BundleRefused, CommandFailed, NotHealthy, Refused
from appliance.model.bundle.signature import Signature, SignatureState
from appliance.workflows.self.upgrade import go_back
from tests.unit.tool.machine import NEW, OLD, Killed, Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(place_module, "__version__", OLD)
    return Machine(tmp_path)


def tree(folder: Path) -> dict[str, bytes | str]:
    """Every file below a folder, links by their target."""
    return {
        str(path.relative_to(folder)): str(path.readlink())
        if path.is_symlink()
        else path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def test_the_new_version_is_beside_the_old_one_and_is_typed(machine: Machine) -> None:
    done = machine.upgrade()
    assert done.outcome == "switched"
    assert machine.in_use() == NEW
    assert machine.launcher.readlink() == Path("../../tool-0.2.0/bin/appliance")
    assert (machine.tool / "bin/appliance-0.1.0").read_text() == f"{OLD}\n"
    assert not list(machine.folder.glob("tool-0.2.0/wheels-*"))
    assert machine.place(None).present().folder == machine.folder / "tool-0.2.0"


def test_pip_reads_only_copies_with_their_digests_and_no_network(machine: Machine) -> None:
    offer = machine.offer()
    machine.upgrade(offer)
    (install,) = (words for words in machine.started if "install" in words)
    assert {"--no-index", "--require-hashes"} <= set(install)
    assert not [word for word in install if word.startswith(str(offer.directory))]


def test_a_plan_changes_nothing(machine: Machine) -> None:
    machine.offer()
    before = tree(machine.folder)
    done = machine.upgrade(dry_run=True)
    assert done.outcome == "planned"
    assert done.new is not None
    assert done.new.needed_bytes > 0
    assert tree(machine.folder) == before


def test_the_same_version_is_nothing_to_do(machine: Machine) -> None:
    assert machine.upgrade(machine.offer(OLD)).outcome == "nothing to do"
    assert machine.in_use() == OLD


@pytest.mark.parametrize("state", ["none", "unchecked"])
def test_a_bundle_that_nobody_vouches_for_has_to_be_accepted_by_name(
    machine: Machine, state: SignatureState
) -> None:
    signature = Signature(state)
    with pytest.raises(BundleRefused) as refused:
        machine.upgrade(signature=signature, unsigned=False)
    assert refused.value.exit_code == 3
    assert "--unsigned" in str(refused.value.hint)
    assert machine.in_use() == OLD
    assert machine.upgrade(signature=signature, unsigned=False, dry_run=True).outcome == "planned"
    assert machine.upgrade(signature=signature, unsigned=True).outcome == "switched"


def test_a_good_signature_needs_no_further_word_and_a_wrong_one_no_word_helps(
    machine: Machine,
) -> None:
    with pytest.raises(BundleRefused):
        machine.upgrade(signature=Signature("wrong", fault="another key"), unsigned=True)
    good = Signature("good", "ada@example", "ED25519 SHA256:x", text="sig")
    assert machine.upgrade(signature=good, unsigned=False).outcome == "switched"


class Refusal(NamedTuple):
    says: str
    error: type[Exception] = Refused


def _unsigned(_: Machine) -> dict[str, Any]:
    return {"signature": Signature("missing", fault="manifest.json.sig: missing")}


def _earlier(machine: Machine) -> dict[str, Any]:
    return {"offer": machine.offer("0.0.9")}


def _another_than_named(_: Machine) -> dict[str, Any]:
    return {"downgrade_to": "0.0.9"}


def _another_python(machine: Machine) -> dict[str, Any]:
    return {"offer": machine.offer(pythons=("3.99",))}


def _without_venv(machine: Machine) -> dict[str, Any]:
    machine.without_venv = True
    return {}


def _in_the_way(machine: Machine) -> dict[str, Any]:
    digest = machine.offer().digest[:8]
    for name in ("tool-0.2.0", f"tool-0.2.0-{digest}"):
        (machine.folder / name).mkdir()
        (machine.folder / name / "thesis.tex").touch()
    return {}


def _no_answer(_: Machine) -> dict[str, Any]:
    return {"confirm": lambda _plan: False}


def _no_wheel(machine: Machine) -> dict[str, Any]:
    offer = machine.offer()
    (offer.directory / offer.tool.wheels[0].path).unlink()
    return {"offer": offer}


@pytest.mark.parametrize(
    ("case", "refusal"),
    [
        (_unsigned, Refusal("missing", BundleRefused)),
        (_earlier, Refusal("carries appliance 0.0.9, and this is 0.1.0")),
        (_another_than_named, Refusal("carries appliance 0.2.0, not 0.0.9")),
        (_another_python, Refusal(r"for Python 3\.99")),
        (_without_venv, Refusal("has no venv")),
        (_in_the_way, Refusal("exists, and is no environment of this bundle")),
        (_no_answer, Refusal("not confirmed")),
        (_no_wheel, Refusal("not readable", BundleRefused)),
    ],
)
def test_what_cannot_be_is_refused_before_the_first_change(
    machine: Machine, case: Any, refusal: Refusal
) -> None:
    given = case(machine)
    machine.offer()
    before = tree(machine.folder)
    with pytest.raises(refusal.error, match=refusal.says):
        machine.upgrade(**given)
    assert tree(machine.folder) == before


def test_too_little_disk_is_refused_before_the_first_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = shutil.disk_usage("/")._replace(free=1 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: full)
    machine.offer()
    before = tree(machine.folder)
    with pytest.raises(Refused, match="has 1 MiB free, and the new environment needs"):
        machine.upgrade()
    assert tree(machine.folder) == before


def test_an_earlier_version_that_was_named_is_taken(machine: Machine) -> None:
    assert machine.upgrade(machine.offer("0.0.9"), downgrade_to="0.0.9").outcome == "switched"
    assert machine.in_use() == "0.0.9"


def test_a_wheel_that_was_changed_after_the_manifest_is_not_installed(machine: Machine) -> None:
    offer = machine.offer()
    path = offer.directory / offer.tool.wheels[0].path
    path.write_bytes(path.read_bytes() + b"x")
    with pytest.raises(BundleRefused, match="sha256"):
        machine.upgrade(offer)
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("*tool-0.2.0*"))
    assert not [words for words in machine.started if "install" in words]


def test_a_new_version_that_does_not_start_is_removed(machine: Machine) -> None:
    machine.broken[machine.folder / "tool-0.2.0/bin/appliance"] = "nonsense"
    with pytest.raises(CommandFailed, match=r"expected version 0\.2\.0"):
        machine.upgrade()
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("*tool-0.2.0*"))


def test_a_launcher_that_does_not_start_leads_back(machine: Machine) -> None:
    machine.broken[machine.launcher] = "nonsense"
    with pytest.raises(CommandFailed):
        machine.upgrade()
    assert machine.in_use() == OLD


def test_a_site_that_the_new_version_does_not_accept_stops_the_switch(
    machine: Machine, tmp_path: Path
) -> None:
    machine.faults = "error: site.yml:3: gpuu is not a known key"
    with pytest.raises(NotHealthy) as caught:
        machine.upgrade(sites=(tmp_path,))
    assert caught.value.details == (machine.faults,)
    assert machine.in_use() == OLD
    machine.faults = ""
    machine.started.clear()
    assert machine.upgrade(sites=(tmp_path,)).outcome == "switched"
    assert machine.in_use() == NEW
    assert not [words for words in machine.started if "install" in words], "it was whole already"


def _programs_of_an_upgrade(folder: Path) -> int:
    machine = Machine(folder)
    machine.upgrade(sites=(folder,))
    return len(machine.started)


def test_killed_before_any_program_the_same_command_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_module, "__version__", OLD)
    (tmp_path / "whole").mkdir()
    number = _programs_of_an_upgrade(tmp_path / "whole")
    assert number >= 7
    for dies_at in range(1, number + 1):
        folder = tmp_path / str(dies_at)
        folder.mkdir()
        machine = Machine(folder)
        machine.dies_at = dies_at
        with pytest.raises(Killed):
            machine.upgrade(sites=(folder,))
        assert machine.in_use() in (OLD, NEW), "what is typed is whole"
        machine.dies_at = 0
        if machine.in_use() == OLD:
            assert machine.upgrade(sites=(folder,)).outcome == "switched"
        assert machine.in_use() == NEW
        assert machine.place(None).go_back().version == OLD
        assert machine.in_use() == OLD


@pytest.mark.parametrize("name", ["_claim", "write_receipt"])
def test_killed_at_a_file_the_same_command_ends_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    from appliance.adapters.tool import making

    original = getattr(making, name)

    def killed(*args: Any, **more: Any) -> None:
        original(*args, **more)
        raise Killed(name)

    with monkeypatch.context() as patch:
        patch.setattr(making, name, killed)
        with pytest.raises(Killed):
            machine.upgrade()
    assert machine.in_use() == OLD
    machine.upgrade()
    assert machine.in_use() == NEW
    assert not list(machine.folder.glob(".tool*"))


def test_killed_between_the_second_name_and_the_switch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> None:
        raise Killed("switch")

    with monkeypatch.context() as patch:
        patch.setattr(place_module, "switch", killed)
        with pytest.raises(Killed):
            machine.upgrade()
    (machine.tool / "bin/.appliance.new").symlink_to("nowhere")
    assert machine.in_use() == OLD
    machine.upgrade()
    assert machine.in_use() == NEW
    assert not (machine.tool / "bin/.appliance.new").is_symlink()


def test_the_way_back_and_forth_and_on(machine: Machine) -> None:
    machine.upgrade()
    back = go_back(machine.place(None))
    assert (back.version, back.folder) == (OLD, machine.tool)
    assert machine.in_use() == OLD
    machine.started.clear()
    assert machine.upgrade().outcome == "switched"
    assert not [words for words in machine.started if "install" in words]
    later = machine.offer("0.3.0", "bundle3")
    assert machine.upgrade(later).outcome == "switched"
    assert machine.in_use() == "0.3.0"
    assert machine.folder / "tool-0.3.0" == machine.launcher.resolve().parent.parent
    assert go_back(machine.place(None)).version == NEW
    assert machine.in_use() == NEW


def test_an_earlier_one_that_is_gone_is_not_gone_back_to(machine: Machine) -> None:
    machine.upgrade()
    (machine.tool / "bin/appliance-0.1.0").write_text("nonsense\n")
    with pytest.raises(Refused, match="does not start"):
        go_back(machine.place(None))
    assert machine.in_use() == NEW


def test_without_an_upgrade_there_is_no_way_back(machine: Machine) -> None:
    with pytest.raises(Refused, match="no upgrade made the environment"):
        go_back(machine.place(None))


def test_two_bundles_with_one_version_get_two_environments(machine: Machine) -> None:
    machine.upgrade()
    go_back(machine.place(None))
    offer = machine.offer()
    other = dataclasses.replace(offer, digest="f" * 64)
    assert machine.upgrade(other).outcome == "switched"
    assert machine.launcher.resolve().parent.parent.name == "tool-0.2.0-ffffffff"


def test_one_upgrade_at_a_time(machine: Machine) -> None:
    with held(machine.launcher), pytest.raises(Refused, match="another upgrade"):
        machine.upgrade()
    assert machine.in_use() == OLD


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', "x" * 100_000, '{"version": 7}'])
def test_a_receipt_that_is_none_makes_no_folder_ours(machine: Machine, text: str) -> None:
    folder = machine.folder / "tool-0.2.0"
    folder.mkdir()
    (folder / RECEIPT).write_text(text)
    assert read_receipt(folder) is None
    assert machine.upgrade().outcome == "switched"
    assert (folder / RECEIPT).read_text() == text
    assert machine.in_use() == NEW


def test_a_folder_of_another_user_is_refused_before_the_first_change(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, _mode: Path(path) != machine.folder)
    machine.offer()
    before = tree(machine.folder)
    with pytest.raises(Refused, match="may not write into"):
        machine.upgrade()
    assert tree(machine.folder) == before
