"""``bundle build`` and the keys of package archives: what is refused, and where keys come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.builder import archive_keys, fetch
from appliance.cli.exits import run
from appliance.model.programs import Use
from tests.prerequisites import require_for
from tests.unit.bundle.keyrings import FINGERPRINT, KEY

Capture = pytest.CaptureFixture[str]
BUILD = ["bundle", "build", "--release", "k8s-1.23.5-r1", "--os", "ubuntu-20.04"]


# The archives of its driver, and of its container toolkit.
OF_NVIDIA = "--keyring a4b469963bf863cc.gpg --keyring ddcae044f796ecb0.gpg"


@pytest.fixture
def builder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A builder with an empty folder of keyrings, whose own archives have no package of keys."""
    require_for(Use.BUILD)
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(archive_keys, "PLACES", (str(tmp_path / "keyrings"),))
    monkeypatch.setattr(archive_keys, "_packages_here", lambda _names: frozenset())
    monkeypatch.setattr(fetch, "running_system", lambda: "debian-12")
    (tmp_path / "keyrings").mkdir()
    return tmp_path


def test_without_keys_the_refusal_shows_where_to_get_each_file(
    builder: Path, capsys: Capture
) -> None:
    assert run([*BUILD, str(builder / "b")]) == 3
    said = capsys.readouterr().err
    for text in (
        "F6ECB3762474EDA9D21B7022871920D1991BC93C",
        "9DC858229FC7DD38854AE2D88D81803C0EBFCD88",
        "curl -fsSL -o 871920d1991bc93c.gpg http://archive.ubuntu.com/",
        "curl -fsSL -o 8d81803c0ebfcd88.gpg https://download.docker.com/",
        f"looked for in: {builder / 'keyrings'}",
        f"hint: appliance bundle build {builder / 'b'} --release k8s-1.23.5-r1 --os ubuntu-20.04 "
        f"--keyring 871920d1991bc93c.gpg --keyring 8d81803c0ebfcd88.gpg {OF_NVIDIA}\n",
    ):
        assert text in said
    assert not (builder / "b").exists()


def test_a_builder_whose_archives_have_a_package_of_keys_is_told_its_name(
    builder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_keys, "_packages_here", lambda names: names & {"ubuntu-keyring"})
    assert run([*BUILD, str(builder / "b")]) == 3
    said = capsys.readouterr().err
    assert "sudo apt-get install ubuntu-keyring" in said
    assert f"--os ubuntu-20.04 --keyring 8d81803c0ebfcd88.gpg {OF_NVIDIA}\n" in said


def test_a_builder_that_runs_another_system_needs_the_controller_images_keys_too(
    builder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "running_system", lambda: "ubuntu-24.04")
    assert run([*BUILD, str(builder / "b")]) == 3
    said = capsys.readouterr().err
    assert "lacks the signing keys of 7 package archives" in said
    assert "B8B80B5B623EAB6AD8775C45B7C5D7D6350947F8" in said


def test_a_keyring_without_a_key_of_the_release_is_refused_by_its_fingerprints(
    builder: Path, capsys: Capture
) -> None:
    ring = builder / "other.gpg"
    ring.write_bytes(KEY)
    assert run([*BUILD, "--keyring", str(ring), str(builder / "b")]) == 3
    said = capsys.readouterr().err
    assert f"--keyring {ring} holds no key that the release names" in said
    assert f"it holds: {FINGERPRINT}" in said


def test_a_page_that_was_saved_as_a_keyring_is_refused(builder: Path, capsys: Capture) -> None:
    ring = builder / "page.gpg"
    ring.write_text("<html>404</html>")
    assert run([*BUILD, "--keyring", str(ring), str(builder / "b")]) == 3
    assert (
        f"--keyring {ring}: it is neither a binary nor an armoured keyring"
        in capsys.readouterr().err
    )


def test_a_keyring_that_is_not_there_is_refused(builder: Path, capsys: Capture) -> None:
    assert run([*BUILD, "--keyring", str(builder / "none.gpg"), str(builder / "b")]) == 3
    assert "does not exist" in capsys.readouterr().err


def test_what_was_typed_is_in_the_hint_and_foreign_keyrings_are_no_fault(
    builder: Path, capsys: Capture
) -> None:
    (builder / "keyrings" / "theirs.gpg").write_bytes(KEY)
    (builder / "keyrings" / "notes.gpg").write_bytes(b"no keyring")
    assert run([*BUILD, "--files", str(builder), "--standins", str(builder / "b")]) == 3
    assert f"--standins --files {builder} --keyring 871920d1991bc93c.gpg" in (
        capsys.readouterr().err
    )


def test_the_operands_of_a_lab_that_were_typed_are_in_the_hint(
    builder: Path, capsys: Capture
) -> None:
    assert run([*BUILD, "--standins", "--gpu-operands", "nvidia", str(builder / "b")]) == 3
    assert "--standins --gpu-operands nvidia --keyring" in capsys.readouterr().err
