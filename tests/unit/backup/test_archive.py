"""A backup is written and read as a stream; whatever happens to it, it is whole or refused."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pyrage
import pytest

from appliance.adapters.backup.age import Sink, new_identity, read_identities
from appliance.adapters.backup.places import FolderPlace, Place
from appliance.adapters.backup.reader import check_file, check_parts, read_parts
from appliance.adapters.backup.writer import BackupWriter, BrokenOff, new_backup
from appliance.errors import ApplianceError, CommandFailed, ConfigError, NotHealthy, Refused
from appliance.model.backup.record import Manifest, Part
from tests.unit.backup.samples import CONTENT, MOMENT, NAME, about, finish, key, write

FILE = f"{NAME}.backup"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "place"
    folder.mkdir()
    return folder


def test_what_was_written_is_read(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    writer = write(place, recipient)
    found = check_file(FolderPlace(place), NAME)
    assert found == writer.sidecar
    assert found.about.kinds == ("etcd", "control_plane", "site", "state")
    identities = read_identities(path)
    with (place / FILE).open("rb") as stream:
        manifest = check_parts(stream, identities)
    assert manifest == writer.manifest
    read: dict[str, bytes] = {}
    with (place / FILE).open("rb") as stream:
        read_parts(stream, identities, manifest, lambda part, s: read.update({part.name: s.read()}))
    assert read == CONTENT
    assert {p.name: p.stat().st_mode & 0o777 for p in place.iterdir()} == {
        FILE: 0o600,
        f"{FILE}.json": 0o600,
    }


def test_without_the_key_nothing_is_readable(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    write(place, recipient)
    content = b"".join(path.read_bytes() for path in place.iterdir())
    assert [
        one for one in (b"CANARY", b"ANSIBLE_VAULT", b"snapshot.db", b"pki") if one in content
    ] == []
    other = tmp_path / "other"
    other.write_text(new_identity()[0])
    with (
        (place / FILE).open("rb") as stream,
        pytest.raises(NotHealthy, match="this key does not open"),
    ):
        check_parts(stream, read_identities(other))


def test_one_flipped_byte_is_refused(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    write(place, recipient)
    identities, whole = read_identities(path), (place / FILE).read_bytes()
    for at in {*range(0, len(whole), max(1, len(whole) // 60)), len(whole) - 1}:
        changed = bytearray(whole)
        changed[at] ^= 1
        with pytest.raises(NotHealthy):
            check_parts(io.BytesIO(bytes(changed)), identities)
        (place / FILE).write_bytes(changed)
        with pytest.raises(NotHealthy, match="sha256"):
            check_file(FolderPlace(place), NAME)


def test_one_that_is_cut_or_longer_is_refused(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    write(place, recipient)
    identities, whole = read_identities(path), (place / FILE).read_bytes()
    for content in (b"", whole[:100], whole[: len(whole) // 2], whole[:-1], whole + b"x"):
        with pytest.raises(NotHealthy):
            check_parts(io.BytesIO(content), identities)
        (place / FILE).write_bytes(content)
        with pytest.raises(NotHealthy, match=r"size|sha256"):
            check_file(FolderPlace(place), NAME)


@pytest.mark.parametrize("lost", [f"{FILE}.json", FILE])
def test_without_one_of_its_files_it_is_refused(tmp_path: Path, place: Path, lost: str) -> None:
    write(place, key(tmp_path)[1])
    (place / lost).unlink()
    with pytest.raises(NotHealthy, match=r"interrupted|No such file"):
        check_file(FolderPlace(place), NAME)


def test_the_file_beside_a_backup_has_no_secret_of_a_program(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    with new_backup(FolderPlace(place), NAME, [recipient], MOMENT) as writer:
        writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
        writer.lacks("w1", "runai", "helm: postgresql.password=CANARY1 is refused by the server")
        writer.lacks("w1", "runai", "psql: postgresql://admin:CANARY2@db:5432/backend: no route")
        finish(writer)
    beside = (place / f"{FILE}.json").read_text()
    assert "CANARY" not in beside
    assert "is refused by the server" in beside


def test_every_recipient_opens_it(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    identity, escrow = new_identity()
    with new_backup(FolderPlace(place), NAME, [recipient, escrow], MOMENT) as writer:
        writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
        finish(writer)
    for one in (read_identities(path), [pyrage.x25519.Identity.from_str(identity)]):
        with (place / FILE).open("rb") as stream:
            assert check_parts(stream, one) == writer.manifest


def test_a_source_that_breaks_off_is_no_part(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)

    def broken() -> Iterator[bytes]:
        yield b"half"
        raise OSError("the connection broke")

    with new_backup(FolderPlace(place), NAME, [recipient], MOMENT) as writer:
        lost = Part("runai/globals.sql", "0" * 64, 300_000, "cp1")
        with pytest.raises(BrokenOff, match="the connection broke"):
            writer.stream(lost, broken())
        with pytest.raises(BrokenOff, match="its source ended early"):
            writer.stream(lost, [b"short"])
        content = b"-- PostgreSQL"
        with pytest.raises(BrokenOff, match="another sha256"):
            writer.stream(Part("runai/globals.sql", "0" * 64, len(content), "cp1"), [content])
        digest = hashlib.sha256(content).hexdigest()
        writer.stream(Part("runai/globals.sql", digest, len(content), "cp1"), [content])
        writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
        writer.lacks("cp2", "control_plane", "no\nanswer")
        finish(writer)
    read: dict[str, bytes] = {}
    with (place / FILE).open("rb") as stream:
        manifest = check_parts(stream, read_identities(path))
    with (place / FILE).open("rb") as stream:
        read_parts(
            stream,
            read_identities(path),
            manifest,
            lambda part, s: read.update({part.name: s.read()}),
        )
    assert read == {"runai/globals.sql": content, "etcd/snapshot.db": CONTENT["etcd/snapshot.db"]}
    assert (manifest.abandoned, manifest.about.missing[0].why) == ((0, 1, 2), "no answer")


@pytest.mark.parametrize("name", ["../etc/passwd", "strange/x", "etcd", "etcd/snapshot.db"])
def test_a_part_of_a_name_that_is_none_is_refused(tmp_path: Path, place: Path, name: str) -> None:
    parts = [("etcd/snapshot.db", b"x"), (name, b"x")]
    with pytest.raises(Refused, match="a backup has no place"):
        _put(FolderPlace(place), key(tmp_path)[1], parts)
    assert list(place.iterdir()) == []


def _put(
    place: Place,
    recipient: str,
    parts: list[tuple[str, bytes]],
    fault: BaseException | None = None,
) -> None:
    with new_backup(place, NAME, [recipient], MOMENT) as writer:
        for name, content in parts:
            writer.put(name, content)
        if fault is not None:
            raise fault
        finish(writer)


class _Full(FolderPlace):
    """A folder whose disk is full after some bytes, or before the file beside the backup."""

    def __init__(self, folder: Path, room: int) -> None:
        super().__init__(folder)
        self.room = room

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        with super().new(name) as sink:
            yield _FullSink(self, sink)


class _FullSink:
    def __init__(self, disk: _Full, sink: Sink) -> None:
        self._disk, self._sink = disk, sink

    def write(self, content: bytes, /) -> int:
        self._disk.room -= len(content)
        if self._disk.room < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._sink.write(content)
        return len(content)


def test_a_full_disk_leaves_the_old_ones_and_nothing_new(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    write(place, recipient, "rack7-20260920T000000Z")
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    content = os.urandom(400_000)
    for room in (0, 100, 70_000, 300_000):
        with pytest.raises(CommandFailed, match="No space left"):
            _put(_Full(place, room), recipient, [("etcd/snapshot.db", content)])
        assert {path.name: path.read_bytes() for path in place.iterdir()} == before


def test_an_error_or_an_interrupt_leaves_nothing(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    for fault in (ApplianceError("a fault"), KeyboardInterrupt(), RuntimeError("bug")):
        with pytest.raises(type(fault)):
            _put(FolderPlace(place), recipient, [("etcd/snapshot.db", bytes(1_000_000))], fault)
        assert list(place.iterdir()) == []


def test_an_existing_one_is_never_replaced(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    write(place, recipient)
    before = {path.name: path.read_bytes() for path in place.iterdir()}
    with pytest.raises(Refused, match="exists already"):
        write(place, recipient)
    (place / FILE).unlink()
    (place / FILE).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refused, match="exists already"):
        write(place, recipient)
    assert not (tmp_path / "elsewhere").exists()
    assert (place / f"{FILE}.json").read_bytes() == before[f"{FILE}.json"]


@pytest.mark.parametrize(
    ("recipients", "why"),
    [([], "no recipient"), (["age1short"], "no public key"), (["ssh-rsa AAAA"], "no public key")],
)
def test_without_a_public_key_nothing_is_written(
    place: Path, recipients: list[str], why: str
) -> None:
    with (
        pytest.raises(ConfigError, match=why),
        new_backup(FolderPlace(place), NAME, recipients, MOMENT),
    ):
        raise AssertionError
    assert list(place.iterdir()) == []


def test_files_without_a_key_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in (b"", b"age1notaprivatekey", b"AGE-SECRET-KEY-1QQ", b"\xff" * 100):
        path.write_bytes(content)
        with pytest.raises(Refused, match="it holds"):
            read_identities(path)
    path.write_bytes(b"x" * 100_000)
    with pytest.raises(Refused, match="cannot be read"):
        read_identities(path)
    with pytest.raises(Refused, match="cannot be read"):
        read_identities(tmp_path / "absent")


def _forged(recipient: str, members: list[tarfile.TarInfo | tuple[str, bytes]]) -> IO[bytes]:
    """What whoever knows a recipient can make."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for one in members:
            if isinstance(one, tarfile.TarInfo):
                archive.addfile(one)
            else:
                info = tarfile.TarInfo(one[0])
                info.size = len(one[1])
                archive.addfile(info, io.BytesIO(one[1]))
    packed = gzip.compress(plain.getvalue())
    return io.BytesIO(pyrage.encrypt(packed, [pyrage.x25519.Recipient.from_str(recipient)]))


