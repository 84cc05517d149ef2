"""``appliance install`` and ``appliance plan``: scope, ``--again``, what is said when all is so."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import paramiko
import pytest

from appliance.adapters.ssh.trust import host_keys
from appliance.cli.app import Application
from appliance.cli.commands.site.host_keys import accept
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.errors import NodeUnreachable, Refused
from appliance.model.checks.preflight import Finding, Subject
from appliance.model.components.control_plane import checks
from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.cluster import Cluster, NoCluster
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Fault, Observed
from tests import samples
from tests.cli.faked_site import FakedSite, installed
from tests.fakes import FakeArchive, FakeBundle, FakeRack

Capture = pytest.CaptureFixture[str]
AFTER_AN_EDIT = "appliance install --only STEP --again"
KEPT = (
    checks.service_range,
    checks.pod_range,
    checks.endpoint_name,
    checks.endpoint_in_use,
)
UNFIT = Finding("w1", "memory", "error", "1 DIMM", "2", "put it back")


class Site(FakedSite):
    """A site whose adapters are fakes; of preflight, what a cluster keeps as it was made."""

    findings: tuple[Finding, ...] = ()

    @property
    def archive(self) -> Any:
        return FakeArchive()

    def preflight(self, desired: Desired, node_facts: Any, observed: Observed) -> Any:
        return [
            *self.findings,
            *(
                finding
                for node in desired.site.nodes
                if node.name in node_facts
                for check in KEPT
                for finding in check(Subject(node, node_facts[node.name], desired, observed, {}))
            ),
        ]


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """An installed site of one control plane and two workers, without the bundle at hand."""
    desired = samples.desired(replace(samples.site(), directory=tmp_path))
    found: Any = installed(desired)
    monkeypatch.setattr("appliance.adapters.bundle.mirror.read_mirror", lambda desired, *_: desired)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)

    def connect(
        _self: Application,
        _directory: Path,
        bundle: Path | None = None,
        *,
        new_cluster: bool = False,
        **_: Any,
    ) -> SiteSession:
        at_hand = FakeBundle(samples.manifest()) if bundle else None
        asked = replace(found.desired, founded="" if new_cluster else found.desired.founded)
        return Site(desired.site, asked, found, found, at_hand)  # type: ignore[arg-type]

    monkeypatch.setattr(Application, "connect", connect)
    return found  # type: ignore[no-any-return]


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, rack: FakeRack) -> dict[tuple[str, int], Any]:
    """Every machine shows a key; what the rack is told to trust."""
    key, trusted = paramiko.ECDSAKey.generate(), {}  # type: ignore[var-annotated]
    monkeypatch.setattr(host_keys, "host_keys", lambda _site, names: dict.fromkeys(names, key))
    monkeypatch.setattr(host_keys, "jump_host_key", lambda _address: key)
    monkeypatch.setattr(rack, "trust", trusted.update, raising=False)
    return trusted


def play(rack: FakeRack, *words: str) -> int:
    command, *rest = words
    return run([command, "--site", str(rack.desired.site.directory), *rest])


@pytest.mark.parametrize("command", ["plan", "install"])
def test_an_empty_plan_shows_how_to_apply_an_edit_that_no_check_sees(
    command: str, rack: FakeRack, capsys: Capture
) -> None:
    assert play(rack, command) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("nothing to do")
    assert AFTER_AN_EDIT in said[1]
    assert len(said) == 2
    assert rack.plays == []


def test_an_install_records_the_digest_of_its_bundle(rack: FakeRack) -> None:
    known = rack.desired.site.known_bundle
    assert play(rack, "plan", "--bundle", str(known.parent)) == 0
    assert play(rack, "install", "--dry-run", "--bundle", str(known.parent)) == 0
    assert not known.exists()
    assert play(rack, "install", "--yes", "--bundle", str(known.parent)) == 0
    assert known.read_text() == f"{samples.BUNDLE_DIGEST}  manifest.json\n"


@pytest.mark.parametrize("command", ["plan", "install"])
def test_a_second_cluster_is_created_only_with_new_cluster(
    command: str, rack: FakeRack, capsys: Capture
) -> None:
    rack.desired = replace(rack.desired, founded="the journal says so")
    rack.cluster = NoCluster()
    rack.documents["cp1"] = samples.bare(rack.desired.site.node("cp1"))
    for name in ("w1", "w2"):
        rack.faults[name] = Fault(name, f"{name}: no answer", "ping")
    play(rack, command, *(["--dry-run"] if command == "install" else []))
    said = "".join(capsys.readouterr())
    assert "appliance install --new-cluster" in said
    assert play(rack, "install", "--dry-run", "--new-cluster") == 0
    assert "--new-cluster" not in "".join(capsys.readouterr())
    assert rack.plays == []


@pytest.mark.parametrize("command", ["plan", "install"])
def test_json_says_nothing_of_it(command: str, rack: FakeRack, capsys: Capture) -> None:
    assert play(rack, command, "--output", "json") == 0
    said = capsys.readouterr().out
    assert AFTER_AN_EDIT not in said
    assert (json.loads(said).get("plan") or json.loads(said))["steps"] == []


def test_a_plan_with_steps_does_not_mention_again(rack: FakeRack, capsys: Capture) -> None:
    rack.documents["w1"]["sysctl"] = {}
    assert play(rack, "plan") == 0
    assert AFTER_AN_EDIT not in capsys.readouterr().out


@pytest.mark.parametrize("words", [("plan",), ("install", "--dry-run")])
def test_a_vault_that_stays_closed_is_told_where_a_plan_is_only_shown(
    words: tuple[str, ...], rack: FakeRack, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANSIBLE_VAULT_PASSWORD_FILE", "ANSIBLE_VAULT_IDENTITY_LIST"):
        monkeypatch.delenv(name, raising=False)
    vault = rack.desired.site.vault_file
    vault.parent.mkdir(parents=True)
    vault.write_text("$ANSIBLE_VAULT;1.1;AES256\n3030\n")
    assert play(rack, *words) == 0
    assert "warning" not in capsys.readouterr().err, "no step needs the vault"
    rack.documents["w1"]["sysctl"] = {}
    assert play(rack, *words) == 0
    said = capsys.readouterr().err
    assert "warning: an install would be refused: " in said
    assert "the vault's password is not known" in said


def test_a_step_requested_with_again_is_planned_with_its_reason(
    rack: FakeRack, capsys: Capture
) -> None:
    assert play(rack, "plan", "--again", "--only", "runtime") == 0
    said = capsys.readouterr().out
    assert "runtime: the container runtime, with the systemd cgroup driver: cp1, w1, w2" in said
    assert "because cp1, w1, w2: requested with --again" in said
    assert "disturbs: Docker restarts" in said


def test_a_step_requested_with_again_runs_and_is_verified(rack: FakeRack, capsys: Capture) -> None:
    assert play(rack, "install", "--again", "--only", "runtime", "--yes") == 0
    assert [(item.playbook, item.limit) for item in rack.plays] == [
        ("runtime", ("cp1", "w1", "w2"))
    ]
    assert "verified: runtime" in capsys.readouterr().err


def test_only_the_nodes_that_were_named_are_played(rack: FakeRack) -> None:
    words = ("install", "--again", "--only", "runtime", "--nodes", "w2", "--yes")
    assert play(rack, *words) == 0
    assert [item.limit for item in rack.plays] == [("w2",)]


def test_a_bundle_on_the_services_node_is_not_asked_for_again(rack: FakeRack) -> None:
    assert play(rack, "install", "--again", "--only", "artifacts", "--yes") == 0
    assert [item.playbook for item in rack.plays] == ["artifacts"]


def test_it_rehearses_and_asks_like_any_other(rack: FakeRack, capsys: Capture) -> None:
    assert play(rack, "install", "--again", "--only", "network", "--dry-run") == 0
    assert "requested with --again" in capsys.readouterr().out
    assert play(rack, "install", "--again", "--only", "network") == 3
    assert rack.plays == []


def test_preflight_refuses_again_like_any_other_install(
    rack: FakeRack, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Site, "findings", (UNFIT,))
    assert play(rack, "install", "--again", "--only", "runtime", "--yes") == 3
    assert "w1: memory: found 1 DIMM" in capsys.readouterr().err
    assert rack.plays == []


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"service_ranges": {"cp1": "10.100.0.0/16"}}, "service range 10.100.0.0/16"),
        ({"pod_ranges": {"cp1": "10.245.0.0/16"}}, "pod range 10.245.0.0/16"),
    ],
)
def test_another_range_than_the_clusters_is_refused_by_name(
    flags: dict[str, Any], sentence: str, rack: FakeRack, capsys: Capture
) -> None:
    rack.cluster = replace(samples.cluster(rack.desired), api_flags=ApiFlags(**flags))
    assert play(rack, "install", "--yes") == 3
    assert sentence in capsys.readouterr().err
    assert play(rack, "plan") == 0
    said = capsys.readouterr().out
    assert "nothing to do" not in said
    assert "refused: cp1" in said
    assert rack.plays == []


def test_another_api_name_is_refused_before_the_old_name_is_removed(
    rack: FakeRack, capsys: Capture
) -> None:
    for document in rack.documents.values():
        document["resolver"]["hosts"] = {}
        document["kubernetes"]["kubeconfigs"] = [
            {"path": "/etc/kubernetes/kubelet.conf", "server": "https://old.rack.test:6443"}
        ]
    assert play(rack, "install", "--yes") == 3
    said = capsys.readouterr().err
    assert "cp1: endpoint_in_use: found a kubelet that reaches the API as old.rack.test" in said
    assert rack.plays == []


@pytest.mark.parametrize("command", ["plan", "install"])
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--again",), "--again needs --only STEP"),
        (("--again", "--until", "runtime"), "--again needs --only STEP"),
        (("--again", "--only", "node_roles"), "node_roles has no play"),
        (("--again", "--only", "node_metadata"), "node_metadata has no play"),
        (("--again", "--only", "gpu"), "gpu concerns no node of this site"),
        (("--again", "--only", "control_plane", "-n", "w1"), "control_plane concerns none of w1"),
        (("--only", "host", "--until", "host"), "exclude each other"),
    ],
)
def test_contradictory_options_are_a_usage_error(
    command: str, words: tuple[str, ...], sentence: str, rack: FakeRack, capsys: Capture
) -> None:
    assert play(rack, command, *words) == 2
    assert sentence in capsys.readouterr().err
    assert rack.plays == []


def test_a_dry_run_trusts_host_keys_and_saves_none(
    rack: FakeRack, shown: dict[tuple[str, int], Any], capsys: Capture
) -> None:
    site = rack.desired.site
    assert play(rack, "install", "--accept-host-keys", "--dry-run", "--yes") == 0
    said = capsys.readouterr().err
    assert "w1 (" in said
    assert "were not saved" in said
    assert set(shown) == {(node.ip, 22) for node in site.nodes}
    assert not site.known_hosts.exists()


def test_without_dry_run_host_keys_are_saved(
    rack: FakeRack, shown: dict[tuple[str, int], Any], capsys: Capture
) -> None:
    assert play(rack, "install", "--accept-host-keys", "--yes") == 0
    assert len(rack.desired.site.known_hosts.read_text().splitlines()) == len(
        rack.desired.site.nodes
    )
    assert shown == {}
    assert "not kept" not in capsys.readouterr().err


@pytest.mark.usefixtures("shown")
def test_a_rehearsal_ends_at_a_jump_host_whose_key_is_not_kept(
    rack: FakeRack, capsys: Capture
) -> None:
    site = rack.desired.site
    through = samples.site(ssh={"user": "appliance", "jump_host": "gate.rack.test"}).settings
    rack.desired = replace(rack.desired, site=replace(site, settings=through))
    with pytest.raises(Refused, match="jump host") as refused:
        accept(rack.desired.site, assume_yes=True, trust=rack.trust)  # type: ignore[attr-defined]
    assert "without --dry-run" in (refused.value.hint or "")
    assert "jump host (gate.rack.test)" in capsys.readouterr().err
    assert not site.known_hosts.exists()


def test_only_a_typed_word_confirms(rack: FakeRack, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_YES", "APPLIANCE_INSTALL_YES", "APPLIANCE_INSTALL_ACCEPT_HOST_KEYS"):
        monkeypatch.setenv(name, "1")
    rack.documents["w1"]["sysctl"] = {}
    assert play(rack, "install") == 3
    assert rack.plays == []


def leave_out_w2(rack: FakeRack) -> None:
    """A worker of the inventory that is not cabled yet."""
    rack.faults["w2"] = Fault("w2", "w2: no SSH on 22: timed out", "is it powered on?")
    cluster = rack.cluster
    assert isinstance(cluster, Cluster)
    nodes = {name: node for name, node in cluster.nodes.items() if name != "w2"}
    rack.cluster = replace(cluster, nodes=nodes)


def test_a_left_out_worker_is_reported_at_the_end_and_in_the_exit_code(
    rack: FakeRack, capsys: Capture
) -> None:
    leave_out_w2(rack)
    words = ("install", "--again", "--only", "runtime", "--yes")
    assert play(rack, *words) == 1
    assert [item.limit for item in rack.plays] == [("cp1", "w1")]
    said = capsys.readouterr()
    assert "unreachable" in said.out
    assert "verified: runtime" in said.err
    last = "error: incomplete, a node was left out: w2: no SSH on 22: timed out"
    assert said.err.splitlines()[-2] == last
    assert "when the node answers: appliance install" in said.err


def test_json_names_it_with_the_same_exit_code(rack: FakeRack, capsys: Capture) -> None:
    leave_out_w2(rack)
    assert play(rack, "install", "--yes", "--output", "json") == 1
    said = json.loads(capsys.readouterr().out)
    assert [one["node"] for one in said["plan"]["left_out"]] == ["w2"]
    assert {"step": "host", "nodes": ["w2"]} in said["plan"]["unseen"]


def test_a_read_only_command_reports_left_out_nodes_without_failing(
    rack: FakeRack, capsys: Capture
) -> None:
    leave_out_w2(rack)
    for words in (("plan",), ("install", "--dry-run"), ("install", "--nodes", "w1", "--yes")):
        assert play(rack, *words) == 0
        said = capsys.readouterr()
        assert ("left out (the other nodes continue): w2" in said.err) == ("--nodes" not in words)
        assert "pass on every node" not in said.out or "--nodes" in words
    assert play(rack, "plan", "--exit-code") == 5
    assert play(rack, "install", "--nodes", "w2", "--yes") == 4
    assert rack.plays == []


@pytest.mark.usefixtures("shown")
def test_a_worker_without_a_host_key_does_not_block_the_keys_of_others(
    rack: FakeRack, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    key, site = paramiko.ECDSAKey.generate(), rack.desired.site
    keys: dict[str, Any] = {"cp1": key, "w1": key, "w2": "no SSH on 22: timed out"}
    monkeypatch.setattr(host_keys, "host_keys", lambda _site, _names: keys)
    accept(site, assume_yes=True)
    assert len(site.known_hosts.read_text().splitlines()) == 2
    assert "w2 shows no host key yet" in capsys.readouterr().err
    site.known_hosts.unlink()
    keys["cp1"] = "no SSH on 22: timed out"
    with pytest.raises(NodeUnreachable, match="cp1"):
        accept(site, assume_yes=True)
