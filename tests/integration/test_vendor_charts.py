"""The stand-in's charts by the real helm, with the values that the stand-in's admin CLI writes."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.standins.test_vendor_bundle_standin import ADDRESS, ALWAYS, AdminCli, admin_cli

pytestmark = pytest.mark.bundle

WORDS = {
    "2.6.2": (*ALWAYS, *ADDRESS, "--airgapped"),
    "2.8.2": (*ALWAYS, *ADDRESS, "--registry", "reg:5000"),
    "2.10.4": (*ALWAYS, "--registry", "reg:5000"),
}
CLUSTER = {
    "global": {"image": {"registry": "reg:5000"}},
    "controlPlane": {"url": "https://runai.lab.test"},
    "cluster": {"uid": "u"},
    "runai-operator": {"config": {"runaiBackend": {"password": "never shown"}}},
}


def template(helm: Path, cli: AdminCli, name: str, values: Path) -> list[dict[str, Any]]:
    (chart,) = cli.folder.glob(f"**/{name}-*.tgz")
    done = subprocess.run(
        [helm, "template", name, chart, "--namespace", name, "--values", values, "--include-crds"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def named(items: list[dict[str, Any]], kind: str) -> set[str]:
    return {item["metadata"]["name"] for item in items if item["kind"] == kind}


@pytest.mark.parametrize("version", WORDS)
def test_each_generation_of_values_renders(
    bundle_directory: Path, tmp_path: Path, version: str
) -> None:
    helm, cli = bundle_directory / "bin/helm", admin_cli(version, tmp_path)
    done = cli.run("generate-values", *WORDS[version], REGISTRY_URL="reg:5000")
    assert done.returncode == 0, done.stderr
    items = template(helm, cli, "runai-backend", cli.folder / "runai-backend-values.yaml")
    assert named(items, "PersistentVolumeClaim") == {"pvc-postgresql", "pvc-thanos-receive"}
    assert "runai-backend-postgresql" in named(items, "StatefulSet")
    bundled = version != "2.10.4"
    assert named(items, "IngressClass") == ({"nginx"} if bundled else set())
    assert named(items, "Ingress") == (set() if bundled else {"runai-backend-ingress"})
    held = {i["metadata"]["name"]: i["data"] for i in items if i["kind"] == "Secret"}
    secret = held["runai-backend-backend"]
    assert base64.b64decode(secret["tls.crt"]) == b"CERTIFICATE"
    first = "password" if version == "2.6.2" else "Abcd!234"
    users = json.loads(base64.b64decode(secret["users.json"]))
    assert users == {"admin@run.ai": "admin", "test@run.ai": first}
    _standins(items)


def test_the_cluster_part_renders_without_the_password_in_its_configuration(
    bundle_directory: Path, tmp_path: Path
) -> None:
    cli = admin_cli("2.7.1", tmp_path)
    values = tmp_path / "values.yaml"
    values.write_text(yaml.safe_dump(CLUSTER))
    items = template(bundle_directory / "bin/helm", cli, "runai-cluster", values)
    assert named(items, "RunaiConfig") == {"runai"}
    assert "runai-scheduler" in named(items, "Deployment")
    assert named(items, "PriorityClass") == {"train", "build", "inference"}
    shown = [item for item in items if item["kind"] != "Secret"]
    assert "never shown" not in yaml.safe_dump_all(shown)
    _standins(items)


def _standins(items: list[dict[str, Any]]) -> None:
    """Everything says what it is."""
    for item in items:
        assert item["metadata"].get("labels", {}).get("standin") == "true", item["metadata"]
