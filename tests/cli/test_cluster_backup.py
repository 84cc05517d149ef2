"""``appliance cluster backup``: what is typed, printed and refused."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.backup.answer import NodeAnswer
from appliance.model.backup.record import EtcdContent
from appliance.model.backup.restoring.database_view import SavedDatabase, SavedDump, TriedDump
from appliance.model.site.recovery.backup_settings import Backup
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeClock, FakeRack
from tests.unit.backup.fake_sources import ETCD, SNAPSHOT, FakeSources, FakeStream, part

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., int]


class Site(FakedSite):
    """A site whose adapters are fakes."""

    @property
    def fake(self) -> Any:
        return self.nodes

    @property
    def archive(self) -> Any:
        return self.fake.archive

    @property
    def clock(self) -> Any:
        return self.fake.clock


class Sources(FakeSources):
    """Nodes that restore a snapshot, and say what it held."""

    restored: EtcdContent = ETCD

    def try_snapshot(self, _node: Any, content: IO[bytes], size: int, _folder: str) -> EtcdContent:
        assert content.read() == SNAPSHOT
        assert size == len(SNAPSHOT)
        return self.restored


@pytest.fixture
def sources() -> Sources:
    return Sources()


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, sources: Sources) -> Typed:
    """Type words of the group; the site has a place and a key in this folder."""
    (tmp_path / "place").mkdir()
    recipient = write_key(tmp_path / "key.txt")
    plain = samples.site(1, 1)
    wanted = Backup(recipients=(recipient,), to=str(tmp_path / "place"))
    settings = plain.settings.model_copy(update={"backup": wanted})
    site = replace(plain, settings=settings, directory=tmp_path)
    desired = samples.desired(site)
    fake: Any = FakeRack(desired)
    fake.archive, fake.clock = FakeArchive(), FakeClock()

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, desired, fake, fake, None)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(Application, "site", lambda *_: site)
    monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: sources)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)

    def typed(*words: str) -> int:
        return run(["cluster", "backup", *words, "--site", str(tmp_path)])

    return typed


def _made(tmp_path: Path) -> Path:
    (found,) = (tmp_path / "place").glob("*.backup")
    return found


def test_a_backup_is_made_checked_and_listed(typed: Typed, tmp_path: Path, capsys: Capture) -> None:
    assert typed("create", "--yes") == 0
    said = capsys.readouterr().out
    assert "backup: rack-20231114T221320Z, " in said
    assert "missing: this machine: site/locked: Permission denied" in said
    assert typed("list") == 0
    assert "whole, without 2 parts" in capsys.readouterr().out
    assert typed("verify", str(_made(tmp_path))) == 0
    assert "verified: rack-20231114T221320Z" in capsys.readouterr().out
    assert typed("verify", str(_made(tmp_path)), "--identity", str(tmp_path / "key.txt")) == 0
    said = capsys.readouterr().out
    assert "etcd: restored on cp1: revision 7, 3 keys" in said
    assert "each with the sha256 of the manifest" in said


def test_the_hint_to_verify_works_as_it_is_printed(
    typed: Typed, tmp_path: Path, capsys: Capture
) -> None:
    place = tmp_path / "my backups"
    place.mkdir()
    assert typed("create", "--yes", "--to", str(place)) == 0
    said = capsys.readouterr()
    (hint,) = re.findall(r"to prove it: appliance cluster backup (.*)", said.out + said.err)
    assert typed(*shlex.split(hint)) == 0


def test_what_is_printed_for_programs(typed: Typed, tmp_path: Path, capsys: Capture) -> None:
    assert typed("create", "--yes", "--output", "json") == 0
    made = json.loads(capsys.readouterr().out)["backup"]
    assert typed("list", "--output", "json") == 0
    (listed,) = json.loads(capsys.readouterr().out)["backups"]
    assert typed("verify", str(_made(tmp_path)), "--output", "json") == 0
    verified = json.loads(capsys.readouterr().out)
    assert made["id"] == listed["id"] == verified["id"]
    assert (listed["state"], verified["sha256"]) == ("whole", made["sha256"])
    assert (verified["parts"], verified["restored"]) == (None, [])


def test_a_changed_one_is_not_verified(typed: Typed, tmp_path: Path, capsys: Capture) -> None:
    assert typed("create", "--yes") == 0
    path = _made(tmp_path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    assert typed("verify", str(path)) == 5
    assert "its sha256 is not the recorded one" in capsys.readouterr().err


def test_a_restored_etcd_that_holds_something_else_is_no_backup(
    typed: Typed, tmp_path: Path, sources: Sources, capsys: Capture
) -> None:
    assert typed("create", "--yes") == 0
    sources.restored = replace(ETCD, keys=2)
    capsys.readouterr()
    assert typed("verify", str(_made(tmp_path)), "--identity", str(tmp_path / "key.txt")) == 5
    assert "the restored etcd does not hold what was saved" in capsys.readouterr().err


def test_one_that_the_journal_does_not_know_is_told(
    typed: Typed, tmp_path: Path, capsys: Capture
) -> None:
    assert typed("create", "--yes") == 0
    for record in (tmp_path / ".appliance/journal").glob("*.json"):
        record.unlink()
    capsys.readouterr()
    assert typed("verify", str(_made(tmp_path))) == 0
    assert "may be from somebody else" in capsys.readouterr().err


REFUSED = {
    ("verify", "place/notes.txt"): (3, "not the name of a backup"),
    ("verify", "place/rack-20231114T221320Z.backup"): (5, "is not there"),
    ("create", "--to", "/nowhere/at/all", "--yes"): (3, "is not a folder"),
    ("list", "--to", "ftp://nas/backups"): (3, "not a kind of place"),
    ("create",): (3, "--yes"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused(
    typed: Typed, tmp_path: Path, capsys: Capture, words: tuple[str, ...]
) -> None:
    code, why = REFUSED[words]
    given = [str(tmp_path / word) if word.startswith("place/") else word for word in words]
    assert typed(*given) == code
    assert why in capsys.readouterr().err
    assert list((tmp_path / "place").iterdir()) == []


def test_a_key_is_written_once(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "key"
    assert run(["cluster", "backup", "key", str(path)]) == 0
    public = capsys.readouterr().out.splitlines()[0]
    assert public.startswith("age1")
    assert (path.stat().st_mode & 0o777, "AGE-SECRET-KEY-1" in path.read_text()) == (0o600, True)
    before = path.read_text()
    assert run(["cluster", "backup", "key", str(path)]) == 3
    assert path.read_text() == before
    assert "AGE-SECRET" not in capsys.readouterr().err


def test_a_site_without_the_section_is_told_what_to_write(
    typed: Typed, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(Application, "site", lambda *_: samples.site(1, 1))
    assert typed("list") == 3
    assert "backup: recipients" in capsys.readouterr().err


class WithDatabase(Sources):
    """Nodes that give a dump, too, and say how it compared."""

    digests: Any = None
    tried = TriedDump(1, 2)
    asked_to_try: SavedDump | None = None

    @contextmanager
    def of_node(self, node: Any, kinds: Sequence[str], folder: str) -> Iterator[FakeStream]:
        if "tls" not in kinds:
            with super().of_node(node, kinds, folder) as stream:
                yield stream
            return
        backend: dict[str, Any] = {"part": "runai/databases/backend.sql", "rows": {"t": 2}}
        backend |= {} if self.digests is None else {"digests": self.digests}
        listed = json.dumps({"databases": {"backend": backend}}).encode()
        parts = [part("runai/counts.json", listed), part("runai/databases/backend.sql", b"--")]
        yield FakeStream(NodeAnswer(tuple(one for one, _ in parts)), [c for _, c in parts])

    def try_dump(self, _node: Any, content: IO[bytes], _part: Any, saved: SavedDump) -> TriedDump:
        assert content.read() == b"--"
        self.asked_to_try = saved
        return self.tried


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch, typed: Typed, tmp_path: Path) -> Callable[[Any], int]:
    """Verify a backup with a database, by these sources."""

    def tried(sources: WithDatabase) -> int:
        monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: sources)
        assert typed("create", "--yes") == 0
        return typed("verify", str(_made(tmp_path)), "--identity", str(tmp_path / "key.txt"))

    return tried


def test_a_database_is_compared_by_digests(tried: Callable[[Any], int], capsys: Capture) -> None:
    sources = WithDatabase()
    sources.digests, sources.tried = {"t": "5a" * 32}, TriedDump(64, 48210, digests=True)
    assert tried(sources) == 0
    told = "backend.sql: restored: 64 tables, 48210 rows, compared by counts and digests\n"
    assert told in capsys.readouterr().out
    assert sources.asked_to_try is not None
    assert sources.asked_to_try.database.digests == {"t": "5a" * 32}


def test_a_backup_without_digests_is_compared_by_counts_and_says_so(
    tried: Callable[[Any], int], capsys: Capture
) -> None:
    sources = WithDatabase()
    assert tried(sources) == 0
    assert "compared by counts alone: an earlier tool wrote no digests" in capsys.readouterr().out
    assert sources.asked_to_try == SavedDump(
        "backend", SavedDatabase("runai/databases/backend.sql", {"t": 2})
    )


def test_a_database_of_other_content_is_not_whole(
    tried: Callable[[Any], int], capsys: Capture
) -> None:
    sources = WithDatabase()
    sources.tried = TriedDump(0, 0, fault="table t: its digest is another")
    assert tried(sources) == 5
    assert "backend.sql: table t: its digest is another" in capsys.readouterr().err


@pytest.mark.parametrize("digest", ["5A" * 32, 7], ids=["capitals", "a number"])
def test_digests_that_are_none_are_not_believed(
    tried: Callable[[Any], int], capsys: Capture, digest: Any
) -> None:
    sources = WithDatabase()
    sources.digests = {"t": digest}
    assert tried(sources) == 5
    assert "the list of rows in the backup cannot be read" in capsys.readouterr().err
    assert sources.asked_to_try is None
