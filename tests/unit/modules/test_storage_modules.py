"""Modules of shared storage: exports of the kernel's server, and the proof of a mount."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

nfs_exports = load("nfs_exports", role="nfs_server")
nfs_write_test = load("nfs_write_test", role="nfs_client")
LIVE = "rw,sync,wdelay,hide,nocrossmnt,secure,no_root_squash,no_subtree_check,sec=sys"
OPTIONS = "rw,sync,no_subtree_check,no_root_squash"
FIRST, SECOND = "198.51.100.0/24", "198.51.101.0/24"


class Failed(Exception):
    """The module ended with a fault."""


class FakeModule:
    """What a module asks of Ansible; exportfs copies the files into the table."""

    def __init__(self, folder: Path, *, check: bool = False, deaf: bool = False) -> None:
        self.check_mode = check
        self.deaf = deaf
        self.exports, self.others = folder / "exports.d/appliance.exports", folder / "exports"
        self.exports.parent.mkdir()
        self.write(FIRST, SECOND)
        self.table = folder / "etab"
        files = [str(self.others), str(self.exports.parent)]
        self.params = {"path": "/srv/runai", "files": files, "table": str(self.table)}
        self.ran: list[Sequence[str]] = []

    def write(self, *clients: str) -> None:
        """The file as the role's template renders it."""
        places = " ".join(f"{client}({OPTIONS})" for client in clients)
        self.exports.write_text(f"# Written by appliance\n/srv/runai {places}\n")

    def run(self, argv: Sequence[str]) -> tuple[int, str, str]:
        self.ran.append(argv)
        told = nfs_exports.told(self.params["files"], "/srv/runai")
        if not self.deaf:
            self.table.write_text("".join(f"/srv/runai\t{client}({LIVE})\n" for client in told))
        return (1, "", "exportfs: no options") if self.deaf else (0, "", "")

    def fail_json(self, msg: str) -> None:
        raise Failed(msg)


