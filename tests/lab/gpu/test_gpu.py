"""GPUs end to end, on stand-ins: offered, listed by pods, gone, healed; and what is refused.

The lab is shared with ``test_maintenance``: ``gpu_lab`` in ``conftest.py``.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.lab.gpus import sliced
from appliance.model.state.cluster.gpu_labels import read_gpu_labels
from tests.commands import appliance
from tests.lab.conftest import GPUS, LabSite, wait_for
from tests.lab.support.cluster import KUBECTL, allocatable, busybox, kubectl

pytestmark = pytest.mark.lab

NAMESPACE = "gpu-operator"
# Whether this run has the vendors' own programs in place of our stand-ins of these images.
REAL = os.environ.get("APPLIANCE_GPU_OPERANDS") == "nvidia"
OPERANDS = ("k8s-device-plugin", "gpu-feature-discovery", "node-feature-discovery")


def unmet(lab: LabSite) -> list[str]:
    return [item["text"] for item in lab.status()["unmet"]]


def labels(lab: LabSite, node: str) -> dict[str, str]:
    found = json.loads(kubectl(lab, f"get node {lab.node(node)} -o json"))
    said: dict[str, str] = found["metadata"]["labels"]
    return said


def pod(name: str, gpus: int, image: str, node: str) -> dict[str, Any]:
    command = "nvidia-smi -L; sleep 1000"
    container: dict[str, Any] = {"name": "c", "image": image, "command": ["sh", "-c", command]}
    container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    spec = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "nodeSelector": {"kubernetes.io/hostname": node},
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def start(lab: LabSite, name: str, gpus: int) -> None:
    """Create a pod on w1 that asks for GPUs and lists them."""
    document = json.dumps(pod(name, gpus, busybox(lab), lab.node("w1")))
    lab.shell("cp1", f"echo '{document}' | {KUBECTL} apply -f -")


def printed(lab: LabSite, *names: str) -> list[str]:
    """What each of these pods printed, once each did: a pod may run before its log is there."""
    said: list[str] = []

    def all_did() -> bool:
        said[:] = [kubectl(lab, f"logs {name}").strip() for name in names]
        return all(said)

    wait_for(f"a log of {', '.join(names)}", all_did, 60)
    return said


def test_every_gpu_is_offered_and_a_second_run_has_nothing_to_do(gpu_lab: LabSite) -> None:
    assert allocatable(gpu_lab) == GPUS
    gpu_lab.settled()
    policy = json.loads(kubectl(gpu_lab, "get clusterpolicy cluster-policy -o json"))
    assert policy["status"]["state"] == "ready"
    records = len(gpu_lab.records())
    began = time.monotonic()
    done = gpu_lab.install()
    print(f"second run: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for the log
    assert "nothing to do" in done.stdout, done.stderr
    assert len(gpu_lab.records()) == records


def test_status_says_what_only_plays_a_part(gpu_lab: LabSite) -> None:
    status = gpu_lab.status()
    assert "chart gpu-operator" in status["bundle_standins"]
    for image in OPERANDS:
        assert (f"image {image}" in status["bundle_standins"]) is not REAL, image
    assert "gpus" in status["standins"][gpu_lab.node("w1")]


def test_the_labels_of_a_worker_say_what_it_has(gpu_lab: LabSite) -> None:
    wait_for("the count", lambda: "nvidia.com/gpu.count" in labels(gpu_lab, "w1"), 90)
    said = labels(gpu_lab, "w1")
    assert said["feature.node.kubernetes.io/pci-10de.present"] == "true"
    assert said["nvidia.com/gpu.count"] == str(GPUS)
    assert said["nvidia.com/gpu.product"] == "STANDIN-GPU"
    found = read_gpu_labels(said)
    assert (found.gpus.count, found.gpus.times, found.faults) == (GPUS, 1, ())
    # Only the real ones write these.
    assert ("nvidia.com/gfd.timestamp" in said) is REAL
    assert ("feature.node.kubernetes.io/kernel-version.full" in said) is REAL
    assert "feature.node.kubernetes.io/pci-10de.present" not in labels(gpu_lab, "cp1")


def test_no_image_comes_from_outside(gpu_lab: LabSite) -> None:
    pods = json.loads(kubectl(gpu_lab, f"-n {NAMESPACE} get pods -o json"))["items"]
    images = {
        container["image"]
        for item in pods
        for container in item["spec"]["containers"] + item["spec"].get("initContainers", [])
    }
    registry = yaml.safe_load((gpu_lab.directory / "group_vars/all/site.yml").read_text())
    assert images
    assert {image.partition("/")[0] for image in images} == {registry["registry"]}
    assert [image for image in images if "@sha256:" not in image] == []


def test_each_pod_sees_exactly_the_gpus_that_it_was_given(gpu_lab: LabSite) -> None:
    for name, count in (("one", 1), ("other", 1), ("none", 0), ("many", GPUS)):
        start(gpu_lab, name, count)

    def running() -> bool:
        found = kubectl(gpu_lab, "get pods one other none -o jsonpath='{.items[*].status.phase}'")
        return found.split() == ["Running"] * 3

    wait_for("three pods", running, 90)
    one, other = printed(gpu_lab, "one", "other")
    assert one.startswith("GPU 0: STANDIN")
    assert len(one.splitlines()) == len(other.splitlines()) == 1
    assert one != other
    assert "GPU" not in kubectl(gpu_lab, "logs none")
    waiting = json.loads(kubectl(gpu_lab, "get pod many -o json"))["status"]
    assert "Insufficient nvidia.com/gpu" in waiting["conditions"][0]["message"]
    # GPUs at work are no reason to think that they are gone.
    gpu_lab.settled()
    kubectl(gpu_lab, "delete pod one other none many --wait=false")


@pytest.mark.slow
def test_a_stack_that_is_gone_is_seen_and_brought_back(gpu_lab: LabSite) -> None:
    kubectl(gpu_lab, f"-n {NAMESPACE} delete deployment gpu-operator --cascade=foreground")
    kubectl(gpu_lab, f"-n {NAMESPACE} delete daemonset nvidia-device-plugin-daemonset")
    wait_for("the GPUs to go", lambda: allocatable(gpu_lab) == 0, 90)
    found = unmet(gpu_lab)
    assert f"{GPUS} GPUs on PCI, but pods can request 0" in found
    assert "the GPU Operator does not run: its Deployment is missing" in found
    done = gpu_lab.install()
    assert done.returncode == 0, done.stderr
    assert "will run: preflight, gpu" in done.stderr
    assert f"{gpu_lab.node('w1')}: nvidia-smi -L: GPU 0: STANDIN" in done.stderr
    gpu_lab.settled()


@pytest.mark.slow
def test_a_helm_that_died_in_the_middle_is_healed(gpu_lab: LabSite) -> None:
    revision = "sh.helm.release.v1.gpu-operator.v"
    names = kubectl(gpu_lab, f"-n {NAMESPACE} get secrets -o name -l owner=helm").split()
    newest = max(int(name.rpartition(".v")[2]) for name in names)
    label = f"label --overwrite secret {revision}{newest} status=pending-upgrade"
    kubectl(gpu_lab, f"-n {NAMESPACE} {label}")
    assert "the GPU Operator's release is pending-upgrade" in unmet(gpu_lab)
    done = gpu_lab.install()
    assert done.returncode == 0, done.stderr
    gpu_lab.settled()


def _registrations(lab: LabSite) -> int:
    """How often the device plug-in of w1 has registered with its kubelet; 0 without its log."""
    where = f"-l app=nvidia-device-plugin-daemonset --field-selector spec.nodeName={lab.node('w1')}"
    name = kubectl(lab, f"-n {NAMESPACE} get pods {where} -o name").strip()
    container = "-c nvidia-device-plugin-daemonset"
    said = kubectl(lab, f"-n {NAMESPACE} logs --tail=-1 {name} {container} 2>/dev/null || true")
    # The stand-in's words, and those of NVIDIA's own.
    ours, theirs = (
        "registered nvidia.com/gpu with the kubelet",
        "device plugin for 'nvidia.com/gpu'",
    )
    return said.count(ours) + said.count(f"Registered {theirs} with Kubelet")


def test_a_kubelet_that_restarts_gets_its_gpus_again(gpu_lab: LabSite) -> None:
    before = _registrations(gpu_lab)
    assert before > 0
    gpu_lab.shell("w1", "systemctl restart kubelet")
    # The moment without GPUs may be shorter than any sampling; a registration stays in the log.
    wait_for("another registration", lambda: _registrations(gpu_lab) > before, 90)
    wait_for("the GPUs to come back", lambda: allocatable(gpu_lab) == GPUS, 90)
    start(gpu_lab, "restarted", 1)
    phase = "get pod restarted -o jsonpath={.status.phase}"
    wait_for("a pod with a GPU", lambda: kubectl(gpu_lab, phase) == "Running", 90)
    (listed,) = printed(gpu_lab, "restarted")
    assert listed.startswith("GPU 0: STANDIN")
    kubectl(gpu_lab, "delete pod restarted --wait=false")


@pytest.fixture
def changed_site(gpu_lab: LabSite, tmp_path: Path) -> LabSite:
    """The same lab by a copy of its site, for a site that asks for something else."""
    directory = tmp_path / gpu_lab.directory.name
    shutil.copytree(gpu_lab.directory, directory)
    return LabSite(gpu_lab.name, directory, gpu_lab.bundle)


def ask(lab: LabSite, **gpu: Any) -> None:
    path = lab.directory / "group_vars/all/site.yml"
    settings = yaml.safe_load(path.read_text())
    path.write_text(yaml.safe_dump({**settings, "gpu": gpu}))


@pytest.mark.parametrize("version", ["1.10.1", "1.11.1"])
def test_an_operator_that_runai_does_not_take_is_refused(
    changed_site: LabSite, version: str
) -> None:
    ask(changed_site, driver="container", operator=version)
    before = len(changed_site.records())
    done = changed_site.install()
    assert done.returncode == 3
    assert f"GPU Operator {version} is refused" in done.stderr
    assert "NVIDIA/gpu-feature-discovery#26" in done.stderr
    ask(changed_site, driver="container")
    assert len(changed_site.records()) == before


def test_a_driver_of_the_site_that_is_not_there_is_refused(changed_site: LabSite) -> None:
    ask(changed_site, driver="preinstalled")
    before = len(changed_site.records())
    done = changed_site.install()
    assert done.returncode == 3
    assert "gpu_driver: found no NVIDIA driver loaded" in done.stderr
    assert len(changed_site.records()) == before


def test_a_bundle_without_a_driver_for_the_nodes_is_refused(changed_site: LabSite) -> None:
    ask(changed_site, driver="host")
    before = len(changed_site.records())
    done = changed_site.install()
    assert done.returncode == 3
    assert "gpu_bundle: found a bundle without NVIDIA's driver" in done.stderr
    assert len(changed_site.records()) == before


def test_without_the_operator_in_the_bundle_nothing_is_begun(changed_site: LabSite) -> None:
    thin = changed_site.directory.parent / "thin"
    shutil.copytree(changed_site.bundle, thin, symlinks=True)
    document = json.loads((thin / "manifest.json").read_text())
    document["artifacts"] = [a for a in document["artifacts"] if a["kind"] != "chart"]
    (thin / "manifest.json").write_text(json.dumps(document))
    done = appliance("install", "--site", str(changed_site.directory), "--bundle", str(thin), "-y")
    assert done.returncode == 3
    assert "gpu_bundle: found a bundle without the chart" in done.stderr


@pytest.mark.slow
def test_a_worker_that_is_opted_out_loses_the_operands_and_gets_them_back(
    gpu_lab: LabSite, changed_site: LabSite
) -> None:
    worker = gpu_lab.node("w1")
    ask(changed_site, driver="container", opted_out=[worker])
    done = changed_site.install()
    assert done.returncode == 0, done.stderr
    wait_for("the GPUs to go", lambda: allocatable(gpu_lab) == 0, 90)
    assert labels(gpu_lab, "w1")["nvidia.com/gpu.deploy.operands"] == "false"
    changed_site.settled()
    done = gpu_lab.install()
    assert done.returncode == 0, done.stderr
    assert allocatable(gpu_lab) == GPUS


@pytest.mark.slow
def test_gpus_are_cut_into_slices_when_the_site_says_so(
    gpu_lab: LabSite, changed_site: LabSite
) -> None:
    ask(changed_site, driver="container", time_slicing=sliced(4, gpu_lab.node("w2")))
    done = changed_site.install()
    assert done.returncode == 0, done.stderr
    shared = "nvidia.com/gpu.shared"
    wait_for("the slices", lambda: allocatable(gpu_lab, shared, "w2") == 4 * GPUS, 90)
    # A worker offers its GPUs in one way, never in both.
    assert allocatable(gpu_lab, node="w2") == 0
    assert (allocatable(gpu_lab), allocatable(gpu_lab, shared)) == (GPUS, 0)

    def times() -> tuple[int, int]:
        found = [read_gpu_labels(labels(gpu_lab, node)).gpus for node in ("w1", "w2")]
        return found[0].times, found[1].times

    wait_for("the labels of both", lambda: times() == (1, 4), 90)
    assert read_gpu_labels(labels(gpu_lab, "w2")).gpus.renamed
    changed_site.settled()


@pytest.mark.slow
@pytest.mark.skipif(
    REAL,
    reason="NVIDIA's plug-in spreads slices over GPUs: fractions need Run:ai's own scheduler",
)
def test_two_halves_share_one_gpu_and_a_third_is_refused(gpu_lab: LabSite) -> None:
    rollout = "rollout status deployment/gpu-fraction-standin --timeout=90s"
    kubectl(gpu_lab, f"-n {NAMESPACE} {rollout}")
    for name, fraction in (("half", "0.5"), ("quarter", "0.25"), ("again", "0.25")):
        kubectl(gpu_lab, "apply -f - <<'END'\n" + fractional(gpu_lab, name, fraction) + "\nEND")
    names = ("half", "quarter", "again")

    def running() -> bool:
        found = kubectl(gpu_lab, f"get pods {' '.join(names)} -o jsonpath='{PHASES}'")
        return found.split() == ["Running"] * 3

    wait_for("three pods on one GPU", running, 120)
    seen = set(printed(gpu_lab, *names))
    assert len(seen) == 1, seen
    refused = "apply -f - <<'END' 2>&1\n" + fractional(gpu_lab, "odd", "0.3") + "\nEND"
    assert "STANDIN: gpu-fraction 0.3 is no multiple" in kubectl(gpu_lab, refused, check=False)
    kubectl(gpu_lab, f"delete pod {' '.join(names)} --wait=false")


PHASES = "{.items[*].status.phase}"


def fractional(lab: LabSite, name: str, fraction: str) -> str:
    document = pod(name, 0, busybox(lab), lab.node("w2"))
    document["metadata"]["annotations"] = {"gpu-fraction": fraction}
    return json.dumps(document)
