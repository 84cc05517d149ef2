"""Others write to the Node object as well: an error of ours that a workflow can restore from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes import client

from appliance.adapters.kubernetes import KubernetesApi
from appliance.adapters.kubernetes_drain import KubernetesDrain
from appliance.adapters.node_conflicts import ATTEMPTS
from appliance.errors import ClusterError
from appliance.model.maintenance import Maintenance

MARK = Maintenance("run-1", "ada", "laptop", "2022-01-01", "taint", "cordon", True, True)


class Api:
    """An API server where somebody else is faster, some times or always."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.written: list[dict[str, Any]] = []

    @contextmanager
    def any_client(self) -> Iterator[None]:
        yield

    def read_node(self, name: str, **_: Any) -> Any:
        return SimpleNamespace(
            metadata=SimpleNamespace(name=name, resource_version="7"),
            spec=SimpleNamespace(taints=None),
        )

    def patch_node(self, name: str, body: dict[str, Any], **_: Any) -> None:
        if self.conflicts:
            self.conflicts -= 1
            raise client.ApiException(status=409, reason=f"{name} was changed")
        self.written.append(body)


def drain(api: Api, monkeypatch: pytest.MonkeyPatch) -> KubernetesDrain:
    monkeypatch.setattr(client, "CoreV1Api", lambda _: api)
    return KubernetesDrain(cast(KubernetesApi, api))


def test_a_taint_is_written_again_when_somebody_was_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(conflicts=ATTEMPTS - 1)
    drain(api, monkeypatch).taint("w1", on=True)
    assert [body["spec"]["taints"][0]["key"] for body in api.written] == ["runai"]


@pytest.mark.parametrize(
    "write",
    [
        lambda port: port.mark("w1", MARK, cordon=True),
        lambda port: port.clear("w1", uncordon=True),
        lambda port: port.taint("w1", on=True),
    ],
)
def test_a_conflict_that_stays_is_an_error_with_a_next_step(
    write: Callable[[KubernetesDrain], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = drain(Api(conflicts=99), monkeypatch)
    with pytest.raises(ClusterError) as failed:
        write(port)
    assert failed.value.hint == "the same command goes on from here"
