"""Which volumes an upgrade keeps: those that claims of Run:ai's namespaces are bound to."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import kubernetes.client
import pytest

from appliance.adapters.kubernetes.claims import read_claimed_volumes
from appliance.errors import ClusterError
from appliance.model.components.runai.upgrade.record import ClaimedVolume


class Api:
    @contextmanager
    def any_client(self) -> Any:
        yield object()


def volume(name: str, namespace: str | None, policy: str) -> Any:
    claim = SimpleNamespace(namespace=namespace, name=f"claim-{name}") if namespace else None
    spec = SimpleNamespace(claim_ref=claim, persistent_volume_reclaim_policy=policy)
    return SimpleNamespace(metadata=SimpleNamespace(name=name), spec=spec)


def read(monkeypatch: pytest.MonkeyPatch, answer: Any) -> tuple[ClaimedVolume, ...]:
    class Core:
        def __init__(self, _client: Any) -> None:
            pass

        def list_persistent_volume(self, **_: Any) -> Any:
            if isinstance(answer, Exception):
                raise answer
            return SimpleNamespace(items=answer)

    monkeypatch.setattr(kubernetes.client, "CoreV1Api", Core)
    api: Any = Api()
    return read_claimed_volumes(api)


def test_only_those_of_runais_claims(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = [
        volume("pvc-thanos-receive", "runai-backend", "Retain"),
        volume("db", "runai-backend", "Delete"),
        volume("theirs", "runai-team-a", "Delete"),
        volume("free", None, "Delete"),
    ]
    assert read(monkeypatch, listed) == (
        ClaimedVolume("db", "runai-backend/claim-db", "Delete"),
        ClaimedVolume("pvc-thanos-receive", "runai-backend/claim-pvc-thanos-receive", "Retain"),
    )


def test_an_api_that_refuses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = kubernetes.client.ApiException(status=403, reason="Forbidden")
    with pytest.raises(ClusterError, match="the volumes of Run:ai could not be read"):
        read(monkeypatch, refused)
