"""``appliance node remove|rejoin|add|passport``: options, exit codes, what is printed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.node.membership import MemberRecord, Removal
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.node_metadata import NodeMetadata
from appliance.model.state.observed import Fault
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fake_emptying import FakeEmptying
from tests.fakes import FakeArchive, FakeBundle, FakeEtcd, FakeRack

Capture = pytest.CaptureFixture[str]
GONE = Removal(
    "ada@laptop", "2026-01-01T00:00:00+00:00", "sold", "SN-w2", "198.18.7.22", reset=True
)


class Site(FakedSite):
    """A site whose adapters are fakes."""

    fakes: FakeArchive

    @property
    def archive(self) -> Any:
        return self.fakes

    @property
    def etcd(self) -> Any:
        return self.nodes.etcd  # type: ignore[attr-defined]

    @contextmanager
    def emptying(self, session: Any, run: Any) -> Iterator[Any]:  # noqa: ARG002
        yield FakeEmptying()

    def preflight(self, *_: Any) -> Any:
        return ()


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """An installed site; the folders of the archive are kept for the whole test."""
    desired = samples.desired(replace(samples.site(3), directory=tmp_path))
    found: Any = installed(desired)
    found.archive, found.etcd = FakeArchive(), FakeEtcd(desired.site)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT"):
        monkeypatch.delenv(name, raising=False)

    def connect(_self: Application, directory: Path, *_: Any, **__: Any) -> SiteSession:
        assert directory == tmp_path
        site = Site(desired.site, desired, found, found, FakeBundle(samples.manifest()))  # type: ignore[arg-type]
        site.fakes = found.archive
        return site

    monkeypatch.setattr(Application, "connect", connect)
    return found  # type: ignore[no-any-return]


@pytest.fixture
def node(rack: FakeRack) -> Callable[..., int]:
    site = str(rack.desired.site.directory)
    return lambda *words: run(["node", *words, "--site", site])


def archive(rack: Any) -> FakeArchive:
    found: FakeArchive = rack.archive
    return found


def without_journal(rack: Any) -> dict[str, str]:
    """What is in the archive beside records, whose copies travel there on their own."""
    found = archive(rack).documents.items()
    return {name: text for name, text in found if not name.startswith("journal/")}


def test_a_removal_shows_its_changes_and_the_two_next_commands(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert node("remove", "w2", "--reason", "sold", "--yes") == 0
    shown = capsys.readouterr()
    assert "w2: the machine is reset (kubeadm) and cleaned" in shown.out
    assert "pod default/web moves from w2" in shown.out
    assert "appliance node rejoin w2" in shown.err
    assert rack.deleted == ["w2"]
    assert node("remove", "w2", "--yes") == 0
    assert "nothing to do" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words", [("remove", "w2"), ("rejoin", "w2"), ("add", "w2")], ids=lambda words: words[0]
)
def test_a_locked_vault_is_refused_before_the_first_change(
    node: Callable[..., int],
    rack: FakeRack,
    capsys: Capture,
    words: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST"):
        monkeypatch.delenv(name, raising=False)
    if words[0] != "remove":
        assert node("remove", "w2", "--yes") == 0
        rack.deleted.clear()
        rack.plays.clear()
    vault = rack.desired.site.vault_file
    vault.parent.mkdir(parents=True)
    vault.write_text("$ANSIBLE_VAULT;1.1;AES256\n00\n")
    before = without_journal(rack)
    capsys.readouterr()
    assert node(*words, "--yes") == 3
    assert f"{vault}: the vault's password is not known" in capsys.readouterr().err
    assert (rack.deleted, rack.plays, without_journal(rack)) == ([], [], before)
    assert node(*words, "--dry-run") == 0


def test_a_dry_run_of_a_removal_writes_nothing(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert node("remove", "cp3", "--dry-run", "--output", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["changed"] is False
    assert any("the etcd member cp3 is removed" in text for text in said["steps"])
    assert len(said["notices"]) == 1
    assert "none of the 2 remaining etcd members may fail" in said["notices"][0]
    assert (rack.deleted, archive(rack).documents) == ([], {})


def test_without_a_terminal_and_yes_the_command_is_refused(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert node("remove", "w2") == 3
    assert "confirmation needed" in capsys.readouterr().err
    assert rack.deleted == []


def test_a_removed_node_is_not_planned_and_status_shows_it(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    archive(rack).put("members/w2.json", MemberRecord("w2", GONE, NodeMetadata({"a": "b"})).text())
    site = str(rack.desired.site.directory)
    assert isinstance(rack.cluster, Cluster)
    nodes = {name: one for name, one in rack.cluster.nodes.items() if name != "w2"}
    rack.cluster = replace(rack.cluster, nodes=nodes)
    rack.documents["w2"] = samples.bare(rack.desired.site.node("w2"))
    assert run(["status", "--site", site]) == 0
    out = capsys.readouterr().out
    assert "removed: w2: on purpose, by ada@laptop at 2026-01-01T00:00:00+00:00 (sold)" in out
    assert "not converged: workers" not in out
    assert run(["status", "--site", site, "--output", "json"]) == 0
    assert "node rejoin w2" in json.loads(capsys.readouterr().out)["removed"]["w2"]
    assert node("rejoin", "w2", "--yes") == 0
    assert "w2: safe to join: the cluster has no Node of this name" in capsys.readouterr().out
    assert rack.put_backs == [("w2", NodeMetadata({"a": "b"}))]
    assert run(["status", "--site", site]) == 0
    assert "removed:" not in capsys.readouterr().out


def test_other_hardware_is_refused_with_the_command_in_the_hint(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    rack.documents["w2"] = samples.bare(rack.desired.site.node("w2"))
    rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    assert node("rejoin", "w2", "--yes") == 3
    err = capsys.readouterr().err
    assert "error: w2: passport: found DMI serial SN-x, expected SN-w2" in err
    assert "appliance node add w2 --replace w2" in err


def test_a_dry_run_of_a_rejoin_shows_evidence_and_plan(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    rack.documents["w2"] = samples.bare(rack.desired.site.node("w2"))
    assert node("rejoin", "w2", "--dry-run", "--output", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["proof"] == ["w2: the same machine (serial SN-w2) answers, and it is empty"]
    assert said["ran"] == []
    assert (rack.plays, archive(rack).documents) == ([], {})


def test_only_an_acknowledgement_writes_or_changes_a_passport(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert node("passport", "w2", "--exit-code") == 5
    assert "w2: has no passport" in capsys.readouterr().err
    assert node("passport", "w2", "--acknowledge", "--dry-run") == 0
    assert archive(rack).documents == {}
    assert node("passport", "w2", "--acknowledge", "--yes") == 0
    capsys.readouterr()
    assert node("passport", "w2", "--exit-code") == 0
    assert "the same" in capsys.readouterr().out
    rack.documents["w2"]["dmi"]["serial"] = "SN-x"
    assert node("passport", "w2", "--exit-code") == 5
    shown = capsys.readouterr()
    assert "error: w2: machine: found SN-x, expected SN-w2" in shown.err
    assert "hint: check that this is the right machine" in shown.err
    assert "host_vars/w2.yml" in shown.err
    assert "appliance node passport w2 --acknowledge" in shown.err
    assert node("passport", "--output", "json") == 0
    found = {one["node"]: one for one in json.loads(capsys.readouterr().out)["passports"]}
    assert found["w1"]["passport"] is None
    assert found["w2"]["differences"] == [{"name": "machine", "accepted": "SN-w2", "today": "SN-x"}]
    assert node("passport", "w2", "--acknowledge", "--yes") == 0
    assert node("passport", "w2", "--exit-code") == 0
    assert node("passport") == 0


@pytest.mark.parametrize("accepted", [True, False])
def test_a_node_that_was_not_read_is_not_offered_to_be_accepted(
    node: Callable[..., int], rack: FakeRack, capsys: Capture, accepted: bool
) -> None:
    if accepted:
        assert node("passport", "w2", "--acknowledge", "--yes") == 0
    rack.faults["w2"] = Fault("w2", "w2 (198.18.7.2): no answer on port 22", "ping 198.18.7.2")
    capsys.readouterr()
    assert node("passport", "w2", "--exit-code") == 5
    shown = capsys.readouterr()
    assert "error: w2 (198.18.7.2): no answer on port 22" in shown.err
    assert "hint: ping 198.18.7.2; then run the same command again" in shown.err
    assert "appliance status" in shown.err
    assert "--acknowledge" not in shown.out + shown.err
    assert node("passport", "w2", "--acknowledge", "--yes") == 4


def test_acknowledging_wants_a_node_and_a_member(
    node: Callable[..., int], rack: FakeRack, capsys: Capture
) -> None:
    assert node("passport", "--acknowledge") == 2
    assert "accept one machine at a time" in capsys.readouterr().err
    rack.documents["w2"] = samples.bare(rack.desired.site.node("w2"))
    assert node("passport", "w2", "--acknowledge", "--yes") == 3
    assert "is not a member of the cluster now" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ("remove", "cp9", "--yes"),
        ("rejoin", "cp9", "--yes"),
        ("add", "cp9", "--yes"),
        ("passport", "cp9"),
        ("passport", "cp9", "--acknowledge", "--yes"),
        ("maintain", "cp9", "--yes"),
        ("return", "cp9", "--yes"),
        ("role", "set", "cp9", "--role", "gpu", "--yes"),
        ("role", "remove", "cp9", "--role", "gpu", "--yes"),
    ],
    ids=lambda words: "-".join(words[:2]),
)
def test_a_node_that_is_not_in_the_inventory_is_a_usage_error(
    node: Callable[..., int], rack: FakeRack, capsys: Capture, words: tuple[str, ...]
) -> None:
    assert node(*words) == 2
    said = capsys.readouterr().err
    assert "cp9: the inventory has no cluster node of this name; did you mean 'cp" in said
    assert (rack.looks, rack.plays) == (0, [])
