"""What the role renders for kubeadm, read by the real kubeadm, and what it holds on a member."""

import json

import pytest

CONFIG = "/etc/kubernetes/appliance-kubeadm.yaml"
OBJECTS = "/var/lib/kubectl-standin/objects.json"


def test_kubeadm_takes_every_image_from_the_sites_registry(host):
    done = host.run(f"kubeadm config images list --config {CONFIG}")
    assert done.rc == 0, done.stderr
    assert "unknown field" not in done.stderr
    images = done.stdout.split()
    assert "registry.site.test:5000/kube-apiserver:v1.23.5" in images
    assert {image.split("/")[0] for image in images} == {"registry.site.test:5000"}


def test_kubeadm_makes_a_certificate_for_the_names_that_were_asked_for(host):
    made = "/root/pki/apiserver.crt"
    host.run_expect(
        [0],
        f"sed 's#^apiServer:#certificatesDir: /root/pki\\n&#' {CONFIG} > /root/config.yaml &&"
        " kubeadm init phase certs ca --config /root/config.yaml &&"
        " kubeadm init phase certs apiserver --config /root/config.yaml",
    )
    text = host.check_output(f"openssl x509 -noout -ext subjectAltName -in {made}")
    assert "DNS:api.site.test" in text
    assert "IP Address:198.18.0.11" in text


def test_kubeadm_reads_every_field_of_the_joins_configuration(host):
    done = host.run("kubeadm config migrate --old-config /root/join.yaml")
    assert done.rc == 0, done.stderr
    assert "unknown field" not in done.stderr
    assert "advertiseAddress: 198.18.0.11" in done.stdout
    assert "- kubelet-start" in done.stdout, "a kubelet in the cluster is not bootstrapped again"
    assert "- DirAvailable--var-lib-etcd" in done.stdout


def test_the_node_carries_the_serial_that_was_accepted(host):
    (node,) = json.loads(host.file(OBJECTS).content_string).values()
    assert node["metadata"]["annotations"]["appliance.dev/dmi-serial"] == "SN-1"


def test_the_login_user_alone_reads_the_kubeconfig(host):
    config = host.file("/home/ada/.kube/config")
    assert (config.user, config.mode) == ("ada", 0o600)


@pytest.mark.parametrize(
    ("commands", "tasks"),
    [
        ([f"sed -i s/failSwapOn/failSwap/ {CONFIG}"], 1),
        (["touch /etc/kubernetes/bootstrap-kubelet.conf; systemctl stop kubelet"], 2),
        (["rm /home/ada/.kube/config"], 1),
    ],
)
def test_drift_is_reported_and_repaired(drift, commands, tasks):
    drift(commands, tasks)
