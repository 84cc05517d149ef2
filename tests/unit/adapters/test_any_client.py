"""Any control-plane node that answers will do: the first one may be off."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from appliance.adapters.kubernetes import KubernetesApi
from appliance.errors import NodeUnreachable
from appliance.model.cluster import Unreachable
from appliance.model.site import Node
from tests import samples


class Api(KubernetesApi):
    """Its nodes are off, or have a client by their name."""

    def __init__(self, off: set[str]) -> None:
        super().__init__(samples.site(masters=3), None)  # type: ignore[arg-type]
        self.off = off
        self.closed: list[str] = []

    @contextmanager
    def client(self, node: Node) -> Iterator[Any]:
        if node.name in self.off:
            raise NodeUnreachable(f"{node.name}: no answer on port 22")
        try:
            yield node.name
        finally:
            self.closed.append(node.name)


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    import kubernetes.client

    class Version:
        def __init__(self, client: str) -> None:
            self.client = client

        def get_code(self, **_: Any) -> str:
            return self.client

    monkeypatch.setattr(kubernetes.client, "VersionApi", Version)


def test_the_first_that_answers_is_asked_and_closed() -> None:
    api = Api({"cp1"})
    with api.any_client() as client:
        assert (client, api.closed) == ("cp2", [])
    assert api.closed == ["cp2"]


def test_what_fails_later_is_not_taken_for_a_node_that_is_away() -> None:
    api = Api(set())
    with pytest.raises(NodeUnreachable, match="later"), api.any_client():
        raise NodeUnreachable("later")
    assert api.closed == ["cp1"]


def test_all_of_them_off_is_told_with_every_reason() -> None:
    api = Api({"cp1", "cp2", "cp3"})
    with pytest.raises(NodeUnreachable, match=r"cp1: no answer.*cp3: no answer"), api.any_client():
        pytest.fail("nobody answers")


def test_reading_names_those_that_are_off() -> None:
    """Photographs that show an API server, whose node is away by the time it is asked."""
    wish = samples.desired(samples.site(masters=3))
    documents = {node.name: samples.converged(node, wish) for node in wish.site.nodes}
    photographs = samples.photographs(documents)
    found = Api({"cp1", "cp2", "cp3"}).read(photographs)
    assert isinstance(found, Unreachable)
    assert "cp2: no answer" in found.reason
