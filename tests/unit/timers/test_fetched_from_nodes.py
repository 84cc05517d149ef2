"""Backups of nodes in a place for backups: whole and the same, or not there at all."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import paramiko
import pytest

from appliance.adapters.backup import fetching, places
from appliance.adapters.backup.fetching import Tell
from appliance.adapters.backup.from_nodes import Fetched, chosen, fetch
from appliance.adapters.backup.on_nodes import NodeFolder, on_nodes
from appliance.adapters.backup.opened import BackupFile
from appliance.adapters.backup.places import FolderPlace, Place
from appliance.adapters.backup.store import BackupStore
from appliance.adapters.backup.targets import Access, place_at
from appliance.adapters.backup.writer import new_backup
from appliance.errors import NodeUnreachable, NotHealthy, Refused
from appliance.model.backup.names import SIDECAR_SUFFIX, SUFFIX
from appliance.model.site.settings import Site
from appliance.workflows.cluster.restore import RestoreRequest, RestoreSources, cluster_restore
from tests import samples
from tests.fakes import run as new_run
from tests.sessions import fake_session
from tests.sftp_server import sftp_server
from tests.unit.backup.samples import CONTENT, MOMENT, finish, key
from tests.unit.restore.rack import FakeRestoring, LostRack
from tests.unit.timers.node_folders import FolderNodes
from tests.unit.timers.timed_node import SNAPSHOT, placed, run, write_settings

OLD, NEW = "rack7-20260920T000000Z", "rack7-20260921T141320Z"
FOREIGN = "rack8-20260922T000000Z"
SITE = samples.site(3)
NOW = MOMENT + 86_400


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))


@pytest.fixture
def nodes(tmp_path: Path) -> FolderNodes:
    """cp1 holds two backups of 460 kB, cp2 one of another site, cp3 none."""
    _, recipient = key(tmp_path)
    for folder, name in (("cp1", OLD), ("cp1", NEW), ("cp2", FOREIGN)):
        (tmp_path / folder).mkdir(exist_ok=True)
        with new_backup(FolderPlace(tmp_path / folder), name, [recipient], MOMENT) as writer:
            writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
            writer.put("tls/key.pem", os.urandom(300_000))
            finish(writer, name)
    beside = tmp_path / "cp2" / (FOREIGN + SIDECAR_SUFFIX)
    beside.write_text(beside.read_text().replace('"rack7"', '"rack8"'))
    (tmp_path / "place").mkdir()
    return FolderNodes({name: tmp_path / name for name in ("cp1", "cp2")})


@pytest.fixture
def place(nodes: FolderNodes, tmp_path: Path) -> FolderPlace:
    del nodes
    return FolderPlace(tmp_path / "place")


def brought(
    nodes: FolderNodes,
    target: Place,
    newest: int = 1,
    site: str = "rack7",
    tell: Tell = lambda _: None,
    *,
    now: float = NOW,
) -> tuple[Fetched, ...]:
    """What the command does."""
    found = on_nodes(SITE.control_plane, nodes)  # type: ignore[arg-type]
    wanted, _ = chosen(found, site, newest, now)
    folders = {one.name: NodeFolder(one, nodes) for one in SITE.control_plane}  # type: ignore[arg-type]
    return fetch(wanted, folders, target, tell)


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_newest_of_this_site_is_copied_and_the_others_are_named(
    nodes: FolderNodes, place: FolderPlace
) -> None:
    (done,) = brought(nodes, place)
    assert (done.of.node, done.of.held.id, done.outcome) == ("cp1", NEW, "fetched")
    here, there = content(place.folder), content(nodes.folders["cp1"])
    assert here[NEW + SUFFIX] == there[NEW + SUFFIX]
    assert sorted(here) == [NEW + SUFFIX, NEW + SIDECAR_SUFFIX]
    assert [one.state for one in BackupStore(place).held()] == ["whole"]
    assert (place.folder / (NEW + SUFFIX)).stat().st_mode & 0o777 == 0o600
    _, left = chosen(on_nodes(SITE.control_plane, nodes), "rack7", 1, NOW)  # type: ignore[arg-type]
    assert [(one.node, one.held.id, one.why) for one in left] == [
        ("cp2", FOREIGN, "it is of another site: rack8")
    ]


def test_a_second_run_copies_nothing_and_more_are_copied_on_request(
    nodes: FolderNodes, place: FolderPlace
) -> None:
    brought(nodes, place)
    before = content(place.folder)
    nodes.asked.clear()
    assert [one.outcome for one in brought(nodes, place)] == ["there"]
    assert nodes.asked == []
    assert [(one.of.held.id, one.outcome) for one in brought(nodes, place, 5)] == [
        (OLD, "fetched"),
        (NEW, "there"),
    ]
    assert {name: content(place.folder)[name] for name in before} == before


def test_it_goes_on_where_the_connection_broke(nodes: FolderNodes, place: FolderPlace) -> None:
    nodes.breaks = 3
    told: list[str] = []
    (done,) = brought(nodes, place, tell=told.append)
    assert done.outcome == "fetched"
    assert len(nodes.asked) == 4
    assert any("again from byte 50000 on" in line for line in told)


@pytest.mark.parametrize(
    "left",
    [
        {NEW + SUFFIX + ".partial": b"half"},
        {NEW + SUFFIX: b"", NEW + SIDECAR_SUFFIX + ".partial": b"{"},
        {NEW + SUFFIX: b""},
        {NEW + SIDECAR_SUFFIX: b""},
    ],
    ids=["half of it", "half beside it", "nothing beside it", "only beside it"],
)
def test_the_same_command_ends_what_was_killed(
    left: dict[str, bytes], nodes: FolderNodes, place: FolderPlace
) -> None:
    """An empty content stands for the whole one of the node."""
    whole = content(nodes.folders["cp1"])
    for name, half in left.items():
        (place.folder / name).write_bytes(half or whole[name])
    assert [one.outcome for one in brought(nodes, place)] == ["fetched"]
    assert sorted(content(place.folder)) == [NEW + SUFFIX, NEW + SIDECAR_SUFFIX]
    assert BackupStore(place).check(NEW).about.id == NEW


@pytest.mark.parametrize("case", ["the file", "its size", "beside it", "both"])
def test_another_file_of_its_name_is_never_replaced(
    case: str, nodes: FolderNodes, place: FolderPlace, tmp_path: Path
) -> None:
    whole = (nodes.folders["cp1"] / (NEW + SUFFIX)).read_bytes()
    if case == "the file":
        (place.folder / (NEW + SUFFIX)).write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    elif case == "its size":
        (place.folder / (NEW + SUFFIX)).write_bytes(b"of somebody")
    elif case == "beside it":
        (place.folder / (NEW + SIDECAR_SUFFIX)).write_text("{}")
    else:
        _, recipient = key(tmp_path)
        with new_backup(place, NEW, [recipient], MOMENT) as writer:
            writer.put("etcd/snapshot.db", CONTENT["etcd/snapshot.db"])
            finish(writer, NEW)
    before = content(place.folder)
    (done,) = brought(nodes, place)
    assert isinstance(done.error, Refused)
    assert f"has a different file named {NEW}" in done.error.message
    assert done.error.hint
    assert content(place.folder) == before


def _grow(path: Path) -> None:
    with path.open("ab") as stream:
        stream.write(b"more")


# What a node does after it gave its list -> what is told.
HOSTILE: dict[str, tuple[Callable[[FolderNodes, Path], object], str]] = {
    "an endless file": (lambda nodes, _: setattr(nodes, "endless", b"x" * 9999), "more bytes came"),
    "other bytes": (lambda nodes, _: setattr(nodes, "flips", True), "is not the recorded one"),
    "a file that grew": (lambda _, path: _grow(path), "more bytes came"),
    "a file that shrank": (lambda _, path: os.truncate(path, 1000), "fewer bytes came"),
    "a file that went": (lambda _, path: path.unlink(), "fewer bytes came"),
    "a link": (lambda _, path: path.symlink_to(path.rename(path.with_name("x"))), "fewer bytes"),
    "breaks for ever": (lambda nodes, _: setattr(nodes, "breaks", 999), "again and again"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_what_a_node_spoils_is_no_backup(
    case: str, nodes: FolderNodes, place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "MOST_BREAKS", 4)
    spoil, told = HOSTILE[case]
    wanted, _ = chosen(on_nodes(SITE.control_plane, nodes), "rack7", 1, NOW)  # type: ignore[arg-type]
    spoil(nodes, nodes.folders["cp1"] / (NEW + SUFFIX))
    folders = {"cp1": NodeFolder(SITE.control_plane[0], nodes)}  # type: ignore[arg-type]
    (done,) = fetch(wanted, folders, place, lambda _: None)
    assert isinstance(done.error, NotHealthy | NodeUnreachable)
    assert told in done.error.message
    assert "cp1:/var/backups/appliance/" in done.error.message
    assert done.error.hint
    assert content(place.folder) == {}


# What a node says in place of its list: none of it is asked for.
LISTS = {
    "a name with a slash": "size 5 ../rack7-20260921T141320Z.backup\n",
    "a size that is none": f"size -5 {NEW}{SUFFIX}\nbeside {NEW}{SIDECAR_SUFFIX} {{}}\n",
    "nothing beside it": f"size 5 {NEW}{SUFFIX}\n",
    "words of others": "size 5 notes.backup\nhello\n",
    "more than it wrote": f"size 5 {NEW}{SUFFIX}\nsize 5 {NEW}{SIDECAR_SUFFIX}\n"
    f'beside {NEW}{SIDECAR_SUFFIX} {{"id": "{NEW}"}}\n',
}


@pytest.mark.parametrize("case", LISTS)
def test_what_a_node_makes_up_is_not_asked_for(
    case: str, nodes: FolderNodes, place: FolderPlace
) -> None:
    nodes.listing = LISTS[case]
    assert brought(nodes, place) == ()
    assert (nodes.asked, content(place.folder)) == ([], {})


def test_a_name_of_another_site_is_refused(nodes: FolderNodes, place: FolderPlace) -> None:
    """The file beside it says this site; its name is another's, and would hide there."""
    folder = nodes.folders["cp1"]
    for suffix in (SUFFIX, SIDECAR_SUFFIX):
        (folder / (NEW + suffix)).rename(folder / ("other-20260921T141320Z" + suffix))
    beside = folder / ("other-20260921T141320Z" + SIDECAR_SUFFIX)
    beside.write_text(beside.read_text().replace(NEW, "other-20260921T141320Z"))
    wanted, left = chosen(on_nodes(SITE.control_plane, nodes), "rack7", 5, NOW)  # type: ignore[arg-type]
    assert [one.held.id for one in wanted] == [OLD]
    assert "its name is not one of this site's" in [one.why for one in left]
    with pytest.raises(FileNotFoundError), NodeFolder(SITE.nodes[0], nodes).open("../x.backup"):  # type: ignore[arg-type]
        raise AssertionError("it was opened")
    assert content(place.folder) == {}


