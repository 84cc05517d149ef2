"""The pod network's manifest, and what the role asks of the cluster (a stand-in)."""

import json

import pytest
import yaml

MANIFEST = "/etc/kubernetes/appliance/flannel.yaml"
CALLS = "/var/lib/kubectl-standin/calls.log"


@pytest.fixture
def objects(host):
    """The manifest's objects by kind, as the API reads them."""
    text = host.file(MANIFEST).content_string
    return {item["kind"]: item for item in yaml.safe_load_all(text) if item}


def test_every_object_of_the_manifest_is_applied(host, objects):
    known = json.loads(host.file("/var/lib/kubectl-standin/objects.json").content_string)
    assert {item["kind"] for item in known.values()} >= set(objects)


def test_flannel_and_the_plugin_can_read_their_configuration(objects):
    data = objects["ConfigMap"]["data"]
    assert json.loads(data["net-conf.json"]) == {
        "Network": "198.19.0.0/17",
        "Backend": {"Type": "vxlan"},
    }
    plugins = json.loads(data["cni-conf.json"])["plugins"]
    assert [plugin["type"] for plugin in plugins] == ["flannel", "portmap"]


def test_every_container_takes_the_bundles_image_by_digest(objects):
    spec = objects["DaemonSet"]["spec"]["template"]["spec"]
    images = {part["image"] for part in spec["initContainers"] + spec["containers"]}
    assert images == {f"registry.site.test:5000/flannel@sha256:{'0' * 64}"}
    assert "--iface=eth0" in spec["containers"][0]["args"]


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"sed -i s/vxlan/host-gw/ {MANIFEST}"], 1),
        (["kubectl delete namespace kube-flannel"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)


def test_another_configuration_restarts_the_network(host, converge_again):
    host.run_expect([0], f"sed -i s/vxlan/host-gw/ {MANIFEST}")
    host.run_expect([0], f"kubectl apply --filename={MANIFEST}")
    host.run_expect([0], f"truncate -s 0 {CALLS}")
    assert converge_again() == 2
    assert "rollout restart --namespace=kube-flannel daemonset/kube-flannel-ds" in (
        host.file(CALLS).content_string
    )
