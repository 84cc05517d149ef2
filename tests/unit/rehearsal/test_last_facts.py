"""The last facts of each node are kept after every look, privately, each with its time."""

from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.site.last_facts import KeptSite, LastFactsFiles
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.observed import Fault, Look
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark
from appliance.model.upgrade.rehearsal.last_facts import LastFacts, read_last_facts
from tests import samples
from tests.unit.upgrade.handmade import arguments, changed, kubelet

DESIRED = samples.desired()
SITE = DESIRED.site
NAMES = tuple(node.name for node in SITE.nodes)
CP1 = NAMES[0]


class Folder:
    """The files of a site, and a clock that a test turns."""

    def __init__(self, directory: Path) -> None:
        self.time = "2026-11-01T00:00:00+00:00"
        self.notes: list[str] = []
        self.state = directory / ".appliance"
        self.files = self.again()

    def again(self) -> LastFactsFiles:
        """Those of another command."""
        return LastFactsFiles(self.state, NAMES, lambda: self.time, self.notes.append)

    def kept(self) -> KeptSite:
        return self.again().read()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path)


def look(*names: str) -> Look:
    nodes = [SITE.node(name) for name in names]
    documents = {node.name: samples.converged(node, DESIRED) for node in nodes}
    silent = tuple(Fault(name, "no answer", "") for name in NAMES if name not in names)
    return Look(samples.node_facts(documents), silent)


def test_each_node_that_answered_has_a_file_that_only_its_owner_reads(folder: Folder) -> None:
    folder.files.saw_nodes(look(*NAMES))
    files = sorted((folder.state / "facts" / "nodes").iterdir())
    assert [path.name for path in files] == sorted(f"{name}.json" for name in NAMES)
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700
    assert set(folder.kept().nodes) == set(NAMES)


def test_a_node_that_is_silent_keeps_its_older_facts_with_their_time(folder: Folder) -> None:
    folder.files.saw_nodes(look(*NAMES))
    folder.time = "2026-11-02T00:00:00+00:00"
    folder.again().saw_nodes(look(CP1))
    times = {name: kept.machine and kept.machine.seen for name, kept in folder.kept().nodes.items()}
    assert times == {
        **dict.fromkeys(NAMES, "2026-11-01T00:00:00+00:00"),
        CP1: "2026-11-02T00:00:00+00:00",
    }


def test_what_the_api_says_is_kept_beside_what_the_machine_says(folder: Folder) -> None:
    folder.files.saw_nodes(look(*NAMES))
    found = samples.cluster(DESIRED)
    nodes = {name: replace(node, labels={**node.labels, "rack": "7"})
             for name, node in found.nodes.items()}  # fmt: skip
    folder.again().saw_cluster(replace(found, nodes=nodes))
    kept = folder.kept()
    first = kept.nodes[CP1]
    assert first.machine is not None
    assert first.member is not None
    assert first.member.kubelet == "v1.23.5"
    assert first.member.labels == {"rack": "7"}
    assert kept.cluster is not None
    assert (kept.cluster.version, kept.cluster.upgrading) == (found.version, "")


def test_a_cluster_that_does_not_answer_takes_nothing_away(folder: Folder) -> None:
    folder.files.saw_cluster(samples.cluster(DESIRED))
    before = folder.kept()
    folder.again().saw_cluster(Unreachable("no answer"))
    assert folder.kept() == before


def test_an_upgrade_that_is_under_way_is_kept(folder: Folder) -> None:
    mark = UpgradeMark("k8s-1.23.17-r1", "2026-11-01", "ada on laptop").as_text()
    found = samples.annotated(samples.cluster(DESIRED), [CP1], ANNOTATION, mark)
    nodes = {name: replace(node, control_plane=name == CP1) for name, node in found.nodes.items()}
    folder.files.saw_cluster(replace(found, nodes=nodes))
    kept = folder.kept().cluster
    assert kept is not None
    assert "an upgrade to k8s-1.23.17-r1 is under way" in kept.upgrading


