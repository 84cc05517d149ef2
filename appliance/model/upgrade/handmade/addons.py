"""CoreDNS and kube-proxy that differ from what kubeadm renders: what was changed by hand is found.

The templates are those of kubeadm 1.23 and 1.24 (cmd/kubeadm/app/phases/addons/dns/manifests.go and
proxy/manifests.go), which are the same. kubeadm replaces the whole object, but it keeps CoreDNS'
replicas and Corefile (dns.go), and kube-proxy's ConfigMap without ``--config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.images import image_changes
from appliance.model.upgrade.handmade.pod_form import (
    mapping,
    metadata,
    own_container,
    pod_settings,
    said,
)
from appliance.model.upgrade.handmade.settings_diff import Change, differences

_LINUX: Final = {"kubernetes.io/os": "linux"}
_DNS: Final = {"k8s-app": "kube-dns"}
_PROXY: Final = {"k8s-app": "kube-proxy"}
_COREDNS: Final[Mapping[str, Any]] = {
    "metadata": {"name": "coredns", "namespace": "kube-system", "labels": _DNS},
    "spec": {
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "selector": {"matchLabels": _DNS},
        "template": {
            "metadata": {"labels": _DNS},
            "spec": {
                "priorityClassName": "system-cluster-critical",
                "serviceAccountName": "coredns",
                "tolerations": [
                    {"key": "CriticalAddonsOnly", "operator": "Exists"},
                    # Both names of the role: 1.23 renders both, 1.24 too.
                    {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"},
                    {"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
                ],
                "nodeSelector": _LINUX,
                "containers": [
                    {
                        "name": "coredns",
                        "imagePullPolicy": "IfNotPresent",
                        "resources": {
                            "limits": {"memory": "170Mi"},
                            "requests": {"cpu": "100m", "memory": "70Mi"},
                        },
                        "args": ["-conf", "/etc/coredns/Corefile"],
                        "volumeMounts": [
                            {"name": "config-volume", "mountPath": "/etc/coredns", "readOnly": True}
                        ],
                        "ports": [
                            {"containerPort": 53, "name": "dns", "protocol": "UDP"},
                            {"containerPort": 53, "name": "dns-tcp"},
                            {"containerPort": 9153, "name": "metrics"},
                        ],
                        "livenessProbe": {
                            "httpGet": {"path": "/health", "port": 8080},
                            "initialDelaySeconds": 60,
                            "timeoutSeconds": 5,
                            "failureThreshold": 5,
                        },
                        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}},
                        "securityContext": {
                            "allowPrivilegeEscalation": False,
                            "capabilities": {"add": ["NET_BIND_SERVICE"], "drop": ["all"]},
                            "readOnlyRootFilesystem": True,
                        },
                    }
                ],
                "dnsPolicy": "Default",
                "volumes": [
                    {
                        "name": "config-volume",
                        "configMap": {
                            "name": "coredns",
                            "items": [{"key": "Corefile", "path": "Corefile"}],
                        },
                    }
                ],
            },
        },
    },
}
_KUBE_PROXY: Final[Mapping[str, Any]] = {
    "metadata": {"name": "kube-proxy", "namespace": "kube-system", "labels": _PROXY},
    "spec": {
        "selector": {"matchLabels": _PROXY},
        # The API server fills in that one pod at a time is replaced.
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {
            "metadata": {"labels": _PROXY},
            "spec": {
                "priorityClassName": "system-node-critical",
                "containers": [
                    {
                        "name": "kube-proxy",
                        "imagePullPolicy": "IfNotPresent",
                        "command": [
                            "/usr/local/bin/kube-proxy",
                            "--config=/var/lib/kube-proxy/config.conf",
                            "--hostname-override=$(NODE_NAME)",
                        ],
                        "securityContext": {"privileged": True},
                        "volumeMounts": [
                            {"mountPath": "/var/lib/kube-proxy", "name": "kube-proxy"},
                            {"mountPath": "/run/xtables.lock", "name": "xtables-lock"},
                            {"mountPath": "/lib/modules", "name": "lib-modules", "readOnly": True},
                        ],
                        "env": [
                            {
                                "name": "NODE_NAME",
                                "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                            }
                        ],
                    }
                ],
                "hostNetwork": True,
                "serviceAccountName": "kube-proxy",
                "volumes": [
                    {"name": "kube-proxy", "configMap": {"name": "kube-proxy"}},
                    {
                        "name": "xtables-lock",
                        "hostPath": {"path": "/run/xtables.lock", "type": "FileOrCreate"},
                    },
                    {"name": "lib-modules", "hostPath": {"path": "/lib/modules"}},
                ],
                "tolerations": [{"operator": "Exists"}],
                "nodeSelector": _LINUX,
            },
        },
    },
}


def coredns_changes(deployment: object, configured: object, newest: str = "") -> tuple[Change, ...]:
    """What differs from kubeadm's Deployment, but for the replicas that kubeadm keeps.

    Args:
        deployment: as the API returns it.
        configured: ClusterConfiguration.
        newest: the version of CoreDNS to which an upgrade leads; empty: it is not compared.
    """
    return _changes(deployment, "coredns", _COREDNS, configured, newest)


def kube_proxy_changes(daemon_set: object, configured: object) -> tuple[Change, ...]:
    """What differs from kubeadm's DaemonSet; arguments as for CoreDNS."""
    return _changes(daemon_set, "kube-proxy", _KUBE_PROXY, configured, "")


def _changes(
    document: object, name: str, rendered: Mapping[str, Any], configured: object, newest: str
) -> tuple[Change, ...]:
    found = mapping(document)
    was, will = _settings(found, name), _settings(rendered, name)
    was.pop("container.image", None)
    template = mapping(mapping(found.get("spec")).get("template"))
    image = own_container(mapping(template.get("spec")), name).get("image")
    return (*image_changes(name, image, configured, newest), *differences(was, will))


def _settings(workload: Mapping[str, Any], name: str) -> dict[str, Any]:
    spec = mapping(workload.get("spec"))
    rest = {key: value for key, value in spec.items() if key not in ("template", "replicas")}
    return {
        **said({"metadata": metadata(workload), "spec": rest}),
        **pod_settings(mapping(spec.get("template")), name),
    }
