"""What roles ask of the cluster through kubectl, against a fake cluster that speaks its answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load, load_utils

kubectl_of = load_utils("appliance_kubectl")
kube_node = load("kube_node")
kube_manifest = load("kube_manifest")


class FakeCluster:
    """Answers kubectl: a Node, a manifest that may differ, and a server that may be away."""

    def __init__(self) -> None:
        self.node: dict[str, Any] | None = {
            "metadata": {"name": "w1", "annotations": {"a": "1"}, "labels": {}},
            "status": {"conditions": [{"type": "Ready", "status": "True", "message": "fine"}]},
        }
        self.away = 0
        self.error = ""
        self.calls: list[str] = []
        self.exists: list[str] = []
        self.diff = ""
        self.rollout = 0
        self.pods: list[dict[str, Any]] = []
        self.nodes: list[dict[str, Any]] = []

    def run(self, argv: list[str]) -> tuple[int, str, str]:
        words = [word for word in argv[1:] if not word.startswith("--")]
        self.calls.append(" ".join(words))
        if self.away:
            self.away -= 1
            return 1, "", "connection refused"
        if "--raw" in argv:
            return 0, "ok", ""
        if self.error:
            return 1, "", self.error
        handler: Any = getattr(self, "do_" + words[0])
        answer: tuple[int, str, str] = handler(argv)
        return answer

    def do_get(self, argv: list[str]) -> tuple[int, str, str]:
        if "name" in argv:
            return 0, "\n".join(self.exists), ""
        if "node" in argv:
            return 0, json.dumps(self.node) if self.node else "", ""
        if "pods" in argv:
            return 0, json.dumps({"items": self.pods}), ""
        if "nodes" in argv:
            return 0, json.dumps({"items": self.nodes}), ""
        spec = {"selector": {"matchLabels": {"app": "flannel"}}}
        metadata = {"annotations": {"deprecated.daemonset.template.generation": "2"}}
        return 0, json.dumps({"metadata": metadata, "spec": spec}), ""

    def do_patch(self, argv: list[str]) -> tuple[int, str, str]:
        body = json.loads(argv[-1].partition("=")[2])
        assert self.node is not None
        for kind, values in body["metadata"].items():
            self.node["metadata"][kind].update(values)
        return 0, "", ""

    def do_delete(self, _argv: list[str]) -> tuple[int, str, str]:
        self.node = None
        return 0, "", ""

    def do_diff(self, _argv: list[str]) -> tuple[int, str, str]:
        return (1, self.diff, "") if self.diff else (0, "", "")

    def do_apply(self, _argv: list[str]) -> tuple[int, str, str]:
        self.diff = ""
        return 0, "", ""

    def do_rollout(self, _argv: list[str]) -> tuple[int, str, str]:
        return self.rollout, "", "timed out"


def kubectl(cluster: FakeCluster, patience: int = 5) -> Any:
    found = kubectl_of.Kubectl(cluster.run, patience_seconds=patience)
    found.sleep = lambda _seconds: None
    return found


def wanted(**more: Any) -> dict[str, Any]:
    base = {"name": "w1", "annotations": {}, "labels": {}, "ready_seconds": 0}
    return {**base, **more}


def test_a_server_that_is_away_is_asked_again() -> None:
    cluster = FakeCluster()
    cluster.away = 5
    assert kubectl(cluster).get("node", "w1")["metadata"]["name"] == "w1"


def test_an_error_of_a_server_that_is_ready_is_believed_the_second_time() -> None:
    cluster = FakeCluster()
    cluster.error = "forbidden"
    with pytest.raises(kubectl_of.KubectlError, match="forbidden"):
        kubectl(cluster).get("node", "w1")
    assert cluster.calls == ["get -o json node w1", "get /readyz"] * 2


def test_patience_ends_and_says_that_the_server_is_not_ready() -> None:
    cluster = FakeCluster()
    cluster.away = 1000
    with pytest.raises(kubectl_of.KubectlError, match="not ready"):
        kubectl(cluster, patience=0).get("node", "w1")


def test_without_a_kubeconfig_no_query_is_possible(tmp_path: Path) -> None:
    assert not kubectl_of.Kubectl(FakeCluster().run, tmp_path / "none").is_possible()


def test_a_node_that_never_reported_is_unknown() -> None:
    assert kubectl_of.condition({})[0] == "Unknown"


def test_an_annotation_that_is_there_is_no_change() -> None:
    cluster = FakeCluster()
    want = wanted(annotations={"a": 1})
    report = kube_node.bring(kubectl(cluster), cluster.node, want, False)
    assert report["changed"] is False
    assert cluster.calls == []


def test_a_missing_annotation_is_written_and_others_are_kept() -> None:
    cluster = FakeCluster()
    want = wanted(annotations={"b": "2"}, labels={"l": ""})
    report = kube_node.bring(kubectl(cluster), cluster.node, want, False)
    assert report["changed"] is True
    assert report["annotations"] == {"a": "1", "b": "2"}
    assert report["labels"] == {"l": ""}


def test_check_mode_tells_the_change_and_makes_none() -> None:
    cluster = FakeCluster()
    report = kube_node.bring(kubectl(cluster), cluster.node, wanted(annotations={"b": "2"}), True)
    assert report["changed"] is True
    assert cluster.calls == []


def test_a_node_that_is_not_ready_in_time_is_a_fault_with_its_reason() -> None:
    cluster = FakeCluster()
    assert cluster.node is not None
    cluster.node["status"]["conditions"][0] = {
        "type": "Ready",
        "status": "False",
        "message": "cni config uninitialized",
    }
    want = wanted(ready_seconds=0.01)
    report = kube_node.bring(kubectl(cluster), cluster.node, want, False)
    assert "cni config uninitialized" in kube_node.fault(want, report)


def test_a_node_that_does_not_exist_is_a_fault() -> None:
    assert "does not exist" in kube_node.fault(wanted(), kube_node.told(None))


def test_a_stale_node_is_removed_once() -> None:
    cluster = FakeCluster()
    first = kube_node.remove(kubectl(cluster), cluster.node, wanted(), False)
    second = kube_node.remove(kubectl(cluster), cluster.node, wanted(), False)
    assert (first["changed"], second["changed"]) == (True, False)


class Maps:
    """Answers which of two ConfigMaps exist."""

    def __init__(self, *items: dict[str, Any]) -> None:
        self.items = list(items)
        self.asked: tuple[str, ...] = ()

    def get(self, *arguments: str) -> dict[str, Any] | None:
        self.asked = arguments
        return {"items": self.items} if self.items else None


def test_the_kubelets_configuration_is_that_of_its_own_minor_version() -> None:
    node = {"status": {"nodeInfo": {"kubeletVersion": "v1.23.5"}}}
    maps = Maps({"data": {"kubelet": "kind: KubeletConfiguration"}})
    assert kube_node.kubelet_configuration(maps, node) == "kind: KubeletConfiguration"
    assert maps.asked[2:] == ("kubelet-config-1.23", "kubelet-config")
    assert kube_node.kubelet_configuration(Maps(), node) == ""


@pytest.fixture
def manifest(tmp_path: Path) -> dict[str, Any]:
    path = tmp_path / "m.yaml"
    path.write_text("kind: Namespace\n---\nkind: DaemonSet\nspec:\n  kind: inner\n")
    workloads = ["kube-flannel/daemonset/kube-flannel-ds"]
    return {"path": str(path), "workloads": workloads, "timeout_seconds": 0}


def test_an_object_that_does_not_exist_is_a_difference(manifest: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.exists = ["namespace/kube-flannel"]
    found = kube_manifest.differences(kubectl(cluster), manifest)
    assert found == "1 of 2 objects do not exist"


def test_equal_objects_are_no_difference(manifest: dict[str, Any]) -> None:
    cluster = FakeCluster()
    cluster.exists = ["namespace/kube-flannel", "daemonset.apps/kube-flannel-ds"]
    assert kube_manifest.differences(kubectl(cluster), manifest) == ""
    cluster.diff = "- x\n+ y\n"
    assert kube_manifest.differences(kubectl(cluster), manifest) == "- x\n+ y\n"


@pytest.mark.parametrize(
    ("different", "restarts"),
    [
        ("diff -u -N /tmp/LIVE-1/v1.ConfigMap.kube-flannel.kube-flannel-cfg /tmp/MERGED-1/", 1),
        ("diff -u -N /tmp/LIVE-1/v1.Namespace..kube-flannel /tmp/MERGED-1/", 0),
        ("7 of 7 objects do not exist", 0),
    ],
)
def test_workloads_read_a_config_map_again(
    manifest: dict[str, Any], different: str, restarts: int
) -> None:
    cluster = FakeCluster()
    kube_manifest.restart(kubectl(cluster), manifest, different)
    assert cluster.calls == ["rollout restart daemonset/kube-flannel-ds"] * restarts


def test_a_workload_that_does_not_come_up_tells_which_pod_and_why(
    manifest: dict[str, Any],
) -> None:
    cluster = FakeCluster()
    cluster.nodes = [_node("w1")]
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such host"}}
    unscheduled = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes"}
    cluster.pods = [
        {
            "metadata": {"name": "p1"},
            "spec": {"nodeName": "w1"},
            "status": {"containerStatuses": [{"name": "kube-flannel", "state": waiting}]},
        },
        {"metadata": {"name": "p2"}, "spec": {}, "status": {"conditions": [unscheduled]}},
        {
            "metadata": {"name": "p3"},
            "spec": {"nodeName": "w2"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
    ]
    found = kube_manifest.wait(kubectl(cluster), manifest)
    assert "p1 on w1: kube-flannel: ErrImagePull no such host" in found
    assert "p2 on no node: 0/3 nodes" in found
    assert "p3" not in found


def _node(name: str, ready: str = "True") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def _pod(node: str, template: str = "2", **metadata: str) -> dict[str, Any]:
    labels = {"pod-template-generation": template}
    return {
        "metadata": {"name": f"flannel-{node}", "labels": labels, **metadata},
        "spec": {"nodeName": node},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


@pytest.mark.parametrize(
    ("nodes", "pods", "lacking"),
    [
        ([_node("w1"), _node("w2")], [_pod("w1"), _pod("w2")], []),
        ([_node("w1"), _node("w2")], [_pod("w1")], ["w2"]),
        ([_node("w1")], [_pod("w1", template="1")], ["w1"]),
        ([_node("w1")], [_pod("w1", deletionTimestamp="2026-01-01T00:00:00Z")], ["w1"]),
        ([_node("w1", "False")], [], ["w1"]),
        ([_node("w1"), _node("away", "Unknown")], [_pod("w1")], []),
    ],
    ids=["all", "one without", "an older template", "on its way out", "not ready", "one away"],
)
def test_a_daemon_set_is_waited_for_on_every_node_that_reports(
    manifest: dict[str, Any],
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    lacking: list[str],
) -> None:
    cluster = FakeCluster()
    cluster.nodes, cluster.pods = nodes, pods
    assert kube_manifest.lacking(kubectl(cluster), "kube-flannel", "kube-flannel-ds") == lacking
    assert (kube_manifest.wait(kubectl(cluster), manifest) is None) == (not lacking)


@pytest.mark.parametrize("code", [0, 1])
def test_another_workload_is_waited_for_by_its_rollout(manifest: dict[str, Any], code: int) -> None:
    cluster = FakeCluster()
    cluster.rollout = code
    manifest["workloads"] = ["kube-system/deployment/coredns"]
    assert (kube_manifest.wait(kubectl(cluster), manifest) is None) == (code == 0)


def test_workloads_that_run_are_no_fault(manifest: dict[str, Any]) -> None:
    assert kube_manifest.wait(kubectl(FakeCluster()), manifest) is None
