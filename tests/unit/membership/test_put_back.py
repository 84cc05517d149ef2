"""What a node had is put back on a Node object that others write to at the same time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.kubernetes.nodes.members import KubernetesMembers
from appliance.errors import ClusterError
from appliance.model.state.nodes.node_metadata import NodeMetadata
from tests import samples

KEPT = NodeMetadata({"run.ai/type": "dgx"}, {}, ("a=b:NoSchedule",))


class Api:
    """A Node that just joined: who writes with an old version of it is told of a conflict."""

    def __init__(self, writes_of_others: int, status: int = 409) -> None:
        self.others = writes_of_others
        self.status = status
        self.version = 0
        self.taints: list[client.V1Taint] = []
        self.labels: dict[str, str] = {}

    @contextmanager
    def any_client(self) -> Iterator[None]:
        yield

    def read_node(self, _name: str, **_: Any) -> Any:
        found = SimpleNamespace(
            metadata=SimpleNamespace(resource_version=str(self.version)),
            spec=SimpleNamespace(taints=list(self.taints)),
        )
        if self.others:
            self.others -= 1
            self.version += 1
            key = f"others/{self.version}"
            self.taints.append(client.V1Taint(effect="NoSchedule", key=key))
        return found

    def patch_node(self, name: str, body: dict[str, Any], **_: Any) -> None:
        self.labels |= body["metadata"].get("labels", {})
        if "spec" not in body:
            return
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise client.ApiException(status=self.status, reason=f"{name} was changed")
        self.taints = [
            client.V1Taint(effect=t["effect"], key=t["key"], value=t.get("value"))
            for t in body["spec"]["taints"]
        ]


def put_back(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "CoreV1Api", lambda _: api)
    desired = samples.desired(samples.site(1))
    node = samples.cluster(desired).nodes["w1"]
    KubernetesMembers(cast(KubernetesApi, api)).put_back(node, KEPT)


def test_taints_are_put_back_beside_those_that_came_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(writes_of_others=3)
    put_back(api, monkeypatch)
    assert [taint.key for taint in api.taints] == ["others/1", "others/2", "others/3", "a"]
    assert api.labels == {"run.ai/type": "dgx"}


def test_a_node_that_others_write_all_the_time_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ClusterError, match="w1: its taints keep changing while they are written"
    ) as failed:
        put_back(Api(writes_of_others=99), monkeypatch)
    assert failed.value.hint == "run the same command again: it resumes here"


def test_another_refusal_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(writes_of_others=1, status=422)
    with pytest.raises(ClusterError, match="w1: its labels and taints could not be restored"):
        put_back(api, monkeypatch)
    assert api.version == 1
