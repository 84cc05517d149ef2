"""A backup on an SSH server, named by its address: made, proved and restored from there."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import paramiko
import pytest

from appliance.adapters.backup.key_file import write_key
from appliance.adapters.backup.opened import BackupFile
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import Refused
from appliance.model.backup.record import EtcdContent
from appliance.model.site.recovery.backup_settings import Backup
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeClock, FakeRack
from tests.sftp_server import SftpServer, sftp_server
from tests.unit.backup.fake_sources import ETCD, SNAPSHOT, FakeSources

Capture = pytest.CaptureFixture[str]
Typed = Callable[..., int]
BACKUP = "rack-20231114T221320Z"


class Site(FakedSite):
    """A site whose adapters are fakes."""

    @property
    def archive(self) -> Any:
        return self.nodes.archive  # type: ignore[attr-defined]

    @property
    def clock(self) -> Any:
        return self.nodes.clock  # type: ignore[attr-defined]


class Sources(FakeSources):
    """Nodes that restore a snapshot."""

    def try_snapshot(self, _node: Any, content: IO[bytes], _size: int, _folder: str) -> EtcdContent:
        assert content.read() == SNAPSHOT
        return ETCD


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SftpServer]:
    (tmp_path / "root/backups").mkdir(parents=True)
    with sftp_server(tmp_path / "root") as made:
        yield made


@pytest.fixture
def site(tmp_path: Path, server: SftpServer) -> Any:
    """A site whose place for backups is the server, which it knows."""
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "id"))
    (tmp_path / "known_hosts").write_text(server.known)
    wanted = Backup(recipients=(write_key(tmp_path / "key.txt"),), to=server.target("backups"))
    plain = samples.site(1, 1)
    ssh = plain.settings.ssh.model_copy(update={"private_key": str(tmp_path / "id")})
    settings = plain.settings.model_copy(update={"backup": wanted, "ssh": ssh})
    return replace(plain, settings=settings, directory=tmp_path)


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, site: Any) -> Typed:
    """Type words behind ``cluster``; a backup is on the server."""
    desired = samples.desired(site)
    fake: Any = FakeRack(desired)
    fake.archive, fake.clock = FakeArchive(), FakeClock()

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, desired, fake, fake, None)

    monkeypatch.setattr(Application, "connect", connect)
    monkeypatch.setattr(Application, "site", lambda *_: site)
    monkeypatch.setattr("appliance.cli.wired.backups.sources_of", lambda _: Sources())
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "private").mkdir()
    (tmp_path / "hosts.yml").write_text("all: {}\n")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "private"))

    def typed(*words: str) -> int:
        return run(["cluster", *words, "--site", str(tmp_path)])

    assert typed("backup", "create", "--yes") == 0
    return typed


@pytest.fixture
def named(server: SftpServer, tmp_path: Path) -> tuple[str, ...]:
    """The backup and its key."""
    address = f"{server.target('backups')}/{BACKUP}.backup"
    return address, "--identity", str(tmp_path / "key.txt")


def test_one_is_proved_by_its_address(
    typed: Typed, named: tuple[str, ...], capsys: Capture
) -> None:
    assert typed("backup", "verify", named[0]) == 0
    assert typed("backup", "verify", *named) == 0
    assert "etcd: restored on cp1: revision 7, 3 keys" in capsys.readouterr().out
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


@pytest.mark.parametrize("more", [(), ("--only", "database"), ("--new-machines",)], ids=str)
def test_one_is_restored_by_its_address(
    more: tuple[str, ...],
    typed: Typed,
    named: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:
    """Each way gets a whole backup on this machine, and the copy goes with the command."""

    def ports(_connected: Any, *given: Any, **_: Any) -> Any:
        file = given[-1] if isinstance(given[-1], BackupFile) else BackupFile(*given)
        raise Refused(f"the backup {file.manifest.about.id} is at hand")

    monkeypatch.setattr("appliance.cli.wired.restore.restore_ports", ports)
    monkeypatch.setattr("appliance.cli.wired.restore_database.database_ports", ports)
    monkeypatch.setattr(
        "appliance.cli.commands.cluster.new_machines._bring_back",
        lambda _app, backup, _options: ports(None, backup),
    )
    assert typed("restore", *named, *more) == 3
    assert f"the backup {BACKUP} is at hand" in capsys.readouterr().err
    assert list(Path(tempfile.gettempdir()).iterdir()) == []


REFUSED = {
    "a file that is none": ("backups/notes.txt", "key.txt", "is not the name of a backup"),
    "one that is not there": ("backups/rack-20231115T221320Z.backup", "key.txt", "interrupted"),
    "a key that is none": (f"backups/{BACKUP}.backup", "known_hosts", "neither a key of age"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused_copies_nothing(
    case: str, typed: Typed, server: SftpServer, tmp_path: Path, capsys: Capture
) -> None:
    name, key, why = REFUSED[case]
    assert typed("restore", server.target(name), "--identity", str(tmp_path / key)) in (3, 5)
    assert why in capsys.readouterr().err
    assert list((tmp_path / "private").iterdir()) == []


def test_a_scheme_that_is_none_is_refused(typed: Typed, tmp_path: Path, capsys: Capture) -> None:
    key = str(tmp_path / "key.txt")
    assert typed("restore", f"ftp://nas/{BACKUP}.backup", "--identity", key) == 3
    assert "not a kind of place" in capsys.readouterr().err


def test_without_a_site_the_two_files_are_asked_for(
    typed: Typed, named: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    words = ["cluster", "restore", *named, "--new-machines"]
    assert run([*words, "--site", str(tmp_path / "absent")]) == 3
    assert "no site is here yet" in capsys.readouterr().err
    assert not (tmp_path / "absent").exists()
    assert typed("backup", "list") == 0
