"""Documents and metrics of a cluster become plain values; what is no such thing says why."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes.handmade import (
    COREDNS,
    KUBE_PROXY,
    HandmadeReader,
    cluster_configuration,
    kubelet_configuration,
    uses_of,
    values_of,
)
from appliance.adapters.ssh.call import Answer
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ClusterError, NodeUnreachable
from appliance.model.site.settings import Node
from appliance.model.upgrade.evidence import DeprecatedUse, Silence
from tests import samples
from tests.unit.adapters.api_servers import KubeconfigNodes, kubeconfig_of, serving

# Recorded from kube-apiserver 1.23.
METRICS = b"""\
# HELP apiserver_requested_deprecated_apis [STABLE] Gauge of deprecated APIs that were requested
# TYPE apiserver_requested_deprecated_apis gauge
apiserver_requested_deprecated_apis{group="batch",removed_release="1.25",resource="cronjobs",subresource="status",version="v1beta1"} 1
apiserver_requested_deprecated_apis{group="policy",removed_release="1.25",resource="podsecuritypolicies",subresource="",version="v1beta1"} 0
apiserver_requested_deprecated_apis{group="",removed_release="",resource="componentstatuses",subresource="",version="v1"} 1
apiserver_requested_deprecated_apis_of_another_name{group="x"} 1
apiserver_request_total{code="200"} 12
"""  # noqa: E501


def test_uses_are_read_of_recorded_metrics() -> None:
    found = list(uses_of(METRICS))
    assert found == [
        DeprecatedUse("batch", "v1beta1", "cronjobs/status", "1.25"),
        DeprecatedUse("", "v1", "componentstatuses", ""),
    ]
    assert [one.name for one in found] == [
        "batch/v1beta1 cronjobs/status",
        "v1 componentstatuses",
    ]


@pytest.mark.parametrize(
    "line",
    [
        b"apiserver_requested_deprecated_apis{",
        b'apiserver_requested_deprecated_apis{group="x"}',
        b'apiserver_requested_deprecated_apis{group="x"} many',
        b'apiserver_requested_deprecated_apis{group="' + b"x" * 9000 + b'"} 1',
    ],
)
def test_a_line_that_cannot_be_read_is_no_absence(line: bytes) -> None:
    (found,) = uses_of(line)
    assert found.removed_release == "unreadable"


def test_no_metrics_are_no_uses() -> None:
    assert list(uses_of(b"")) == []


def config_map(name: object, data: object) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


def test_the_newest_map_of_kubelets_is_the_one_in_use() -> None:
    maps = {
        "items": [
            config_map("kubelet-config-1.23", {"kubelet": "maxPods: 23"}),
            config_map("kubelet-config-1.9", {"kubelet": "maxPods: 9"}),
            config_map("kubelet-config-other", {"kubelet": "maxPods: 0"}),
        ]
    }
    assert kubelet_configuration(maps) == {"maxPods": 23}
    maps["items"].append(config_map("kubelet-config", {"kubelet": "maxPods: 24"}))
    assert kubelet_configuration(maps) == {"maxPods": 24}


def test_the_configuration_of_the_cluster_is_read_with_its_types() -> None:
    text = "apiServer:\n  extraArgs:\n    profiling: 'false'\netcd: {local: {dataDir: /x}}\n"
    maps = {"items": [config_map("kubeadm-config", {"ClusterConfiguration": text})]}
    assert cluster_configuration(maps) == {
        "apiServer": {"extraArgs": {"profiling": "false"}},
        "etcd": {"local": {"dataDir": "/x"}},
    }


@pytest.mark.parametrize(
    "maps",
    [
        {},
        {"items": None},
        {"items": [None, 7, {"data": {}}, {"metadata": None, "data": {}}]},
        {"items": [config_map("kubeadm-config", None), config_map("kubelet-config", [])]},
        {"items": [config_map("kubeadm-config", {}), config_map("kubelet-config", {})]},
        Silence("the API does not answer"),
    ],
    ids=str,
)
def test_a_list_without_the_map_says_so(maps: Any) -> None:
    assert isinstance(cluster_configuration(maps), Silence)
    assert isinstance(kubelet_configuration(maps), Silence)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "text",
        "a: [",
        "a: !!python/object/apply:os.system ['true']",
        "a: &x [1]\nb: *x",
        "a: " + "[" * 100 + "]" * 100,
        "a: [" + "1," * 30_000 + "]",
        "a: " + "x" * (300 << 10),
    ],
    ids=lambda text: text[:30],
)
def test_what_is_no_document_says_so(text: str) -> None:
    assert isinstance(values_of(text), Silence)


class Files(SshNodes):
    """Nodes with files, one that does not answer, and no API server."""

    def __init__(self) -> None:
        pass

    def read_as_root(
        self, node: Node, path: str, *, most_bytes: int | None = None, timeout: float = 60
    ) -> Answer:
        most = 16 << 10 if path.startswith("/etc/systemd/") else 256 << 10
        assert most_bytes == most or path.endswith("admin.conf")
        assert timeout
        if node.name == "w2":
            raise NodeUnreachable("w2: ssh: timed out")
        if path.endswith("admin.conf") or path.endswith("etcd.yaml"):
            return Answer(1, "", f"cat: {path}: No such file or directory")
        if node.name == "w1" and path.endswith("10-kubeadm.conf"):
            # As many bytes as were asked for.
            return Answer(0, "é" * (8 << 10), "")
        return Answer(0, f"path: {path}", "")


def test_each_file_is_read_on_its_node_and_each_silence_has_its_reason() -> None:
    site = samples.site(1, 2)
    found = HandmadeReader(site, Files()).documents(site.cluster_members)
    cp1 = found.manifests["cp1"]
    assert not isinstance(cp1, Silence)
    assert cp1["kube-apiserver"] == {"path": "/etc/kubernetes/manifests/kube-apiserver.yaml"}
    assert isinstance(cp1["etcd"], Silence)
    assert "No such file" in cp1["etcd"].reason
    assert found.kubelet_files["w1"] == {"path": "/var/lib/kubelet/config.yaml"}
    assert found.kubelet_files["w2"] == Silence("w2: ssh: timed out")
    assert found.kubelet_units["cp1"] == {
        "kubelet-unit": "path: /etc/systemd/system/kubelet.service",
        "kubelet-drop-in": "path: /etc/systemd/system/kubelet.service.d/10-kubeadm.conf",
    }
    assert found.kubelet_units["w1"]["kubelet-drop-in"] == Silence("16 KiB or more")
    assert set(found.kubelet_units["w2"].values()) == {Silence("w2: ssh: timed out")}
    assert list(found.kubelet_files) == ["cp1", "w1", "w2"]
    for document in (found.cluster_configuration, found.coredns, found.kube_proxy):
        assert isinstance(document, Silence)
        assert "no API server answers" in document.reason


def test_an_api_server_that_is_silent_makes_all_uses_unknown() -> None:
    found = HandmadeReader(samples.site(1, 1), Files()).deprecated_uses()
    assert isinstance(found, Silence)
    assert found.reason.startswith("cp1: ")


MAPS = "/api/v1/namespaces/kube-system/configmaps"
PATHS = ("/readyz", "/metrics", MAPS, COREDNS, KUBE_PROXY, f"{MAPS}/kubelet-config-1.23")
STATUSES = dict.fromkeys((*PATHS, f"{MAPS}/kubeadm-config"), 200)


@contextmanager
def one_api(folder: Path, statuses: Mapping[str, int] = STATUSES) -> Iterator[Any]:
    """A reader of one API server, and that server."""
    kubeconfig = kubeconfig_of(folder)
    with serving(folder, statuses) as server:
        maps = [
            config_map("kubelet-config-1.23", {"kubelet": "maxPods: 110"}),
            config_map("kubeadm-config", {"ClusterConfiguration": "apiServer: {}", "other": "x"}),
        ]
        for one in maps:
            one["metadata"]["resourceVersion"] = "77"
        server.bodies[MAPS] = json.dumps({"items": maps}).encode()
        server.bodies["/metrics"] = METRICS
        server.bodies[COREDNS] = b'{"kind": "Deployment"}'
        server.bodies[KUBE_PROXY] = b'{"kind": "DaemonSet"}'
        nodes = KubeconfigNodes({"cp1": kubeconfig}, {"cp1": server.port})
        yield HandmadeReader(samples.site(1, 1), nodes), server


def test_documents_and_metrics_are_read_from_an_api_server(tmp_path: Path) -> None:
    with one_api(tmp_path) as (reader, _):
        found, uses = reader.documents([]), reader.deprecated_uses()
    assert found.kubelet_configuration == {"maxPods": 110}
    assert found.cluster_configuration == {"apiServer": {}}
    assert (found.coredns, found.kube_proxy) == ({"kind": "Deployment"}, {"kind": "DaemonSet"})
    assert len(uses) == 2


def test_a_document_that_is_refused_is_a_silence_and_the_others_are_read(tmp_path: Path) -> None:
    with one_api(tmp_path, {**STATUSES, COREDNS: 403, "/metrics": 403}) as (reader, server):
        server.bodies[KUBE_PROXY] = b"<html>"
        found, uses = reader.documents([]), reader.deprecated_uses()
    assert isinstance(found.coredns, Silence)
    assert "403" in found.coredns.reason
    assert isinstance(found.kube_proxy, Silence)
    assert found.kubelet_configuration == {"maxPods": 110}
    assert isinstance(uses, Silence)
    assert "cp1: metrics: 403" in uses.reason


def test_what_is_carried_replaces_its_key_and_nothing_else(tmp_path: Path) -> None:
    with one_api(tmp_path) as (reader, server):
        found = reader.documents([])
        reader.carry(found, {"maxPods": 200}, None)
        assert server.written == {
            f"{MAPS}/kubelet-config-1.23": {
                "metadata": {"resourceVersion": "77"},
                "data": {"kubelet": "maxPods: 200\n"},
            }
        }
        reader.carry(found, None, {"apiServer": {"extraArgs": {"a": "b"}}})
        assert list(server.written) == [
            f"{MAPS}/kubelet-config-1.23",
            f"{MAPS}/kubeadm-config",
        ]


def test_a_map_that_was_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    with one_api(tmp_path) as (reader, server):
        found = replace(reader.documents([]), kubelet_configuration={"maxPods": 99})
        with pytest.raises(ClusterError, match="changed meanwhile"):
            reader.carry(found, {"maxPods": 200}, None)
        assert server.written == {}


def test_a_write_that_is_refused_says_so(tmp_path: Path) -> None:
    refusing = {**STATUSES, f"{MAPS}/kubelet-config-1.23": 409}
    with one_api(tmp_path, refusing) as (reader, _):
        found = reader.documents([])
        with pytest.raises(ClusterError, match="409"):
            reader.carry(found, {"maxPods": 200}, None)
