"""Role ``runai_upgrade``: dropped on evidence only, and a mended file loses nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.test_runai_upgrade_modules import (
    Api,
    records,
    release,
    revision,
    rolled_back,
    saved_state,
    wanted,
)

RECORD = {
    "revisions": {"runai-backend": 3, "runai-cluster": 2},
    "target_sha256": "a" * 64,
    "target_version": "2.8.2",
    "dump": {"taken": 1000.0},
}


def judged(tmp_path: Path, *secrets: Any, missing: tuple[str, ...] = ()) -> None:
    api = Api()
    api.secrets = [*secrets]
    api.objects_of_manifest = [*missing]
    rolled_back.require_unchanged({**RECORD, "folder": str(tmp_path)}, api)


def test_releases_with_their_revisions_from_before_are_unchanged(tmp_path: Path) -> None:
    (tmp_path / "objects.json").write_text("{}")
    os.utime(tmp_path / "objects.json", (500, 500))
    judged(tmp_path, revision(3), release("runai-cluster", 2))


@pytest.mark.parametrize(
    ("secrets", "missing"),
    [
        ((revision(3, "superseded"), revision(4), release("runai-cluster", 2)), ()),
        ((revision(3), revision(4, "pending-upgrade"), release("runai-cluster", 2)), ()),
        ((revision(3), release("runai-cluster", 3)), ()),
        ((release("runai-cluster", 2),), ()),
        (
            (revision(3, manifest="kind: Deployment\n"), release("runai-cluster", 2)),
            ("Deployment/runai-backend-nginx-ingress-controller",),
        ),
    ],
    ids=["a new revision", "a pending one", "the cluster part", "no release", "nginx is deleted"],
)
def test_what_helm_or_the_role_changed_is_not_dropped(
    tmp_path: Path, secrets: tuple[Any, ...], missing: tuple[str, ...]
) -> None:
    with pytest.raises(rolled_back.UpgradeError, match="is not as it was before"):
        judged(tmp_path, *secrets, missing=missing)


def test_definitions_that_may_have_been_applied_are_a_change(tmp_path: Path) -> None:
    (tmp_path / "objects.json").write_text("{}")
    with pytest.raises(rolled_back.UpgradeError, match="definitions of the new version"):
        judged(tmp_path, revision(3), release("runai-cluster", 2))


@pytest.mark.parametrize("merged", [False, True])
def test_values_of_an_earlier_upgrade_stay_where_nothing_was_merged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merged: bool
) -> None:
    monkeypatch.setattr(rolled_back, "BUNDLE", tmp_path / "bundle.json")
    kept = tmp_path / "backend.yaml"
    kept.write_text('{"earlier": 1}')
    if merged:
        (tmp_path / "runai-backend-kept-before.json").write_text("")
    record = {"source": {"version": "2.7.1"}, "folder": str(tmp_path)}
    want = {"values": {"runai-backend": str(kept)}, "only_unchanged": True}
    rolled_back.restore_files(want, record)
    assert kept.exists() is not merged


@pytest.mark.parametrize(
    ("change", "is_other"),
    [
        ({}, True),
        ({"has_begun": False}, False),
        ({"target_version": "2.8.3"}, False),
        ({"target_sha256": "a" * 64}, False),
    ],
)
def test_only_another_file_of_the_same_version_goes_on_after_helm_began(
    tmp_path: Path, change: dict[str, Any], is_other: bool
) -> None:
    want = wanted(tmp_path, has_begun=True, target_sha256="b" * 64, target_version="2.8.2")
    assert saved_state.is_of_another_file({**want, **change}, RECORD) is is_other
    assert not saved_state.is_of_another_file({**want, **change}, {**RECORD, "verified": True})
    assert not saved_state.is_of_another_file({**want, **change}, {})


def test_the_record_names_the_mended_file_and_keeps_the_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "upgrade.json"
    monkeypatch.setattr(records, "PATH", path)
    path.write_text(json.dumps({**RECORD, "merged": True, "differences": ["x"]}))
    want = wanted(tmp_path, has_begun=True, target_sha256="b" * 64, target_version="2.8.2")
    saved_state.name_other_file(want)
    found = json.loads(path.read_text())
    assert (found["target_sha256"], found["merged"]) == ("b" * 64, False)
    assert (found["dump"], found["revisions"]) == (RECORD["dump"], RECORD["revisions"])
