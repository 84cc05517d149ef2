"""Backups in a bucket: written, read again, and never taken for whole where they are not."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.backup.s3 import http as s3_http
from appliance.adapters.backup.s3 import place as s3_place
from appliance.adapters.backup.s3.place import ACCESS_KEY, SECRET_KEY, S3Place
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.backup.targets import Access, store_at
from appliance.errors import ApplianceError, ConfigError, NodeUnreachable, NotHealthy, Refused
from appliance.model.backup.names import SIDECAR_SUFFIX, SUFFIX
from appliance.model.backup.record import Part
from appliance.model.site.recovery.backup_s3 import S3
from tests.s3_server import Answer, S3Server, s3_server
from tests.unit.backup.samples import MOMENT, NAME, finish, key

OLD = "rack7-20260920T000000Z"
SECRETS = {ACCESS_KEY: "key", SECRET_KEY: "CANARY-S3-SECRET"}
TARGET = "s3://backups/racks/rack7"
PART = 5 << 20


@pytest.fixture
def server() -> Iterator[S3Server]:
    with s3_server() as made:
        yield made


@pytest.fixture
def access(server: S3Server, tmp_path: Path) -> Access:
    return Access(tmp_path / "known_hosts", None, SECRETS.get, server.settings)


@pytest.fixture
def store(access: Access, monkeypatch: pytest.MonkeyPatch) -> BackupStore:
    monkeypatch.setattr(s3_place, "PART_BYTES", PART)
    made = store_at(TARGET, access)
    assert isinstance(made.place, S3Place)
    return made


@pytest.fixture
def write(store: BackupStore, tmp_path: Path) -> Callable[..., None]:
    """Write a backup of 300 kB, or of more than two parts."""
    _, recipient = key(tmp_path)

    def write(name: str, size: int = 300_000) -> None:
        with store.new(name, [recipient], MOMENT) as writer:
            writer.put("etcd/snapshot.db", b"snapshot" * 20_000)
            writer.put("state/journal/1.json", os.urandom(size))
            finish(writer, name)

    return write


def uploads(server: S3Server) -> int:
    """How many uploads never ended."""
    from minio import Minio

    client = Minio(server.settings.address, "key", "secret", secure=False, region="us-east-1")
    return len(client._list_multipart_uploads("backups").uploads)


@pytest.mark.parametrize("size", [300_000, 2 * PART + 7])
def test_a_backup_is_written_listed_checked_and_removed(
    size: int, store: BackupStore, write: Callable[..., None], server: S3Server
) -> None:
    write(OLD)
    write(NAME, size)
    assert [(one.id, one.state) for one in store.held()] == [(OLD, "whole"), (NAME, "whole")]
    assert store.check(NAME).about.id == NAME
    with pytest.raises(Refused, match="of another site"):
        store.remove(OLD, "rack8")
    store.remove(OLD, "rack7")
    assert sorted(store.place.sizes()) == [NAME + SUFFIX, NAME + SIDECAR_SUFFIX]
    # Two files of two backups and the note of a removal: none replaces one of its name.
    assert server.conditions == 5
    assert any("partNumber=3" in where for _, where in server.asked) is (size > PART)


def test_an_existing_one_is_never_replaced(
    store: BackupStore, write: Callable[..., None], server: S3Server
) -> None:
    """Also not where it appeared between the look and the write."""
    write(NAME)
    sha256 = store.check(NAME).sha256
    with pytest.raises(Refused, match="exists already"):
        write(NAME)
    server.answers.append(Answer("HEAD", status=404, times=1))
    with pytest.raises(Refused, match="already"):
        write(NAME)
    assert store.check(NAME).sha256 == sha256


def test_a_server_without_conditions_is_used_without_them(
    store: BackupStore, write: Callable[..., None], server: S3Server
) -> None:
    server.answers.append(Answer("PUT", code="NotImplemented", status=501, times=1))
    write(NAME)
    assert [one.state for one in store.held()] == ["whole"]
    assert server.conditions == 1


# What the server says while a backup is written -> what is told of it.
FAULTS = {
    "no bucket": (Answer("PUT", code="NoSuchBucket", status=404), "there is no such bucket"),
    "no access": (Answer("PUT", code="AccessDenied", status=403), "the server denies access"),
    "another key": (Answer("PUT", code="InvalidAccessKeyId", status=403), "does not know the acc"),
    "another secret": (Answer("PUT", code="SignatureDoesNotMatch", status=403), "the secret key"),
    "a clock": (Answer("PUT", code="RequestTimeTooSkewed", status=403), "clock of this machine"),
    "busy": (Answer("PUT", code="SlowDown", status=503), "the server is busy"),
    "a proxy": (Answer("PUT", status=503), "status code: 503|the server's answer is none of S3"),
    "full": (Answer("PUT", code="XMinioStorageFull", status=507), "disks of the server are full"),
    "hangs": (Answer("PUT", hangs=3), "no answer within 1 s"),
    "hangs when it is read": (Answer("GET", hangs=3, where=NAME), "no answer within 1 s"),
    "drips": (Answer("GET", drips=0.05, where=NAME), "no answer within 1 s"),
    "truncated": (Answer("GET", cut=100, where=NAME), "broke off"),
    "another content": (
        Answer("GET", flips=True, where=NAME),
        "its sha256 is not the recorded one",
    ),
    "an unknown error": (Answer("PUT", code="Strange\x1b[2J", status=418), "none of S3"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_what_a_server_spoils_is_no_backup_and_the_old_ones_stay(
    case: str,
    store: BackupStore,
    write: Callable[..., None],
    server: S3Server,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer, told = FAULTS[case]
    write(OLD)
    if "no answer" in told:
        monkeypatch.setattr(s3_http, "REQUEST_SECONDS", 1.0)
        monkeypatch.setattr(s3_place, "STEP_SECONDS", 1.0)
    server.answers.append(replace(answer))
    with pytest.raises(ApplianceError, match=told) as raised:
        write(NAME)
    assert raised.value.hint
    assert "\x1b" not in raised.value.message
    assert "CANARY" not in str(raised.value.__dict__)
    server.answers.clear()
    states = {one.id: one.state for one in store.held()}
    assert states.pop(OLD) == "whole"
    assert set(states.values()) <= {"interrupted"}
    store.remove_unfinished(NAME)
    assert [one.id for one in store.held()] == [OLD]


@pytest.mark.parametrize(
    "answer",
    [
        Answer("PUT", code="AccessDenied", status=403, where="partNumber=2"),
        Answer("PUT", status=503, where="partNumber=2"),
        Answer("POST", code="InternalError", status=500, where="uploadId="),
        Answer("PUT", etag='"wrong"', where="partNumber=1"),
    ],
    ids=["a part", "a part by a proxy", "the end", "an etag"],
)
def test_an_upload_of_parts_that_fails_is_given_up(
    answer: Answer, write: Callable[..., None], store: BackupStore, server: S3Server
) -> None:
    server.answers.append(replace(answer))
    with pytest.raises(ApplianceError):
        write(NAME, 2 * PART)
    assert store.place.sizes() == {}
    assert uploads(server) == 0


def test_a_fault_of_a_source_gives_the_upload_up(
    store: BackupStore, server: S3Server, tmp_path: Path
) -> None:
    _, recipient = key(tmp_path)

    def spoilt() -> Iterator[bytes]:
        yield os.urandom(2 * PART)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), store.new(NAME, [recipient], MOMENT) as writer:
        writer.stream(Part("state/journal/1.json", "0" * 64, 3 * PART), spoilt())
    assert store.place.sizes() == {}
    assert uploads(server) == 0


def test_what_a_killed_process_left_is_given_up_by_the_next(
    store: BackupStore, server: S3Server
) -> None:
    """Uploads of other names stay: they may be of another site."""
    from minio import Minio

    client = Minio(server.settings.address, "key", "secret", secure=False, region="us-east-1")
    for name in (NAME + SUFFIX, OLD + SUFFIX):
        client._create_multipart_upload("backups", f"racks/rack7/{name}", {})
    assert store.remove_unfinished(NAME)
    assert not store.remove_unfinished(NAME)
    assert uploads(server) == 1
    assert store.remove_unfinished(OLD)


def test_only_objects_directly_below_the_prefix_are_seen(
    store: BackupStore, server: S3Server, access: Access, write: Callable[..., None]
) -> None:
    write(NAME)
    other = store_at("s3://backups/racks", access)
    assert other.place.sizes() == {}
    assert store_at("s3://backups", access).held() == ()
    server.answers.append(Answer("GET", huge=9 << 20, where="list-type"))
    with pytest.raises(ApplianceError, match="larger than"):
        store.held()


def test_nothing_that_a_server_sends_is_unpacked(
    store: BackupStore, write: Callable[..., None], server: S3Server
) -> None:
    """A few bytes may become any size; no packed answer was asked for."""
    write(NAME)
    server.answers.append(Answer("GET", packed=True))
    assert [one.state for one in store.held()] == ["whole"]
    assert store.check(NAME).about.id == NAME
    server.answers.clear()


def test_a_name_that_is_longer_than_any_of_ours_is_not_kept(store: BackupStore) -> None:
    for name in ("a" * 255, "b" * 256):
        with store.place.new(name) as sink:
            sink.write(b"of somebody else")
    assert list(store.place.sizes()) == ["a" * 255]


def test_without_a_key_in_the_vault_nothing_is_asked(server: S3Server, access: Access) -> None:
    asked = len(server.asked)
    for secrets in ({}, {ACCESS_KEY: "key"}):
        store = store_at(TARGET, replace(access, secret=secrets.get))
        with pytest.raises(ConfigError, match="the vault has no vault_backup_s3_"):
            store.held()
    with pytest.raises(ConfigError, match="which server"):
        store_at(TARGET, replace(access, s3=None))
    assert len(server.asked) == asked


def test_a_server_that_is_off_is_told_as_one(server: S3Server, access: Access) -> None:
    gone = S3(endpoint="http://127.0.0.1:1", plain_http=True)
    with pytest.raises(NodeUnreachable, match=r"no S3 at http://127\.0\.0\.1:1"):
        store_at(TARGET, replace(access, s3=gone)).held()
    secure = S3(endpoint=server.settings.endpoint.replace("http:", "https:"))
    with pytest.raises(ApplianceError) as raised:
        store_at(TARGET, replace(access, s3=secure)).held()
    assert raised.value.hint


def test_a_check_of_what_was_changed_fails(
    store: BackupStore, write: Callable[..., None], server: S3Server
) -> None:
    write(NAME)
    server.answers.append(Answer("GET", cut=1, where=f"{NAME}{SUFFIX}?"))
    with pytest.raises(NotHealthy, match=r"broke off|another size"):
        store.check(NAME)


# The endpoint -> whether plain HTTP was acknowledged, and whether it is taken.
ENDPOINTS = {
    ("https://s3.appliance.example:9000", False): True,
    ("https://198.51.100.20/", False): True,
    ("http://198.51.100.20:9000", False): False,
    ("http://198.51.100.20:9000", True): True,
    ("s3.appliance.example", False): False,
    ("https://ada:secret@s3.appliance.example", False): False,
    ("https://s3.appliance.example/path", False): False,
    ("https://s3.appliance.example:0", False): False,
}


@pytest.mark.parametrize("given", ENDPOINTS)
def test_which_endpoints_are_taken(given: tuple[str, bool]) -> None:
    endpoint, plain = given
    try:
        S3(endpoint=endpoint, plain_http=plain)
    except ValueError:
        taken = False
    else:
        taken = True
    assert taken is ENDPOINTS[given]


def test_an_answer_that_comes_late_is_closed(access: Access) -> None:
    """Nobody reads it any more; its connection would stay open."""
    pool = s3_http.LimitedPool(None)
    ready, came = threading.Event(), []

    def late() -> object:
        assert access.s3 is not None
        answer = pool.urlopen("GET", f"{access.s3.endpoint}/", preload_content=False)
        came.append(answer)
        ready.wait(10)
        return answer

    with pytest.raises(TimeoutError):
        s3_http.in_time(0.5, late)
    ready.set()
    until = time.monotonic() + 10
    while not (came and came[0].closed):
        assert time.monotonic() < until
        time.sleep(0.01)
