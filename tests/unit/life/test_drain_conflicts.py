"""Others write to the Node object as well: an error of ours that a workflow can restore from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kubernetes import client

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.adapters.kubernetes.nodes.conflicts import ATTEMPTS
from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
from appliance.errors import ClusterError, LeaseLost
from appliance.model.state.nodes.maintenance import ANNOTATION, Maintenance

MARK = Maintenance("run-1", "ada", "laptop", "2022-01-01", "taint", "cordon", True, True)


class Api:
    """An API server where somebody else is faster, some times or always."""

    def __init__(self, conflicts: int) -> None:
        self.conflicts = conflicts
        self.written: list[dict[str, Any]] = []
        self.text = MARK.as_text()

    @contextmanager
    def any_client(self) -> Iterator[None]:
        yield

    def read_node(self, name: str, **_: Any) -> Any:
        return SimpleNamespace(
            metadata=SimpleNamespace(
                name=name, resource_version="7", annotations={ANNOTATION: self.text}
            ),
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


def test_a_taint_is_written_again_after_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(conflicts=ATTEMPTS - 1)
    drain(api, monkeypatch).taint("w1", on=True, ours=[MARK])
    assert [body["spec"]["taints"][0]["key"] for body in api.written] == ["runai"]


@pytest.mark.parametrize(
    "write",
    [
        lambda port: port.mark("w1", MARK, cordon=True, ours=[MARK]),
        lambda port: port.clear("w1", uncordon=True, ours=[MARK]),
        lambda port: port.taint("w1", on=True, ours=[MARK]),
    ],
)
def test_a_conflict_that_stays_is_an_error_with_a_next_step(
    write: Callable[[KubernetesDrain], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = drain(Api(conflicts=99), monkeypatch)
    with pytest.raises(ClusterError) as failed:
        write(port)
    assert failed.value.hint == "run the same command again: it resumes here"


@pytest.mark.parametrize(
    "write",
    [
        lambda port, ours: port.clear("w1", uncordon=True, ours=ours),
        lambda port, ours: port.taint("w1", on=False, ours=ours),
    ],
)
def test_nothing_is_taken_away_under_the_mark_of_another(
    write: Callable[[KubernetesDrain, list[Maintenance | None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    api = Api(conflicts=0)
    for text in (replace(MARK, run="run-2", by="bob").as_text(), MARK.at("taint").as_text()):
        api.text = text
        with pytest.raises(LeaseLost, match="w1: another command has changed its maintenance"):
            write(drain(api, monkeypatch), [MARK])
    api.text = ""
    with pytest.raises(LeaseLost):
        write(drain(api, monkeypatch), [MARK])
    write(drain(api, monkeypatch), [None, MARK])
    assert api.written == [], "where nothing of ours stands, nothing is ours to undo"
    api.text = MARK.as_text()
    write(drain(api, monkeypatch), [None, MARK])
    assert [body["metadata"]["resourceVersion"] for body in api.written] == ["7"]


def test_a_mark_is_written_only_over_one_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    api, following = Api(conflicts=1), MARK.at("evict")
    for text in (replace(MARK, run="run-2", by="bob").as_text(), ""):
        api.text = text
        with pytest.raises(LeaseLost, match="w1: another command has changed its maintenance"):
            drain(api, monkeypatch).mark("w1", following, cordon=False, ours=[MARK, following])
    assert api.written == []
    api.text = MARK.as_text()
    drain(api, monkeypatch).mark("w1", following, cordon=False, ours=[MARK, following])
    (body,) = api.written
    assert body["metadata"] == {
        "resourceVersion": "7",
        "annotations": {ANNOTATION: following.as_text()},
    }
    api.text = ""
    drain(api, monkeypatch).mark("w1", MARK, cordon=True, ours=[None, MARK])
    assert len(api.written) == 2


@pytest.mark.parametrize(
    "write",
    [
        lambda port: port.mark("w1", MARK.at("evict"), cordon=False, ours=[MARK]),
        lambda port: port.clear("w1", uncordon=True, ours=[MARK]),
    ],
)
def test_a_mark_that_another_writes_in_between_is_seen(
    write: Callable[[KubernetesDrain], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    api = Api(conflicts=0)

    def another_is_faster(name: str, body: dict[str, Any], **_: Any) -> None:
        assert body["metadata"]["resourceVersion"] == "7"
        api.text = replace(MARK, run="run-2").as_text()
        raise client.ApiException(status=409, reason=f"{name} was changed")

    monkeypatch.setattr(api, "patch_node", another_is_faster)
    with pytest.raises(LeaseLost):
        write(drain(api, monkeypatch))
