"""``appliance bundle sign``, and what the other commands say of a signature."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.errors import ConfigError
from tests.site_cases import copy_of_good
from tests.unit.bundle.signing import allow, make_key
from tests.unit.bundle.test_bundle_directory import Maker

Capture = pytest.CaptureFixture[str]


@dataclass
class Desk:
    """A bundle, a key that may sign it and one that may not."""

    bundle: str
    ada: str
    bob: str
    allowed: str

    def json(self, *words: str, capsys: Capture, code: int = 0) -> dict[str, object]:
        capsys.readouterr()
        assert run(["bundle", *words, "-o", "json", self.bundle]) == code
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "bundle")
    maker.make()
    ada, bob = make_key(tmp_path, "ada"), make_key(tmp_path, "bob")
    allowed = allow(tmp_path / "allowed_signers", ada=ada)
    return Desk(str(maker.directory), str(ada), str(bob), str(allowed))


def test_show_names_the_signer_of_a_signed_bundle(desk: Desk, capsys: Capture) -> None:
    assert run(["bundle", "sign", "--key", desk.ada, desk.bundle]) == 0
    shown = capsys.readouterr()
    assert f"signed: {desk.bundle}/manifest.json.sig" in shown.out
    assert "replaced: False" in shown.out
    assert "checking every byte" in shown.err
    for verb in ("verify", "show"):
        assert run(["bundle", verb, "--allowed-signers", desk.allowed, desk.bundle]) == 0
        assert "signature: good, by ada@example (ED25519 SHA256:" in capsys.readouterr().out
        assert run(["bundle", verb, desk.bundle]) == 0
        out = capsys.readouterr().out
        assert "signature: present, not checked (pass --allowed-signers)" in out


def test_show_reports_a_missing_signature(desk: Desk, capsys: Capture) -> None:
    for verb in ("verify", "show"):
        assert run(["bundle", verb, desk.bundle]) == 0
        assert "signature: none\n" in capsys.readouterr().out


def test_verify_reports_the_signature_and_the_other_faults(desk: Desk, capsys: Capture) -> None:
    assert run(["bundle", "sign", "--key", desk.bob, desk.bundle]) == 0
    (Path(desk.bundle) / "bin/tool").write_bytes(b"looT")
    capsys.readouterr()
    assert run(["bundle", "verify", "--allowed-signers", desk.allowed, desk.bundle]) == 5
    err = capsys.readouterr().err
    assert "is damaged: 2 faults" in err
    assert "bin/tool: sha256" in err
    assert "manifest.json.sig: made with the key ED25519" in err
    assert "hint: appliance bundle build" in err


def test_verify_refuses_a_complete_bundle_without_an_allowed_signature(
    desk: Desk, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APPLIANCE_ALLOWED_SIGNERS", desk.allowed)
    assert run(["bundle", "verify", desk.bundle]) == 5
    err = capsys.readouterr().err
    assert "is complete, but not signed by an allowed signer: 1 fault\n" in err
    assert "manifest.json.sig: missing" in err
    assert "hint: let an allowed signer sign it: appliance bundle sign --key FILE" in err


def test_json_has_the_state_of_the_signature(desk: Desk, capsys: Capture) -> None:
    empty = {"signer": None, "key": None, "fault": None}
    for verb in ("verify", "show"):
        assert desk.json(verb, capsys=capsys)["signature"] == {"state": "none", **empty}
    found = desk.json("verify", "--allowed-signers", desk.allowed, capsys=capsys, code=5)
    fault = "manifest.json.sig: missing: this bundle is not signed"
    assert found["signature"] == {**empty, "state": "missing", "fault": fault}
    assert found["faults"] == [fault]
    signed = desk.json("sign", "--key", desk.ada, capsys=capsys)
    assert set(signed) == {"bundle", "digest", "signed", "replaced"}
    found = desk.json("verify", "--allowed-signers", desk.allowed, capsys=capsys)
    assert found["signature"] == {
        **empty, "state": "good", "signer": "ada@example", "key": found["signature"]["key"],  # type: ignore[index]
    }  # fmt: skip


def test_wrong_words_and_paths_come_before_reading_the_bundle(desk: Desk, capsys: Capture) -> None:
    assert run(["bundle", "sign", desk.bundle]) == 2
    assert "Missing option '--key'" in capsys.readouterr().err
    assert run(["bundle", "verify", "--allowed-signers", "/nowhere", desk.bundle]) == 3
    assert "does not exist" in capsys.readouterr().err


def _site(tmp_path: Path, desk: Desk) -> Path:
    directory = copy_of_good(tmp_path / "rack7")
    path = directory / "group_vars/all/site.yml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("# bundle_signers: null", f"bundle_signers: {desk.allowed}"))
    return directory


def test_a_site_that_names_signers_checks_the_bundle_at_hand(desk: Desk, tmp_path: Path) -> None:
    site, bundle = _site(tmp_path, desk), Path(desk.bundle)
    for key, state in ((None, "missing"), (desk.bob, "wrong"), (desk.ada, "good")):
        if key:
            assert run(["bundle", "sign", "--key", key, desk.bundle]) == 0
        signature = Application().connect(site, bundle).desired.signature
        assert signature is not None
        assert signature.state == state
    assert Application().connect(site).desired.signature is None


def test_a_site_without_signers_accepts_any_bundle(desk: Desk, tmp_path: Path) -> None:
    site = copy_of_good(tmp_path / "rack7")
    assert Application().connect(site, Path(desk.bundle)).desired.signature is None


def test_a_missing_signers_file_is_a_fault_of_the_site(desk: Desk, tmp_path: Path) -> None:
    site = _site(tmp_path, desk)
    Path(desk.allowed).unlink()
    with pytest.raises(ConfigError) as refused:
        Application().connect(site, Path(desk.bundle))
    assert "does not exist" in refused.value.details[0]
