"""Run:ai's roles on a real cluster: labels, a RunaiConfig, and services that must not move."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite, wait_for
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.issuer import put, settings_file, site_with

pytestmark = [pytest.mark.lab, pytest.mark.slow]

GPU, CPU, SYSTEM = (
    f"node-role.kubernetes.io/runai-{kind}" for kind in ("gpu-worker", "cpu-worker", "system")
)
# STANDIN for the vendor's definition: the fields that runai-adm writes, and nothing else.
CONFIG = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: runaiconfigs.run.ai}
spec:
  group: run.ai
  names: {kind: RunaiConfig, plural: runaiconfigs, singular: runaiconfig}
  scope: Namespaced
  versions:
    - name: v1
      served: true
      storage: true
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""
RUNAI = """
apiVersion: v1
kind: Namespace
metadata: {name: runai}
---
apiVersion: run.ai/v1
kind: RunaiConfig
metadata: {name: runai, namespace: runai}
spec: {global: {clusterDomain: cluster.local}}
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: runai-db-standin, namespace: runai}
spec:
  serviceName: runai-db-standin
  selector: {matchLabels: {app: runai-db-standin}}
  template:
    metadata: {labels: {app: runai-db-standin}}
    spec:
      nodeName: WORKER
      containers: [{name: pause, image: "REGISTRY/pause:3.6"}]
---
apiVersion: batch/v1
kind: Job
metadata: {name: job-standin, namespace: runai}
spec:
  template:
    spec:
      nodeName: WORKER
      restartPolicy: Never
      containers: [{name: pause, image: "REGISTRY/pause:3.6"}]
"""


def role(lab: LabSite, *words: str) -> subprocess.CompletedProcess[str]:
    return appliance("node", "role", *words, "--site", str(lab.directory))


def get(lab: LabSite, what: str) -> Any:
    return json.loads(lab.shell("cp1", f"{KUBECTL} get {what} -o json"))


def labels(lab: LabSite, short: str) -> set[str]:
    return {GPU, CPU, SYSTEM} & set(get(lab, f"node {lab.node(short)}")["metadata"]["labels"])


def affinity(lab: LabSite) -> Any:
    spec = get(lab, "-n runai runaiconfig runai")["spec"]["global"]
    assert spec["clusterDomain"] == "cluster.local", "the rest of the RunaiConfig is left alone"
    return spec.get("nodeAffinity")


def bystanders(lab: LabSite) -> dict[str, str]:
    """What runai-adm would delete: identity of every Job, StatefulSet and pod of Run:ai."""
    found = get(lab, "-n runai jobs,statefulsets,pods")["items"]
    return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["uid"] for item in found}


@pytest.fixture(scope="module")
def site(installed_lab: LabSite) -> Iterator[LabSite]:
    remove_all = f"{KUBECTL} label nodes --all {GPU}- {CPU}- {SYSTEM}-"
    installed_lab.shell("cp1", remove_all)
    yield installed_lab
    installed_lab.shell("cp1", f"{KUBECTL} delete --ignore-not-found ns runai")
    installed_lab.shell("cp1", f"{KUBECTL} delete --ignore-not-found crd runaiconfigs.run.ai")
    installed_lab.shell("cp1", remove_all)


def test_before_run_ai_there_are_labels_only(site: LabSite) -> None:
    lab = site
    worker = lab.node("w1")
    done = role(lab, "set", worker, "--role", "gpu", "--yes")
    assert done.returncode == 0, done.stderr
    assert "there is no RunaiConfig yet: labels only" in done.stderr
    assert get(lab, f"node {worker}")["metadata"]["labels"][GPU] == ""
    assert role(lab, "remove", worker, "--role", "gpu", "--yes").returncode == 0
    assert labels(lab, "w1") == set()


@pytest.fixture(scope="module")
def runai(site: LabSite) -> LabSite:
    lab = site
    registry = yaml.safe_load(settings_file(lab).read_text())["registry"]
    put(lab, "cp1", CONFIG, "/root/crd.yaml")
    put(
        lab, "cp1",
        RUNAI.replace("WORKER", lab.node("w1")).replace("REGISTRY", registry), "/root/runai.yaml",
    )  # fmt: skip
    lab.shell("cp1", f"{KUBECTL} apply -f /root/crd.yaml")
    lab.shell("cp1", f"{KUBECTL} wait --for=condition=Established crd/runaiconfigs.run.ai")
    lab.shell("cp1", f"{KUBECTL} apply -f /root/runai.yaml")
    wait_for("the stateful service", lambda: len(bystanders(lab)) == 4)
    return lab


def test_a_role_restricts_jobs_and_touches_nothing_else(runai: LabSite) -> None:
    worker, before = runai.node("w1"), bystanders(runai)
    assert role(runai, "set", worker, "--role", "gpu", "--yes").returncode == 0
    assert affinity(runai) == {"restrictScheduling": True}
    assert labels(runai, "w1") == {GPU}
    again = role(runai, "set", worker, "--role", "gpu", "--yes", "--output", "json")
    assert json.loads(again.stdout)["changed"] is False
    assert bystanders(runai) == before


def test_all_spares_the_control_plane_and_system_nodes(runai: LabSite) -> None:
    worker = runai.node("w1")
    assert role(runai, "set", worker, "--role", "system", "--yes").returncode == 0
    assert affinity(runai) == {"restrictScheduling": True, "restrictRunaiSystem": True}
    done = role(runai, "remove", "--all", "--role", "gpu", "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{runai.node('cp1')}: left out of --all: it is a control-plane node" in done.stderr
    assert f"{worker}: left out of --all: it is a system node" in done.stderr
    assert labels(runai, "w1") == {GPU, SYSTEM}
    assert labels(runai, "cp1") == set()


def test_what_would_move_a_service_is_refused_and_nothing_is_written(runai: LabSite) -> None:
    before, records = bystanders(runai), len(runai.records())
    allowed = {"system_on_control_plane": True}
    worker, master = runai.node("w1"), runai.node("cp1")
    with site_with(runai, runai=allowed):
        done = role(runai, "set", master, "--role", "system", "--yes")
        assert done.returncode == 0, done.stderr
        records += 1
        done = role(runai, "remove", worker, "--role", "system", "--yes")
    assert done.returncode == 3, done.stderr
    assert f"{worker}: stateful service: found StatefulSet runai/runai-db-standin" in done.stderr
    assert "--allow-move" in done.stderr
    assert labels(runai, "w1") == {GPU, SYSTEM}
    assert len(runai.records()) == records
    assert bystanders(runai) == before


def test_install_makes_the_roles_those_of_the_inventory(runai: LabSite) -> None:
    before = bystanders(runai)
    words = ["install", "--only", "node_roles", "--site", str(runai.directory), "--yes"]
    with site_with(runai, runai={}):
        succeed(*words)
        assert "nothing to do" in succeed(*words).stdout
    assert (labels(runai, "cp1"), labels(runai, "w1")) == (set(), {CPU})
    assert affinity(runai) == {"restrictScheduling": True, "restrictRunaiSystem": False}
    assert bystanders(runai) == before


def test_list_shows_roles_and_what_is_bound(runai: LabSite) -> None:
    done = succeed("node", "role", "list", "--site", str(runai.directory))
    (row,) = [line for line in done.stdout.splitlines() if line.startswith(runai.node("w1"))]
    assert "StatefulSet runai/runai-db-standin" in row
    assert "cpu" in row
