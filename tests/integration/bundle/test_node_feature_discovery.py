"""node-feature-discovery itself, built unpatched: PCI files and a feature file become labels.

Worker and master run in a root of their own, as in their image, beside an API of the tests. The
worker has the configuration of the lab's chart.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from appliance.adapters.local.cache import Cache
from appliance.adapters.local.content import STANDINS, load_release_with_standins
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.go.file import GoFile
from appliance.builder.sources.go.programs import Go
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context
from appliance.model.bundle.release.sources import GoFileSource, GoSource
from tests.integration.bundle.conftest import _no_target
from tests.integration.bundle.nodes_api import NodesApi, nodes_api
from tests.prerequisites import require

pytestmark = pytest.mark.bundle

OPERATOR = STANDINS / "gpu_operator_standin"
FEATURES = "nvidia.com/gpu.count=2\nnvidia.com/gpu.product=STANDIN-GPU\n"
CARDS = [{"vendor_id": "0x10de", "class": "0x030200", "device_id": "STANDIN"}]
QUIET = ("-metrics=0", "-grpc-health=0", "-kubeconfig=/kubeconfig")


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    folder = tmp_path_factory.mktemp("discovery")
    cache = Cache(folder / "cache")
    found = Context(cache, folder, "amd64", TargetPackages(cache, _no_target), Reach())
    return replace(found, standins=STANDINS)


@pytest.fixture(scope="module")
def programs(context: Context) -> dict[str, Path]:
    """Worker and master, as the list of stand-ins has them built."""
    require("go", "chroot")
    release = load_release_with_standins("k8s-1.23.5-r1", genuine=True)
    found = {}
    for item in release.artifacts:
        if item.name in ("nfd-worker", "nfd-master"):
            (source,) = item.sources
            assert isinstance(source, GoSource)
            found[item.name] = context.cache.path(Go().fetch(item, source, context).file.sha256)
    return found


@pytest.fixture
def root(tmp_path: Path, programs: dict[str, Path]) -> Path:
    """What the pods see: programs, the worker's configuration, PCI files and a feature file."""
    root = tmp_path / "root"
    features = root / "etc/kubernetes/node-feature-discovery/features.d"
    features.mkdir(parents=True)
    (features / "gfd").write_text(FEATURES)
    values = yaml.safe_load((OPERATOR / "chart/values.yaml").read_text())
    worker = values["node-feature-discovery"]["worker"]["config"]
    (features.parent / "nfd-worker.conf").write_text(json.dumps(worker))
    for name, program in programs.items():
        (root / name).write_bytes(program.read_bytes())
        (root / name).chmod(0o755)
    (root / "host-etc").mkdir()
    (root / "host-etc/os-release").write_text('ID=ubuntu\nVERSION_ID="20.04"\n')
    write = (
        "import json, pathlib, pci_tree, sys;"
        "pci_tree.write(pathlib.Path(sys.argv[1]), pci_tree.devices(json.loads(sys.argv[2])))"
    )
    tree = str(root / "host-sys/bus/pci/devices")
    words = [sys.executable, "-c", write, tree, json.dumps(CARDS)]
    subprocess.run(words, cwd=OPERATOR, check=True)
    return root


def discovered(root: Path, api: NodesApi) -> None:
    """Let the worker look once, and the master label the node."""
    api.kubeconfig(root / "kubeconfig")
    environment = {
        "PATH": os.environ["PATH"],
        "NODE_NAME": "w1",
        "KUBERNETES_NAMESPACE": "gpu-operator",
    }
    subprocess.run(
        ["chroot", root, "/nfd-worker", "-oneshot", "-no-owner-refs", *QUIET],
        env=environment, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    master = subprocess.Popen(
        ["chroot", root, "/nfd-master", "-extra-label-ns=nvidia.com", *QUIET],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        assert api.labelled.wait(60), api.objects
    finally:
        master.kill()
        master.wait()


def test_the_labels_are_those_that_the_operator_reads(root: Path) -> None:
    with nodes_api() as api:
        discovered(root, api)
    assert set(api.objects) == {"w1"}
    said = api.labels
    assert said["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert said["feature.node.kubernetes.io/system-os_release.VERSION_ID"] == "20.04"
    assert said["nvidia.com/gpu.count"] == "2"
    assert said["nvidia.com/gpu.product"] == "STANDIN-GPU"


def test_a_node_without_a_card_has_no_label_of_it(root: Path) -> None:
    for file in (root / "host-sys/bus/pci/devices").glob("*/class"):
        file.write_text("0x010802\n")
    with nodes_api() as api:
        discovered(root, api)
    assert not [name for name in api.labels if name.startswith("feature.node.kubernetes.io/pci-")]


def test_the_objects_are_those_that_the_chart_deploys(context: Context) -> None:
    release = load_release_with_standins("k8s-1.23.5-r1", genuine=True)
    (item,) = (a for a in release.artifacts if a.name == "nfd-objects")
    (source,) = item.sources
    assert isinstance(source, GoFileSource)
    fetched = GoFile().fetch(item, source, context)
    documents = yaml.safe_load_all(context.cache.path(fetched.file.sha256).read_text())
    found = [one for one in documents if one]
    assert {one["kind"] for one in found} == {"CustomResourceDefinition"}
    assert {one["apiVersion"] for one in found} == {"apiextensions.k8s.io/v1"}
    assert {one["spec"]["names"]["plural"] for one in found} == {
        "nodefeatures", "nodefeaturegroups", "nodefeaturerules",
    }  # fmt: skip
