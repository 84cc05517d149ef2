"""The cluster's part from values that a person downloaded; kubectl and helm are stand-ins."""

import json

import pytest

STATE = "/var/lib/kubectl-standin"
VALUES = "/etc/appliance/runai/runai-rack.yaml"


def test_a_values_file_that_a_person_brought_skips_no_proof_of_the_connection(host):
    calls = host.file(f"{STATE}/calls.log").content_string
    assert "--namespace=runai logs deployment/runai-cluster" in calls


def test_the_sites_values_and_the_vaults_come_after_those_that_were_downloaded(host):
    given = json.loads(host.file(f"{STATE}/helm-values.json").content_string)
    downloaded, own, ours = given.values()
    assert next(iter(given)) == VALUES
    assert '"clusterDomain": "downloaded"' in downloaded
    assert json.loads(own) == {}
    assert json.loads(ours) == {
        "runai-operator": {"config": {"global": {"replicas": 1}}},
        "password": "a-secret-of-the-vault",
    }


def test_secrets_stay_with_root_and_are_not_noted(host):
    assert host.file(VALUES).mode == 0o600
    assert host.run("grep -rl a-secret-of-the-vault /var/lib/appliance /etc/appliance").rc == 1


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        # helm runs again; then its new revision is told which secrets are in force.
        (["kubectl --namespace=runai delete deployment runai-cluster"], 2),
        # Another file of values: it is brought, and helm runs with it.
        ([f"echo >> {VALUES}"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
