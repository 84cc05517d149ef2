"""Every field of a pod that kubeadm would write again is found, and nothing that kubeadm wrote."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.handmade.static_pods import COMPONENTS, static_pod_changes
from appliance.model.upgrade.losses import Carrier, find_losses
from tests.unit.modules.loading import load
from tests.unit.upgrade.handmade import Change, at, changed, of_pod, without

DATA = Path(__file__).parents[2] / "data/upgrade"
ZONE = load("coredns_zone")
RECORDED = sorted(path.stem for path in DATA.glob("kubeadm-*.yml"))


@cache
def rendered(name: str) -> dict[str, Any]:
    """ClusterConfiguration and the pods that kubeadm rendered from it."""
    documents = yaml.safe_load_all((DATA / f"{name}.yml").read_text())
    return {one["metadata"]["name"] if "spec" in one else "": one for one in documents}


@pytest.mark.parametrize("component", COMPONENTS)
@pytest.mark.parametrize("name", RECORDED)
def test_nothing_that_kubeadm_rendered_is_hand_made(name: str, component: str) -> None:
    found = rendered(name)
    assert static_pod_changes(component, found[component], found[""]) == ()


def test_the_recorded_versions_are_those_of_our_releases() -> None:
    versions = {name.split("-")[1] for name in RECORDED}
    releases = Path(__file__).parents[3] / "appliance/releases"
    of_releases = {path.stem.split("-")[1] for path in releases.glob("k8s-*.yml")}
    # 1.23.5 is recorded in a folder, from which other tests take single manifests.
    assert versions | {"1.23.5"} == of_releases


def lost(*changes: Change, newest: dict[str, str] | None = None) -> dict[str, str]:
    """Name -> the value that would be lost."""
    losses = find_losses(changed(*changes), Carrier(newest=newest or {}))
    assert not isinstance(losses, Silence), losses
    return {loss.name: loss.was for loss in losses}


API = ("manifests", "cp1", "kube-apiserver")
ETCD = ("manifests", "cp1", "etcd")
OWN = (*API, "spec", "containers", 0)
DNS = ("coredns", "spec", "template", "spec")
PROXY = ("kube_proxy", "spec", "template", "spec")
ALIASES = [{"ip": "198.18.7.20", "hostnames": ["idp.rack.test"]}]
AUDIT = {"name": "audit", "mountPath": "/var/log/audit"}
AUDIT_VOLUME = {"name": "audit", "hostPath": {"path": "/var/log/audit", "type": "Directory"}}
CASES: dict[str, tuple[list[Change], set[str]]] = {
    "names of hosts": (
        [at(*API, "spec", "hostAliases", value=ALIASES)],
        {"kube-apiserver.pod.hostAliases"},
    ),
    "a probe's patience": (
        [at(*OWN, "livenessProbe", "failureThreshold", value=30)],
        {"kube-apiserver.container.livenessProbe.failureThreshold"},
    ),
    "a probe that was removed": (
        [at(*OWN, "startupProbe", value=None)],
        {
            "kube-apiserver.container.startupProbe.failureThreshold",
            "kube-apiserver.container.startupProbe.httpGet.host",
            "kube-apiserver.container.startupProbe.httpGet.path",
            "kube-apiserver.container.startupProbe.httpGet.port",
            "kube-apiserver.container.startupProbe.httpGet.scheme",
            "kube-apiserver.container.startupProbe.initialDelaySeconds",
            "kube-apiserver.container.startupProbe.timeoutSeconds",
        },
    ),
    "an image from elsewhere": (
        [at(*OWN, "image", value="elsewhere.test/kube-apiserver:v1.23.5")],
        {"kube-apiserver.container.image"},
    ),
    "an image of another name": (
        [at(*OWN, "image", value="registry.rack.test:5000/hyperkube:v1.23.5")],
        {"kube-apiserver.container.image"},
    ),
    "a version of somebody's own": (
        [at(*OWN, "image", value="registry.rack.test:5000/kube-apiserver:v1.23.5-patched")],
        {"kube-apiserver.container.image"},
    ),
    "a version that a hop before wrote": (
        [at(*OWN, "image", value="registry.rack.test:5000/kube-apiserver:v1.23.17")],
        set(),
    ),
    "an image that is none": ([at(*OWN, "image", value=7)], {"kube-apiserver.container.image"}),
    "a label": (
        [at(*API, "metadata", "labels", "team", value="a")],
        {"kube-apiserver.pod.metadata.labels.team"},
    ),
    "an annotation": (
        [at(*API, "metadata", "annotations", "prometheus.io/scrape", value="true")],
        {"kube-apiserver.pod.metadata.annotations.prometheus.io/scrape"},
    ),
    "an annotation of kubeadm that is gone": (
        [at(*API, "metadata", "annotations", value={})],
        {
            "kube-apiserver.pod.metadata.annotations."
            "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"
        },
    ),
    "the pod's security context": (
        [at(*ETCD, "spec", "securityContext", value={"runAsUser": 1000})],
        {
            "etcd.pod.securityContext.runAsUser",
            "etcd.pod.securityContext.seccompProfile.type",
        },
    ),
    "the container's security context": (
        [at(*OWN, "securityContext", value={"privileged": True})],
        {"kube-apiserver.container.securityContext.privileged"},
    ),
    "the resolver": (
        [at(*API, "spec", "dnsPolicy", value="ClusterFirstWithHostNet")],
        {"kube-apiserver.pod.dnsPolicy"},
    ),
    "a field that says what is so anyway": (
        [at(*API, "spec", "dnsPolicy", value="ClusterFirst")],
        set(),
    ),
    "no network of the host": (
        [at(*API, "spec", "hostNetwork", value=False)],
        {"kube-apiserver.pod.hostNetwork"},
    ),
    "another priority": (
        [at(*API, "spec", "priorityClassName", value="high")],
        {"kube-apiserver.priorityClassName"},
    ),
    "a volume and its mount": (
        [
            at(*API, "spec", "volumes", 2, value=AUDIT_VOLUME),
            at(*OWN, "volumeMounts", 2, value=AUDIT),
        ],
        {"kube-apiserver.volumes.audit", "kube-apiserver.volumeMounts./var/log/audit"},
    ),
    "another folder under a known name": (
        [at(*ETCD, "spec", "volumes", 1, "hostPath", "path", value="/data/etcd")],
        {"etcd.volumes.etcd-data"},
    ),
    "a volume that is missing": (
        [at(*API, "spec", "volumes", value=[])],
        {"kube-apiserver.volumes.ca-certs", "kube-apiserver.volumes.k8s-certs"},
    ),
    "a mount that became writable": (
        [at(*OWN, "volumeMounts", 1, "readOnly", value=False)],
        {"kube-apiserver.volumeMounts./etc/kubernetes/pki"},
    ),
    "a second container": (
        [at(*API, "spec", "containers", 1, value={"name": "kms", "image": "kms"})],
        {"kube-apiserver.containers"},
    ),
    "a container before it": (
        [at(*API, "spec", "initContainers", value=[{"name": "wait", "command": ["sh"]}])],
        {"kube-apiserver.pod.initContainers"},
    ),
    "what runs at its end": (
        [at(*OWN, "lifecycle", "preStop", "exec", "command", value=["sleep", "5"])],
        {"kube-apiserver.container.lifecycle.preStop.exec.command"},
    ),
    "ports": (
        [at(*OWN, "ports", value=[{"containerPort": 6443}])],
        {"kube-apiserver.container.ports"},
    ),
    "another program": (
        [at(*OWN, "command", 0, value="/opt/kube-apiserver")],
        {"kube-apiserver.command"},
    ),
    "a folder of ClusterConfiguration": (
        [
            at(*API, "spec", "volumes", 2, value=AUDIT_VOLUME),
            at(*OWN, "volumeMounts", 2, value=AUDIT),
            at(
                *("cluster_configuration", "apiServer", "extraVolumes"),
                value=[
                    {
                        "name": "audit",
                        "hostPath": "/var/log/audit",
                        "mountPath": "/var/log/audit",
                        "pathType": "Directory",
                    }
                ],
            ),
        ],
        # cp2 lacks what the configuration says.
        {"kube-apiserver.volumes.audit", "kube-apiserver.volumeMounts./var/log/audit"},
    ),
    "an argument that names another issuer": (
        [
            without("kube-apiserver", "service-account-issuer"),
            at(*OWN, "command", 27, value="--service-account-issuer=https://a"),
        ],
        {"kube-apiserver.service-account-issuer"},
    ),
    "CoreDNS on several nodes": (
        [of_pod("coredns", "affinity", {"podAntiAffinity": {"a": [1]}})],
        {"coredns.pod.affinity.podAntiAffinity.a"},
    ),
    "an annotation of CoreDNS": (
        [at("coredns", "metadata", "annotations", "team", value="a")],
        {"coredns.metadata.annotations.team"},
    ),
    "an annotation of CoreDNS' pods": (
        [at("coredns", "spec", "template", "metadata", "annotations", "team", value="a")],
        {"coredns.pod.metadata.annotations.team"},
    ),
    "pods that were started again by command": (
        [
            at(
                *("coredns", "spec", "template", "metadata", "annotations"),
                value={"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"},
            )
        ],
        set(),
    ),
    "CoreDNS with the zone of Run:ai's backend": (
        [
            at(
                *("coredns", "spec", "template", "metadata", "annotations"),
                value={ZONE.READ: "0123456789abcdef"},
            )
        ],
        set(),
    ),
    "a command that kubectl recorded": (
        [
            at(
                *("coredns", "metadata", "annotations", "kubernetes.io/change-cause"),
                value="kubectl scale deployment coredns --replicas=3 --record=true",
            ),
            at("coredns", "spec", "replicas", value=3),
        ],
        set(),
    ),
    "a volume of CoreDNS": (
        [at(*DNS, "volumes", 1, value={"name": "zone", "configMap": {"name": "zone"}})],
        {"coredns.volumes.zone"},
    ),
    "how CoreDNS is replaced": (
        [at("coredns", "spec", "strategy", "rollingUpdate", "maxUnavailable", value=0)],
        {"coredns.spec.strategy.rollingUpdate.maxUnavailable"},
    ),
    "a toleration of CoreDNS": (
        [at(*DNS, "tolerations", 3, value={"key": "gpu", "operator": "Exists"})],
        {"coredns.tolerations"},
    ),
    "a taint that kube-proxy tolerates for a while": (
        [at(*PROXY, "tolerations", 0, "tolerationSeconds", value=30)],
        {"kube-proxy.tolerations"},
    ),
    "a volume of kube-proxy": (
        [at(*PROXY, "volumes", 1, "hostPath", "path", value="/run/other.lock")],
        {"kube-proxy.volumes.xtables-lock"},
    ),
    "an image of kube-proxy from elsewhere": (
        [at(*PROXY, "containers", 0, "image", value="elsewhere.test/kube-proxy:v1.23.5")],
        {"kube-proxy.container.image"},
    ),
    "a variable without a value": (
        [at(*PROXY, "containers", 0, "env", 1, value={"name": "DEBUG", "value": ""})],
        {"kube-proxy.env.DEBUG"},
    ),
    "how kube-proxy is replaced": (
        [at("kube_proxy", "spec", "updateStrategy", value={"type": "OnDelete"})],
        {
            "kube-proxy.spec.updateStrategy.rollingUpdate.maxUnavailable",
            "kube-proxy.spec.updateStrategy.type",
        },
    ),
}


@pytest.mark.parametrize(("changes", "names"), CASES.values(), ids=CASES)
def test_what_differs_from_what_kubeadm_writes_is_found(
    changes: list[Change], names: set[str]
) -> None:
    assert set(lost(*changes)) == names


def test_an_image_that_is_newer_than_the_release_was_put_there_by_hand() -> None:
    newer = at(*DNS, "containers", 0, "image", value="registry.rack.test:5000/coredns:v1.9.3")
    assert lost(newer, newest={"coredns": "1.8.6"}) == {
        "coredns.container.image": "registry.rack.test:5000/coredns:v1.9.3"
    }
    assert lost(newer, newest={"coredns": "1.10.0"}) == {}


def test_an_image_of_cluster_configuration_is_kept() -> None:
    dns = {"imageRepository": "elsewhere.test/x", "imageTag": "v1.9.3-own"}
    own = at(*DNS, "containers", 0, "image", value="elsewhere.test/x/coredns:v1.9.3-own")
    configured = at("cluster_configuration", "dns", value=dns)
    assert lost(own, configured, newest={"coredns": "1.8.6"}) == {}
    assert set(lost(configured)) == {"coredns.container.image"}


@pytest.mark.parametrize("repository", ["k8s.gcr.io", "registry.k8s.io"])
def test_the_official_registry_has_two_names(repository: str) -> None:
    found = rendered("kubeadm-1.24.17-plain")
    pod = {**found["kube-scheduler"]}
    pod["spec"] = {**pod["spec"], "containers": [dict(pod["spec"]["containers"][0])]}
    pod["spec"]["containers"][0]["image"] = "registry.k8s.io/kube-scheduler:v1.24.17"
    cluster = {**found[""], "imageRepository": repository}
    assert static_pod_changes("kube-scheduler", pod, cluster) == ()


def test_secrets_of_other_containers_are_not_shown() -> None:
    started = {"name": "wait", "env": [{"name": "DB_PASSWORD", "value": "hunter2-hunter2"}]}
    found = lost(at(*API, "spec", "initContainers", value=[started]))
    assert "hunter2" not in str(found)
