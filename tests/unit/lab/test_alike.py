"""Hand-made settings are made on a lab's nodes; one that breaks its program is taken away."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
import yaml

from appliance.adapters.ssh.call import Answer
from appliance.errors import LabError
from appliance.lab.alike import ASIDE, Alike
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.upgrade.handmade.static_pods import COMPONENTS
from appliance.model.upgrade.rehearsal.handmade import Handmade
from appliance.model.upgrade.rehearsal.likeness import Likeness, LikeNode
from tests import samples
from tests.cli.faked_site import installed
from tests.fakes import FakeRack
from tests.sessions import fake_session
from tests.unit.rehearsal.scene import MEMORY, PODS, PROFILING
from tests.unit.upgrade.handmade import KUBELET, recorded

DESIRED = samples.desired(samples.site(1, 1))
MANIFESTS, CONFIG = "/etc/kubernetes/manifests", "/var/lib/kubelet/config.yaml"
API = f"{MANIFESTS}/kube-apiserver.yaml"
LABELLED = LikeNode("w1", False, ("cpu_workers",), labels={"rack": "7"}, taints=("a=b:NoSchedule",))


class LabNodes:
    """Nodes with files, a kubelet that follows them, and an API, by the words that are run."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], str] = {
            ("cp1", f"{MANIFESTS}/{name}.yaml"): yaml.safe_dump(recorded(name))
            for name in COMPONENTS
        }
        self.files |= {(name, CONFIG): yaml.safe_dump(KUBELET) for name in ("cp1", "w1")}
        self.objects: dict[str, Any] = {"deployment/coredns": recorded("coredns")}
        self.objects["deployment/coredns"]["metadata"]["resourceVersion"] = "7"
        self.before = dict(self.objects)
        self.broken: set[str] = set()
        self.restarts: list[str] = []
        self.writes: list[str] = []

    def look(self, nodes: Any) -> Any:
        return FakeRack(DESIRED).look(nodes)

    def read_as_root(self, node: Node, path: str, **_: Any) -> Answer:
        found = self.files.get((node.name, path))
        return Answer(0, found, "") if found is not None else Answer(1, "", "no such file")

    def run_as_root(self, node: Node, script: str, *, stdin: bytes = b"", timeout: float) -> Answer:
        assert timeout > 0
        if found := re.fullmatch(rf"umask 077 && cat > {ASIDE} && mv {ASIDE} (\S+)", script):
            self.files[node.name, found[1]] = stdin.decode()
            self.writes.append(found[1])
            return Answer(0, "", "")
        if script.startswith("systemctl"):
            if "restart" in script:
                self.restarts.append(node.name)
            return Answer(3 if self.is_broken(node.name, CONFIG) else 0, "", "")
        return self._kubectl(node, script, stdin)

    def is_broken(self, node: str, path: str) -> bool:
        text = self.files[node, path]
        return any(word in text for word in self.broken)

    def _kubectl(self, node: Node, script: str, stdin: bytes) -> Answer:
        if found := re.search(r"get pod (\S+)-cp1 -o json", script):
            path = f"{MANIFESTS}/{found[1]}.yaml"
            ready = "False" if self.is_broken("cp1", path) else "True"
            annotations = {"kubernetes.io/config.hash": str(hash(self.files["cp1", path]))}
            pod = {"metadata": {"annotations": annotations}, **_ready(ready)}
            return Answer(0, json.dumps(pod), "")
        if "get node" in script:
            return Answer(0, json.dumps(_ready("True")), "")
        if found := re.search(r"get (\S+/\S+) -o json", script):
            return Answer(0, json.dumps(self.objects[found[1]]), "")
        if script.endswith("replace -f -"):
            document = json.loads(stdin)
            assert "resourceVersion" not in document["metadata"]
            self.objects["deployment/coredns"] = document
            return Answer(0, "", "")
        if "rollout status" in script:
            text = json.dumps(self.objects["deployment/coredns"])
            return Answer(int(any(word in text for word in self.broken)), "", "timed out")
        assert "rollout undo" in script, f"{node.name}: {script}"
        self.objects = dict(self.before)
        return Answer(0, "", "")


