"""``appliance support bundle``: what is in the file, what is taken out, what did not answer."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.control_plane.journal import new_run_id
from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.journal import Record
from appliance.model.state.observed import Fault
from appliance.model.support import items, redaction
from appliance.model.support.items import Found, Unanswered
from appliance.model.support.requests import Asking
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fakes import FakeArchive, FakeRack
from tests.unit.support.secrets import CANARY

Capture = pytest.CaptureFixture[str]
SECRET = f"DB_PASSWORD={CANARY}"
ALWAYS = {
    *("bundle.json", "site.json", "observed.json", "unanswered.json", "versions.json"),
    *("status.json", "status.txt", "plan.json", "plan.txt", "health.json", "health.txt"),
    *("journal.json", "facts/cp1.json", "facts/w1.json", "nodes/w1/kubelet.log"),
    *("nodes/cp1/kernel.log", "cluster/events.txt", "cluster/helm.json"),
}


class Evidence:
    """What nodes and the cluster tell; ``planted`` is what one of them tells in addition."""

    def __init__(self) -> None:
        self.planted: dict[str, str] = {}
        self.asked: list[tuple[str, Asking]] = []
        self.long = 0

    def of_nodes(
        self, asked: Sequence[Node], asking: Asking
    ) -> Iterator[tuple[str, Found | Unanswered | None]]:
        for node in asked:
            self.asked.append((node.name, asking))
            for request in asking.requests:
                name = f"nodes/{node.name}/{request.file}"
                text = f"{node.name} says\n" + self.planted.get(request.file, "")
                yield node.name, Found(name, text + "x" * 99 * self.long)
            yield node.name, Unanswered(node.name, "log of etcd", "exit code 1: no such file")
            yield node.name, None

    def of_cluster(self, since_seconds: int, seconds: float) -> Iterator[Found | Unanswered]:
        assert (since_seconds, seconds) == (86_400, 60.0)
        for name in ("cluster/events.txt", "cluster/helm.json", "pods/a/b/c.previous.log"):
            yield Found(name, self.planted.get(name, "nothing"))

    def of_machine(self, oldest: float) -> Iterator[Found | Unanswered]:
        from appliance.adapters.support import machine

        yield from machine.run_logs(self.directory, oldest)

    def versions(self) -> dict[str, Any]:
        return {"appliance": "1"}

    directory = Path()


class Site(FakedSite):
    """A site whose adapters are fakes."""

    told = Evidence()

    @property
    def archive(self) -> Any:
        return FakeArchive()

    @property
    def evidence(self) -> Any:
        return self.told

    def load_desired(self) -> Any:
        return self.desired


class Given:
    """A rack, what it tells, and the file that was written."""

    def __init__(self, rack: FakeRack, told: Evidence, folder: Path) -> None:
        self.rack, self.told, self.folder = rack, told, folder
        self.file = folder / "out" / "support.tar.gz"

    def typed(self, *words: str) -> int:
        site = str(self.rack.desired.site.directory)
        return run(["support", "bundle", "--site", site, "--to", str(self.file), *words])

    def texts(self) -> dict[str, str]:
        with tarfile.open(self.file) as archive:
            return {
                member.name.removeprefix("support/"): archive.extractfile(member).read().decode()  # type: ignore[union-attr]
                for member in archive
            }


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Given:
    directory = tmp_path / "rack7"
    (directory / ".appliance").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    site = replace(samples.site(), directory=directory)
    rack = installed(samples.desired(site))
    told = Evidence()
    told.directory = directory

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> Site:
        found = Site(rack.desired.site, rack.desired, rack, rack, None)  # type: ignore[arg-type]
        found.told = told
        return found

    monkeypatch.setattr(Application, "connect", connect)
    # The column of seconds is as wide as its number.
    standing = SimpleNamespace(monotonic=lambda: 0.0)
    monkeypatch.setattr("appliance.cli.screen.progress.time", standing)
    monkeypatch.setattr("appliance.adapters.local.control_host.resolve", lambda _names: {})
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)
    return Given(rack, told, tmp_path)


def test_one_private_file_holds_everything(given: Given, capsys: Capture) -> None:
    assert given.typed() == 0
    assert given.file.stat().st_mode & 0o777 == 0o600
    texts = given.texts()
    assert texts.keys() >= ALWAYS
    about = json.loads(texts["bundle.json"])
    assert (about["schema"], about["site"], about["anonymised"]) == (1, "rack", False)
    assert {entry["name"] for entry in about["contents"]} == texts.keys() - {"bundle.json"}
    said = capsys.readouterr()
    assert "no answer: w1: log of etcd: exit code 1: no such file" in said.out
    assert "written: " in said.out
    assert "cp1: 6 answers, 1 without an answer" in said.err


def test_the_contents_are_told_as_json(given: Given, capsys: Capture) -> None:
    assert given.typed("--output", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"file", "bytes", "contents", "unanswered", "names"}
    assert found["bytes"] == given.file.stat().st_size
    assert {entry["name"] for entry in found["contents"]} == given.texts().keys()
    assert found["names"] is None


def test_nothing_is_written_over_and_nothing_is_asked(given: Given, capsys: Capture) -> None:
    given.file.write_text("of another day")
    assert given.typed() == 3
    assert "exists already" in capsys.readouterr().err
    assert given.file.read_text() == "of another day"
    assert given.told.asked == []


def test_a_gathering_that_fails_leaves_no_file(
    given: Given, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Iterator[Any]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(given.told, "of_nodes", broken)
    assert given.typed() == 1
    assert list(given.file.parent.iterdir()) == []


@pytest.mark.parametrize("words", [(), ("--anonymise",)])
def test_a_gathering_that_is_interrupted_leaves_no_file(
    given: Given, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    def interrupted(*_: object) -> Iterator[Any]:
        yield "cp1", Found("nodes/cp1/kubelet.log", "begun")
        raise KeyboardInterrupt

    monkeypatch.setattr(given.told, "of_nodes", interrupted)
    assert given.typed(*words) == 130
    assert list(given.file.parent.iterdir()) == []


@pytest.mark.parametrize("place", ["file", "names"])
def test_a_link_that_leads_nowhere_is_not_followed(given: Given, place: str) -> None:
    target = given.folder / "elsewhere"
    file = given.file if place == "file" else given.file.with_name("support.tar.gz.names.json")
    file.symlink_to(target)
    assert given.typed("--anonymise") == 3
    assert not target.exists()
    assert given.told.asked == []


def test_nodes_that_are_away_are_named_with_the_cause(given: Given) -> None:
    given.rack.faults["w1"] = Fault("w1", "w1: no SSH on port 22", "ping it")
    given.rack.faults["cp1"] = Fault("cp1", "cp1: no SSH on port 22", "ping it")
    given.rack.cluster = Unreachable("cp1: not read")
    assert given.typed() == 0
    texts = given.texts()
    silent = json.loads(texts["unanswered.json"])
    assert {"where": "w1", "what": "facts and logs", "cause": "w1: no SSH on port 22"} in silent
    assert {
        "where": "cluster",
        "what": "events, Helm history, pods",
        "cause": "no API server answers: cp1: not read",
    } in silent
    assert "facts/w2.json" in texts
    assert [name for name, _ in given.told.asked] == ["w2"]
    assert given.told.asked[0][1].with_pods, "without an API their node tells their logs"


def test_a_long_log_is_cut_at_its_beginning_and_says_so(
    given: Given, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(items.Limits, "item_bytes", 5000)
    monkeypatch.setattr(
        "appliance.cli.commands.support.bundle.Limits", lambda **_: items.Limits(item_bytes=50_000)
    )
    given.told.planted["kubelet.log"] = "old\n" + "line\n" * 20_000 + "newest\n"
    assert given.typed() == 0
    text = given.texts()["nodes/w1/kubelet.log"]
    assert text.startswith("[cut: the newest part of ")
    assert text.endswith("newest\n")
    assert "old" not in text
    assert "cut, the newest part is there: nodes/cp1/kubelet.log" in capsys.readouterr().out


def test_the_bundle_has_a_largest_size(given: Given) -> None:
    given.told.long = 10_000
    assert given.typed("--most", "5") == 0
    texts = given.texts()
    assert sum(map(len, texts.values())) <= 5_000_000
    silent = json.loads(texts["unanswered.json"])
    assert any("largest size" in one["cause"] for one in silent)


def in_facts(given: Given) -> None:
    given.rack.documents["w1"]["host"]["kernel_command_line"] = SECRET


def in_the_cluster(given: Given) -> None:
    cluster = given.rack.cluster
    assert isinstance(cluster, Cluster)
    node = replace(cluster.nodes["w1"], annotations={"another.dev/note": SECRET})
    given.rack.cluster = replace(cluster, nodes={**cluster.nodes, "w1": node})


def in_notes_of_a_node(given: Given) -> None:
    site = given.rack.desired.site
    nodes = tuple(replace(node, notes=SECRET) for node in site.nodes)
    given.rack.desired = replace(given.rack.desired, site=replace(site, nodes=nodes))


def in_values_of_the_site(given: Given) -> None:
    site = given.rack.desired.site
    values = {"kubelet": {"staticAuth": {"adminPassword": CANARY}}}
    kubernetes = site.settings.kubernetes.model_copy(update=values)
    settings = site.settings.model_copy(update={"kubernetes": kubernetes})
    given.rack.desired = replace(given.rack.desired, site=replace(site, settings=settings))


def in_the_journal(given: Given) -> None:
    from appliance.adapters.control_plane.journal import journal_of

    record = Record(
        run=new_run_id(), sequence=1, command="install", step="host", nodes=("w1",), why=(),
        started="2026-01-01T00:00:00+00:00", took_seconds=1.0, outcome="failed", operator="ada",
        tool_version="1", error=SECRET,
    )  # fmt: skip
    journal_of(given.rack.desired.site.directory).append(record)


def in_a_runs_log(given: Given) -> None:
    run_id = new_run_id()
    folder = given.rack.desired.site.directory / ".appliance/runs" / run_id / "host"
    folder.mkdir(parents=True)
    (folder / "ansible.log").write_text(f"TASK\n{SECRET}\n")


def told_as(name: str) -> Callable[[Given], None]:
    return lambda given: given.told.planted.update({name: SECRET})


PLACES: dict[str, Callable[[Given], None]] = {
    "facts": in_facts,
    "the cluster": in_the_cluster,
    "notes of a node": in_notes_of_a_node,
    "values of the site": in_values_of_the_site,
    "the journal": in_the_journal,
    "a run's log": in_a_runs_log,
    "kubelet's log": told_as("kubelet.log"),
    "Docker's log": told_as("runtime.log"),
    "the kernel's log": told_as("kernel.log"),
    "own units": told_as("units.log"),
    "state of a node": told_as("state.txt"),
    "list of containers": told_as("containers.txt"),
    "events": told_as("cluster/events.txt"),
    "Helm's history": told_as("cluster/helm.json"),
    "a pod's log": told_as("pods/a/b/c.previous.log"),
}


def holders(given: Given) -> list[str]:
    return [name for name, text in given.texts().items() if CANARY in text]


@pytest.mark.parametrize("place", PLACES)
def test_a_secret_in_each_place_is_taken_out(given: Given, place: str) -> None:
    PLACES[place](given)
    assert given.typed() == 0
    assert holders(given) == []


@pytest.mark.parametrize("place", PLACES)
def test_the_search_would_find_a_secret_in_each_place(
    given: Given, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "without_secrets", lambda line: line)
    monkeypatch.setattr(redaction, "is_secret_name", lambda _name: False)
    PLACES[place](given)
    assert given.typed() == 0
    assert holders(given) != []


def test_names_and_addresses_are_replaced_and_kept_beside(given: Given) -> None:
    given.told.planted["kubelet.log"] = "w1.rack.test has 198.18.7.21 and 3c:ec:ef:00:11:22\n"
    assert given.typed("--anonymise") == 0
    beside = given.file.with_name("support.tar.gz.names.json")
    assert beside.stat().st_mode & 0o777 == 0o600
    used = json.loads(beside.read_text())
    assert used["w1"] == "node-02"
    texts = given.texts()
    assert "facts/node-02.json" in texts
    assert (
        f"node-02.zone1.example has {used['198.18.7.21']} and "
        in texts["nodes/node-02/kubelet.log"]
    )
    for word in ("198.18.7.", "rack.test", "3c:ec:ef", "w1"):
        # The folder of a worker of pytest is called popen-gw1.
        told = re.compile(rf"(?<![a-z]){re.escape(word)}")
        holding = [one for one, text in texts.items() if told.search(text) or told.search(one)]
        assert holding == [], word
    given.file.unlink()
    beside.unlink()
    assert given.typed("--anonymise") == 0
    assert json.loads(beside.read_text())["198.18.7.21"] == used["198.18.7.21"]


def test_old_runs_are_not_read(given: Given) -> None:
    old = f"{int((time.time() - 90_000) * 1000):012x}"
    name = f"{old[:8]}-{old[8:]}-7000-8000-000000000000"
    folder = given.rack.desired.site.directory / ".appliance/runs" / name / "host"
    folder.mkdir(parents=True)
    (folder / "ansible.log").write_text("of the day before yesterday")
    in_a_runs_log(given)
    assert given.typed() == 0
    runs = [one for one in given.texts() if one.startswith("runs/")]
    assert len(runs) == 1
    assert name not in runs[0]


def test_what_is_written_can_be_explained(given: Given, capsys: Capture) -> None:
    """The facts are judged again, with their own names and with others."""
    given.told.planted["kubelet.log"] = "write: no space left on device\n"
    for words in ((), ("--anonymise",)):
        given.file.unlink(missing_ok=True)
        assert given.typed(*words) == 0
        capsys.readouterr()
        assert run(["support", "explain", str(given.file), "--output", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["doubts"] == []
        assert {one["name"] for one in found["causes"] if not one["certain"]} == {"disk_full"}
        assert [one["name"] for one in found["causes"] if one["certain"]] == []
