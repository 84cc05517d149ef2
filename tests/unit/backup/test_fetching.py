"""A backup elsewhere as a file of this machine: whole, or not there; and gone afterwards."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from appliance.adapters.backup import fetching, places
from appliance.adapters.backup.fetching import at_hand, bring, offered
from appliance.adapters.backup.opened import BackupFile
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.s3.place import ACCESS_KEY, SECRET_KEY
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.backup.targets import Access, store_at
from appliance.errors import ApplianceError, NodeUnreachable, NotHealthy, Refused
from appliance.model.backup.names import SIDECAR_SUFFIX, SUFFIX
from tests.s3_server import Answer, S3Server, s3_server
from tests.sftp_server import Faults, SftpServer, sftp_server
from tests.unit.backup.samples import MOMENT, NAME, finish, key

FILE = NAME + SUFFIX


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where copies go."""
    folder = tmp_path / "private"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))
    monkeypatch.setattr(fetching, "PIECE", 50_000)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    (tmp_path / "root/backups").mkdir(parents=True)
    with sftp_server(tmp_path / "root") as made:
        yield made


@pytest.fixture
def access(tmp_path: Path, server: SftpServer) -> Access:
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "id"))
    (tmp_path / "known_hosts").write_text(server.known)
    return Access(tmp_path / "known_hosts", str(tmp_path / "id"), lambda _name: None)


def written(store: BackupStore, tmp_path: Path) -> Path:
    """Write a backup of 460 kB; the key that opens it."""
    path, recipient = key(tmp_path)
    with store.new(NAME, [recipient], MOMENT) as writer:
        writer.put("etcd/snapshot.db", b"snapshot" * 20_000)
        writer.put("state/journal/1.json", os.urandom(300_000))
        finish(writer, NAME)
    return path


@pytest.fixture
def identity(server: SftpServer, tmp_path: Path) -> Path:
    """The key of a backup that the server has."""
    return written(BackupStore(FolderPlace(server.root / "backups")), tmp_path)