def test_a_second_command_leaves_what_the_first_is_writing(
    nodes: FolderNodes, place: FolderPlace
) -> None:
    nodes.breaks = 1
    second: list[Fetched] = []

    def tell(line: str) -> None:
        if "again from byte" in line:
            second.extend(brought(nodes, FolderPlace(place.folder)))

    (first,) = brought(nodes, place, tell=tell)
    assert first.outcome == "fetched"
    assert isinstance(second[0].error, Refused)
    assert "exists already" in second[0].error.message
    assert BackupStore(place).check(NEW).about.id == NEW
    assert sorted(content(place.folder)) == [NEW + SUFFIX, NEW + SIDECAR_SUFFIX]


def test_one_of_a_time_to_come_hides_no_later_one(nodes: FolderNodes, place: FolderPlace) -> None:
    """A node whose clock was wrong once: its backup would be the newest for years."""
    folder, ahead = nodes.folders["cp1"], "rack7-20360921T141320Z"
    for suffix in (SUFFIX, SIDECAR_SUFFIX):
        (folder / (OLD + suffix)).rename(folder / (ahead + suffix))
    beside = folder / (ahead + SIDECAR_SUFFIX)
    beside.write_text(beside.read_text().replace(OLD, ahead))
    assert [one.of.held.id for one in brought(nodes, place)] == [NEW]
    _, left = chosen(on_nodes(SITE.control_plane, nodes), "rack7", 1, NOW)  # type: ignore[arg-type]
    (why,) = [one.why for one in left if one.held.id == ahead]
    assert why.startswith("its name says a time to come")


