"""The stand-in of the GPU Operator: what it decides, without a cluster and without gRPC."""

from __future__ import annotations

import base64
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.components.gpu.offers import Cards, Sharing, offer_faults
from appliance.model.state.cluster.cluster import ClusterNode
from tests.standins.loading import load

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "appliance/lab/standins/gpu_operator_standin"

gpus = load(FOLDER, "gpus")
operands = load(FOLDER, "operands")
cluster_policy = load(FOLDER, "cluster_policy")
webhook = load(FOLDER, "fraction_webhook")
features = load(FOLDER, "features")
pci_tree = load(FOLDER, "pci_tree")
validator = load(FOLDER, "validator")


def four() -> list[Any]:
    return [gpus.Gpu(index, gpus.uuid_of("w1", index)) for index in range(4)]


def policy(**changes: Any) -> dict[str, Any]:
    values = yaml.safe_load((FOLDER / "chart/values.yaml").read_text())
    spec = {key: value for key, value in values.items() if key not in {"nfd"}}
    spec["validator"]["version"] = "v22.9.2"
    return {
        "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy",
        "metadata": {"name": "cluster-policy", "uid": "1"}, "spec": {**spec, **changes},
    }  # fmt: skip


def test_gpus_keep_their_names_and_no_node_shares_one(tmp_path: Path) -> None:
    facts = tmp_path / "gpus.json"
    facts.write_text(json.dumps([{"vendor_id": "0x10de"}, {"vendor_id": "0x1a03"}] * 2))
    one, two = gpus.gpus_of("w1", facts), gpus.gpus_of("w2", facts)
    assert len(one) == 2
    assert gpus.gpus_of("w1", facts) == one
    assert not {gpu.uuid for gpu in one} & {gpu.uuid for gpu in two}
    assert gpus.gpus_of("w1", tmp_path / "none.json") == []


def test_nvidia_smi_lists_exactly_what_was_given_and_says_standin(tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(gpus.nvidia_smi(four()[1:3]))
    listed = subprocess.run(["sh", program, "-L"], capture_output=True, text=True, check=True)
    assert listed.stdout.splitlines() == [
        f"GPU {place}: STANDIN GPU (UUID: {gpu.uuid})" for place, gpu in enumerate(four()[1:3])
    ]
    shown = subprocess.run(["sh", program], capture_output=True, text=True, check=True)
    assert "STANDIN" in shown.stdout


def test_slices_are_packed_on_few_gpus_and_away_from_whole_ones() -> None:
    every = four()
    devices = [name for gpu in every for name in gpus.slices(gpu, 4)]
    first = gpus.preferred(devices, [], 2, every)
    assert {gpus.whole(name) for name in first} == {every[3].uuid}
    left = [name for name in devices if name not in first]
    assert {gpus.whole(name) for name in gpus.preferred(left, [], 2, every)} == {every[3].uuid}
    names = [gpu.uuid for gpu in every]
    assert gpus.preferred(names, [], 2, every) == names[:2]
    assert gpus.preferred(names, [names[3]], 2, every) == [names[3], names[0]]


def test_time_slicing_is_configured_as_nvidias_plugin_is() -> None:
    entry = {"name": "nvidia.com/gpu", "replicas": 4}
    assert gpus.replicas_of({"sharing": {"timeSlicing": {"resources": [entry]}}}) == 4
    assert gpus.replicas_of({}) == 0


def write_configurations(folder: Path) -> None:
    entry = {"name": "nvidia.com/gpu", "replicas": 4}
    slicing = {"renameByDefault": True, "resources": [entry]}
    for name, document in (
        ("unshared", {"version": "v1"}),
        ("shared", {"version": "v1", "sharing": {"timeSlicing": slicing}}),
        ("same-name", {"version": "v1", "sharing": {"timeSlicing": {"resources": [entry]}}}),
    ):
        (folder / name).write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("label", "default", "offered"),
    [
        (None, "unshared", ("nvidia.com/gpu", 0)),
        ("shared", "unshared", ("nvidia.com/gpu.shared", 4)),
        ("same-name", "unshared", ("nvidia.com/gpu", 4)),
        (None, "shared", ("nvidia.com/gpu.shared", 4)),
        # NVIDIA's config manager falls back to an empty configuration.
        (None, "", ("nvidia.com/gpu", 0)),
        ("no-such", "unshared", ("nvidia.com/gpu", 0)),
        ("../shared", "unshared", ("nvidia.com/gpu", 0)),
    ],
)
def test_a_node_offers_its_gpus_in_one_way_by_its_label(
    tmp_path: Path, label: str | None, default: str, offered: tuple[str, int]
) -> None:
    write_configurations(tmp_path)
    labels = {gpus.CONFIG_LABEL: label} if label else {}
    assert gpus.resource_of(gpus.chosen(labels, tmp_path, default)) == offered