def test_a_copy_is_private_opened_like_a_file_and_gone_afterwards(
    server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    told: list[str] = []
    with at_hand(server.target(f"backups/{FILE}"), lambda: access, told.append) as path:
        assert (path.name, path.parent.parent) == (FILE, above)
        assert path.parent.stat().st_mode & 0o777 == 0o700
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.read_bytes() == (server.root / "backups" / FILE).read_bytes()
        assert BackupFile(path, identity).manifest.about.id == NAME
    assert list(above.iterdir()) == []
    assert told[0].startswith(f"{FILE}: ")
    assert sorted(one.name for one in (server.root / "backups").iterdir()) == [
        FILE, NAME + SIDECAR_SUFFIX,
    ]  # fmt: skip


def test_a_file_of_this_machine_stays_where_it_is(tmp_path: Path) -> None:
    def never() -> Access:
        raise AssertionError("no place elsewhere was named")

    with at_hand(str(tmp_path / FILE), never, never) as path:  # type: ignore[arg-type]
        assert path == tmp_path / FILE


@pytest.mark.usefixtures("identity", "above")
def test_it_goes_on_where_the_connection_broke(server: SftpServer, access: Access) -> None:
    server.faults.breaks, server.faults.breaks_after = 3, 100_000
    told: list[str] = []
    with at_hand(server.target(f"backups/{FILE}"), lambda: access, told.append) as path:
        assert path.read_bytes() == (server.root / "backups" / FILE).read_bytes()
    again = [line for line in told if "again from byte" in line]
    assert len(again) == 3
    assert not any("byte 0 on" in line for line in again)


def test_a_server_that_breaks_off_always_is_left(
    server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    del identity
    place = store_at(server.target("backups"), access).place
    sidecar = offered(place, NAME)
    server.faults.breaks = -1
    told: list[str] = []
    with pytest.raises(NodeUnreachable, match=r"again and again, 0 of \d+ bytes") as raised:
        bring(place, sidecar, FolderPlace(above), told.append)
    assert "run the same command again" in (raised.value.hint or "")
    assert len([line for line in told if "again from byte 0" in line]) == 2
    assert list(above.iterdir()) == []


def _longer(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"endless" * 1000)


def _shorter(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 1000)


# What the server does -> whether it says the size that was written, and what is told.
SPOILT: dict[str, tuple[Callable[[Path], object], bool, str]] = {
    "longer than it says": (_longer, True, "more bytes came than the"),
    "shorter than it says": (_shorter, True, "fewer bytes came than the"),
    "a larger file": (_longer, False, "when it was written"),
    "a smaller file": (_shorter, False, "when it was written"),
    "no file": (lambda path: path.unlink(), False, "is not there"),
    "a link": (lambda path: path.symlink_to(path.rename(path.with_name("x"))), True, "is not the"),
    "nothing beside it": (
        lambda path: path.with_name(NAME + SIDECAR_SUFFIX).unlink(), False, "it was interrupted",
    ),
    "another one's beside it": (
        lambda path: path.with_name(NAME + SIDECAR_SUFFIX).write_text("{}"), False, "be read",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILT)
def test_what_a_server_spoils_is_no_backup(
    case: str, server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    del identity
    spoil, lies, told = SPOILT[case]
    path = server.root / "backups" / FILE
    size = path.stat().st_size
    spoil(path)
    server.faults.says_size = size if lies else None
    with (
        pytest.raises(NotHealthy, match=told) as raised,
        at_hand(server.target(f"backups/{FILE}"), lambda: access, lambda _: None),
    ):
        raise AssertionError("it was taken for a backup")
    assert raised.value.hint
    assert list(above.iterdir()) == []


def test_other_bytes_than_were_written_are_refused(
    server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    del identity
    place = store_at(server.target("backups"), access).place
    sidecar = offered(place, NAME)
    server.faults.flips = True
    with pytest.raises(NotHealthy, match="sha256 is not the recorded one"):
        bring(place, sidecar, FolderPlace(above), lambda _: None)
    assert list(above.iterdir()) == []


def test_another_host_key_in_the_middle_ends_it(
    server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    """Somebody else answers after the connection broke."""
    del identity
    place = store_at(server.target("backups"), access).place
    sidecar = offered(place, NAME)
    other = paramiko.ECDSAKey.generate()
    line = f"[127.0.0.1]:{server.port} {other.get_name()} {other.get_base64()}\n"
    access.known_hosts.write_text(line)
    server.faults.breaks, server.faults.breaks_after = 1, 100_000
    with pytest.raises(NodeUnreachable, match="wrong host key"):
        bring(place, sidecar, FolderPlace(above), lambda _: None)
    assert list(above.iterdir()) == []


def test_without_room_nothing_is_copied(
    server: SftpServer,
    access: Access,
    identity: Path,
    above: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del identity
    monkeypatch.setattr(places, "SPARE_BYTES", 1 << 60)
    with (
        pytest.raises(Refused, match="MiB free, and the backup needs") as raised,
        at_hand(server.target(f"backups/{FILE}"), lambda: access, lambda _: None),
    ):
        raise AssertionError("it was copied")
    assert "TMPDIR=" in (raised.value.hint or "")
    assert list(above.iterdir()) == []


def test_a_disk_that_others_fill_while_it_comes_keeps_its_last_bytes(
    server: SftpServer,
    access: Access,
    identity: Path,
    above: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    del identity
    monkeypatch.setattr(places, "LEAST_FREE_BYTES", 1 << 60)
    told: list[str] = []
    with (
        pytest.raises(Refused, match="fills it while the backup comes") as raised,
        at_hand(server.target(f"backups/{FILE}"), lambda: access, told.append),
    ):
        raise AssertionError("the disk was filled")
    assert "TMPDIR=" in (raised.value.hint or "")
    assert told, "there was room when it began"
    assert list(above.iterdir()) == []


@pytest.mark.parametrize("when", ["while it comes", "while it is used"])
def test_an_interrupted_command_leaves_nothing(
    when: str, server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    del identity

    def interrupt(_line: str) -> None:
        if when == "while it comes":
            raise KeyboardInterrupt

    with (
        pytest.raises(KeyboardInterrupt),
        at_hand(server.target(f"backups/{FILE}"), lambda: access, interrupt),
    ):
        raise KeyboardInterrupt
    assert list(above.iterdir()) == []


def test_what_a_killed_command_left_goes_and_nothing_else(
    server: SftpServer, access: Access, identity: Path, above: Path
) -> None:
    del identity
    for name in ("killed", "runs", "strange"):
        (above / f"appliance-backup-{name}").mkdir()
        (above / f"appliance-backup-{name}/{FILE}.partial").write_bytes(b"half")
    (above / "appliance-backup-strange/notes.txt").write_text("of somebody")
    (above / "appliance-backup-link").symlink_to(above / "appliance-backup-strange")
    held = os.open(above / "appliance-backup-runs", os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    with at_hand(server.target(f"backups/{FILE}"), lambda: access, lambda _: None):
        pass
    os.close(held)
    assert sorted(one.name for one in above.iterdir()) == [
        "appliance-backup-link", "appliance-backup-runs", "appliance-backup-strange",
    ]  # fmt: skip
    assert (above / "appliance-backup-strange/notes.txt").exists()
    assert (above / f"appliance-backup-runs/{FILE}.partial").exists()


@pytest.fixture
def bucket() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


# What the bucket's server does to the file -> what is told; "": it is whole all the same.
ANSWERS = {
    "whole": (None, ""),
    "cut once": (Answer("GET", cut=1000, times=1, where=f"{FILE}?"), ""),
    "cut always": (Answer("GET", cut=1000, where=f"{FILE}?"), "again and again"),
    "longer": (Answer("GET", huge=1000, where=f"{FILE}?"), "more bytes came"),
    "another": (Answer("GET", flips=True, where=f"{FILE}?"), "sha256 is not the recorded one"),
    "no access": (Answer("GET", code="AccessDenied", status=403, where=f"{FILE}?"), "denies"),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_a_backup_in_a_bucket(case: str, bucket: S3Server, tmp_path: Path, above: Path) -> None:
    secrets = {ACCESS_KEY: "key", SECRET_KEY: "CANARY-S3-SECRET"}
    access = Access(tmp_path / "known_hosts", None, secrets.get, bucket.settings)
    identity = written(store_at("s3://backups/racks", access), tmp_path)
    answer, why = ANSWERS[case]
    bucket.answers += [replace(answer)] if answer else []
    with ExitStack() as stack:
        raised = stack.enter_context(pytest.raises(ApplianceError, match=why)) if why else None
        with at_hand(f"s3://backups/racks/{FILE}", lambda: access, lambda _: None) as path:
            assert BackupFile(path, identity).manifest.about.id == NAME
    if raised:
        assert raised.value.hint
        assert "CANARY" not in str(raised.value.__dict__)
    assert list(above.iterdir()) == []


@pytest.mark.usefixtures("above")
def test_a_name_that_is_none_is_refused_before_anybody_is_asked(
    server: SftpServer, access: Access
) -> None:
    server.faults = Faults(refuses=True)
    for text in ("backups/notes.txt", "backups/..backup", "backups/"):
        with (
            pytest.raises(Refused, match="not the name of a backup"),
            at_hand(server.target(text), lambda: access, lambda _: None),
        ):
            raise AssertionError(text)
