"""Volumes are saved and restored on the node with the export, whatever ends a run."""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.volume_course import CLAIM, FOLDER, KEY, STAMP, Server

from ansible.module_utils import appliance_backup_folder as folders  # isort: skip
from ansible.module_utils import appliance_volume_backup as saving  # isort: skip
from ansible.module_utils import appliance_volume_restore as restoring  # isort: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(tmp_path, monkeypatch)


def test_a_look_measures_what_is_there_and_names_what_is_not(server: Server) -> None:
    server.known.append({"claim": "a/b", "volume": "v", "uid": "u", "folder": "gone"})
    found = server.look()
    assert found["free_bytes"] > 0
    assert found["volumes"][CLAIM] == {"entries": 4, "data_bytes": 200_006, "fault": ""}
    assert found["volumes"]["a/b"]["fault"] == "No such file or directory"


@pytest.mark.parametrize("folder", ["..", "a/b", "", ".", saving.MARKER, "link"])
def test_a_folder_that_leads_elsewhere_is_not_read(server: Server, folder: str) -> None:
    (server.export / "link").symlink_to("/etc")
    server.known[0]["folder"] = folder
    assert server.look()["volumes"][CLAIM]["fault"]
    _, _, told = server.save()
    assert told["parts"] == []
    assert told["missing"][0]["what"] == f"volumes/{CLAIM}"


def test_an_export_whose_disk_is_not_mounted_is_not_read(server: Server) -> None:
    (server.export / saving.MARKER).unlink()
    with pytest.raises(OSError, match="is its disk mounted"):
        server.look()


def test_an_archive_comes_after_what_is_known_of_it(server: Server) -> None:
    told, content, line = server.save()
    assert [one["name"] for one in line["parts"]] == [
        f"volumes/{CLAIM}/volume.json",
        f"volumes/{CLAIM}/data.tar.gz",
    ]
    assert line["missing"] == []
    assert (told["claim"], told["uid"], told["folder"]) == (CLAIM, "u1", FOLDER)
    assert told["counts"]["file"] == 2
    assert len(content) < 10_000 < len(gzip.decompress(content))


def test_a_node_without_space_gives_no_archive(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "RESERVE", 1 << 62)
    _, _, line = server.save()
    assert line["parts"] == []
    assert "too little space" in line["missing"][0]["why"]


@pytest.mark.usefixtures("server")
def test_what_a_killed_run_left_does_not_count_against_the_next_one() -> None:
    """It goes before the next one writes, so a plan must not be refused for it."""
    with folders.working_folder("running") as data:
        (data / "0.tar.gz").write_bytes(b"r" * (1 << 20))
        assert folders.left_bytes() == 0, "one that runs keeps what it has"
    assert folders.left_bytes() == 0
    left = folders.PLACE / "killed"
    (left / folders.DATA).mkdir(parents=True)
    assert folders.left_bytes() == 0, "without a marker nothing of it goes"
    (left / folders.MARKER).write_bytes(folders.marker(left))
    (left / folders.DATA / "0.tar.gz").write_bytes(b"k" * (1 << 20))
    (left / folders.DATA / "1.tar.gz").symlink_to("/etc/passwd")
    assert 1 << 20 <= folders.left_bytes() <= 2 << 20
    assert left.is_dir(), "a look changes nothing"


def test_a_plan_counts_what_a_killed_run_left(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "left_bytes", lambda: 1 << 50)
    assert server.look()["free_bytes"] >= 1 << 50


def damaged(server: Server) -> None:
    (server.volume / "log").write_bytes(b"damaged")
    (server.volume / "models" / "weights").unlink()
    (server.volume / "newer").write_bytes(b"newer")


def restored(server: Server, told: dict[str, Any], content: bytes) -> dict[str, Any]:
    server.load(told, content)
    server.act("swap")
    return server.act("end")


def test_what_was_saved_comes_back_and_what_was_there_stays(server: Server) -> None:
    told, content, _ = server.save()
    damaged(server)
    kept = f"{FOLDER}.before-{STAMP}"
    assert restored(server, told, content) == {"kept": {CLAIM: kept}}
    assert (server.volume / "log").read_bytes() == b"first\n"
    assert (server.volume / "models" / "weights").stat().st_size == 200_000
    assert not (server.volume / "newer").exists()
    assert (server.export / kept / "newer").read_bytes() == b"newer"
    assert server.names() == [FOLDER, kept]
    assert server.act("look")["kept"] == [kept]


def test_a_folder_that_is_lost_is_made_again(server: Server) -> None:
    told, content, _ = server.save()
    shutil.rmtree(server.volume)
    assert not server.act("look")["volumes"][CLAIM]["there"]
    assert restored(server, told, content) == {"kept": {}}
    assert server.names() == [FOLDER]