def _link() -> tarfile.TarInfo:
    link = tarfile.TarInfo("site/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return link


def test_forged_ones_are_refused(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    identities = read_identities(path)
    whole = write(place, recipient).manifest
    assert whole is not None
    with (place / FILE).open("rb") as stream:
        packed = pyrage.decrypt(stream.read(), identities)
    with tarfile.open(fileobj=io.BytesIO(packed), mode="r:gz") as archive:
        read = {m.name: archive.extractfile(m).read() for m in archive}  # type: ignore[union-attr]
    manifest = ("manifest.json", read.pop("manifest.json"))
    parts = list(read.items())
    cases = {
        "interrupted": parts,
        "its parts are not": [*parts[:-1], manifest],
        "parts are not": [*reversed(parts), manifest],
        "are not those of its manifest": [*parts, ("site/more", b"x"), manifest],
        "something comes after": [*parts, manifest, ("site/more", b"x")],
        "after the manifest": [*parts, manifest, manifest],
        "name that no backup has": [("../../etc/cron.d/x", b"x"), manifest],
        "not a regular file": [_link(), manifest],
        "it is not JSON": [*parts, ("manifest.json", b"nonsense")],
    }
    for why, members in cases.items():
        with pytest.raises(NotHealthy, match=why):
            check_parts(_forged(recipient, list(members)), identities)
    assert check_parts(_forged(recipient, [*parts, manifest]), identities) == whole
    for content in (b"", b"no gzip", gzip.compress(b""), gzip.compress(b"no tar" * 1000)):
        sealed = pyrage.encrypt(content, [pyrage.x25519.Recipient.from_str(recipient)])
        with pytest.raises(NotHealthy):
            check_parts(io.BytesIO(sealed), identities)


def test_another_file_than_the_one_that_was_checked_is_refused(tmp_path: Path, place: Path) -> None:
    path, recipient = key(tmp_path)
    manifest = write(place, recipient).manifest
    assert manifest is not None
    other = "rack7-20260921T141321Z"
    with new_backup(FolderPlace(place), other, [recipient], MOMENT) as writer:
        writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
        finish(writer, other)
    taken: list[str] = []
    with (
        (place / f"{other}.backup").open("rb") as stream,
        pytest.raises(NotHealthy, match="not the backup that was checked"),
    ):
        read_parts(stream, read_identities(path), manifest, lambda part, _: taken.append(part.name))
    assert taken == ["etcd/snapshot.db"]


def test_a_list_that_nobody_could_read_again_makes_no_backup(tmp_path: Path, place: Path) -> None:
    _, recipient = key(tmp_path)
    manifest = Manifest(
        about(), "api.appliance.example:6443", (), None, {f"v{n}": "1" for n in range(201)}
    )

    def written() -> None:
        with new_backup(FolderPlace(place), NAME, [recipient], MOMENT) as writer:
            writer.put("site/hosts.yml", b"all: {}")
            writer.finish(manifest)

    with pytest.raises(BrokenOff, match="cannot be read again"):
        written()
    assert list(place.iterdir()) == []


def test_a_writer_that_was_not_finished_is_a_fault(tmp_path: Path, place: Path) -> None:
    seen: list[BackupWriter] = []
    with (
        pytest.raises(AssertionError, match="not finished"),
        new_backup(FolderPlace(place), NAME, [key(tmp_path)[1]], MOMENT) as writer,
    ):
        seen.append(writer)
    assert (list(place.iterdir()), len(seen)) == ([], 1)


def test_only_a_regular_file_is_removed(tmp_path: Path, place: Path) -> None:
    (place / "folder").mkdir()
    (place / "link").symlink_to(tmp_path)
    for name in ("folder", "link"):
        with pytest.raises(OSError, match="not a regular file"):
            FolderPlace(place).remove(name)
    (place / "file").write_bytes(b"x")
    FolderPlace(place).remove("file")
    assert sorted(path.name for path in place.iterdir()) == ["folder", "link"]
    assert FolderPlace(place).sizes() == {}
