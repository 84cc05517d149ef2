"""``appliance lab up --like``: what is planned, asked and refused. The real thing: tests/lab."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from appliance.adapters.site.files import load_site
from appliance.cli.commands.lab.like import rehearse_hint
from appliance.cli.exits import run
from appliance.lab.machine.podman import Podman
from appliance.model.upgrade.rehearsal.last_facts import HandmadeSettings, LastCluster, LastFacts
from tests.contract.tree import ROOT
from tests.unit.rehearsal.scene import MACHINE, MEMORY, PODS, PROFILING, SEEN, facts, handmade

Capture = pytest.CaptureFixture[str]
BUNDLE = {
    "schema": 1,
    "release": "k8s-1.23.5-r1",
    "os": "debian-12",
    "architecture": "amd64",
    "tool_version": "0.1.0",
    "created": "2026-01-01T00:00:00Z",
    "artifacts": [],
    "images": {},
    "packages": {},
    "package_roots": {},
    "files": [],
}


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No podman, no cache, and nothing of the environment."""
    monkeypatch.setattr("appliance.lab.machine.host.LabMachine.is_root", lambda _self: False)
    monkeypatch.setattr("appliance.lab.up.missing_programs", lambda *_: ())
    monkeypatch.setattr(Podman, "subnets", lambda _self: {})
    monkeypatch.setenv("APPLIANCE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """The site of the example, of which a look was kept."""
    directory = tmp_path / "rack7"
    shutil.copytree(ROOT / "inventories/example", directory)
    nodes = {node.name: node for node in load_site(directory).nodes}
    keep(directory, facts(nodes["master1"], **handmade(PROFILING)))
    machine = replace(MACHINE, gpus={"0x20b0": 8})
    keep(directory, facts(nodes["gpu1"], machine=machine, **handmade(PODS)))
    cluster = LastCluster(SEEN, "v1.23.5", "", HandmadeSettings(SEEN, (MEMORY,)))
    path = directory / ".appliance/facts/cluster.json"
    path.write_text(json.dumps(cluster.as_json()))
    return directory


def keep(directory: Path, node: LastFacts) -> None:
    path = directory / f".appliance/facts/nodes/{node.node}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(node.as_json()))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    directory = tmp_path / "bundle"
    directory.mkdir()
    (directory / "manifest.json").write_text(json.dumps(BUNDLE))
    return directory


def typed(site: Path, *words: str) -> int:
    return run(["lab", "up", "--like", str(site), *words])


def test_a_dry_run_shows_nodes_changes_and_differences(
    site: Path, bundle: Path, capsys: Capture
) -> None:
    assert typed(site, "--bundle", str(bundle), "--dry-run") == 0
    shown = capsys.readouterr().out
    assert "create nodes: master1, gpu1" in shown
    made = [line for line in shown.splitlines() if line.startswith("made by hand")]
    assert made == [
        "made by hand on master1: kube-apiserver.profiling is false; kubeadm renders absent",
        "made by hand on gpu1: kubelet.maxPods is 250; kubeadm renders 110",
        "made by hand: coredns.resources.limits.memory is 1Gi; kubeadm renders 170Mi",
    ]


def test_a_bare_lab_of_a_site_is_one_for_a_restore(
    site: Path, bundle: Path, capsys: Capture
) -> None:
    assert typed(site, "--bare", "--bundle", str(bundle), "--dry-run") == 0
    assert "create nodes: master1, gpu1" in capsys.readouterr().out
    assert "--new-machines --bundle DIR --site lab" in rehearse_hint(Path("lab"), bare=True)
    assert "cluster upgrade --to RELEASE" in rehearse_hint(Path("lab"), bare=False)


def test_without_the_bundle_of_its_release_it_says_how_to_get_it(
    site: Path, tmp_path: Path, capsys: Capture
) -> None:
    assert typed(site, "--dry-run") == 3
    said = capsys.readouterr().err
    assert "expected the bundle of k8s-1.23.5-r1 for debian-12" in said
    assert "bundle build --release k8s-1.23.5-r1 --os debian-12 --standins DIR" in said
    assert not (tmp_path / "cache").exists()


def test_a_bundle_for_the_nodes_of_the_site_is_not_one_for_the_lab(
    site: Path, bundle: Path, capsys: Capture
) -> None:
    manifest = {**BUNDLE, "os": "ubuntu-20.04"}
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    assert typed(site, "--bundle", str(bundle), "--dry-run") == 3
    assert "found the bundle of k8s-1.23.5-r1 for ubuntu-20.04" in capsys.readouterr().err


def test_a_site_that_no_look_has_seen_is_refused(site: Path, bundle: Path, capsys: Capture) -> None:
    shutil.rmtree(site / ".appliance/facts")
    assert typed(site, "--bundle", str(bundle), "--dry-run") == 3
    said = capsys.readouterr().err
    assert "no look has kept facts of control-plane node master1" in said
    assert f"appliance status --site {site}" in said


def test_facts_that_cannot_be_read_are_named(site: Path, bundle: Path, capsys: Capture) -> None:
    path = site / ".appliance/facts/nodes/gpu1.json"
    path.write_text("{")
    assert typed(site, "--bundle", str(bundle), "--dry-run") == 0
    shown = capsys.readouterr()
    assert str(path) in shown.err
    assert "gpu1 is not in the lab: no look has kept its facts" in shown.out


@pytest.mark.parametrize("words", [("--workers", "2"), ("--control-planes", "3"), ("--gpus", "1")])
def test_what_the_site_decides_is_not_asked_for(
    site: Path, words: tuple[str, ...], capsys: Capture
) -> None:
    assert typed(site, *words, "--dry-run") == 2
    assert f"{words[0]} with --like: the site decides that" in capsys.readouterr().err


def test_hostile_facts_write_no_command_to_the_terminal(
    site: Path, bundle: Path, capsys: Capture
) -> None:
    nodes = {node.name: node for node in load_site(site).nodes}
    hostile = replace(PODS, was="\x1b[31m250")
    keep(site, facts(nodes["gpu1"], **handmade(hostile)))
    assert typed(site, "--bundle", str(bundle), "--dry-run") == 0
    shown = capsys.readouterr()
    assert "\x1b[31m" not in shown.out + shown.err
