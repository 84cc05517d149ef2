"""A bundle of the oldest and the newest supported line, from ``inspect`` to what helm renders.

A lab installs one version end to end. What is given to ``runai-adm`` and to helm here is what the
roles are told to give.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.bundle.vendor_bundle import load_vendor_bundle
from appliance.lab.vendor.bundle import Ingredients, write_vendor_bundle
from appliance.model.components.runai.origin import TLS
from appliance.model.components.runai.variables import variables as runai_vars
from appliance.model.state.observed import Observed
from tests import samples
from tests.commands import succeed
from tests.unit.modules.loading import load
from tests.vendor_bundles import tiny_images, unpack

pytestmark = pytest.mark.bundle

VERSIONS = ("2.4.7", "2.8.12")
DOMAIN, REGISTRY = "runai.rack.test", "registry.rack.test:5000"
# What a site lays over the vendor's values: beside them, inside them, and instead of one.
OVERRIDES: dict[str, Any] = {
    "backend": {"secret": {"sessionSecret": "hidden"}},
    "thanos": {"receive": {"persistence": {"nfs": {"server": "nas.rack.test", "path": "/other"}}}},
}
NFS = {"server": "198.18.7.11", "path": "/srv/runai"}


@dataclass(frozen=True)
class Prepared:
    """A bundle unpacked, the variables of the roles, and where they are at work."""

    told: dict[str, Any]
    variables: dict[str, Any]
    unpacked: Path
    work: Path

    def values_file(self) -> Path:
        """Let the bundle's own runai-adm write the values, with the arguments of the role."""
        program = self.work / "runai-adm"
        source = self.unpacked / self.variables["runai_backend_program"]
        load("runai_values").take_program(source, program)
        for kind in ("crt", "key"):
            (self.work / f"backend.{kind}").write_text(f"{kind} of the site")
        words = [
            word.replace(TLS, str(self.work / "backend"))
            for word in self.variables["runai_backend_arguments"]
        ]
        done = subprocess.run(
            [str(program), *words], cwd=self.work, capture_output=True, text=True, timeout=60,
            check=False, env={**os.environ, "REGISTRY_URL": REGISTRY},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return self.work / "runai-backend-values.yaml"

    def template(self, helm: Path, name: str, files: list[Path], values: Any) -> list[Any]:
        """What helm renders, given the very files that role and module give it."""
        overrides = self.work / f"{name}.json"
        overrides.write_text(json.dumps(values))
        short = name.removeprefix("runai-")
        chart = self.unpacked / self.variables[f"runai_{short}_chart"]
        want = {
            "helm": str(helm), "name": name, "chart": str(chart), "namespace": name,
            "values_files": [str(path) for path in files], "kubeconfig": "", "timeout_seconds": 1,
            "create_namespace": False, "wait": False,
        }  # fmt: skip
        argv = load("helm_release").arguments(want, overrides, "")
        given = [word for word in argv if word.startswith(("--values=", "--namespace="))]
        done = subprocess.run(
            [str(helm), "template", name, str(chart), *given], capture_output=True, text=True,
            timeout=60, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return [item for item in yaml.safe_load_all(done.stdout) if item]


@pytest.fixture(params=VERSIONS)
def prepared(request: pytest.FixtureRequest, bundle_directory: Path, tmp_path: Path) -> Prepared:
    parts = Ingredients(tiny_images(tmp_path / "images"), bundle_directory / "bin/helm")
    path = write_vendor_bundle(request.param, tmp_path, parts)
    told = json.loads(succeed("runai", "inspect", str(path), "--output", "json").stdout)
    wanted = {"vendor_bundle": str(path), "values": OVERRIDES}
    site = samples.site(runai=wanted, nfs=NFS)
    desired = dataclasses.replace(
        samples.desired(site),
        vendor_bundle=load_vendor_bundle(path),
        vendor_bundle_file=str(path),
    )
    documents = {node.name: samples.converged(node, desired) for node in site.nodes}
    seen = Observed(samples.node_facts(documents), samples.cluster(desired))
    unpacked, work = tmp_path / "unpacked", tmp_path / "work"
    work.mkdir()
    unpack(path, unpacked)
    return Prepared(told, runai_vars(samples.planned_run(desired, seen)), unpacked, work)


def only(items: list[Any], kind: str, name: str) -> dict[str, Any]:
    (found,) = (i for i in items if (i["kind"], i["metadata"]["name"]) == (kind, name))
    return dict(found)


def test_inspect_says_what_it_is_and_that_this_release_carries_it(prepared: Prepared) -> None:
    told = prepared.told
    assert told["version"] in VERSIONS
    assert told["generation"] == "values file, up to 2.8"
    assert told["supported"] is True
    assert told["missing"] == told["faults"] == []
    names = {chart["name"]: chart["path"] for chart in told["charts"]}
    assert names["runai-backend"].startswith("deploy/runai-backend-")
    assert told["admin_cli"].startswith("deploy/runai-admin-cli-")


def test_runai_adm_gets_the_flags_of_its_generation(prepared: Prepared) -> None:
    words = prepared.variables["runai_backend_arguments"]
    assert words[0] == "generate-values"
    assert "--external-ips" in words
    # From 2.8 on the registry is an argument; before, the environment that the role gives has it.
    assert ("--registry" in words) == (prepared.told["version"] == "2.8.12")
    assert ("--airgapped" in words) == (prepared.told["version"] == "2.4.7")
    values = yaml.safe_load(prepared.values_file().read_text())
    assert values["deployment"] == {"domain": DOMAIN}
    assert values["backend"]["privateRegistryAddress"] == REGISTRY
    assert values["nginx-ingress"]["controller"]["service"]["externalIPs"]


def test_the_backend_renders_with_the_sites_values_over_the_vendors(
    prepared: Prepared, bundle_directory: Path
) -> None:
    values, helm = prepared.values_file(), bundle_directory / "bin/helm"
    assert prepared.variables["runai_backend_values"] == OVERRIDES
    items = prepared.template(helm, "runai-backend", [values], OVERRIDES)
    assert "IngressClass" in {item["kind"] for item in items}, "the backend brings its own"
    secret = only(items, "Secret", "runai-backend-backend")["data"]
    assert base64.b64decode(secret["tls.crt"]) == b"crt of the site"
    volumes = {
        item["metadata"]["name"]: item["spec"]["nfs"]
        for item in items
        if item["kind"] == "PersistentVolume"
    }
    assert volumes == {
        "pvc-postgresql": {"server": "198.18.7.11", "path": "/srv/runai"},
        "pvc-thanos-receive": {"server": "nas.rack.test", "path": "/other"},
    }
    images = {
        container["image"]
        for item in items
        if item["kind"] in ("Deployment", "StatefulSet")
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert images
    assert all(image.startswith(f"{REGISTRY}/run-ai-prod/") for image in images), images


def test_every_image_that_is_rendered_is_one_that_the_bundle_pushes(
    prepared: Prepared, bundle_directory: Path
) -> None:
    values = prepared.values_file()
    items = prepared.template(
        bundle_directory / "bin/helm", "runai-backend", [values], OVERRIDES
    ) + prepared.template(bundle_directory / "bin/helm", "runai-cluster", [], CLUSTER)
    pushes = {
        name
        for push in prepared.variables["runai_bundle_record"]["pushes"]
        for name in push["names"]
    }
    named = {
        container["image"].removeprefix(f"{REGISTRY}/")
        for item in items
        if item["kind"] in ("Deployment", "StatefulSet", "DaemonSet")
        for container in item["spec"]["template"]["spec"]["containers"]
    }
    assert len(named) >= 3
    assert named <= pushes


# What the backend answers when it is asked for a cluster's values.
CLUSTER = {
    "global": {"image": {"registry": REGISTRY}},
    "controlPlane": {"url": f"https://{DOMAIN}"},
    "cluster": {"uid": "u"},
    "runai-operator": {"config": {"runaiBackend": {"password": "never shown"}}},
}