def test_handmade_settings_are_kept_of_nodes_and_of_the_cluster(folder: Folder) -> None:
    folder.files.saw_nodes(look(*NAMES))
    folder.files.saw_documents(
        changed(arguments("kube-apiserver", "--profiling=false"), kubelet("maxPods", 250))
    )
    kept = folder.kept()
    names = {
        name: [one.name for one in facts.handmade.settings] if facts.handmade else None
        for name, facts in kept.nodes.items()
    }
    assert names == {CP1: ["kube-apiserver.profiling"], "w1": ["kubelet.maxPods"], "w2": None}
    assert all(facts.machine for facts in kept.nodes.values())
    assert kept.cluster is not None
    assert kept.cluster.handmade is not None
    assert kept.cluster.handmade.settings == ()


def test_a_state_that_cannot_be_written_stops_nothing_and_is_said_once(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    folder.state.write_text("a file in its place")
    folder.files.saw_nodes(look(*NAMES))
    folder.files.saw_cluster(samples.cluster(DESIRED))
    assert len(folder.notes) == 1
    assert folder.notes[0].startswith("the last facts were not kept: ")


HOSTILE: dict[str, Any] = {
    "no JSON": "{",
    "a later schema": json.dumps({"schema": 99, "node": CP1}),
    "of another node": json.dumps(LastFacts("w2").as_json()),
    "a list": "[]",
    "a name that leaves the folder": json.dumps({"schema": 1, "node": "../../x"}),
    "a number for words": json.dumps({"schema": 1, "node": CP1, "machine": {"seen": 5}}),
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_file_of_another_form_is_named_and_written_anew(folder: Folder, text: str) -> None:
    folder.files.saw_nodes(look(*NAMES))
    path = folder.state / "facts" / "nodes" / f"{CP1}.json"
    path.write_text(text)
    kept = folder.kept()
    assert CP1 not in kept.nodes
    assert [str(path) in sentence for sentence in kept.unread] == [True]
    folder.again().saw_nodes(look(CP1))
    assert CP1 in folder.kept().nodes


def test_a_link_in_place_of_a_file_is_replaced_and_not_followed(folder: Folder) -> None:
    folder.files.saw_nodes(look(CP1))
    path = folder.state / "facts" / "nodes" / f"{CP1}.json"
    other = folder.state / "other"
    other.write_text("mine")
    path.unlink()
    os.symlink(other, path)  # noqa: PTH211
    assert len(folder.kept().unread) == 1
    folder.again().saw_nodes(look(CP1))
    assert other.read_text() == "mine"
    assert not path.is_symlink()


def test_nothing_that_may_hold_a_secret_is_among_the_facts_that_are_kept(folder: Folder) -> None:
    seen = look(*NAMES)
    document: dict[str, Any] = dict(seen.node_facts[CP1].document)
    document["proxy"] = {"environment": {"http_proxy": "http://ada:hunter2-hunter2@proxy"}}
    folder.files.saw_nodes(Look(samples.node_facts({CP1: document})))
    found = samples.cluster(DESIRED)
    node = replace(found.nodes[CP1], labels={"api-token": "hunter2-hunter2", "rack": "7"},
                   annotations={"note": "hunter2-hunter2"})  # fmt: skip
    cluster: Cluster = replace(found, nodes={CP1: node})
    folder.files.saw_cluster(cluster)
    text = (folder.state / "facts" / "nodes" / f"{CP1}.json").read_text()
    assert "hunter2" not in text
    kept = read_last_facts(text)
    assert kept.member is not None
    assert kept.member.labels == {"rack": "7"}


TAINTS = ("rack=7:NoSchedule", "password=hunter2-hunter2:NoSchedule", "a=eyJhbGciOi.eyJzdWIi.x:NoX")


def test_no_taint_that_looks_like_a_secret_is_kept(folder: Folder) -> None:
    found = samples.cluster(DESIRED)
    nodes = {name: replace(node, taints=TAINTS) for name, node in found.nodes.items()}
    folder.files.saw_cluster(replace(found, nodes=nodes))
    member = folder.kept().nodes["w1"].member
    assert member is not None
    assert member.taints == TAINTS[:1]
