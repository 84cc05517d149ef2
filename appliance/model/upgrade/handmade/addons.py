"""CoreDNS and kube-proxy as kubeadm renders them: what was changed by hand is found.

The defaults are those of kubeadm 1.23 and 1.24 (cmd/kubeadm/app/phases/addons, manifests.go).
CoreDNS' replicas and Corefile are kept by kubeadm, and kube-proxy's ConfigMap without ``--config``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from appliance.model.upgrade.handmade.settings_diff import Change, differences, flat

_LINUX: Final = {"kubernetes.io/os": "linux"}
# Both names of the role: 1.23 renders both, 1.24 too.
_MASTERS: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
_COREDNS: Final[Mapping[str, Any]] = {
    "resources": {"limits": {"memory": "170Mi"}, "requests": {"cpu": "100m", "memory": "70Mi"}},
    "args": ["-conf", "/etc/coredns/Corefile"],
    "nodeSelector": _LINUX,
    "priorityClassName": "system-cluster-critical",
    "tolerations": sorted(["CriticalAddonsOnly::", *(f"{role}::NoSchedule" for role in _MASTERS)]),
}
_KUBE_PROXY: Final[Mapping[str, Any]] = {
    "command": [
        "/usr/local/bin/kube-proxy",
        "--config=/var/lib/kube-proxy/config.conf",
        "--hostname-override=$(NODE_NAME)",
    ],
    "env": {"NODE_NAME": {"fieldRef": "spec.nodeName"}},
    "nodeSelector": _LINUX,
    "priorityClassName": "system-node-critical",
    "tolerations": ["::"],
}
_PROXIES: Final = ("http_proxy", "https_proxy", "no_proxy", "ftp_proxy", "all_proxy")


def coredns_changes(deployment: object) -> tuple[Change, ...]:
    """What differs from kubeadm's Deployment, but for what kubeadm keeps."""
    return _changes(deployment, "coredns", _COREDNS)


def kube_proxy_changes(daemon_set: object) -> tuple[Change, ...]:
    """What differs from kubeadm's DaemonSet."""
    return _changes(daemon_set, "kube-proxy", _KUBE_PROXY)


def _changes(document: object, container: str, rendered: Mapping[str, Any]) -> tuple[Change, ...]:
    pod = _mapping(_mapping(_mapping(_mapping(document).get("spec")).get("template")).get("spec"))
    containers = [_mapping(one) for one in _list(pod.get("containers"))]
    own = next((one for one in containers if one.get("name") == container), {})
    was = {
        "containers": [str(one.get("name")) for one in containers],
        "resources": _mapping(own.get("resources")),
        "args": _list(own.get("args")),
        "command": _list(own.get("command")),
        "env": environment(own),
        "nodeSelector": _mapping(pod.get("nodeSelector")),
        "priorityClassName": pod.get("priorityClassName"),
        "tolerations": sorted(_toleration(_mapping(one)) for one in _list(pod.get("tolerations"))),
    }
    will = {"args": [], "command": [], "containers": [container], **rendered}
    return differences(_said(was), _said(will))


def _said(document: Mapping[str, Any]) -> dict[str, Any]:
    """Flat, without what says nothing."""
    return {key: value for key, value in flat(document).items() if value not in ([], {}, None)}


def environment(container: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value of a container's environment; kubeadm passes its own proxies on."""
    found: dict[str, Any] = {}
    for one in map(_mapping, _list(container.get("env"))):
        name, source = str(one.get("name")), _mapping(one.get("valueFrom"))
        field = _mapping(source.get("fieldRef")).get("fieldPath")
        if name.lower() not in _PROXIES:
            found[name] = {"fieldRef": field} if field else one.get("value", source or "")
    return found


def _toleration(one: Mapping[str, Any]) -> str:
    return ":".join(str(one.get(key) or "") for key in ("key", "value", "effect"))


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
