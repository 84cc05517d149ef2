"""The probe tells which vendor bundle is unpacked, for which registry, and what is under way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
        "admin_cli": False, "certificate": None, "upgrade": None,
    }  # fmt: skip


def test_one_that_is_unpacked_and_prepared(tmp_path: Path) -> None:
    files = {
        "bundle.json": json.dumps(RECORD),
        "ab/deploy/prepare_installation.sh": "",
        "ab/prepared": "registry.test:5000\n",
    }
    assert look(tmp_path, files) == {
        "bundle": RECORD, "unpacked": True, "prepared": "registry.test:5000", "held_bytes": 0,
        "admin_cli": False, "certificate": None, "upgrade": None,
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


@pytest.mark.parametrize(("size", "whole"), [(5, True), (6, False), (None, False)])
def test_an_upgrade_that_began_and_whether_its_dump_is_whole(
    tmp_path: Path, size: int | None, whole: bool
) -> None:
    dump = {"path": f"{FOLDER}/before/database.sql", "bytes": size}
    record = {"target_sha256": "ab", "dump": dump}
    files = {"upgrade.json": json.dumps(record), "before/database.sql": "12345"}
    assert look(tmp_path, files)["upgrade"] == {**record, "dump_is_there": whole}


@pytest.mark.parametrize(("size", "whole"), [(5, True), (6, False)])
def test_a_dump_of_another_database_counts_as_well(tmp_path: Path, size: int, whole: bool) -> None:
    one = {"path": f"{FOLDER}/before/database.sql", "bytes": 5}
    other = {"path": f"{FOLDER}/before/other-keycloak.sql", "bytes": size}
    record = {"target_sha256": "ab", "dump": one, "others": [other]}
    texts = {f"before/{name}.sql": "12345" for name in ("database", "other-keycloak")}
    files = {"upgrade.json": json.dumps(record), **texts}
    assert look(tmp_path, files)["upgrade"] == {**record, "dump_is_there": whole}


@pytest.mark.parametrize("text", ["[]", "7", "{", '{"dump": []}', '{"dump": {"path": 7}}'])
def test_a_record_of_an_upgrade_that_is_none_is_no_error(tmp_path: Path, text: str) -> None:
    found = look(tmp_path, {"upgrade.json": text})["upgrade"]
    assert found is None or found["dump_is_there"] is False
