"""What the pages of operations show as output: kept as golden sections, like all of tests/cli.

Pages are compared with golden files by tests/contract/test_page_texts.py. Here are the outputs
that a page shows and that no other test needs.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.call import Answer
from appliance.cli.exits import run
from appliance.model.control.handover import handover
from appliance.model.control.lock import LockVerdict
from appliance.model.node.baseline import Passport
from appliance.model.node.lost import LostNode
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.journal import Record
from appliance.workflows.site.adopt import AdoptResult
from tests import golden, samples
from tests.cli import test_node_join, test_node_logs, test_questions
from tests.cli.question_rack import Rack, Site
from tests.fakes import FakeRack
from tests.prerequisites import require
from tests.unit.life.rack import FakePower, web

rack = test_questions.rack
three = test_node_join.rack  # a site with three control-plane nodes
nodes = test_node_logs.nodes  # a site whose nodes have containers
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def typed(rack: Rack) -> Callable[..., int]:
    """Run a command of the site, confirmed."""
    site = str(rack.desired.site.directory)
    return lambda *words: run([*words, "--site", site])


def _shuts_down(rack: Rack, monkeypatch: pytest.MonkeyPatch) -> None:
    """One machine and its memory of the power, for the whole test."""
    power = FakePower(rack.clock)
    monkeypatch.setattr(Site, "power", lambda _self: power)


def test_maintenance_of_a_node_and_its_return(
    rack: Rack, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    _shuts_down(rack, monkeypatch)
    rack.drain.pods = [web("train-0", user="ada"), web("web-1"), web("shell", owner=None)]
    assert typed("node", "maintain", "w1", "--dry-run") == 0
    words = ("--reason", "new riser, case 4711", "--window", "4h", "--shutdown", "--yes")
    assert typed("node", "maintain", "w1", *words) == 0
    assert typed("node", "return", "w1", "--yes") == 0


def test_an_eviction_that_a_budget_forbids(rack: Rack, typed: Callable[..., int]) -> None:
    rack.drain.pods = [web("web-1")]
    rack.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0, "minAvailable 1")]
    assert typed("node", "maintain", "w1", "--dry-run") == 0
    assert typed("node", "maintain", "w1", "--yes") == 1


def test_a_return_with_a_part_missing(rack: Rack, typed: Callable[..., int]) -> None:
    dimms = [{"locator": slot, "size_bytes": 2**35} for slot in ("A1", "B1")]
    rack.documents["w1"]["memory"] = {"dimms": dimms}
    assert typed("node", "maintain", "w1", "--yes") == 0
    rack.documents["w1"]["memory"] = {"dimms": dimms[1:]}
    assert typed("node", "return", "w1", "--yes") == 3
    assert typed("node", "return", "w1", "--acknowledge", "dimm:A1", "--yes") == 0


def test_a_lost_node(
    rack: Rack, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    rack.die("w1")
    loss = LostNode(
        *("w1", "2026-01-01T00:00:00+00:00"),
        terminating=("team/web-1",),
        services=("team/web",),
    )
    monkeypatch.setattr("appliance.workflows.status.find_lost_nodes", lambda *_: (loss,))
    assert typed("status") == 0
    assert typed("node", "maintain", "w1", "--lost", "--reason", "no power", "--yes") == 0


def test_a_lost_node_whose_bmc_reports_power_on(rack: Rack, typed: Callable[..., int]) -> None:
    site = rack.desired.site
    nodes = tuple(
        replace(node, bmc_address=node.address.ip) if node.name == "w1" else node
        for node in site.nodes
    )
    rack.desired = replace(rack.desired, site=replace(site, nodes=nodes))
    passport = Passport("w1", {"machine": "SN-w1"})
    rack.archive.put(passport.document, passport.text())
    rack.die("w1")
    assert typed("node", "maintain", "w1", "--lost", "--dry-run") == 0
    assert typed("node", "maintain", "w1", "--lost", "--yes") == 0
    assert rack.driver.orders == [("w1", "cut")]


def test_a_node_that_is_not_lost(rack: Rack, typed: Callable[..., int]) -> None:
    assert typed("node", "maintain", "w1", "--lost", "--yes") == 3
    assert rack.drain.log == []


def test_an_install_of_bare_nodes(rack: Rack, typed: Callable[..., int]) -> None:
    site = replace(samples.site(), directory=rack.desired.site.directory)
    rack.__dict__.update(FakeRack(samples.desired(site)).__dict__)
    assert typed("install", "--yes") == 0
    assert typed("status") == 0
    assert typed("install", "--yes") == 0


def test_a_control_plane_node_joins_again(three: FakeRack) -> None:
    three.documents["cp1"] = samples.bare(three.desired.site.node("cp1"))
    site = str(three.desired.site.directory)
    assert run(["node", "rejoin", "cp1", "--yes", "--site", site]) == 0


def test_logins_are_enabled(rack: Rack, typed: Callable[..., int]) -> None:
    assert typed("runai", "access", "enable", "--yes") == 0
    assert "access" in [play.playbook for play in rack.plays]


def _record(**changes: Any) -> Record:
    first = Record(
        run="0197f2c4-0000-7000-8000-000000000001",
        sequence=1,
        command="install",
        step="runtime",
        nodes=("cp1", "w1", "w2"),
        why=("cp1: Docker does not run",),
        started="2026-01-01T00:00:00+00:00",
        took_seconds=34.0,
        outcome="verified",
        operator="ada",
        tool_version="0.1.0",
        host="laptop",
    )
    return replace(first, **changes)


def test_what_another_laptop_left(
    rack: Rack, typed: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    error = "w1: the kubelet does not run"
    left = _record(sequence=2, step="workers", nodes=("w1",), outcome="failed", error=error)
    records = [_record(), left]
    folder = rack.desired.site.directory / ".appliance" / "journal"
    folder.mkdir(parents=True)
    for record in records:
        (folder / record.file_name).write_text(json.dumps(record.as_json()))
    found = AdoptResult(2, ("passports/w1.json",), handover(records, LockVerdict("open")))
    monkeypatch.setattr("appliance.workflows.site.adopt.site_adopt", lambda _session: found)
    assert typed("site", "adopt") == 0
    assert typed("history", "--last", "10") == 0


def test_ssh_keygen_vouches_for_a_manifest(tmp_path: Any) -> None:
    key, manifest = tmp_path / "key", tmp_path / "manifest.json"
    namespace = "appliance-bundle@hyperscalers"
    manifest.write_text("{}")
    require("ssh-keygen")
    keygen: list[Any] = ["ssh-keygen", "-q"]
    subprocess.run([*keygen, "-t", "ed25519", "-N", "", "-f", key], check=True)
    sign = [*keygen, "-Y", "sign", "-n", namespace, "-f", key, manifest]
    subprocess.run(sign, check=True, capture_output=True)
    public = key.with_suffix(".pub").read_text()
    (tmp_path / "signers").write_text(f'ada@example namespaces="{namespace}" {public}')
    verify = ["ssh-keygen", "-Y", "verify", "-f", tmp_path / "signers", "-I", "ada@example"]
    verify += ["-n", namespace, "-s", f"{manifest}.sig"]
    said = [
        subprocess.run(verify, input=text, capture_output=True, check=False)
        for text in (b"{}", b"{ }")
    ]
    assert [done.returncode == 0 for done in said] == [True, False]
    text = "".join(golden.steady(done.stdout.decode()) for done in said)
    golden.agree("cli/test_page_samples", "test_ssh_keygen_vouches_for_a_manifest", text)


def test_the_logs_of_a_pod_that_was_restarted(
    nodes: test_node_logs.Nodes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = "1" * 64, "2" * 64
    listed = test_node_logs.ETCD.format(second, "etcd").replace("2 hours", "2 minutes")
    listed += listed.replace(second, first).replace("Up 2 minutes", "Exited (1) 2 minutes ago")
    said = {
        "docker ps": listed,
        first: "listen tcp 198.18.7.11:2380: bind: address already in use\n",
        second: "serving client traffic securely on 198.18.7.11:2379\n",
    }

    def answer(_node: object, script: str, **_: object) -> Answer:
        return Answer(0, next(text for key, text in said.items() if key in script), "")

    monkeypatch.setattr(nodes, "run_as_root", answer)
    words = ["node", "logs", "cp1", "--pod", "kube-system/etcd", "--site", str(tmp_path)]
    assert run(words) == 0
