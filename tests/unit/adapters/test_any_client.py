"""Any control-plane node whose API server is ready will do: the first one may be off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from urllib3.exceptions import ReadTimeoutError

from appliance.adapters.kubernetes.api import KubernetesApi
from appliance.errors import NodeUnreachable
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Unreachable
from tests import samples

SILENT = 0


class Client:
    """One API server: what it answers, and what it was asked."""

    configuration = SimpleNamespace(host="https://127.0.0.1:1")

    def __init__(self, name: str, readiness: int, api: Api) -> None:
        self.name = name
        self.readiness = readiness
        self.api = api
        self.rest_client = SimpleNamespace(pool_manager=self)

    def request(self, method: str, url: str, **_: Any) -> Any:
        assert (method, url) == ("GET", "https://127.0.0.1:1/readyz")
        self.api.asked.append(f"{self.name} ready")
        if self.readiness == SILENT:
            raise ReadTimeoutError(None, url, "timed out")  # type: ignore[arg-type]
        return SimpleNamespace(status=self.readiness, reason="a reason")


class Api(KubernetesApi):
    """Its nodes are off, or have a client by their name.

    Args:
        off: nodes that SSH does not reach.
        readiness: status of ``/readyz``, 200 where nothing else is said.
        masters: how many.
    """

    def __init__(
        self, off: set[str], readiness: Mapping[str, int] | None = None, masters: int = 3
    ) -> None:
        super().__init__(samples.site(masters=masters), None)  # type: ignore[arg-type]
        self.off = off
        self.readiness = readiness or {}
        self.closed: list[str] = []
        self.asked: list[str] = []
        self.without_version: set[str] = set()

    @contextmanager
    def client(self, node: Node) -> Iterator[Any]:
        if node.name in self.off:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        try:
            yield Client(node.name, self.readiness.get(node.name, 200), self)
        finally:
            self.closed.append(node.name)


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    import kubernetes.client

    class Version:
        def __init__(self, client: Client) -> None:
            self.client = client

        def get_code(self, **_: Any) -> None:
            self.client.api.asked.append(f"{self.client.name} version")
            if self.client.name in self.client.api.without_version:
                raise kubernetes.client.ApiException(status=401, reason="Unauthorized")

    monkeypatch.setattr(kubernetes.client, "VersionApi", Version)


def test_the_first_that_answers_is_asked_once_and_closed() -> None:
    api = Api({"cp1"})
    with api.any_client() as client:
        assert (client.name, api.closed) == ("cp2", [])
    assert (api.closed, api.asked) == (["cp2"], ["cp2 ready"])


@pytest.mark.parametrize("status", [500, 503, 429, 403, 302, SILENT])
def test_one_that_is_not_ready_is_passed_over(status: int) -> None:
    """As one is whose etcd is dead: it tells its version, and nothing else."""
    api = Api(set(), {"cp1": status})
    with api.any_client() as client:
        assert (client.name, api.closed) == ("cp2", ["cp1"])
    assert (api.closed, api.asked) == (["cp1", "cp2"], ["cp1 ready", "cp2 ready"])


def test_where_none_is_ready_the_first_that_tells_its_version_is_asked() -> None:
    api = Api(set(), {"cp1": SILENT, "cp2": 401, "cp3": 500})
    api.without_version = {"cp2"}
    with api.any_client() as client:
        assert client.name == "cp3"
    assert api.asked[3:] == ["cp2 version", "cp3 version"], "a silent one is not asked again"
    assert api.closed == ["cp1", "cp2", "cp3", "cp2", "cp3"]


def test_the_only_one_is_asked_before_its_hooks_have_run() -> None:
    api = Api(set(), {"cp1": 500}, masters=1)
    with api.any_client() as client:
        assert client.name == "cp1"


def test_each_node_gives_its_last_reason_once() -> None:
    api = Api({"cp3"}, {"cp1": 500, "cp2": SILENT})
    api.without_version = {"cp1"}
    with pytest.raises(NodeUnreachable) as caught, api.any_client():
        pytest.fail("nobody answers")
    assert caught.value.message == (
        "no API server answers: cp1: the API answered 401 Unauthorized; "
        "cp2: the API does not answer: ReadTimeoutError; cp3: no answer on port 22"
    )


def test_a_later_failure_does_not_count_as_an_unreachable_node() -> None:
    api = Api(set())
    with pytest.raises(NodeUnreachable, match="later"), api.any_client():
        raise NodeUnreachable("later")
    assert api.closed == ["cp1"]


def test_if_all_are_off_every_reason_is_reported() -> None:
    api = Api({"cp1", "cp2", "cp3"})
    with pytest.raises(NodeUnreachable, match=r"cp1: no answer.*cp3: no answer"), api.any_client():
        pytest.fail("nobody answers")


def test_reading_names_those_that_are_off() -> None:
    """Facts that show an API server, whose node is away by the time it is asked."""
    desired = samples.desired(samples.site(masters=3))
    documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    node_facts = samples.node_facts(documents)
    found = Api({"cp1", "cp2", "cp3"}).read(node_facts)
    assert isinstance(found, Unreachable)
    assert "cp2: no answer" in found.reason
