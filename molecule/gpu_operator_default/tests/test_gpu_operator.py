"""What the role hands to helm (a stand-in) and to the driver's container."""

import json

import pytest
import yaml

MANIFEST = "/etc/kubernetes/appliance/gpu-operator.yaml"
STATE = "/var/lib/kubectl-standin"
CHART = "/var/lib/appliance/charts/gpu-operator.tgz"


@pytest.fixture
def objects(host):
    """What the stand-in for kubectl holds."""
    return json.loads(host.file(f"{STATE}/objects.json").content_string)


def test_the_drivers_container_finds_packages_and_their_authority(host):
    text = host.file(MANIFEST).content_string
    found = {item["metadata"]["name"]: item.get("data") for item in yaml.safe_load_all(text)}
    assert found["driver-packages"] == {
        "custom-repo.list": "deb [trusted=yes] http://198.18.0.9:9080/apt ./\n"
    }
    authority = found["driver-authority"]["ca-certificates.crt"]
    assert authority.startswith("-----BEGIN CERTIFICATE-----\n")


def test_helm_was_given_the_sites_values_and_they_do_not_stay(host):
    given = json.loads(host.file(f"{STATE}/helm-values.json").content_string)
    ((path, text),) = given.items()
    assert json.loads(text) == {"driver": {"enabled": True}, "toolkit": {"enabled": False}}
    assert not host.file(path).exists


def test_the_revision_tells_what_it_was_made_from(host, objects):
    (secret,) = (item for item in objects.values() if item["kind"] == "Secret")
    notes = secret["metadata"]["annotations"]
    assert notes["appliance.dev/chart-sha256"] == host.file(CHART).sha256sum


def test_nodes_are_labelled(objects):
    (node,) = (item for item in objects.values() if item["kind"] == "Node")
    assert node["metadata"]["labels"]["nvidia.com/gpu.deploy.operands"] == "false"


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"echo '# theirs' >> {MANIFEST}"], 1),
        (["kubectl --namespace=gpu-operator delete deployment gpu-operator"], 1),
        (["kubectl delete namespace gpu-operator"], 2),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