def test_one_that_fails_leaves_the_others(
    nodes: FolderNodes, place: FolderPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place.folder / (OLD + SUFFIX)).write_bytes(b"of somebody")
    assert [one.outcome for one in brought(nodes, place, 2)] == ["failed", "fetched"]
    monkeypatch.setattr(places, "SPARE_BYTES", 1 << 60)
    for name in (SUFFIX, SIDECAR_SUFFIX):
        (place.folder / (NEW + name)).unlink()
    (done,) = brought(nodes, place)
    assert isinstance(done.error, Refused)
    assert "MiB free" in done.error.message
    assert "--to PLACE" in (done.error.hint or "")


class _Losing(FolderPlace):
    """A place that gives other bytes than it took."""

    def open(self, name: str, start: int = 0) -> Any:
        path = self.folder / name
        path.write_bytes(b"x" + path.read_bytes()[1:])
        return super().open(name, start)


def test_a_place_that_loses_what_it_took_has_no_backup(
    nodes: FolderNodes, place: FolderPlace
) -> None:
    (done,) = brought(nodes, _Losing(place.folder))
    assert isinstance(done.error, NotHealthy)
    assert "its sha256 is not the recorded one" in done.error.message
    assert content(place.folder) == {}
    assert [one.outcome for one in brought(nodes, place)] == ["fetched"]