def _ready(status: str) -> Mapping[str, Any]:
    return {"status": {"conditions": [{"type": "Ready", "status": status}]}}


class Bench:
    def __init__(self) -> None:
        self.nodes = LabNodes()
        self.rack = installed(DESIRED)
        self.notes: list[str] = []

    def make(self, like: Likeness) -> None:
        nodes: Any = self.nodes
        api: Any = self.rack
        session = fake_session(self.rack)
        Alike(DESIRED.site, nodes, api, session, self.notes.append).make(like)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def like(*of_cp1: Handmade, of_w1: tuple[Handmade, ...] = (), cluster: Any = ()) -> Likeness:
    first = LikeNode("cp1", True, ("control_plane", "services"), handmade=of_cp1)
    return Likeness("rack7", "k8s-1.23.5-r1", (first, replace(LABELLED, handmade=of_w1)), cluster)


def test_three_settings_are_made_where_the_site_has_them(bench: Bench) -> None:
    bench.make(like(PROFILING, of_w1=(PODS,), cluster=(MEMORY,)))
    assert "- --profiling=false" in bench.nodes.files["cp1", API]
    assert yaml.safe_load(bench.nodes.files["w1", CONFIG])["maxPods"] == 250
    pods = bench.nodes.objects["deployment/coredns"]["spec"]["template"]["spec"]["containers"]
    assert pods[0]["resources"]["limits"]["memory"] == "1Gi"
    assert bench.nodes.restarts == ["w1"]
    assert [text.partition(":")[0] for text in bench.notes] == ["cp1", "w1", "the cluster"]
    assert all(text.endswith("is as on the site") for text in bench.notes)


def test_a_second_time_nothing_is_written(bench: Bench) -> None:
    wanted = like(PROFILING, of_w1=(PODS,), cluster=(MEMORY,))
    bench.make(wanted)
    bench.nodes.writes.clear()
    bench.notes.clear()
    bench.make(wanted)
    assert (bench.nodes.writes, bench.notes, bench.nodes.restarts) == ([], [], ["w1"])


def test_labels_and_taints_are_put_on_the_nodes(bench: Bench) -> None:
    bench.make(like())
    put = {name: (kept.labels, kept.taints) for name, kept in bench.rack.put_backs}
    assert put["w1"] == ({"rack": "7"}, ("a=b:NoSchedule",))


@pytest.mark.parametrize("word", ["--profiling=false", "maxPods: 250", '"memory": "1Gi"'])
def test_a_setting_with_which_its_program_does_not_come_back_is_taken_away(
    bench: Bench, word: str
) -> None:
    files, objects = dict(bench.nodes.files), dict(bench.nodes.objects)
    bench.nodes.broken = {word}
    bench.make(like(PROFILING, of_w1=(PODS,), cluster=(MEMORY,)))
    assert [text for text in bench.notes if "was taken away again" in text] != []
    assert len([text for text in bench.notes if text.endswith("is as on the site")]) == 2
    changed = {path for (_, path), text in files.items() if text not in bench.nodes.files.values()}
    assert changed <= {API, CONFIG}
    for (node, path), text in bench.nodes.files.items():
        assert word not in text, f"{node}: {path}"
    if "memory" in word:
        assert bench.nodes.objects == objects


def test_what_the_lab_cannot_have_is_not_made(bench: Bench) -> None:
    file = Handmade(
        "kube-apiserver", ("audit-policy-file",), "/a.yaml", "absent", value=["/a.yaml"]
    )
    swap = Handmade("kubelet", ("failSwapOn",), "true", "false", value=True)
    bench.make(like(file, of_w1=(swap,)))
    assert (bench.nodes.writes, bench.notes) == ([], [])


def test_a_lab_whose_api_does_not_answer_is_left_as_it_is(bench: Bench) -> None:
    bench.rack.cluster = Unreachable("no answer")
    with pytest.raises(LabError, match="API does not answer"):
        bench.make(like(PROFILING))
    assert bench.nodes.writes == []


def test_a_file_of_another_form_is_not_written_over(bench: Bench) -> None:
    bench.nodes.files["cp1", API] = "- a list"
    with pytest.raises(LabError, match="it is no mapping"):
        bench.make(like(PROFILING))
    assert bench.nodes.writes == []
