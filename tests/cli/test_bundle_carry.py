"""``bundle have``, ``build --without``, ``build --parts`` and ``bundle join``, as typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.have import read_have
from appliance.adapters.local.cache import Cache
from appliance.builder.build import BuildResult
from appliance.cli.app import Application
from appliance.cli.commands.bundle import parts
from appliance.cli.exits import run
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.signature import Signature
from tests import samples
from tests.site_cases import copy_of_good
from tests.unit.bundle.test_bundle_directory import Maker
from tests.unit.bundle.test_delta import Deltas

Capture = pytest.CaptureFixture[str]
BUILD = ["bundle", "build", "--release", "r1", "--os", "debian-12"]


@pytest.fixture
def base(tmp_path: Path) -> Maker:
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "base")
    maker.files = {"bin/same": b"same" * 400_000}
    maker.make()
    return maker


@pytest.fixture
def delta(base: Maker, tmp_path: Path) -> Deltas:
    maker = Deltas(base.cache, tmp_path / "delta")
    maker.files, maker.tool = base.files, b"newer tool" * 40_000
    found = BundleDirectory(base.directory)
    maker.without = HaveList.of(found.manifest, found.digest)
    maker.make()
    return maker


@pytest.fixture
def built(base: Maker, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """A build that writes the small bundle of the tests; its arguments."""
    asked: list[dict[str, object]] = []

    def build(_name: str, _os_name: str, directory: Path, **more: object) -> BuildResult:
        maker = Deltas(base.cache, directory)
        maker.files, maker.tool = base.files, b"newer tool" * 40_000
        without = more["without"]
        if isinstance(without, Path):
            maker.without = read_have(without)
        asked.append(more)
        digest = maker.make()
        found = BundleDirectory(directory)
        return BuildResult(digest, found.manifest, {}, tuple(sorted(found.elsewhere)))

    monkeypatch.setattr(parts, "build", build)
    monkeypatch.setattr(parts, "signature_of", lambda _directory: Signature("none"))
    return asked


def test_have_lists_a_bundle_by_its_digests(base: Maker, tmp_path: Path, capsys: Capture) -> None:
    assert run(["bundle", "have", str(base.directory), "--out", str(tmp_path / "have.json")]) == 0
    held = HaveList.parse((tmp_path / "have.json").read_bytes(), "LIST")
    assert held.bundle == BundleDirectory(base.directory).digest
    assert capsys.readouterr().out == ""
    assert run(["bundle", "have", str(base.directory)]) == 0
    assert HaveList.parse(capsys.readouterr().out.encode(), "LIST") == held


def test_have_asks_a_site_for_its_mirror(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    desired = samples.desired()

    class Connected:
        def load_inventory(self) -> object:
            return desired

    monkeypatch.setattr(Application, "connect", lambda *_: Connected())
    site = copy_of_good(tmp_path / "site")
    assert run(["bundle", "have", "--site", str(site)]) == 0
    assert json.loads(capsys.readouterr().out)["bundle"] == desired.bundle_digest


@pytest.mark.parametrize("words", [[], ["--site", ".", "."]], ids=["neither", "both"])
def test_have_wants_a_directory_or_a_site(words: list[str], capsys: Capture) -> None:
    assert run(["bundle", "have", *words]) == 2
    assert "give either DIR or --site SITE" in capsys.readouterr().err


def test_a_delta_is_never_called_complete(delta: Deltas, capsys: Capture) -> None:
    assert run(["bundle", "verify", str(delta.directory)]) == 0
    said = capsys.readouterr().out
    assert "delta: against " in said
    assert "4 files, 1.6 MB are expected at the site" in said
    assert "complete" not in said
    assert run(["bundle", "verify", "-o", "json", str(delta.directory)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["delta"]["files"] == 4
    assert found["faults"] == []
    assert run(["bundle", "show", str(delta.directory)]) == 0
    assert "delta: against " in capsys.readouterr().out


def test_a_damaged_delta_is_built_again_with_its_list(delta: Deltas, capsys: Capture) -> None:
    (delta.directory / "bin/tool").unlink()
    assert run(["bundle", "verify", str(delta.directory)]) == 5
    said = capsys.readouterr().err
    assert "bin/tool: missing" in said
    assert f"--without LIST {delta.directory} repairs it" in said


def test_a_build_without_a_list_ends_with_the_share_of_the_delta(
    base: Maker, built: list[dict[str, object]], tmp_path: Path, capsys: Capture
) -> None:
    held = tmp_path / "have.json"
    assert run(["bundle", "have", str(base.directory), "--out", str(held)]) == 0
    capsys.readouterr()
    assert run([*BUILD, "--without", str(held), str(tmp_path / "next")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith("delta: against ")
    assert lines[-1] == "delta share of whole: 20 % (0.4 of 2.0 MB)"
    assert built[0]["without"] == held
    assert run([*BUILD, "--without", str(tmp_path / "no"), str(tmp_path / "next")]) == 3


def test_a_build_in_parts_says_where_they_are(
    built: list[dict[str, object]], tmp_path: Path, capsys: Capture
) -> None:
    assert run([*BUILD, "--parts", "1M", str(tmp_path / "next")]) == 0
    shown = capsys.readouterr()
    assert "parts: 3 files of at most 1 MB in " in shown.out
    assert "part 3 of 3: bundle-" in shown.err
    assert built[0]["part_bytes"] == 1_000_000
    (folder,) = tmp_path.glob("next-parts-*")
    assert len(list(folder.glob("bundle-*"))) == 3
    assert run([*BUILD, "--parts", "4", str(tmp_path / "next")]) == 2
    assert "is not a size: write 4G for FAT32" in capsys.readouterr().err


@pytest.mark.usefixtures("built")
def test_parts_are_verified_and_joined_stick_by_stick(tmp_path: Path, capsys: Capture) -> None:
    assert run([*BUILD, "--parts", "1M", str(tmp_path / "next")]) == 0
    (folder,) = tmp_path.glob("next-parts-*")
    stick = tmp_path / "stick1"
    folder.rename(stick)
    later = tmp_path / "stick2"
    later.mkdir()
    for path in stick.iterdir():
        if "-part-" not in path.name or "-part-2-" in path.name:
            (later / path.name).write_bytes(path.read_bytes())
    next(stick.glob("*-part-2-*")).unlink()
    assert run(["bundle", "verify", str(stick)]) == 0
    said = capsys.readouterr().out
    assert "here: 1, 3" in said
    assert "on other media: 2" in said
    assert run(["bundle", "show", str(stick)]) == 3
    assert "holds parts of a bundle, and not a bundle" in capsys.readouterr().err
    assert run(["bundle", "join", str(stick), "--to", str(tmp_path / "joined")]) == 1
    said = capsys.readouterr().err
    assert "2 of 3 parts are joined, missing: 2" in said
    assert f"appliance bundle join {stick} --to {tmp_path / 'joined'}" in said
    assert run(["bundle", "join", str(later), "--to", str(tmp_path / "joined")]) == 0
    assert run(["bundle", "verify", str(tmp_path / "joined")]) == 0
    capsys.readouterr()
    assert run(["bundle", "join", str(later), "--to", str(tmp_path / "joined"), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["joined"] == []


@pytest.mark.usefixtures("built")
def test_a_damaged_part_on_a_stick_is_found_before_it_leaves(
    tmp_path: Path, capsys: Capture
) -> None:
    assert run([*BUILD, "--parts", "1M", str(tmp_path / "next")]) == 0
    (folder,) = tmp_path.glob("next-parts-*")
    stick = folder.rename(tmp_path / "stick")
    part = next(stick.glob("*-part-2-*"))
    part.write_bytes(b"x" + part.read_bytes()[1:])
    assert run(["bundle", "verify", str(stick)]) == 5
    assert f"part 2 of 3, {part}: sha256 " in capsys.readouterr().err
    signers = tmp_path / "signers"
    signers.write_text("")
    assert (
        run(["bundle", "verify", "-o", "json", "--allowed-signers", str(signers), str(stick)]) == 5
    )
    faults = json.loads(capsys.readouterr().out)["faults"]
    assert "parts-manifest.json.sig: missing: this bundle is not signed" in faults


def test_what_is_no_medium_of_parts_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    words = ["bundle", "join", str(tmp_path / "empty"), "--to", str(tmp_path / "joined")]
    assert run(words) == 3
    assert "holds no parts of a bundle: it has no parts.json" in capsys.readouterr().err
