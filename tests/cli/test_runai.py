"""``appliance runai inspect``: exit codes, words, and JSON keys."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from appliance.cli.exits import run
from tests.vendor_bundles import NAMES, tiny_bundle, without

Capture = pytest.CaptureFixture[str]
KEYS = [
    "file", "size", "sha256", "version", "generation", "kubernetes", "supported",
    "supported_range", "charts", "admin_cli", "helm", "crds", "script", "diagnostics", "images",
    "missing", "faults", "remarks", "needs_bytes",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))


def test_a_bundle_that_fits_is_shown(tmp_path: Path, capsys: Capture) -> None:
    assert run(["runai", "inspect", str(tiny_bundle("2.7.1", tmp_path))]) == 0
    shown = capsys.readouterr().out
    assert "values file, up to 2.8" in shown
    assert "yes: Kubernetes 1.23.5 runs Run:ai 2.4 to 2.8" in shown
    assert "runai-backend 2.7.1, runai-cluster 2.7.1" in shown


def test_the_keys_of_json_are_a_contract(tmp_path: Path, capsys: Capture) -> None:
    path = tiny_bundle("2.8.12", tmp_path, compressed=True)
    assert run(["runai", "inspect", "-o", "json", str(path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert (found["version"], found["supported"], found["missing"]) == ("2.8.12", True, [])
    assert found["charts"][0]["path"] == "deploy/runai-backend-2.8.12.tgz"
    assert len(found["images"]) == len(NAMES)
    assert set(found["needs_bytes"]) == {"unpack", "docker", "registry"}


@pytest.mark.parametrize("version", ["2.9.3", "2.10.4", "2.11.0", "2.17.3"])
def test_a_later_version_is_shown_and_refused(
    tmp_path: Path, capsys: Capture, version: str
) -> None:
    assert run(["runai", "inspect", "-o", "json", str(tiny_bundle(version, tmp_path))]) == 5
    shown = capsys.readouterr()
    assert json.loads(shown.out)["supported"] is False
    assert f"Kubernetes 1.23.5 runs Run:ai 2.4 to 2.8, not {version}" in shown.err
    assert "hint: ask the vendor for a bundle of Run:ai 2.4 to 2.8" in shown.err


def test_a_truncated_bundle_is_reported_in_one_sentence(tmp_path: Path, capsys: Capture) -> None:
    path = tiny_bundle("2.7.1", tmp_path)
    os.truncate(path, 20_000)
    assert run(["runai", "inspect", str(path)]) == 5
    error = capsys.readouterr().err
    assert f"{path.name} cannot be installed: the archive is truncated" in error
    assert "hint: compare its sha256" in error


def test_what_is_missing_is_listed(tmp_path: Path, capsys: Capture) -> None:
    path = without(tiny_bundle("2.7.1", tmp_path), "runai-cluster-2.7.1.tgz")
    assert run(["runai", "inspect", str(path)]) == 5
    shown = capsys.readouterr()
    assert "missing: the cluster's chart" in shown.out
    assert "it lacks the cluster's chart" in shown.err


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    assert run(["runai", "inspect", str(tmp_path / "none.tar")]) == 3


def test_of_a_file_that_is_no_archive_only_the_fault_is_said(
    tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "x.tar").write_bytes(b"<html>404</html>" * 100)
    assert run(["runai", "inspect", str(tmp_path / "x.tar")]) == 5
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: the vendor bundle x.tar cannot be installed: not a tar")


def test_an_unknown_release_is_refused(tmp_path: Path, capsys: Capture) -> None:
    words = ["runai", "inspect", "--release", "none", str(tiny_bundle("2.7.1", tmp_path))]
    assert run(words) == 3
    assert "none" in capsys.readouterr().err


@pytest.mark.parametrize("words", [[], ["README.md", "--abandon"]])
def test_an_upgrade_takes_either_a_file_or_the_word_that_drops_it(
    words: list[str], tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "README.md").write_text("")
    (tmp_path / "hosts.yml").write_text("")
    assert run(["runai", "upgrade", *words, "--site", str(tmp_path)]) == 2
    assert "give either FILE or --abandon" in capsys.readouterr().err