@pytest.mark.parametrize(
    "change",
    [
        {"sha256": "0" * 64},
        {"digest": "0" * 64},
        {"data_bytes": 5},
        {"size": 100},
    ],
)
def test_what_is_not_what_was_saved_never_takes_the_name(
    server: Server, change: dict[str, Any]
) -> None:
    told, content, _ = server.save()
    damaged(server)
    with pytest.raises(restoring.ERRORS):
        server.load(told, content, **change)
    with pytest.raises(restoring.RestoreError, match="was not restored beside"):
        server.act("swap")
    assert (server.volume / "log").read_bytes() == b"damaged"
    assert server.load(told, content)
    server.act("swap")
    assert (server.volume / "log").read_bytes() == b"first\n"


class Killed(BaseException):
    """The process ends here."""


STEPS = ("mkdir", "rename", "write_record", "sync")


def _counted(patch: pytest.MonkeyPatch, at: int) -> list[int]:
    """Count the steps that change something; the one of this number, and all later ones, kill."""
    seen = [0]

    def killing(plain: Any) -> Any:
        def step(*args: Any, **more: Any) -> Any:
            seen[0] += 1
            if seen[0] > at:
                raise Killed
            return plain(*args, **more)

        return step

    for name in ("mkdir", "rename", "sync"):
        patch.setattr(os, name, killing(getattr(os, name)))
    patch.setattr(restoring, "write_record", killing(restoring.write_record))
    return seen


