"""The one connection of a drain: made anew when it died while nobody used it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import ReadTimeoutError

from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
from appliance.errors import ClusterError, ClusterRefused, NodeUnreachable
from appliance.model.state.cluster.pods import PodOnNode
from appliance.model.state.nodes.maintenance import Maintenance

MARK = Maintenance("run-1", "ada", "laptop", "2022-01-01", "taint", "cordon", True, True)
DEAD = ApiException(status=0, reason="SSLError\n[SSL: UNEXPECTED_EOF_WHILE_READING] EOF")


class Api:
    """Clients whose requests end as told, one after the other."""

    def __init__(self, *ends: BaseException | None) -> None:
        self.ends = list(ends)
        self.connections = 0
        self.bodies: list[Any] = []

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        self.connections += 1
        yield SimpleNamespace(call_api=None)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> type:
    import kubernetes.client

    class Core:
        api: Api

        def __init__(self, client: Any) -> None:
            self.client = client

        def read_node(self, name: str, *, _request_timeout: Any) -> Any:
            found = SimpleNamespace(name=name, resource_version="7", annotations=None)
            return SimpleNamespace(metadata=found)

        def patch_node(
            self, name: str, body: Any, *, field_manager: str, _request_timeout: Any
        ) -> None:
            assert field_manager == "appliance"
            Core.api.bodies.append((name, body))
            if (end := Core.api.ends.pop(0)) is not None:
                raise end

    monkeypatch.setattr(kubernetes.client, "CoreV1Api", Core)
    return Core


@pytest.mark.parametrize("death", [DEAD, ConnectionResetError()])
def test_a_connection_that_died_idle_is_recreated_and_the_same_is_written(
    core: Any, death: BaseException
) -> None:
    core.api = api = Api(death, None)
    KubernetesDrain(api).mark("w1", MARK, cordon=True, ours=[None])  # type: ignore[arg-type]
    assert api.connections == 2
    assert api.bodies[0] == api.bodies[1]


@pytest.mark.parametrize(
    ("ends", "words"),
    [
        ((DEAD, DEAD), "patch node failed: SSLError"),
        ((ApiException(status=403, reason="Forbidden"),), "patch node failed: 403 Forbidden"),
    ],
)
def test_a_refusal_and_a_second_death_end_it_in_one_line(
    core: Any, ends: tuple[BaseException, ...], words: str
) -> None:
    core.api = api = Api(*ends)
    with pytest.raises(ClusterError) as failed:
        KubernetesDrain(api).mark("w1", MARK, cordon=True, ours=[None])  # type: ignore[arg-type]
    assert failed.value.message == words
    assert len(api.bodies) == len(ends)


@pytest.mark.parametrize("silence", [DEAD, ReadTimeoutError(None, "", "late"), OSError()])  # type: ignore[arg-type]
def test_a_read_without_an_answer_changed_nothing(core: Any, silence: BaseException) -> None:
    def list_node(self: Any, *, _request_timeout: Any) -> None:  # noqa: ARG001
        raise silence

    core.list_node, core.list_pod_for_all_namespaces = list_node, list_node
    with pytest.raises(NodeUnreachable, match="the Kubernetes API does not answer: list"):
        KubernetesDrain(Api()).view("w1")  # type: ignore[arg-type]


def test_two_budgets_over_a_pod_are_reported_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import kubernetes.client

    refusal = ApiException(status=500, reason="Internal Server Error")
    refusal.body = '{"message": "This pod has more than one PodDisruptionBudget, which the ..."}'

    class Core:
        def __init__(self, _client: Any) -> None:
            pass

        def create_namespaced_pod_eviction(self, *_: Any, **__: Any) -> None:
            raise refusal

    monkeypatch.setattr(kubernetes.client, "CoreV1Api", Core)
    drain = KubernetesDrain(Api())  # type: ignore[arg-type]
    with pytest.raises(ClusterError, match="team/web: more than one PodDisruption") as refused:
        drain.evict(PodOnNode("team", "web", "w1"))
    assert "kubectl -n team get pdb" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("status", "body", "is_final"),
    [
        (400, "", True),
        (401, "", True),
        (403, "nodes is forbidden", True),
        # Admission plugins of an API server that starts wait for their caches.
        (403, "nodes is forbidden: not yet ready to handle request", False),
        (404, "", True),
        (408, "", False),
        (409, "", False),
        (422, "", True),
        (429, "", False),
        (500, "", False),
        (503, "", False),
        (504, "", False),
    ],
)
def test_only_what_the_same_request_would_get_again_is_final(
    core: Any, status: int, body: str, is_final: bool
) -> None:
    end = ApiException(status=status, reason="as it says")
    end.body = body
    core.api = api = Api(*[end] * 8)
    with pytest.raises(ClusterError) as refused:
        KubernetesDrain(api).mark("w1", MARK, cordon=True, ours=[None])  # type: ignore[arg-type]
    assert isinstance(refused.value, ClusterRefused) is is_final
