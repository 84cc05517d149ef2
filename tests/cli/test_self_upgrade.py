"""``appliance self upgrade``: its plan, its question, its end, and where it is refused."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.signature import SshSigner
from appliance.adapters.tool import environment, place
from appliance.cli.exits import run
from tests.site_cases import copy_of_good
from tests.unit.bundle.signing import allow, make_key
from tests.unit.tool.machine import NEW, OLD, Machine

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    for name in ("APPLIANCE_OUTPUT", "APPLIANCE_ALLOWED_SIGNERS", "APPLIANCE_DRY_RUN"):
        monkeypatch.delenv(name, raising=False)
    found = Machine(tmp_path)
    found.offer()
    whole = shutil.disk_usage("/")._replace(free=12_000_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: whole)
    monkeypatch.setattr(place, "__version__", OLD)
    monkeypatch.setattr(environment, "this_environment", lambda *_: found.environment())
    original = place.Environments

    def environments(here: Any, offer: Any, note: Any) -> place.Environments:
        return original(here, offer, note, found.run)

    monkeypatch.setattr(place, "Environments", environments)
    return found


def upgrade(machine: Machine, *words: str) -> int:
    return run(["self", "upgrade", "--bundle", str(machine.folder / "bundle"), *words])


def test_an_upgrade_is_shown_made_and_taken_back(machine: Machine, capsys: Capture) -> None:
    assert upgrade(machine, "--dry-run") == 0
    assert machine.in_use() == OLD
    site = str(copy_of_good(machine.folder / "rack7"))
    assert upgrade(machine, "--site", site, "--yes", "--unsigned") == 0
    assert machine.in_use() == NEW
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr(place, "__version__", NEW)
        assert upgrade(machine, "--yes", "--unsigned") == 0
        assert run(["self", "upgrade", "--back", "--dry-run"]) == 0
        assert machine.in_use() == NEW
        assert run(["self", "upgrade", "--back", "--yes"]) == 0
    assert machine.in_use() == OLD
    assert "way back: appliance self upgrade --back" in capsys.readouterr().out


def test_json_says_the_same_before_and_after(machine: Machine, capsys: Capture) -> None:
    assert upgrade(machine, "--dry-run", "--output", "json") == 0
    planned = json.loads(capsys.readouterr().out)
    assert upgrade(machine, "--unsigned", "--yes", "--output", "json") == 0
    done = json.loads(capsys.readouterr().out)
    assert (planned.pop("outcome"), done.pop("outcome")) == ("planned", "switched")
    assert planned == done
    assert done["new"]["version"] == NEW
    assert done["program"] == str(machine.launcher)


def test_without_a_terminal_it_is_refused_before_the_first_change(
    machine: Machine, capsys: Capture
) -> None:
    assert upgrade(machine, "--unsigned") == 3
    assert "confirmation needed" in capsys.readouterr().err
    assert not list(machine.folder.glob("tool-*"))


def test_yes_alone_accepts_no_bundle_that_nobody_signed(machine: Machine, capsys: Capture) -> None:
    assert upgrade(machine, "--yes") == 3
    said = capsys.readouterr().err
    assert "found its signature none, expected one by an allowed signer" in said
    assert "--unsigned" in said
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("tool-*"))


def test_a_bundle_that_no_allowed_signer_signed_is_refused(
    machine: Machine, capsys: Capture
) -> None:
    ada, bob = make_key(machine.folder, "ada"), make_key(machine.folder, "bob")
    signers = str(allow(machine.folder / "signers", ada=ada))
    assert upgrade(machine, "--allowed-signers", signers, "--yes") == 3
    SshSigner(machine.folder / "bundle", bob).sign()
    assert upgrade(machine, "--allowed-signers", signers, "--yes") == 3
    site = copy_of_good(machine.folder / "rack7")
    settings = site / "group_vars/all/site.yml"
    settings.write_text(settings.read_text() + f"bundle_signers: {signers}\n")
    assert upgrade(machine, "--site", str(site), "--yes") == 3
    assert machine.in_use() == OLD
    assert not list(machine.folder.glob("tool-*"))
    capsys.readouterr()
    SshSigner(machine.folder / "bundle", ada).sign()
    assert upgrade(machine, "--site", str(site), "--dry-run") == 0
    assert "signature: good, by ada@example" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--back", "--bundle", "B"], "--back and --bundle exclude each other"),
        (["--back", "--downgrade-to", "0.1.0"], "--back and --downgrade-to exclude each other"),
        ([], "give --bundle DIR, or --back"),
        (["--back", "--unsigned"], "--back and --unsigned exclude each other"),
    ],
)
def test_what_contradicts_itself_is_a_usage_error(
    words: list[str], says: str, capsys: Capture
) -> None:
    assert run(["self", "upgrade", *words]) == 2
    assert says in capsys.readouterr().err


def test_an_earlier_version_has_to_be_named(machine: Machine, capsys: Capture) -> None:
    machine.offer("0.0.9", "older")
    words = ["self", "upgrade", "--bundle", str(machine.folder / "older"), "--yes"]
    assert run(words) == 3
    assert "--downgrade-to 0.0.9" in capsys.readouterr().err
    assert run([*words, "--downgrade-to", "0.0.9", "--unsigned"]) == 0
    assert machine.in_use() == "0.0.9"


def test_the_image_is_told_how_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    monkeypatch.setattr(environment, "CONTROLLER_MARK", mark)
    bundle = Machine(tmp_path).offer().directory
    assert run(["self", "upgrade", "--bundle", str(bundle), "--yes"]) == 3
    said = capsys.readouterr().err
    assert "runs from its container image" in said
    assert f"docker load -i {bundle}/controller/appliance-controller.tar" in said


def test_a_source_tree_is_brought_up_to_date_by_git(tmp_path: Path, capsys: Capture) -> None:
    bundle = Machine(tmp_path).offer().directory
    assert run(["self", "upgrade", "--bundle", str(bundle), "--yes"]) == 3
    assert "runs from the source tree" in capsys.readouterr().err


@pytest.mark.parametrize("how", ["the machine's", "another's", "no program"])
def test_an_installation_without_an_environment_of_its_own_is_refused(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    package = tmp_path / "own/lib/python3.11/site-packages/appliance"
    monkeypatch.setattr(environment, "find_content_root", lambda: package / "_content")
    monkeypatch.setattr(environment, "PACKAGE", package)
    prefix = tmp_path / ("elsewhere" if how == "another's" else "own")
    monkeypatch.setattr(sys, "prefix", str(prefix))
    monkeypatch.setattr(sys, "base_prefix", str(prefix if how == "the machine's" else tmp_path))
    bundle = Machine(tmp_path).offer().directory
    assert run(["self", "upgrade", "--bundle", str(bundle), "--yes"]) == 3
    said = capsys.readouterr().err
    assert "not in a virtual environment of its own" in said
    assert "install-the-tool-offline" in said
