"""The values of a Helm release, from the secret in which Helm keeps it."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from appliance.adapters.kubernetes.helm_values import newest_release, runtime_of
from appliance.model.upgrade.evidence import Silence


def secret(version: str, config: Any) -> dict[str, Any]:
    packed = gzip.compress(json.dumps({"config": config, "name": "runai-cluster"}).encode())
    release = base64.b64encode(base64.b64encode(packed)).decode()
    return {"metadata": {"labels": {"version": version}}, "data": {"release": release}}


def values(runtime: Any) -> dict[str, Any]:
    return {"runai-operator": {"config": {"global": {"runtime": runtime}}}}


def test_the_newest_revision_counts() -> None:
    items = [secret("9", values("docker")), secret("10", values("containerd"))]
    found = newest_release({"items": items})
    assert found is not None
    assert not isinstance(found, Silence)
    assert runtime_of(found) == "containerd"


@pytest.mark.parametrize("config", [None, {}, {"runai-operator": {}}, {"runai-operator": "x"}])
def test_values_that_name_no_runtime_are_empty(config: Any) -> None:
    found = newest_release({"items": [secret("1", config)]})
    assert found is not None
    assert not isinstance(found, Silence)
    assert runtime_of(found) == ""


def test_without_a_release_there_is_none() -> None:
    assert newest_release({"items": []}) is None


HOSTILE: list[Any] = [
    [],
    {"items": "x"},
    {"items": [{"metadata": {"labels": {"version": "1"}}}]},
    {"items": [{"metadata": {"labels": {"version": "1"}}, "data": {"release": "!"}}]},
    {"items": [{"metadata": {"labels": {"version": "1"}}, "data": {"release": "YWJj"}}]},
]


@pytest.mark.parametrize("secrets", HOSTILE)
def test_what_cannot_be_unpacked_says_so(secrets: Any) -> None:
    assert isinstance(newest_release(secrets), Silence)


@pytest.mark.parametrize("runtime", [7, "", "a b", "x" * 50, ["docker"]])
def test_a_value_that_is_no_word_is_unknown(runtime: Any) -> None:
    assert isinstance(runtime_of({"config": values(runtime)}), Silence)


def test_a_release_that_unpacks_without_end_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("appliance.adapters.kubernetes.helm_values.MOST_BYTES", 1000)
    packed = gzip.compress(b" " * 100_000)
    release = base64.b64encode(base64.b64encode(packed)).decode()
    one = {"metadata": {"labels": {"version": "1"}}, "data": {"release": release}}
    assert isinstance(newest_release({"items": [one]}), Silence)
