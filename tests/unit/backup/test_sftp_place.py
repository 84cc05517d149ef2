"""Backups on an SSH server: written, read again, and never taken for whole where they are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.backup import sftp_place
from appliance.adapters.backup.sftp_place import SftpPlace
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.backup.targets import Access, backup_at, store_at
from appliance.errors import ApplianceError, CommandFailed, NodeUnreachable, NotHealthy, Refused
from appliance.model.backup.names import SIDECAR_SUFFIX, SUFFIX
from tests.sftp_server import Faults, SftpServer, sftp_server
from tests.unit.backup.samples import MOMENT, NAME, finish, key

OLD = "rack7-20260920T000000Z"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    (tmp_path / "root" / "backups").mkdir(parents=True)
    with sftp_server(tmp_path / "root") as made:
        yield made


@pytest.fixture
def access(tmp_path: Path, server: SftpServer) -> Access:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "id"))
    (tmp_path / "known_hosts").write_text(server.known)
    return Access(tmp_path / "known_hosts", str(tmp_path / "id"), lambda _name: None)


@pytest.fixture
def store(server: SftpServer, access: Access) -> Iterator[BackupStore]:
    made = store_at(server.target("backups"), access)
    assert isinstance(made.place, SftpPlace)
    yield made
    made.place.close()


@pytest.fixture
def write(store: BackupStore, tmp_path: Path) -> Callable[[str], None]:
    """Write a backup of 400 kB."""
    _, recipient = key(tmp_path)

    def write(name: str) -> None:
        with store.new(name, [recipient], MOMENT) as writer:
            for part, content in [("etcd/snapshot.db", b"snapshot" * 20_000)]:
                writer.put(part, content)
            writer.put("state/journal/1.json", os.urandom(300_000))
            finish(writer, name)

    return write


def files(server: SftpServer) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (server.root / "backups").iterdir()}


def test_a_backup_is_written_listed_checked_and_removed(
    store: BackupStore, write: Callable[[str], None], server: SftpServer
) -> None:
    write(OLD)
    write(NAME)
    assert [(one.id, one.state) for one in store.held()] == [(OLD, "whole"), (NAME, "whole")]
    assert store.check(NAME).about.id == NAME
    with pytest.raises(Refused, match="of another site"):
        store.remove(OLD, "rack8")
    store.remove(OLD, "rack7")
    assert sorted(files(server)) == [NAME + SUFFIX, NAME + SIDECAR_SUFFIX]


def test_an_existing_one_is_never_replaced(
    write: Callable[[str], None], server: SftpServer
) -> None:
    write(NAME)
    before = files(server)
    with pytest.raises(Refused, match="exists already"):
        write(NAME)
    assert files(server) == before


# What the server does while a backup is written -> what is told of it.
FAULTS = {
    "a full disk": (Faults(room=50_000), "was not written: "),
    "no room at all": (Faults(room=0), "was not written: "),
    "a disk that loses what it took": (Faults(drops_after=30_000), "its disk may be full"),
    "a wrong size": (Faults(says_size=7), "the server holds 7 of"),
    "another content": (Faults(flips=True), "its sha256 is not the recorded one"),
    "a server that hangs": (Faults(hangs_at="write"), "no answer within 1 s"),
    "one that hangs at the rename": (Faults(hangs_at="rename"), "no answer within 1 s"),
    "one that hangs when it is read": (Faults(hangs_at="read"), "no answer within 1 s"),
    "one that drips": (Faults(drips=True), "no answer within 1 s"),
    "one that closes": (Faults(closes_after=40_000), "was not written|closed|dropped"),
    "one that makes no files": (Faults(read_only=True), "[Pp]ermission denied"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_a_server_spoils_is_no_backup_and_the_old_ones_stay(
    case: str,
    store: BackupStore,
    write: Callable[[str], None],
    server: SftpServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faults, told = FAULTS[case]
    write(OLD)
    before = files(server)
    if "no answer" in told:
        monkeypatch.setattr(sftp_place, "STEP_SECONDS", 1.0)
    server.faults.__dict__.update(replace(faults).__dict__)
    with pytest.raises((CommandFailed, NotHealthy), match=told) as raised:
        write(NAME)
    assert raised.value.hint
    server.faults.__dict__.update(Faults().__dict__)
    states = {one.id: one.state for one in store.held()}
    assert states.pop(OLD) == "whole"
    assert set(states.values()) <= {"interrupted"}
    assert {name: files(server)[name] for name in before} == before
    store.remove_unfinished(NAME)
    assert files(server) == before


def test_a_connection_that_the_server_closed_between_two_steps_is_made_again(
    store: BackupStore, write: Callable[[str], None]
) -> None:
    write(OLD)
    place = store.place
    assert isinstance(place, SftpPlace)
    opened = place._sftp
    assert opened is not None
    channel = opened.get_channel()
    assert channel is not None
    channel.close()
    assert [one.id for one in store.held()] == [OLD]
    assert place._sftp is not opened


def test_a_process_that_is_killed_leaves_no_backup(
    store: BackupStore, server: SftpServer, tmp_path: Path
) -> None:
    """Its connection ends with it: nobody tidies up."""

    class Killed(BaseException):
        pass

    _, recipient = key(tmp_path)

    def die() -> None:
        server.close()
        raise Killed

    with pytest.raises(Killed), store.new(NAME, [recipient], MOMENT) as writer:
        die()
    assert writer.parts == []
    assert list(files(server)) == [f"{NAME}{SUFFIX}.partial"]


# What the server shows at the login -> the class of the error, its words, and the next step.
LOGINS: dict[str, tuple[str, Faults, type[ApplianceError], str, str]] = {
    "an unknown key": ("", Faults(), NodeUnreachable, "host key is not in", "echo '[127.0.0.1]:"),
    "another key": ("other", Faults(), NodeUnreachable, "wrong host key", "ssh-keygen -R"),
    "no login": ("known", Faults(refuses=True), NodeUnreachable, "refused", "authorized_keys"),
    "no answer": ("known", Faults(hangs_at="list"), CommandFailed, "no answer", "sftp -P"),
    "a list without end": ("known", Faults(lists=60), CommandFailed, "more than 50", "sftp -P"),
}


@pytest.mark.parametrize("case", LOGINS)
def test_a_server_that_cannot_be_used_is_told_with_the_next_step(
    case: str, server: SftpServer, access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, faults, error, told, hint = LOGINS[case]
    other = paramiko.ECDSAKey.generate()
    lines = {
        "": "",
        "known": server.known,
        "other": f"[127.0.0.1]:{server.port} {other.get_name()} {other.get_base64()}\n",
    }
    access.known_hosts.write_text(lines[known])
    server.faults.__dict__.update(faults.__dict__)
    if told == "no answer":
        monkeypatch.setattr(sftp_place, "LIST_SECONDS", 1.0)
    monkeypatch.setattr(sftp_place, "MOST_ENTRIES", 50)
    store = store_at(server.target("backups"), access)
    with pytest.raises(error, match=told) as raised:
        store.held()
    assert hint in (raised.value.hint or "")


def test_the_line_that_the_hint_adds_pins_the_server(server: SftpServer, access: Access) -> None:
    access.known_hosts.write_text("")
    with pytest.raises(NodeUnreachable) as raised:
        store_at(server.target("backups"), access).held()
    line = (raised.value.hint or "").partition("echo '")[2].partition("' >>")[0]
    access.known_hosts.write_text(line + "\n")
    store = store_at(server.target("backups"), access)
    assert store.held() == ()


def test_a_list_of_a_server_that_hangs_ends_with_the_first_file(
    server: SftpServer,
    store: BackupStore,
    write: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(OLD)
    write(NAME)
    monkeypatch.setattr(sftp_place, "STEP_SECONDS", 1.0)
    server.faults.hangs_at = "read"
    with pytest.raises(CommandFailed, match="no answer within 1 s"):
        store.held()
    assert server.faults.hung == 1
    monkeypatch.setattr("appliance.adapters.backup.store.MOST_SECONDS", -1.0)
    with pytest.raises(CommandFailed, match="took longer"):
        store.held()


def test_a_folder_that_is_not_there_and_a_server_that_is_off(
    server: SftpServer, access: Access
) -> None:
    with pytest.raises(Refused, match="no such folder"):
        store_at(server.target("absent"), access).held()
    server.close()
    with pytest.raises(ApplianceError, match="no SFTP"):
        store_at(server.target("backups"), access).held()


def test_a_link_of_the_server_is_no_backup(
    server: SftpServer, store: BackupStore, write: Callable[[str], None]
) -> None:
    write(NAME)
    folder = server.root / "backups"
    (folder / (NAME + SUFFIX)).rename(server.root / "elsewhere")
    (folder / (NAME + SUFFIX)).symlink_to(server.root / "elsewhere")
    assert [one.state for one in store.held()] == ["damaged"]
    with pytest.raises(NotHealthy):
        store.check(NAME)
    with pytest.raises(OSError, match="not a regular file"):
        store.place.remove(NAME + SUFFIX)


def test_a_backup_there_is_named_by_its_address(
    server: SftpServer, access: Access, write: Callable[[str], None]
) -> None:
    write(NAME)
    found, name = backup_at(f"{server.target('backups')}/{NAME}{SUFFIX}", access)
    assert found.check(name).about.id == NAME
    assert isinstance(found.place, SftpPlace)
    found.place.close()