def test_one_is_copied_to_an_ssh_server_and_a_killed_copy_there_is_ended(
    nodes: FolderNodes, tmp_path: Path
) -> None:
    (tmp_path / "root/backups").mkdir(parents=True)
    paramiko.ECDSAKey.generate().write_private_key_file(str(tmp_path / "id"))
    with sftp_server(tmp_path / "root") as server:
        (tmp_path / "known_hosts").write_text(server.known)
        access = Access(tmp_path / "known_hosts", str(tmp_path / "id"), lambda _name: None)
        target = place_at(server.target("backups"), access)
        (server.root / "backups" / f"{NEW}{SUFFIX}.partial").write_bytes(b"half")
        assert [one.outcome for one in brought(nodes, target)] == ["fetched"]
        assert [one.outcome for one in brought(nodes, target)] == ["there"]
        there = content(server.root / "backups")
        assert sorted(there) == [NEW + SUFFIX, NEW + SIDECAR_SUFFIX]
        assert there[NEW + SUFFIX] == (nodes.folders["cp1"] / (NEW + SUFFIX)).read_bytes()
        server.faults.flips = True
        (done,) = [one for one in brought(nodes, target, 2) if one.of.held.id == OLD]
        assert isinstance(done.error, NotHealthy)
    assert sorted(content(server.root / "backups")) == [NEW + SUFFIX, NEW + SIDECAR_SUFFIX]


class _Restoring(FakeRestoring):
    """Takes the snapshot that the node's program wrote."""

    def bring(
        self,
        nodes: Any,
        key: str,
        snapshot: tuple[int, str],
        read: Callable[[Callable[[IO[bytes]], None]], None],
    ) -> None:
        assert snapshot == (len(SNAPSHOT), hashlib.sha256(SNAPSHOT).hexdigest())
        got: list[bytes] = []
        read(lambda stream: got.append(stream.read()))
        assert got == [SNAPSHOT]
        self.rack.has |= {(node.name, key) for node in nodes}


def test_what_the_program_of_a_node_wrote_is_fetched_and_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layout is the real program's; the cluster is restored from the file that was fetched."""
    (tmp_path / "node").mkdir()
    node = placed(tmp_path / "node", monkeypatch)
    desired = samples.desired(samples.site(1, 1))
    site: Site = desired.site
    endpoint = site.settings.control_plane_endpoint
    write_settings(node, node.want(site=site.name, endpoint=f"{endpoint.name}:{endpoint.port}"))
    assert run() == 0
    (tmp_path / "place").mkdir()
    held, target = FolderNodes({"cp1": node.place}), FolderPlace(tmp_path / "place")
    (done,) = brought(held, target, site=site.name, now=time.time())
    assert done.outcome == "fetched"
    backup = BackupFile(tmp_path / "place" / f"{done.of.held.id}.backup", node.key)
    assert [one.what for one in backup.manifest.about.missing] == ["site", "objects"]
    rack = LostRack(desired)
    request = RestoreRequest(site, new_run("cluster restore"))
    ports = RestoreSources(_Restoring(rack), backup)
    result = cluster_restore(request, fake_session(rack), ports, lambda _plan: True)
    assert result.plan.refusals == ()
    assert result.plan.known is False
    assert done.of.held.id in result.plan.source