def test_the_labels_are_those_that_the_product_expects_of_nvidias(tmp_path: Path) -> None:
    write_configurations(tmp_path)
    for name, resource, count in (
        ("unshared", "nvidia.com/gpu", 4),
        ("shared", "nvidia.com/gpu.shared", 16),
        ("same-name", "nvidia.com/gpu", 16),
    ):
        config = gpus.chosen({gpus.CONFIG_LABEL: name}, tmp_path, "")
        labels = {k: v for k, v in features.gpu_labels(four(), config, "single").items() if v}
        member = ClusterNode("w1", ready=True, labels=labels, devices={resource: count})
        wish = Sharing("single", replicas=None)
        assert list(offer_faults(Cards(4), wish, member)) == []
    assert set(features.gpu_labels([], {}, "single").values()) == {None}


@pytest.mark.parametrize(
    ("offered", "count"),
    [
        ({}, 0),
        ({"nvidia.com/gpu": "4"}, 4),
        # After a change of its label a node keeps the other name, with nothing under it.
        ({"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "16"}, 16),
    ],
)
def test_the_validator_takes_whole_gpus_or_slices(offered: dict[str, str], count: int) -> None:
    assert validator.allocatable({"status": {"allocatable": offered}}) == count


def test_fractions_are_of_the_nodes_that_share(tmp_path: Path) -> None:
    assert webhook.most_replicas(tmp_path) == 0
    write_configurations(tmp_path)
    assert webhook.most_replicas(tmp_path) == 4


def test_plugin_and_labels_have_the_same_configurations() -> None:
    plugin = {**policy()["spec"]["devicePlugin"], "config": {"name": "c", "default": "unshared"}}
    for name in ("device-plugin", "gfd"):
        made = operands.daemonset(name, policy(devicePlugin=plugin), "gpu-operator")
        pod = made["spec"]["template"]["spec"]
        told = {item["name"]: item.get("value") for item in pod["containers"][0]["env"]}
        assert (told["CONFIG_DIR"], told["CONFIG_DEFAULT"]) == ("/available-configs", "unshared")
        assert {"name": "available-configs", "configMap": {"name": "c"}} in pod["volumes"]
        assert told["MIG_STRATEGY"] == "single"


@pytest.mark.parametrize(
    ("name", "program"),
    [("device-plugin", "nvidia-device-plugin"), ("gfd", "gpu-feature-discovery")],
)
def test_nvidias_config_manager_chooses_for_an_operand_before_it_starts_and_later(
    name: str, program: str
) -> None:
    bare = operands.daemonset(name, policy(), "gpu-operator")["spec"]["template"]["spec"]
    assert (bare["initContainers"], len(bare["containers"])) == ([], 1)
    plugin = {**policy()["spec"]["devicePlugin"], "config": {"name": "c", "default": "unshared"}}
    made = operands.daemonset(name, policy(devicePlugin=plugin), "gpu-operator")
    pod = made["spec"]["template"]["spec"]
    (first,), (worker, later) = pod["initContainers"], pod["containers"]
    told = [{e["name"]: e.get("value") for e in c["env"]} for c in (first, worker, later)]
    assert told[0]["CONFIG_FILE_DST"] == told[1]["CONFIG_FILE"] == told[2]["CONFIG_FILE_DST"]
    assert [one.get("ONESHOT") for one in told] == ["true", None, "false"]
    assert (told[2]["SEND_SIGNAL"], told[2]["DEFAULT_CONFIG"]) == ("true", "unshared")
    assert told[2]["PROCESS_TO_SIGNAL"] == program
    assert pod["shareProcessNamespace"]
    assert {first["image"], later["image"]} == {worker["image"]}


def test_gpu_feature_discovery_writes_where_node_feature_discovery_reads(tmp_path: Path) -> None:
    pod = operands.daemonset("gfd", policy(), "gpu-operator")["spec"]["template"]["spec"]
    places = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert {str(features.FEATURES), "/etc/appliance-lab/facts", "/var/lib/standin-gpus"} <= places
    assert features.file_labels(tmp_path / "none") == {}
    (tmp_path / "gfd").write_text("nvidia.com/gpu.count=2\n# a comment\nnvidia.com/a=b=c\n")
    assert features.file_labels(tmp_path) == {"nvidia.com/gpu.count": "2", "nvidia.com/a": "b=c"}


def test_pci_files_are_those_of_the_cards_that_the_fact_file_lists(tmp_path: Path) -> None:
    gpu = {"vendor_id": "0x10de", "class": "0x030200", "device_id": "STANDIN"}
    screen = {"vendor_id": "0x1a03", "class": "0x030000", "device_id": "0x2000"}
    pci_tree.write(tmp_path, pci_tree.devices([gpu, screen]))

    def attributes(address: str) -> dict[str, str]:
        return {path.name: path.read_text().strip() for path in (tmp_path / address).iterdir()}

    assert attributes("0000:01:00.0") == {
        "class": "0x030200", "vendor": "0x10de", "device": "0x0000",
        "subsystem_vendor": "0x10de", "subsystem_device": "0x0000",
    }  # fmt: skip
    assert attributes("0000:02:00.0")["device"] == "0x2000"
    pci_tree.write(tmp_path, pci_tree.devices([gpu]))
    assert [path.name for path in tmp_path.iterdir()] == ["0000:01:00.0"]


def test_a_test_can_make_a_gpu_ill(tmp_path: Path) -> None:
    assert gpus.unhealthy(tmp_path) == frozenset()
    (tmp_path / "unhealthy").write_text("0\n3\n")
    assert gpus.unhealthy(tmp_path) == {0, 3}


def test_a_node_with_gpus_is_labelled_unless_it_is_opted_out() -> None:
    pci = {operands.PCI: "true"}
    wanted = operands.node_labels(pci)
    assert wanted["nvidia.com/gpu.deploy.device-plugin"] == "true"
    assert operands.node_labels({**pci, **wanted}) == {}
    opted = operands.node_labels({**pci, **wanted, operands.OPERANDS_OFF: "false"})
    assert opted["nvidia.com/gpu.deploy.device-plugin"] is None
    assert "nvidia.com/gpu.present" not in opted
    assert operands.node_labels({}) == {}


def test_each_daemonset_has_the_name_image_and_tolerations_that_were_asked_for() -> None:
    tolerations = [{"key": "runai", "operator": "Exists", "effect": "NoExecute"}]
    made = operands.daemonset(
        "driver", policy(daemonsets={"tolerations": tolerations}), "gpu-operator"
    )
    assert made["metadata"]["name"] == "nvidia-driver-daemonset"
    pod = made["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "nvcr.io/nvidia/driver:525.60.13-ubuntu20.04"
    assert pod["tolerations"] == tolerations
    assert pod["nodeSelector"] == {"nvidia.com/gpu.deploy.driver": "true"}
    assert made["metadata"]["labels"]["standin"] == "true"


def test_an_image_by_digest_is_written_as_the_operator_does() -> None:
    spec = {"repository": "r:5000", "image": "driver", "version": "sha256:ab"}
    assert operands.image_of(spec, "-ubuntu20.04") == "r:5000/driver@sha256:ab"


def test_the_validator_has_the_parts_of_the_real_one() -> None:
    made = operands.daemonset("validation", policy(), "gpu-operator")
    names = [c["name"] for c in made["spec"]["template"]["spec"]["initContainers"]]
    assert names == [f"{part}-validation" for part in ("driver", "toolkit", "cuda", "plugin")]
    assert operands.is_enabled("validation", policy())
    assert not operands.is_enabled("driver", policy(driver={"enabled": False}))


@pytest.mark.parametrize(
    ("status", "ready"),
    [
        ({"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 2}, True),
        ({"desiredNumberScheduled": 2, "numberReady": 1, "updatedNumberScheduled": 2}, False),
        ({"desiredNumberScheduled": 2, "numberReady": 2, "updatedNumberScheduled": 1}, False),
        ({"observedGeneration": 0}, False),
    ],
)
def test_a_daemonset_is_rolled_out_when_every_pod_is_new_and_ready(
    status: dict[str, int], ready: bool
) -> None:
    found = {"metadata": {"generation": 1}, "status": {"observedGeneration": 1, **status}}
    assert operands.is_rolled_out(found) is ready


class FakeApi:
    """The API's objects, in memory."""

    def __init__(self) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.daemonsets: dict[str, dict[str, Any]] = {}
        self.policy = policy()
        self.calls: list[str] = []

    def get(self, path: str) -> Any:
        if path == cluster_policy.POLICY:
            return self.policy
        if path == "/api/v1/nodes":
            return {"items": list(self.nodes.values())}
        return {"items": list(self.daemonsets.values())}

    def create(self, _path: str, body: dict[str, Any]) -> None:
        self.calls.append(f"create {body['metadata']['name']}")
        body["metadata"] |= {"generation": 1, "resourceVersion": "1"}
        body["status"] = {"observedGeneration": 1}
        self.daemonsets[body["metadata"]["name"]] = body

    def replace(self, _path: str, body: dict[str, Any]) -> None:
        self.calls.append(f"replace {body['metadata']['name']}")
        body["metadata"]["generation"] = 1
        body["status"] = {"observedGeneration": 1}
        self.daemonsets[body["metadata"]["name"]] = body

    def delete(self, path: str) -> None:
        del self.daemonsets[path.rpartition("/")[2]]

    def patch(self, path: str, body: dict[str, Any]) -> None:
        if path.endswith("/status"):
            self.policy |= body
            return
        labels = self.nodes[path.rpartition("/")[2]]["metadata"]["labels"]
        labels |= body["metadata"]["labels"]


def operator(api: FakeApi) -> Any:
    return cluster_policy.Operator(api, "gpu-operator")


def test_the_operator_makes_what_is_asked_for_and_then_says_ready() -> None:
    api = FakeApi()
    api.nodes["w1"] = {"metadata": {"name": "w1", "labels": {operands.PCI: "true"}}}
    operator(api).reconcile()
    assert api.policy["status"]["state"] == "notReady"
    operator(api).reconcile()
    assert api.policy["status"]["state"] == "ready"
    assert set(api.daemonsets) == {title for _, title, _ in operands.OPERANDS.values()}


def test_the_operator_brings_back_what_is_gone_and_changes_what_is_another() -> None:
    api = FakeApi()
    operator(api).reconcile()
    del api.daemonsets["nvidia-dcgm-exporter"]
    api.policy["spec"]["gfd"]["version"] = "v9"
    api.policy["spec"]["driver"]["enabled"] = False
    api.calls.clear()
    operator(api).reconcile()
    assert api.calls == ["create nvidia-dcgm-exporter", "replace gpu-feature-discovery"]
    assert "nvidia-driver-daemonset" not in api.daemonsets


def test_without_a_node_with_gpus_it_is_never_ready() -> None:
    api = FakeApi()
    operator(api).reconcile()
    operator(api).reconcile()
    assert api.policy["status"]["state"] == "notReady"


def fractional(fraction: str | None, **limits: str) -> dict[str, Any]:
    annotations = {"gpu-fraction": fraction} if fraction else {}
    container = {"name": "c", "resources": {"limits": limits}}
    pod = {"metadata": {"annotations": annotations}, "spec": {"containers": [container]}}
    return {"apiVersion": "admission.k8s.io/v1", "request": {"uid": "7", "object": pod}}


def test_a_fraction_becomes_slices_of_one_shared_gpu() -> None:
    answer = webhook.answer(fractional("0.5", cpu="1"), 4)["response"]
    assert (answer["uid"], answer["allowed"]) == ("7", True)
    (change,) = json.loads(base64.b64decode(answer["patch"]))
    assert change["path"] == "/spec/containers/0/resources"
    assert change["value"]["limits"] == {"cpu": "1", "nvidia.com/gpu.shared": "2"}
    assert change["value"]["requests"] == {"nvidia.com/gpu.shared": "2"}


def test_a_pod_without_a_fraction_is_left_as_it_is() -> None:
    assert "patch" not in webhook.answer(fractional(None), 4)["response"]


@pytest.mark.parametrize("fraction", ["0.3", "0", "1.5", "half"])
def test_a_fraction_that_slices_cannot_give_is_refused_with_words(fraction: str) -> None:
    answer = webhook.answer(fractional(fraction), 4)["response"]
    assert not answer["allowed"]
    assert "STANDIN" in answer["status"]["message"]


def test_a_whole_gpu_and_a_fraction_exclude_each_other() -> None:
    answer = webhook.answer(fractional("0.5", **{"nvidia.com/gpu": "1"}), 4)["response"]
    assert not answer["allowed"]


def test_everything_it_shows_says_standin() -> None:
    silent = [
        path.name
        for path in FOLDER.rglob("*")
        if path.suffix in {".py", ".yaml"} and "standin" not in path.read_text().lower()
    ]
    assert silent == []
