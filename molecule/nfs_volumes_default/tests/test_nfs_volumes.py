"""StorageClass and volumes as they are asked for, and the proof by pods (a stand-in's)."""

import json

import pytest
import yaml

MANIFEST = "/etc/kubernetes/appliance/storage.yaml"
OBJECTS = "/var/lib/kubectl-standin/objects.json"
CALLS = "/var/lib/kubectl-standin/calls.log"


def test_each_folder_has_a_volume_of_the_default_class(host):
    text = host.file(MANIFEST).content_string
    storage, *volumes = [item for item in yaml.safe_load_all(text) if item]
    assert storage["metadata"]["annotations"] == {
        "storageclass.kubernetes.io/is-default-class": "true"
    }
    assert {volume["spec"]["storageClassName"] for volume in volumes} == {"appliance-nfs"}
    assert [volume["spec"]["nfs"]["path"] for volume in volumes] == [
        "/srv/runai/backend-1",
        "/srv/runai/backend-2",
    ]


def test_a_pod_of_every_node_wrote_and_nothing_of_the_proof_stays(host):
    known = json.loads(host.file(OBJECTS).content_string)
    notes = known["storageclass//appliance-nfs"]["metadata"]["annotations"]
    assert notes == {"appliance.dev/storage-proven": "198.18.0.9:/srv/runai"}
    assert [key for key in known if "proof" in key] == []
    assert "apply --filename=-" in host.file(CALLS).content_string


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"sed -i s/110Gi/9Gi/ {MANIFEST}"], 1),
        (["kubectl annotate storageclass appliance-nfs appliance.dev/storage-proven=x"], 1),
        (["kubectl delete persistentvolume runai-backend-2"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
