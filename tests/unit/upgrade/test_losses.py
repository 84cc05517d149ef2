"""What was changed by hand and kubeadm would drop is found, by name, on its nodes."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.handmade.carrying import carried_cluster, carried_kubelet, carrier_of
from appliance.model.upgrade.handmade.static_pods import COMPONENTS
from appliance.model.upgrade.losses import (
    Carrier,
    Documents,
    find_losses,
)
from tests import samples
from tests.unit.upgrade.handmade import (
    CLUSTER,
    KUBELET,
    Change,
    arguments,
    changed,
    configured,
    documents,
    image,
    kubelet,
    of_container,
    of_pod,
    of_static_pod,
    proxy_env,
    replaced,
    replicas,
    sidecar,
    untouched,
    volume,
    without,
)


def lost(found: Documents, carrier: Carrier | None = None) -> dict[str, tuple[str, ...]]:
    losses = find_losses(found, carrier or Carrier())
    assert not isinstance(losses, Silence), losses
    return {loss.name: loss.nodes for loss in losses if not loss.carried}


CASES: list[tuple[str, list[Change], dict[str, tuple[str, ...]]]] = [
    ("nobody touched it", [], {}),
    (
        "an argument of the API server",
        [arguments("kube-apiserver", "--profiling=false")],
        {"kube-apiserver.profiling": ("cp1",)},
    ),
    (
        "the same argument on both nodes",
        [arguments("kube-apiserver", "--profiling=false", node=node) for node in ("cp1", "cp2")],
        {"kube-apiserver.profiling": ("cp1", "cp2")},
    ),
    (
        "an argument that ClusterConfiguration has",
        [
            arguments("kube-apiserver", "--profiling=false"),
            arguments("kube-apiserver", "--profiling=false", node="cp2"),
            configured("apiServer", "extraArgs", "profiling", value="false"),
        ],
        {},
    ),
    (
        "an argument that ClusterConfiguration has with another value",
        [
            arguments("kube-apiserver", "--profiling=true"),
            arguments("kube-apiserver", "--profiling=false", node="cp2"),
            configured("apiServer", "extraArgs", "profiling", value="false"),
        ],
        {"kube-apiserver.profiling": ("cp1",)},
    ),
    (
        "an argument of ClusterConfiguration that was removed by hand",
        [
            configured("scheduler", "extraArgs", "v", value="4"),
            arguments("kube-scheduler", "--v=4", node="cp2"),
        ],
        {"kube-scheduler.v": ("cp1",)},
    ),
    (
        "a default argument with another value",
        [replaced("kube-apiserver", "enable-admission-plugins", "NodeRestriction,PodSecurity")],
        {"kube-apiserver.enable-admission-plugins": ("cp1",)},
    ),
    (
        "a default argument that was removed",
        [without("kube-controller-manager", "use-service-account-credentials")],
        {"kube-controller-manager.use-service-account-credentials": ("cp1",)},
    ),
    (
        "an address that is not the one of the pod's annotation",
        [replaced("kube-apiserver", "advertise-address", "198.18.7.12")],
        {"kube-apiserver.advertise-address": ("cp1",)},
    ),
    (
        "the members when a node joined",
        [
            replaced("etcd", "initial-cluster", "cp2=https://198.18.7.12:2380"),
            arguments("etcd", "--initial-cluster-state=existing"),
        ],
        {},
    ),
    (
        "a computed argument that ClusterConfiguration overrides",
        [
            configured("apiServer", "extraArgs", "service-account-issuer", value="https://a"),
            replaced("kube-apiserver", "service-account-issuer", "https://a"),
        ],
        {"kube-apiserver.service-account-issuer": ("cp2",)},
    ),
    (
        "an argument of etcd",
        [arguments("etcd", "--quota-backend-bytes=8589934592")],
        {"etcd.quota-backend-bytes": ("cp1",)},
    ),
    (
        "an argument of etcd that later kubeadms render",
        [arguments("etcd", "--experimental-initial-corrupt-check=true")],
        {},
    ),
    (
        "an argument that is given twice",
        [arguments("kube-apiserver", "--tls-cert-file=/etc/other.crt")],
        {"kube-apiserver.tls-cert-file": ("cp1",)},
    ),
    (
        "an argument without a value",
        [arguments("kube-apiserver", "--contention-profiling")],
        {"kube-apiserver.contention-profiling": ("cp1",)},
    ),
    ("a volume", [volume], {"kube-apiserver.volumes.audit": ("cp1",)}),
    (
        "the environment of a static pod",
        [of_static_pod("env", [{"name": "ETCD_AUTO_COMPACTION_MODE", "value": "periodic"}])],
        {"etcd.env.ETCD_AUTO_COMPACTION_MODE": ("cp2",)},
    ),
    (
        "a proxy that kubeadm passes on",
        [of_static_pod("env", [{"name": "HTTPS_PROXY", "value": "http://proxy"}])],
        {},
    ),
    (
        "resources of a static pod",
        [of_static_pod("resources", {"requests": {"cpu": "100m", "memory": "4Gi"}})],
        {"etcd.resources.requests.memory": ("cp2",)},
    ),
    ("pods of a kubelet", [kubelet("maxPods", 200)], {"kubelet.maxPods": ("w1",)}),
    (
        "different pods on two nodes",
        [kubelet("maxPods", 200, "cp1"), kubelet("maxPods", 200, "w1")],
        {"kubelet.maxPods": ("cp1", "w1")},
    ),
    (
        "a nested key of a kubelet",
        [
            kubelet(
                "authentication", {"anonymous": {"enabled": True}, "webhook": {"cacheTTL": "0s"}}
            )
        ],
        {"kubelet.authentication.anonymous.enabled": ("w1",)},
    ),
    (
        "the resolver that kubeadm fills in with systemd-resolved",
        [kubelet("resolvConf", "/run/systemd/resolve/resolv.conf")],
        {},
    ),
    (
        "another resolver",
        [kubelet("resolvConf", "/etc/resolv.other")],
        {"kubelet.resolvConf": ("w1",)},
    ),
    ("replicas of CoreDNS are kept", [replicas], {}),
    ("an image of CoreDNS from elsewhere", [image], {"coredns.container.image": ()}),
    (
        "resources of CoreDNS",
        [of_container("coredns", "resources", {"limits": {"memory": "1Gi"}})],
        {
            "coredns.resources.limits.memory": (),
            "coredns.resources.requests.cpu": (),
            "coredns.resources.requests.memory": (),
        },
    ),
    (
        "arguments of CoreDNS",
        [of_container("coredns", "args", ["-conf", "/etc/other"])],
        {"coredns.args": ()},
    ),
    (
        "the place of CoreDNS",
        [of_pod("coredns", "nodeSelector", {"kubernetes.io/os": "linux", "dns": "yes"})],
        {"coredns.nodeSelector.dns": ()},
    ),
    ("a second container of CoreDNS", [sidecar], {"coredns.containers": ()}),
    ("the environment of kube-proxy", [proxy_env], {"kube-proxy.env.GODEBUG": ()}),
    (
        "tolerations of kube-proxy",
        [of_pod("kube_proxy", "tolerations", [])],
        {"kube-proxy.tolerations": ()},
    ),
]


@pytest.mark.parametrize(("changes", "names"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_what_was_changed_by_hand_is_found(
    changes: list[Change], names: dict[str, tuple[str, ...]]
) -> None:
    assert lost(changed(*changes)) == names


def broken(document: str, value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found[document] = value

    return change


def manifest(value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["manifests"]["cp2"]["etcd"] = value

    return change


def file_of_w1(value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["kubelet_files"]["w1"] = value

    return change


def no_manifests(value: object) -> Change:
    def change(found: dict[str, Any]) -> None:
        found["manifests"]["cp1"] = value

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (broken("cluster_configuration", Silence("late")), "kubeadm-config: late"),
        (broken("cluster_configuration", {}), "kubeadm-config: absent"),
        (broken("kubelet_configuration", []), "kubelet's ConfigMap: absent"),
        (broken("coredns", Silence("the API does not answer")), "CoreDNS: the API"),
        (broken("kube_proxy", "text"), "kube-proxy: absent"),
        (manifest(None), "cp2: the manifest of etcd: absent"),
        (manifest(Silence("permission denied")), "cp2: the manifest of etcd: permission"),
        (no_manifests(Silence("ssh: timed out")), "cp1: static pods: ssh"),
        (no_manifests({}), "cp1: the manifest of etcd: absent"),
        (file_of_w1(Silence("ssh: timed out")), "w1: the kubelet's config.yaml: ssh"),
        (file_of_w1(7), "w1: the kubelet's config.yaml: absent"),
    ],
)
def test_a_document_without_an_answer_is_unknown_and_no_go(change: Change, words: str) -> None:
    found = find_losses(changed(change), Carrier())
    assert isinstance(found, Silence)
    assert words in found.reason


HOSTILE: tuple[object, ...] = (
    {"spec": None},
    {"spec": []},
    {"spec": {"containers": "x"}},
    {"spec": {"containers": [None]}},
    {"spec": {"containers": [{"command": "sh"}]}},
    {"spec": {"containers": [{"command": ["etcd"]}, {"command": ["sh"]}]}},
    {"spec": {"containers": [{"command": [{"a": 1}, None, 7]}], "volumes": [None, 3]}},
    {"spec": {"containers": [{"command": ["etcd"], "env": [None, {"valueFrom": 4}]}]}},
    {"kind": "Pod"},
)


@pytest.mark.parametrize("document", HOSTILE, ids=str)
def test_a_manifest_of_another_form_is_a_loss_and_never_a_crash(document: object) -> None:
    assert any(name.startswith("etcd.") for name in lost(changed(manifest(document))))


@pytest.mark.parametrize("document", HOSTILE, ids=str)
def test_an_add_on_of_another_form_is_a_loss_and_never_a_crash(document: object) -> None:
    found = lost(changed(broken("coredns", document), broken("kube_proxy", document)))
    assert any(name.startswith("coredns.") for name in found)
    assert any(name.startswith("kube-proxy.") for name in found)


def test_what_the_site_has_is_carried() -> None:
    carrier = Carrier(
        kubelet={"maxPods": 200, "authentication": {"anonymous": {"enabled": True}}},
        oidc={"oidc-client-id": "runai"},
    )
    found = changed(
        kubelet("maxPods", 200, "w1"),
        kubelet("maxPods", 250, "cp1"),
        arguments("kube-apiserver", "--oidc-client-id=runai"),
        arguments("kube-apiserver", "--oidc-issuer-url=https://elsewhere"),
    )
    losses = find_losses(found, carrier)
    assert not isinstance(losses, Silence)
    assert {(one.name, one.was, one.carried, one.key_in_site) for one in losses} == {
        ("kubelet.maxPods", "200", True, "kubernetes.kubelet.maxPods"),
        ("kubelet.maxPods", "250", False, "kubernetes.kubelet.maxPods"),
        ("kube-apiserver.oidc-client-id", "runai", True, "runai.access"),
        ("kube-apiserver.oidc-issuer-url", "https://elsewhere", False, "runai.access"),
    }


def test_what_is_carried_is_written_where_kubeadm_reads_it_and_nothing_else() -> None:
    kubelets = {"maxPods": 200, "authentication": {"anonymous": {"enabled": True}}, "v": 4}
    carrier = Carrier(kubelets, {"oidc-client-id": "runai"})
    found = changed(
        kubelet("maxPods", 200),
        kubelet("authentication", {"anonymous": {"enabled": True}, "webhook": {"cacheTTL": "0s"}}),
        arguments("kube-apiserver", "--oidc-client-id=runai", "--profiling=false"),
    )
    before = copy.deepcopy(found)
    losses = find_losses(found, carrier)
    assert not isinstance(losses, Silence)
    of_kubelets = carried_kubelet(found, losses, carrier)
    of_cluster = carried_cluster(found, losses)
    assert of_kubelets == {
        **KUBELET,
        "maxPods": 200,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"cacheTTL": "0s"}},
    }
    assert of_cluster == {
        **CLUSTER,
        "apiServer": {**CLUSTER["apiServer"], "extraArgs": {"oidc-client-id": "runai"}},
    }
    assert found == before
    after = replace(found, kubelet_configuration=of_kubelets, cluster_configuration=of_cluster)
    still = find_losses(after, carrier)
    assert not isinstance(still, Silence)
    assert "kubelet.maxPods" not in {loss.name for loss in still if "w1" in loss.nodes}


def test_nothing_is_written_where_nothing_is_carried() -> None:
    found = changed(kubelet("maxPods", 200))
    losses = find_losses(found, Carrier())
    assert not isinstance(losses, Silence)
    assert carried_kubelet(found, losses, Carrier()) is None
    assert carried_cluster(found, losses) is None


def test_the_site_file_is_what_carries() -> None:
    site = samples.site(1, 1, kubernetes={"kubelet": {"maxPods": 200}})
    versions = {"etcd": "3.5.1", "coredns": "1.8.6"}
    assert carrier_of(samples.desired(site)) == Carrier({"maxPods": 200}, {}, versions)
    with_access = samples.site(1, 1, runai={"access": {"enabled": True}})
    assert carrier_of(samples.desired(with_access)).oidc["oidc-client-id"] == "runai"


def test_two_hundred_nodes_with_one_change_are_one_loss() -> None:
    found = untouched()
    found["kubelet_files"] = {
        f"w{number}": {**found["kubelet_configuration"], "maxPods": 200} for number in range(200)
    }
    (loss,) = find_losses(documents(found), Carrier())  # type: ignore[misc]
    assert len(loss.nodes) == 200
    assert loss.sentence().endswith("is 200; kubeadm renders 110")


def test_a_value_without_end_is_shortened_and_stays_on_one_line() -> None:
    words = "--profiling=" + "x\n" * 10_000
    (loss,) = find_losses(changed(arguments("kube-apiserver", words)), Carrier())  # type: ignore[misc]
    assert len(loss.sentence()) < 300
    assert "\n" not in loss.sentence()


def test_every_component_is_compared() -> None:
    for component in COMPONENTS:
        found = lost(changed(arguments(component, "--made-up=1")))
        assert found == {f"{component}.made-up": ("cp1",)}
