"""The flags of logins in ClusterConfiguration, read by the real kubeadm."""

import json

import pytest

OBJECTS = "/var/lib/kubectl-standin/objects.json"


@pytest.fixture
def configuration(host):
    """ClusterConfiguration as the cluster holds it now."""
    known = json.loads(host.file(OBJECTS).content_string)
    return known["configmap/kube-system/kubeadm-config"]["data"]["ClusterConfiguration"]


def test_kubeadm_reads_the_flags_and_what_was_there_before(host, configuration):
    host.run_expect([0], f"cat > /root/cluster.yaml <<'END'\n{configuration}END")
    done = host.run("kubeadm config migrate --old-config /root/cluster.yaml")
    assert done.rc == 0, done.stderr
    assert "unknown field" not in done.stderr
    for line in (
        "authorization-mode: Node,RBAC",
        "oidc-client-id: runai",
        "oidc-issuer-url: https://runai.site.test/auth/realms/runai",
        "timeoutForControlPlane: 4m0s",
    ):
        assert line in done.stdout
    assert "oidc-groups-claim" not in done.stdout, "a flag of the family that is not asked for goes"


def test_a_removed_flag_is_restored(drift):
    drift([f"sed -i 's/oidc-client-id: runai/oidc-client-id: other/' {OBJECTS}"], 1)
