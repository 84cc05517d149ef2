"""The probe tells which vendor bundle is unpacked, for which registry, and what is under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.probe import recorded

FOLDER = "/var/lib/appliance/runai"
RECORD = {"sha256": "ab", "path": f"{FOLDER}/ab", "deploy": "deploy", "version": "2.7.1"}


def look(tmp_path: Path, files: dict[str, str]) -> dict[str, Any]:
    named = {f"{FOLDER}/{name}": text for name, text in files.items()}
    root, outputs = recorded.machine({"machine": "bare-debian-12", "files": named}, tmp_path)
    found: dict[str, Any] = recorded.look(root, outputs)["runai"]
    return found


def test_a_node_without_any(tmp_path: Path) -> None:
    assert look(tmp_path, {}) == {
        "bundle": None, "unpacked": False, "prepared": None, "held_bytes": 0,
        "admin_cli": False, "certificate": None,
    }  # fmt: skip


def test_one_that_is_unpacked_and_prepared(tmp_path: Path) -> None:
    files = {
        "bundle.json": json.dumps(RECORD),
        "ab/deploy/prepare_installation.sh": "",
        "ab/prepared": "registry.test:5000\n",
    }
    assert look(tmp_path, files) == {
        "bundle": RECORD, "unpacked": True, "prepared": "registry.test:5000", "held_bytes": 0,
        "admin_cli": False, "certificate": None,
    }  # fmt: skip


def test_a_record_without_its_folder_is_not_unpacked(tmp_path: Path) -> None:
    found = look(tmp_path, {"bundle.json": json.dumps(RECORD)})
    assert (found["unpacked"], found["prepared"]) == (False, None)


def test_what_is_received_or_half_unpacked_is_counted(tmp_path: Path) -> None:
    files = {"incoming/cd.tar": "12345", "cd.new/deploy/x": "123", "ab/deploy/y": "no part of it"}
    assert look(tmp_path, files)["held_bytes"] == 8


def test_the_admin_cli_is_there_when_it_can_be_run(tmp_path: Path) -> None:
    files = {"machine": "bare-debian-12", "files": {"/usr/local/bin/runai-adm": "#!/bin/sh\n"}}
    root, outputs = recorded.machine(files, tmp_path)
    assert recorded.look(root, outputs)["runai"]["admin_cli"] is False
    (root / "usr/local/bin/runai-adm").chmod(0o755)
    assert recorded.look(root, outputs)["runai"]["admin_cli"] is True


def test_a_broken_record_is_none(tmp_path: Path) -> None:
    assert look(tmp_path, {"bundle.json": "{"})["bundle"] is None
    assert look(tmp_path / "other", {"bundle.json": "[]"})["bundle"] is None