def test_the_same_acts_end_what_was_killed_anywhere(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, content, _ = server.save()
    damaged(server)
    with monkeypatch.context() as patch:
        seen = _counted(patch, 1 << 30)
        restored(server, told, content)
    steps = seen[0]
    assert steps > 8, "the premise: there are steps"
    for at in range(steps):
        shutil.rmtree(server.export / f"{FOLDER}.before-{STAMP}", ignore_errors=True)
        (restoring.HOME / restoring.RECORD).unlink(missing_ok=True)
        damaged(server) if (server.volume / "models" / "weights").exists() else None
        with monkeypatch.context() as patch:
            _counted(patch, at)
            with pytest.raises(Killed):
                restored(server, told, content)
        there = [server.volume, server.export / f"{FOLDER}.before-{STAMP}"]
        assert any((path / "newer").exists() for path in there), "what was there is lost"
        restored(server, told, content)
        assert (server.volume / "log").read_bytes() == b"first\n"
        assert server.names() == [FOLDER, f"{FOLDER}.before-{STAMP}"]


def test_what_an_abandoned_restore_left_goes_before_the_next_one(server: Server) -> None:
    told, content, _ = server.save()
    server.load(told, content)
    assert f"{FOLDER}.restored-{STAMP}" in server.names()
    later = "rack-20260302T020000Z.20260302T030000Z"
    with pytest.raises(restoring.RestoreError, match="no record"):
        server.act("swap", later)
    server.act(
        "load", later, content, claim=CLAIM,
        told={**told, "size": len(content), "sha256": _sha256(content)},
    )  # fmt: skip
    assert server.names() == [FOLDER, f"{FOLDER}.restored-20260302T030000Z"]


def test_what_an_ended_restore_did_not_exchange_goes_before_the_next_one(server: Server) -> None:
    """A run for two volumes was killed; the next one was for one of them."""
    told, content, _ = server.save()
    server.load(told, content)
    record = restoring.read_record()
    restoring.write_record({**record, "ended": True})
    later = "rack-20260302T020000Z.20260302T030000Z"
    server.act(
        "load", later, content, claim=CLAIM,
        told={**told, "size": len(content), "sha256": _sha256(content)},
    )  # fmt: skip
    assert server.names() == [FOLDER, f"{FOLDER}.restored-20260302T030000Z"]


def test_an_exchange_that_was_killed_between_its_renames_is_ended_by_the_next_restore(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the claim of the first would have no folder, and the next one may be of another."""
    told, content, _ = server.save()
    damaged(server)
    server.load(told, content)
    plain = os.rename

    def killing(old: str, new: str, **more: Any) -> None:
        if new == FOLDER:
            raise Killed
        plain(old, new, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", killing)
        with pytest.raises(Killed):
            server.act("swap")
    assert not server.volume.exists(), "the premise"
    other = server.export / "team-other-pvc-3"
    other.mkdir()
    server.known = [{"claim": CLAIM, "volume": "pvc-3", "uid": "u3", "folder": other.name}]
    later = "rack-20260302T020000Z.20260302T030000Z"
    server.act(
        "load", later, content, claim=CLAIM,
        told={**told, "size": len(content), "sha256": _sha256(content)},
    )  # fmt: skip
    assert (server.volume / "log").read_bytes() == b"first\n"
    assert (server.export / f"{FOLDER}.before-{STAMP}" / "newer").exists()


def _sha256(content: bytes) -> str:
    import hashlib

    return hashlib.sha256(content).hexdigest()


def test_a_folder_that_came_back_meanwhile_is_not_put_aside_over_another(server: Server) -> None:
    told, content, _ = server.save()
    server.load(told, content)
    (server.export / f"{FOLDER}.before-{STAMP}").mkdir()
    with pytest.raises(restoring.RestoreError, match="move one of them away"):
        server.act("swap")
    assert server.volume.is_dir()


def test_two_runs_at_once_are_refused(server: Server) -> None:
    told, content, _ = server.save()
    with restoring._alone(), pytest.raises(restoring.RestoreError, match="still at work"):
        server.load(told, content)


def test_an_act_that_nobody_knows_is_refused(server: Server) -> None:
    with pytest.raises(restoring.RestoreError, match="no such act"):
        server.act("_take_away")
    assert KEY


def test_a_long_name_is_kept_within_what_a_file_system_takes(server: Server) -> None:
    names = restoring.Names("x" * 250, STAMP)
    assert max(len(one) for one in (names.filling, names.whole, names.before)) < 255
    assert names.before.endswith(f".before-{STAMP}")
    assert restoring.Names("y" * 250, STAMP).before != names.before
    assert server.names() == [FOLDER]


@pytest.mark.parametrize(
    "change", [{"sha256": "0" * 64}, {"data_bytes": 5}, {"counts": {"file": 1}}]
)
def test_what_was_restored_in_vain_takes_no_room_of_the_export(
    server: Server, change: dict[str, Any]
) -> None:
    told, content, _ = server.save()
    with pytest.raises(restoring.ERRORS):
        server.load(told, content, **change)
    assert server.names() == [FOLDER]


def test_a_full_export_is_as_before(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    told, content, _ = server.save()

    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        server.load(told, content)
    assert server.names() == [FOLDER]


def test_an_archive_with_more_entries_than_the_backup_says_ends_early(server: Server) -> None:
    told, content, _ = server.save()
    with pytest.raises(restoring.ERRORS, match="more entries than the backup says"):
        server.load(told, content, counts={"folder": 2})


def test_a_default_acl_of_the_export_is_not_taken_for_one_of_the_volume(server: Server) -> None:
    told, content, _ = server.save()
    entries = ((1, 7, -1), (2, 7, 12345), (4, 5, -1), (16, 7, -1), (32, 0, -1))
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *one) for one in entries)
    try:
        os.setxattr(server.export, "system.posix_acl_default", acl)
    except OSError:
        pytest.skip("this file system has no ACLs")
    restored(server, told, content)
    assert os.listxattr(server.volume / "models") == []


def made_again(server: Server) -> None:
    """Somebody deleted the claim, and made one of the same name: it has an empty folder."""
    shutil.rmtree(server.volume)
    server.volume = server.export / "team-data-pvc-2"
    server.volume.mkdir()
    server.known[0].update(folder=server.volume.name, uid="u2", volume="pvc-2")


@pytest.mark.parametrize("acts", [["load"], ["load", "swap"]])
def test_a_claim_that_was_made_again_is_not_taken_for_a_restored_one(
    server: Server, acts: list[str]
) -> None:
    told, content, _ = server.save()
    for act in acts:
        server.load(told, content) if act == "load" else server.act(act)
    made_again(server)
    seen = server.act("look")["volumes"][CLAIM]
    assert seen == {"there": True, "whole": False, "swapped": False}
    with pytest.raises(restoring.RestoreError, match="was not restored beside"):
        server.act("swap")
    restored(server, told, content)
    assert (server.volume / "log").read_bytes() == b"first\n"


def test_a_new_folder_that_a_person_removed_is_made_again(server: Server) -> None:
    told, content, _ = server.save()
    damaged(server)
    server.load(told, content)
    shutil.rmtree(server.export / f"{FOLDER}.restored-{STAMP}")
    assert not server.act("look")["volumes"][CLAIM]["swapped"]
    restored(server, told, content)
    assert (server.volume / "log").read_bytes() == b"first\n"


def test_a_claim_may_have_the_word_of_a_kept_folder_in_its_name(server: Server) -> None:
    server.volume.rename(server.export / "team-a.before-b-pvc")
    server.known[0]["folder"] = "team-a.before-b-pvc"
    told, content, _ = server.save()
    (server.export / f"team-a.before-b-pvc.restoring-{STAMP}").mkdir()
    restored(server, told, content)
    assert server.names() == ["team-a.before-b-pvc", f"team-a.before-b-pvc.before-{STAMP}"]
