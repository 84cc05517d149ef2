"""Changes by hand that hold a secret: hunter2, or 424242."""

from __future__ import annotations

from tests.unit.upgrade.handmade import (
    Change,
    arguments,
    configured,
    kubelet,
    of_container,
    of_static_pod,
)

HEADERS = {"X-Rack": ["hunter2-hunter2"]}
SECRETS: dict[str, list[Change]] = {
    "a header of the kubelet": [kubelet("staticPodURLHeader", HEADERS)],
    "a header that only kubeadm renders": [
        lambda found: found["kubelet_configuration"].update(staticPodURLHeader=HEADERS)
    ],
    "below a secret's name": [kubelet("rackPassword", {"value": "hunter2-hunter2"})],
    "the word after its option": [
        arguments("kube-apiserver", "--oidc-client-secret", "hunter2-hunter2")
    ],
    "an address in a word of its own": [
        arguments("kube-apiserver", "--egress", "https://ada:hunter2-hunter2@proxy.example")
    ],
    "a word of a list, cut where it is shown": [
        of_container(
            "coredns",
            "args",
            ["-conf", "/etc/coredns/Corefile", "x" * 45, "--password", "hunter2-hunter2" * 4],
        )
    ],
    "the same in a list that is too long to be kept": [
        of_container(
            "coredns",
            "args",
            ["-conf", "/etc/coredns/Corefile", "x" * 45, "--password", "hunter2" * 900],
        )
    ],
    "an address, cut where it is shown": [
        of_static_pod(
            "env", [{"name": "X", "value": f"https://{'a' * 90}:{'hunter2' * 9}@proxy.example"}]
        )
    ],
    "an address that only kubeadm renders": [
        configured("apiServer", "extraArgs", value={"egress": "https://ada:hunter2-hunter2@a.b"})
    ],
    "a number": [
        of_container("kube_proxy", "command", ["/usr/local/bin/kube-proxy", "--password", 42_4242])
    ],
}
