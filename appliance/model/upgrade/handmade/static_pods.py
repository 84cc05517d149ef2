"""Static pods as kubeadm renders them from ClusterConfiguration: what was changed by hand is found.

The arguments are those of kubeadm 1.23 and 1.24 (cmd/kubeadm/app/phases/controlplane/manifests.go
and etcd/local.go). Values that kubeadm computes for a node are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.addons import environment
from appliance.model.upgrade.handmade.settings_diff import ABSENT, Change, differences, shown

COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# In ClusterConfiguration: the section of each component.
_SECTIONS: Final = {
    "etcd": ("etcd", "local"),
    "kube-apiserver": ("apiServer",),
    "kube-controller-manager": ("controllerManager",),
    "kube-scheduler": ("scheduler",),
}


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_PKI: Final = "/etc/kubernetes/pki"
# Rendered with one value, whatever the node.
_FIXED: Final[Mapping[str, Mapping[str, str]]] = {
    "etcd": {
        "cert-file": f"{_PKI}/etcd/server.crt",
        "client-cert-auth": "true",
        "data-dir": "/var/lib/etcd",
        "key-file": f"{_PKI}/etcd/server.key",
        "listen-metrics-urls": "http://127.0.0.1:2381",
        "peer-cert-file": f"{_PKI}/etcd/peer.crt",
        "peer-client-cert-auth": "true",
        "peer-key-file": f"{_PKI}/etcd/peer.key",
        "peer-trusted-ca-file": f"{_PKI}/etcd/ca.crt",
        "snapshot-count": "10000",
        "trusted-ca-file": f"{_PKI}/etcd/ca.crt",
    },
    "kube-apiserver": {
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "client-ca-file": f"{_PKI}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": "true",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "requestheader-allowed-names": "front-proxy-client",
        "tls-cert-file": f"{_PKI}/apiserver.crt",
        "tls-private-key-file": f"{_PKI}/apiserver.key",
    },
    "kube-controller-manager": {
        "bind-address": "127.0.0.1",
        "controllers": "*,bootstrapsigner,tokencleaner",
        "leader-elect": "true",
        "use-service-account-credentials": "true",
    },
    "kube-scheduler": {"bind-address": "127.0.0.1", "leader-elect": "true"},
}
# Rendered, with a value of the node, of the site or of the version of kubeadm.
_COMPUTED: Final[Mapping[str, frozenset[str]]] = {
    "etcd": _words(
        "advertise-client-urls initial-advertise-peer-urls initial-cluster initial-cluster-state"
        " listen-client-urls listen-peer-urls name experimental-initial-corrupt-check"
        " experimental-watch-progress-notify-interval"
    ),
    "kube-apiserver": _words(
        "advertise-address etcd-cafile etcd-certfile etcd-keyfile etcd-servers"
        " kubelet-client-certificate kubelet-client-key proxy-client-cert-file"
        " proxy-client-key-file requestheader-client-ca-file requestheader-extra-headers-prefix"
        " requestheader-group-headers requestheader-username-headers secure-port"
        " service-account-issuer service-account-key-file service-account-signing-key-file"
        " service-cluster-ip-range"
    ),
    "kube-controller-manager": _words(
        "allocate-node-cidrs authentication-kubeconfig authorization-kubeconfig client-ca-file"
        " cluster-cidr cluster-name cluster-signing-cert-file cluster-signing-key-file kubeconfig"
        " requestheader-client-ca-file root-ca-file service-account-private-key-file"
        " service-cluster-ip-range"
    ),
    "kube-scheduler": _words("authentication-kubeconfig authorization-kubeconfig kubeconfig"),
}
_VOLUMES: Final = _words(
    "k8s-certs ca-certs etc-pki etc-ca-certificates usr-share-ca-certificates"
    " usr-local-share-ca-certificates kubeconfig flexvolume-dir etcd-certs etcd-data"
)
_RESOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "etcd": {"cpu": "100m", "memory": "100Mi"},
    "kube-apiserver": {"cpu": "250m"},
    "kube-controller-manager": {"cpu": "200m"},
    "kube-scheduler": {"cpu": "100m"},
}
UNREADABLE: Final = "manifest"


def static_pod_changes(component: str, manifest: object, configured: object) -> tuple[Change, ...]:
    """What of a static pod differs from what kubeadm would render.

    Args:
        component: one of :data:`COMPONENTS`; another has no rendered form, and no change.
        manifest: the pod in /etc/kubernetes/manifests.
        configured: ClusterConfiguration.
    """
    if component not in _SECTIONS:
        return ()
    spec = _mapping(_mapping(manifest).get("spec"))
    containers = [_mapping(one) for one in _list(spec.get("containers"))]
    if len(containers) != 1 or not _list(containers[0].get("command")):
        text = f"a manifest of {len(containers)} containers, or without a command"
        return (Change(UNREADABLE, text, "one container with a command"),)
    section = _section(component, configured)
    flags = _flags(_list(containers[0].get("command"))[1:])
    return (
        *_flag_changes(component, flags, _extra_arguments(section)),
        *_volume_changes(spec, section),
        *differences(
            {f"env.{name}": value for name, value in environment(containers[0]).items()}, {}
        ),
        *_resource_changes(component, containers[0]),
    )


def arguments(manifest: object) -> list[str]:
    """The words after the program of a static pod of one container."""
    containers = _list(_mapping(_mapping(manifest).get("spec")).get("containers"))
    words = _list(_mapping(containers[0]).get("command"))[1:] if len(containers) == 1 else []
    return [str(word) for word in words]


def _section(component: str, configured: object) -> Mapping[str, Any]:
    found = _mapping(configured)
    for key in _SECTIONS[component]:
        found = _mapping(found.get(key))
    return found


def _extra_arguments(section: Mapping[str, Any]) -> dict[str, str]:
    return {str(key): str(value) for key, value in _mapping(section.get("extraArgs")).items()}


def _flags(words: Iterable[object]) -> dict[str, str]:
    """Name -> value; one that is given several times has all values, in order."""
    found: dict[str, list[str]] = {}
    for word in map(str, words):
        name, equals, value = word.partition("=")
        found.setdefault(name.lstrip("-"), []).append(value if equals else "true")
    return {name: " ".join(values) for name, values in found.items()}


def _flag_changes(
    component: str, flags: Mapping[str, str], extra: Mapping[str, str]
) -> tuple[Change, ...]:
    rendered = {**_FIXED[component], **extra}
    computed = _COMPUTED[component] - extra.keys()
    names = (flags.keys() | rendered.keys()) - computed
    return tuple(
        Change(name, shown(flags.get(name, ABSENT)), shown(rendered.get(name, ABSENT)))
        for name in sorted(names)
        if flags.get(name, ABSENT) != rendered.get(name, ABSENT)
    )


def _volume_changes(spec: Mapping[str, Any], section: Mapping[str, Any]) -> tuple[Change, ...]:
    configured = {str(_mapping(one).get("name")) for one in _list(section.get("extraVolumes"))}
    there = {
        str(one.get("name")): str(_mapping(one.get("hostPath")).get("path", "not of the host"))
        for one in map(_mapping, _list(spec.get("volumes")))
    }
    return tuple(
        Change(f"volumes.{name}", shown(path), "absent")
        for name, path in sorted(there.items())
        if name not in _VOLUMES | configured
    )


def _resource_changes(component: str, container: Mapping[str, Any]) -> tuple[Change, ...]:
    resources = _mapping(container.get("resources"))
    was = {f"requests.{k}": v for k, v in _mapping(resources.get("requests")).items()}
    was |= {f"limits.{k}": v for k, v in _mapping(resources.get("limits")).items()}
    will = {f"requests.{key}": value for key, value in _RESOURCES[component].items()}
    return differences(
        {f"resources.{key}": value for key, value in was.items()},
        {f"resources.{key}": value for key, value in will.items()},
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