def test_an_export_of_the_files_is_made_known_once(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    assert nfs_exports.converge(module, module.run)
    assert not nfs_exports.converge(module, module.run)
    assert module.ran == [["exportfs", "-ra"]]


def test_an_export_taken_back_by_hand_is_made_known_again(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    nfs_exports.converge(module, module.run)
    module.table.write_text("")
    assert nfs_exports.converge(module, module.run)
    squashed = LIVE.replace("no_root_squash", "root_squash")
    module.table.write_text(f"/srv/runai\t{FIRST}({squashed})\n/srv/runai\t{SECOND}({LIVE})\n")
    assert nfs_exports.converge(module, module.run)


def test_a_client_that_left_the_file_before_a_run_was_killed_is_withdrawn(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    nfs_exports.converge(module, module.run)
    module.write(FIRST)
    assert nfs_exports.converge(module, module.run)
    assert SECOND not in module.table.read_text()


def test_an_export_in_a_foreign_file_stays_and_is_idempotent(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    module.others.write_text("/srv/runai 203.0.113.9(ro)  # theirs\n/srv/other *(rw)\n")
    nfs_exports.converge(module, module.run)
    assert "203.0.113.9" in module.table.read_text()
    assert not nfs_exports.converge(module, module.run)


def test_names_in_a_foreign_file_are_idempotent_though_exportfs_rewrites_them(
    tmp_path: Path,
) -> None:
    module = FakeModule(tmp_path)
    text = "/srv/runai 203.0.113.9 backup(ro) -sync\n# \xe9\n"
    module.others.write_bytes(text.encode("latin-1"))
    nfs_exports.converge(module, module.run)
    known = module.table.read_text().replace("backup(", "backup.site.example(")
    module.table.write_text(known)
    assert "203.0.113.9" in known
    assert not nfs_exports.converge(module, module.run)


BY_HAND = "203.0.113.77"


def test_check_mode_names_a_client_exported_by_hand_as_the_run_withdraws_it(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    nfs_exports.converge(module, module.run)
    assert nfs_exports.differences(module.params) == ([], [])
    with module.table.open("a") as table:
        table.write(f"/srv/runai\t{BY_HAND}({LIVE})\n")
    assert nfs_exports.differences(module.params) == ([], [BY_HAND])
    module.check_mode = True
    assert nfs_exports.converge(module, module.run)
    assert BY_HAND in module.table.read_text()
    module.check_mode = False
    assert nfs_exports.converge(module, module.run)
    assert BY_HAND not in module.table.read_text()
    assert nfs_exports.differences(module.params) == ([], [])


def test_a_client_exported_by_hand_is_kept_by_a_file_of_the_administrator(tmp_path: Path) -> None:
    module = FakeModule(tmp_path)
    nfs_exports.converge(module, module.run)
    with module.table.open("a") as table:
        table.write(f"/srv/runai\t{BY_HAND}({LIVE})\n")
    module.others.write_text(f"/srv/runai {BY_HAND}({OPTIONS})\n")
    for module.check_mode in (True, False):
        assert not nfs_exports.converge(module, module.run)


def test_check_mode_tells_and_runs_nothing(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, check=True)
    assert nfs_exports.converge(module, module.run)
    assert module.ran == []


def test_an_export_that_is_not_taken_is_a_fault(tmp_path: Path) -> None:
    module = FakeModule(tmp_path, deaf=True)
    with pytest.raises(Failed, match="did not export /srv/runai: exportfs: no options"):
        nfs_exports.converge(module, module.run)


def want(**changes: Any) -> dict[str, Any]:
    found = {
        "server": "198.51.100.4",
        "path": "/srv/runai",
        "folders": ["one", "two"],
        "user": os.getuid(),
        "options": [],
        "minimum_free_bytes": 0,
        "test_seconds": 30,
        "root_squash_allowed": True,
        "mount_seconds": 5,
    }
    return {**found, **changes}


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """A folder that is "mounted" by a program that does nothing; what was run."""
    ran: list[Sequence[str]] = []
    base = tmp_path / "mounted"

    def folder(**_: str) -> str:
        base.mkdir()
        return str(base)

    def run(argv: Sequence[str]) -> tuple[int, str, str]:
        ran.append(argv)
        if argv[0] == "umount":
            for made in base.iterdir():
                made.rmdir()
        return 0, "", ""

    monkeypatch.setattr(nfs_write_test.tempfile, "mkdtemp", folder)
    monkeypatch.setattr(nfs_write_test, "run", run, raising=False)
    # A test is not always root: the change of the user is left out, the process of its own stays.
    for name in ("setgroups", "setgid", "setuid"):
        monkeypatch.setattr(nfs_write_test.os, name, lambda _: None)
    return ran


def test_the_proof_writes_looks_and_leaves_nothing(mounted: list[Sequence[str]]) -> None:
    proof, made = nfs_write_test.mounted_test(nfs_write_test.run, want())
    assert made == ["one", "two"]
    assert proof["fsync_ms"] > 0
    assert proof["fsync_worst_ms"] >= proof["fsync_ms"]
    assert proof["root_squashed"] is (os.getuid() != 0)
    assert (proof["server"], proof["path"]) == ("198.51.100.4", "/srv/runai")
    mount = mounted[0]
    assert mount[:2] == ["timeout", "5"]
    assert mount[6] == "proto=tcp,soft,timeo=50,retrans=2"
    assert mount[7] == "198.51.100.4:/srv/runai"
    assert proof["options"] == []
    assert proof["folders"] == ["one", "two"]
    assert proof["free_bytes"] > 0
    assert [words[0] for words in mounted] == ["timeout", "umount"]


def test_a_squashed_root_is_refused_where_it_must_not_be(
    mounted: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nfs_write_test, "owner_of_roots_file", lambda _: 65534)
    proof, _ = nfs_write_test.mounted_test(nfs_write_test.run, want())
    assert proof["root_squashed"] is True
    with pytest.raises(
        nfs_write_test.WriteTestError, match="belongs to user 65534 there: another export"
    ):
        nfs_write_test.mounted_test(nfs_write_test.run, want(root_squash_allowed=False))
    assert mounted[-1][0] == "umount", "it is unmounted after a fault, too"


def test_an_export_that_cannot_be_mounted_is_reported_in_the_words_of_mount() -> None:
    said = "mount.nfs: access denied by server\n while mounting"
    words = (
        "198.51.100.4:/srv/runai cannot be mounted with nfsvers=3,.*: mount.nfs: access denied by "
        "server while mounting. .* nfs.version in site.yml"
    )
    with pytest.raises(nfs_write_test.WriteTestError, match=words):
        nfs_write_test.mounted_test(lambda _: (32, "", said), want(options=["nfsvers=3"]))
    with pytest.raises(nfs_write_test.WriteTestError, match="no answer in 5 s"):
        nfs_write_test.mounted_test(lambda _: (124, "", ""), want())


def test_a_folder_that_is_not_the_users_is_reported_with_what_to_do(
    mounted: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "/run/x/one")

    monkeypatch.setattr(nfs_write_test, "timed_writes", refused)
    user = os.getuid()
    with pytest.raises(nfs_write_test.WriteTestError) as told:
        nfs_write_test.mounted_test(nfs_write_test.run, want())
    assert f"user {user} cannot write to 198.51.100.4:/srv/runai: Permission denied" in str(
        told.value
    )
    assert f"chown -R {user}:{user} /srv/runai" in str(told.value)
    assert mounted[-1][0] == "umount"


def test_too_little_space_is_refused_before_anything_is_created(
    mounted: list[Sequence[str]],
) -> None:
    with pytest.raises(nfs_write_test.WriteTestError, match=r"minimum_free_gb"):
        nfs_write_test.mounted_test(nfs_write_test.run, want(minimum_free_bytes=10**18))
    assert [words[0] for words in mounted] == ["timeout", "umount"]


def test_a_server_that_locks_nothing_is_told_apart_from_one_that_refuses_to_write(
    mounted: list[Sequence[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_locks(*_: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(nfs_write_test.fcntl, "lockf", no_locks)
    with pytest.raises(nfs_write_test.WriteTestError, match="cannot be locked: No locks available"):
        nfs_write_test.mounted_test(nfs_write_test.run, want())
    assert mounted[-1][0] == "umount"


def test_a_process_that_keeps_the_answers_pipe_open_is_not_waited_for() -> None:
    def leave_one_behind() -> str:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        return "done"

    began = time.monotonic()
    assert nfs_write_test.apart(lambda: None, leave_one_behind, 30) == "done"
    assert time.monotonic() - began < 30


def test_what_hangs_on_a_dead_server_is_left_behind_after_its_time() -> None:
    began = time.monotonic()
    with pytest.raises(nfs_write_test.WriteTestError, match="no end within 1 s"):
        nfs_write_test.apart(lambda: None, lambda: time.sleep(60), 1)
    assert time.monotonic() - began < 30


@pytest.mark.skipif(os.getuid() != 0, reason="only root may have mounts of its own")
def test_mounts_of_the_test_end_with_it_and_nobody_else_sees_them(tmp_path: Path) -> None:
    def inside() -> list[str]:
        command = ["mount", "-t", "tmpfs", "none", str(tmp_path)]
        subprocess.run(command, check=True)
        return Path("/proc/self/mounts").read_text().splitlines()

    try:
        seen = nfs_write_test.apart(nfs_write_test.private_mounts, inside, 30)
    except nfs_write_test.WriteTestError as error:
        pytest.skip(f"this machine gives root no mount namespace: {error}")
    assert any(str(tmp_path) in line for line in seen)
    assert str(tmp_path) not in Path("/proc/self/mounts").read_text()


def test_the_version_that_was_agreed_on_is_read_from_the_mount(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(
        "a:/x /run/other nfs4 rw,vers=4.2 0 0\na:/x /run/m nfs rw,vers=3,proto=tcp 0 0\n"
        "a:/x /run/f fuse.nfs4_standin rw 0 0\n"
    )
    assert nfs_write_test.version_of("/run/m", str(table)) == "3"
    assert nfs_write_test.version_of("/run/f", str(table)) is None
    assert nfs_write_test.version_of("/run/absent", str(table)) is None


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"server": "198.51.100.9"}, False),
        ({"options": ["nfsvers=3"]}, False),
        ({"folders": ["one"]}, False),
        ({"folders": ["one", "two", "three"]}, True),
        ({"folders": None}, False),
    ],
)
def test_a_record_is_of_the_same_export_mounted_the_same_way(
    changes: dict[str, Any], *, same: bool
) -> None:
    record = {key: want()[key] for key in ("server", "path", "options", "folders")}
    assert nfs_write_test.is_of({**record, **changes}, want()) is same


def test_another_process_brings_its_answer_or_its_fault_home() -> None:
    user = os.getuid()
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patched:
        for name in ("setgroups", "setgid", "setuid"):
            patched.setattr(nfs_write_test.os, name, lambda _: None)
        assert nfs_write_test.as_user(user, lambda: [1, "two"]) == [1, "two"]
        with pytest.raises(nfs_write_test.WriteTestError, match="ZeroDivisionError"):
            nfs_write_test.as_user(user, lambda: 1 / 0)
        with pytest.raises(nfs_write_test.WriteTestError, match="it was killed"):
            nfs_write_test.as_user(user, lambda: os._exit(1))


def test_a_proof_is_kept_and_a_broken_one_is_none(tmp_path: Path) -> None:
    record = tmp_path / "a" / "proof.json"
    assert nfs_write_test.known(record) == {}
    nfs_write_test.keep(record, {"server": "x"})
    assert nfs_write_test.known(record) == {"server": "x"}
    record.write_text("{")
    assert nfs_write_test.known(record) == {}
