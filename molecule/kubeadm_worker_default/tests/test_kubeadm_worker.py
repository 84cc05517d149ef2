"""A worker that is a member already: what the role holds on it, and whom it refuses."""

import json

import pytest

CA = "/etc/kubernetes/pki/ca.crt"
OBJECTS = "/var/lib/kubectl-standin/objects.json"


@pytest.fixture
def worker(host):
    """Testinfra's connection to the worker; the leader's cases are told by the other fixture."""
    if "-2-" not in host.check_output("hostname"):
        pytest.skip("the leader")
    return host


@pytest.fixture
def leader(host):
    """The node with the stand-in of the cluster."""
    if "-1-" not in host.check_output("hostname"):
        pytest.skip("the worker")
    return host


def test_kubeadm_reads_every_field_of_the_joins_configuration(worker):
    done = worker.run("kubeadm config migrate --old-config /root/join.yaml")
    assert done.rc == 0, done.stderr
    assert "unknown field" not in done.stderr
    assert "apiServerEndpoint: api.site.test:6443" in done.stdout
    assert "node-ip: 198.18.0.12" in done.stdout
    assert "- Port-10250" in done.stdout


def test_the_kubelet_runs_with_the_configuration_of_the_cluster(worker):
    text = worker.file("/var/lib/kubelet/config.yaml").content_string
    assert text == "kind: KubeletConfiguration\ncgroupDriver: systemd\n"
    assert worker.service("kubelet").is_running
    assert worker.service("kubelet").is_enabled


def test_the_node_carries_the_serial_that_was_accepted(leader):
    known = json.loads(leader.file(OBJECTS).content_string)
    (notes,) = (o["metadata"]["annotations"] for o in known.values() if o["kind"] == "Node")
    assert notes["appliance.dev/dmi-serial"] == "SN-2"


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        (["echo >> /var/lib/kubelet/config.yaml; systemctl restart kubelet"], 2),
        (["touch /etc/kubernetes/bootstrap-kubelet.conf"], 1),
        (["systemctl disable --now kubelet"], 1),
    ],
)
def test_drift_is_reported_and_repaired(worker, drift, commands, tasks):
    assert worker
    drift(commands, tasks)


def test_a_member_of_another_cluster_is_refused(worker, refusal):
    worker.run_expect([0], f"cp {CA} /root/ca.crt")
    worker.run_expect(
        [0],
        "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=other -keyout /dev/null"
        f" -out {CA} 2>/dev/null",
    )
    try:
        assert "of another cluster" in refusal()
    finally:
        worker.run_expect([0], f"cp /root/ca.crt {CA}")
