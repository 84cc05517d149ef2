"""The GPUs that Run:ai's projects deserve; what is no such number is not readable, and no claim."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.kubernetes.nodes.projects import DEFINITION, ProjectsReader, deserved_of
from appliance.model.upgrade.evidence import Silence
from tests import samples
from tests.unit.adapters.api_servers import KubeconfigNodes, kubeconfig_of, serving

PROJECTS = "/apis/run.ai/v2alpha2/projects"
STATUSES = {"/readyz": 200, DEFINITION: 200, PROJECTS: 200}


def versions(*several: Any) -> bytes:
    return json.dumps({"spec": {"versions": several}}).encode()


OLD = {"name": "v1", "served": True, "storage": False}
NEW = {"name": "v2alpha2", "served": True, "storage": True}


def in_pools(*gpus: object) -> dict[str, Any]:
    return {"queues": [{"resources": {"gpu": {"deserved": one}}} for one in gpus]}


@contextmanager
def one_api(
    folder: Path, statuses: Mapping[str, int] = STATUSES
) -> Iterator[tuple[ProjectsReader, dict[str, bytes]]]:
    kubeconfig = kubeconfig_of(folder)
    with serving(folder, statuses) as server:
        server.bodies[DEFINITION] = versions(OLD, NEW)
        items = [{"metadata": {"name": "vision"}, "spec": in_pools(2, 1.5)}]
        server.bodies[PROJECTS] = json.dumps({"items": items}).encode()
        nodes = KubeconfigNodes({"cp1": kubeconfig}, {"cp1": server.port})
        yield ProjectsReader(samples.site(1, 1), nodes), server.bodies


def test_projects_are_read_in_the_version_in_which_they_are_stored(tmp_path: Path) -> None:
    with one_api(tmp_path) as (reader, _):
        assert reader.deserved_gpus() == {"vision": 3.5}


@pytest.mark.parametrize("missing", [DEFINITION, PROJECTS])
def test_a_cluster_without_projects_has_no_claims(tmp_path: Path, missing: str) -> None:
    with one_api(tmp_path, {**STATUSES, missing: 404}) as (reader, _):
        assert reader.deserved_gpus() == {}


@pytest.mark.parametrize("refused", [DEFINITION, PROJECTS])
def test_what_is_refused_is_no_absence(tmp_path: Path, refused: str) -> None:
    with one_api(tmp_path, {**STATUSES, refused: 403}) as (reader, _):
        found = reader.deserved_gpus()
    assert isinstance(found, Silence)
    assert "403" in found.reason


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"[]",
        b"{}",
        versions(OLD),
        versions(None, 7),
        versions({**NEW, "served": False}),
        versions({**NEW, "name": "../../api/v1/secrets?"}),
        versions({**NEW, "name": 7}),
    ],
    ids=lambda body: body.decode()[:60],
)
def test_a_definition_that_names_no_version_says_so(tmp_path: Path, body: bytes) -> None:
    with one_api(tmp_path) as (reader, bodies):
        bodies[DEFINITION] = body
        assert isinstance(reader.deserved_gpus(), Silence)


@pytest.mark.parametrize(
    ("spec", "gpus"),
    [
        ({}, 0),
        ({"deservedGpus": 2.5}, 2.5),
        ({"deservedGpus": 0, "resources": {"gpu": {"deserved": 4}}}, 4),
        ({"deservedGpus": 3, "resources": {"cpu": {"deserved": "4"}}}, 3),
        (in_pools(4, 8), 12),
        ({**in_pools(4), "deservedGpus": 9}, 4),
        ({**in_pools(), "deservedGpus": 9}, 9),
        ({"queues": [{"name": "a", "nodepool": "default"}]}, 0),
        (in_pools(4, "8"), None),
        (in_pools(4, True), None),
        (in_pools(-1), None),
        (in_pools(float("nan")), None),
        (in_pools(float("inf")), None),
        (in_pools(10**400), None),
        ({"deservedGpus": "many"}, None),
        ({"queues": 7}, None),
        ({"queues": [7]}, None),
        ({"queues": [{"resources": 7}]}, None),
        ({"queues": [{"resources": {"gpu": []}}]}, None),
        (None, None),
    ],
    ids=str,
)
def test_a_claim_by_its_spec(spec: Any, gpus: float | None) -> None:
    item = {"metadata": {"name": "vision"}, "spec": spec}
    assert deserved_of({"items": [item]}) == {"vision": gpus}


@pytest.mark.parametrize("items", [None, 7, [7], [{}], [{"metadata": {"name": 7}}]], ids=str)
def test_what_is_no_list_of_projects_is_a_silence(items: Any) -> None:
    assert isinstance(deserved_of({"items": items}), Silence)
