"""The stand-in's resources have the versions and fields of the vendor's own definitions."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.lab.vendor.bundle import FOLDER
from appliance.lab.vendor.definitions import definitions
from tests.vendor_bundles import tiny_bundle

Line = tuple[int, int]


def named(line: Line) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one["spec"] for one in definitions(line, FOLDER)}


def spec_of(line: Line, name: str, version: str) -> dict[str, Any]:
    (found,) = (one for one in named(line)[name]["versions"] if one["name"] == version)
    schema: dict[str, Any] = found["schema"]["openAPIV3Schema"]
    return dict(schema["properties"]["spec"])


# Name, then each line's versions: the stored one has a star, one that is not served has brackets.
VERSIONS = {
    "projects.run.ai": ("v1*", "v1 v2alpha1*", "v1 v2alpha1 v2alpha2*"),
    "departments.scheduling.run.ai": ("v1*", "v1 v2alpha1*", "v1 v2alpha1 v2alpha2*"),
    "queues.scheduling.run.ai": ("v1*", "v1 v2alpha1*", "v1 v2alpha1 v2alpha2*"),
    "podgroups.scheduling.run.ai": ("v1*", "v1 v2alpha1*", "v1 v2alpha1 v2alpha2*"),
    "nodepools.run.ai": ("", "", "v1alpha1*"),
    "runaiconfigs.run.ai": ("v1*", "v1*", "v1*"),
    "runaijobs.run.ai": ("v1*", "v1*", "v1*"),
    "trainingpolicies.run.ai": ("", "(v1) v2alpha1*", "(v1) v2alpha1*"),
    "interactiveworkloads.run.ai": ("", "(v1) v2alpha1*", "(v1) v2alpha1*"),
    "deploymentpolicies.run.ai": ("", "(v1) v2alpha1*", "(v1) v2alpha1*"),
}


@pytest.mark.parametrize("line", [(2, 4), (2, 5), (2, 7), (2, 8), (2, 9)])
@pytest.mark.parametrize("name", VERSIONS)
def test_each_line_serves_and_stores_the_vendors_versions(line: Line, name: str) -> None:
    generation = 0 if line < (2, 5) else 1 if line < (2, 8) else 2
    spec = named(line).get(name, {"versions": []})
    shown = " ".join(
        (one["name"] if one["served"] else f"({one['name']})") + "*" * one["storage"]
        for one in spec["versions"]
    )
    assert shown == VERSIONS[name][generation]


def test_a_project_without_queues_is_refused_from_2_8_on() -> None:
    assert spec_of((2, 8), "projects.run.ai", "v2alpha2")["required"] == ["queues"]
    queue = spec_of((2, 8), "projects.run.ai", "v2alpha2")["properties"]["queues"]["items"]
    assert queue["required"] == ["name", "nodepool"]
    assert "required" not in spec_of((2, 8), "projects.run.ai", "v1")
    assert "required" not in spec_of((2, 7), "projects.run.ai", "v2alpha1")


def test_unknown_fields_of_a_project_are_kept_up_to_2_7_and_pruned_from_2_8_on() -> None:
    keep = "x-kubernetes-preserve-unknown-fields"
    for line, kept in (((2, 7), True), ((2, 8), False)):
        for version in named(line)["projects.run.ai"]["versions"]:
            assert (keep in version["schema"]["openAPIV3Schema"]) is kept
            assert ("subresources" in version) is not kept


def test_every_schema_is_one_that_the_api_server_takes() -> None:
    def structural(schema: dict[str, Any]) -> bool:
        below = [*schema.get("properties", {}).values()]
        below += [schema[key] for key in ("items", "additionalProperties") if key in schema]
        typed = "type" in schema or schema.get("x-kubernetes-int-or-string") is True
        return typed and all(structural(one) for one in below)

    for line in ((2, 4), (2, 6), (2, 8)):
        for name, spec in named(line).items():
            assert sum(one["storage"] for one in spec["versions"]) == 1, name
            for version in spec["versions"]:
                assert structural(version["schema"]["openAPIV3Schema"]), name


def test_a_bundle_has_the_definitions_of_its_version_beside_the_chart(tmp_path: Path) -> None:
    with tarfile.open(tiny_bundle("2.8.12", tmp_path)) as archive:
        content = archive.extractfile("deploy/runai-crds.yaml")
        assert content is not None
        found = {one["metadata"]["name"] for one in yaml.safe_load_all(content.read())}
        assert found == set(named((2, 8)))
        chart = archive.extractfile("deploy/runai-cluster-2.8.12.tgz")
        with tarfile.open(fileobj=chart) as packed:
            assert "runai-cluster/crds/runai-crds.yaml" in packed.getnames()
