"""Static pods as kubeadm 1.23 and 1.24 render them from ClusterConfiguration.

Sources: cmd/kubeadm/app/phases/controlplane/manifests.go and volumes.go, phases/etcd/local.go,
util/staticpod/utils.go. Recorded manifests of every version hold it (tests/data/upgrade). What
must not be here: comparing (:mod:`appliance.model.upgrade.handmade.static_pods`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from appliance.model.upgrade.handmade.pod_form import items, mapping

COMPONENTS: Final = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
# In ClusterConfiguration: the section of each component.
_SECTIONS: Final = {
    "etcd": ("etcd", "local"),
    "kube-apiserver": ("apiServer",),
    "kube-controller-manager": ("controllerManager",),
    "kube-scheduler": ("scheduler",),
}
_ETCD_URL: Final = "kubeadm.kubernetes.io/etcd.advertise-client-urls"
_ENDPOINT: Final = "kubeadm.kubernetes.io/kube-apiserver.advertise-address.endpoint"
_RESOURCES: Final[Mapping[str, Mapping[str, str]]] = {
    "etcd": {"cpu": "100m", "memory": "100Mi"},
    "kube-apiserver": {"cpu": "250m"},
    "kube-controller-manager": {"cpu": "200m"},
    "kube-scheduler": {"cpu": "100m"},
}
# Mounted where the node has the folder (caCertsExtraVolumePaths).
_CERTIFICATES: Final = (
    "/etc/pki",
    "/usr/share/ca-certificates",
    "/usr/local/share/ca-certificates",
    "/etc/ca-certificates",
)
_FOLDER: Final = "DirectoryOrCreate"
_FILE: Final = "FileOrCreate"
_DURATION: Final = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6}(?:\.\d{1,9})?)s)?")


@dataclass(frozen=True)
class Rendered:
    """What kubeadm renders for one component.

    Attributes:
        flags: of its program, without dashes.
        pod: everything else; its image has no version.
    """

    flags: Mapping[str, str]
    pod: Mapping[str, Any]


def section_of(component: str, configured: object) -> Mapping[str, Any]:
    """What ClusterConfiguration says of a component."""
    found = mapping(configured)
    for key in _SECTIONS[component]:
        found = mapping(found.get(key))
    return found


def render(
    component: str, manifest: object, flags: Mapping[str, str], configured: object
) -> Rendered:
    """Render one component for the node of a manifest.

    Args:
        component: one of :data:`COMPONENTS`.
        manifest: as it is. What kubeadm takes from the node is taken from here: the address, which
            it reads in the pod's annotation too, and which folders with certificates there are.
        flags: of that manifest.
        configured: ClusterConfiguration.
    """
    cluster = mapping(configured)
    section = section_of(component, cluster)
    extra = {str(key): str(value) for key, value in mapping(section.get("extraArgs")).items()}
    spec = mapping(mapping(manifest).get("spec"))
    metadata = mapping(mapping(manifest).get("metadata"))
    notes, address, port = _endpoint(component, mapping(metadata.get("annotations")), flags)
    command = {**_ARGUMENTS[component](cluster, address, port), **extra}
    container: dict[str, Any] = {
        "name": component,
        "imagePullPolicy": "IfNotPresent",
        "resources": {"requests": _RESOURCES[component]},
        **_probes(component, extra, address, port, _timeout(cluster)),
    }
    mounts = [*_mounts(component, cluster, extra, spec), *_extra_mounts(section)]
    by_name = {name: (path, inside, only, kind) for name, path, inside, only, kind in mounts}
    container["volumeMounts"] = [
        {"name": name, "mountPath": inside, "readOnly": only}
        for name, (_, inside, only, _) in by_name.items()
    ]
    volumes = [
        {"name": name, "hostPath": {"path": path, "type": kind or None}}
        for name, (path, _, _, kind) in by_name.items()
    ]
    return Rendered(command, _pod(component, container, volumes, notes))


def _pod(
    component: str,
    container: Mapping[str, Any],
    volumes: list[dict[str, Any]],
    notes: Mapping[str, str],
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": component,
            "namespace": "kube-system",
            "labels": {"component": component, "tier": "control-plane"},
            "annotations": notes,
        },
        "spec": {
            "containers": [container],
            "hostNetwork": True,
            "priorityClassName": "system-node-critical",
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": volumes,
        },
    }


def _endpoint(
    component: str, notes: Mapping[str, Any], flags: Mapping[str, str]
) -> tuple[dict[str, str], str, str]:
    """The annotation that a component has, and the address and port that it says.

    An annotation that is gone is rendered from the arguments.
    """
    if component == "etcd":
        url = str(notes.get(_ETCD_URL) or flags.get("advertise-client-urls", ""))
        return {_ETCD_URL: url}, url.removeprefix("https://").rpartition(":")[0], ""
    if component != "kube-apiserver":
        return {}, "", ""
    if endpoint := str(notes.get(_ENDPOINT) or ""):
        host, _, port = endpoint.rpartition(":")
        return {_ENDPOINT: endpoint}, host.strip("[]"), port
    address, port = flags.get("advertise-address", ""), flags.get("secure-port", "6443")
    host = f"[{address}]" if ":" in address else address
    return {_ENDPOINT: f"{host}:{port}"}, address, port


def _folder(cluster: Mapping[str, Any]) -> str:
    return str(cluster.get("certificatesDir") or "/etc/kubernetes/pki")


def _network(cluster: Mapping[str, Any], key: str, default: str) -> str:
    return str(mapping(cluster.get("networking")).get(key) or default)


def _etcd(cluster: Mapping[str, Any], address: str, _port: str) -> dict[str, str]:
    pki, host = f"{_folder(cluster)}/etcd", "[::1]" if "[" in address else "127.0.0.1"
    client, peer = f"https://{address}:2379", f"https://{address}:2380"
    return {
        "advertise-client-urls": client,
        "cert-file": f"{pki}/server.crt",
        "client-cert-auth": "true",
        "data-dir": _data(cluster),
        "initial-advertise-peer-urls": peer,
        "key-file": f"{pki}/server.key",
        "listen-client-urls": f"https://{host}:2379,{client}",
        "listen-metrics-urls": f"http://{host}:2381",
        "listen-peer-urls": peer,
        "peer-cert-file": f"{pki}/peer.crt",
        "peer-client-cert-auth": "true",
        "peer-key-file": f"{pki}/peer.key",
        "peer-trusted-ca-file": f"{pki}/ca.crt",
        "snapshot-count": "10000",
        "trusted-ca-file": f"{pki}/ca.crt",
    }


def _data(cluster: Mapping[str, Any]) -> str:
    return str(section_of("etcd", cluster).get("dataDir") or "/var/lib/etcd")


def _api_server(cluster: Mapping[str, Any], address: str, port: str) -> dict[str, str]:
    pki = _folder(cluster)
    of_etcd = mapping(section_of("etcd", cluster).get("extraArgs"))
    local = f"https://{'[::1]' if ':' in address else '127.0.0.1'}:2379"
    return {
        "advertise-address": address,
        "allow-privileged": "true",
        "authorization-mode": "Node,RBAC",
        "client-ca-file": f"{pki}/ca.crt",
        "enable-admission-plugins": "NodeRestriction",
        "enable-bootstrap-token-auth": "true",
        "etcd-cafile": f"{pki}/etcd/ca.crt",
        "etcd-certfile": f"{pki}/apiserver-etcd-client.crt",
        "etcd-keyfile": f"{pki}/apiserver-etcd-client.key",
        "etcd-servers": str(of_etcd.get("advertise-client-urls") or local),
        "kubelet-client-certificate": f"{pki}/apiserver-kubelet-client.crt",
        "kubelet-client-key": f"{pki}/apiserver-kubelet-client.key",
        "kubelet-preferred-address-types": "InternalIP,ExternalIP,Hostname",
        "proxy-client-cert-file": f"{pki}/front-proxy-client.crt",
        "proxy-client-key-file": f"{pki}/front-proxy-client.key",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-username-headers": "X-Remote-User",
        "secure-port": port,
        "service-account-issuer": "https://kubernetes.default.svc."
        + _network(cluster, "dnsDomain", "cluster.local"),
        "service-account-key-file": f"{pki}/sa.pub",
        "service-account-signing-key-file": f"{pki}/sa.key",
        "service-cluster-ip-range": _network(cluster, "serviceSubnet", "10.96.0.0/12"),
        "tls-cert-file": f"{pki}/apiserver.crt",
        "tls-private-key-file": f"{pki}/apiserver.key",
    }


def _controller_manager(cluster: Mapping[str, Any], _address: str, _port: str) -> dict[str, str]:
    pki, login = _folder(cluster), "/etc/kubernetes/controller-manager.conf"
    found = {
        "authentication-kubeconfig": login,
        "authorization-kubeconfig": login,
        "bind-address": "127.0.0.1",
        "client-ca-file": f"{pki}/ca.crt",
        "cluster-name": str(cluster.get("clusterName") or "kubernetes"),
        "cluster-signing-cert-file": f"{pki}/ca.crt",
        "cluster-signing-key-file": f"{pki}/ca.key",
        "controllers": "*,bootstrapsigner,tokencleaner",
        "kubeconfig": login,
        "leader-elect": "true",
        "requestheader-client-ca-file": f"{pki}/front-proxy-ca.crt",
        "root-ca-file": f"{pki}/ca.crt",
        "service-account-private-key-file": f"{pki}/sa.key",
        "use-service-account-credentials": "true",
    }
    if pods := _network(cluster, "podSubnet", ""):
        found |= {
            "allocate-node-cidrs": "true",
            "cluster-cidr": pods,
            "service-cluster-ip-range": _network(cluster, "serviceSubnet", "10.96.0.0/12"),
        }
    return found


def _scheduler(_cluster: Mapping[str, Any], _address: str, _port: str) -> dict[str, str]:
    login = "/etc/kubernetes/scheduler.conf"
    return {
        "authentication-kubeconfig": login,
        "authorization-kubeconfig": login,
        "bind-address": "127.0.0.1",
        "kubeconfig": login,
        "leader-elect": "true",
    }


_ARGUMENTS: Final = {
    "etcd": _etcd,
    "kube-apiserver": _api_server,
    "kube-controller-manager": _controller_manager,
    "kube-scheduler": _scheduler,
}


def _timeout(cluster: Mapping[str, Any]) -> float:
    """Seconds that ClusterConfiguration gives the control plane to start; by default 240."""
    text = str(section_of("kube-apiserver", cluster).get("timeoutForControlPlane") or "")
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        return 240.0
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return hours * 3600 + minutes * 60 + seconds


def _probes(
    component: str, extra: Mapping[str, str], address: str, port: str, timeout: float
) -> dict[str, Any]:
    if component == "kube-apiserver":
        host, number, scheme, path = address, _number(port), "HTTPS", "/livez"
    elif component == "etcd":
        host, number, scheme = _metrics(extra, "::1" if "[" in address else "127.0.0.1")
        path = "/health"
    else:
        number = 10257 if component == "kube-controller-manager" else 10259
        host, scheme, path = extra.get("bind-address", "127.0.0.1"), "HTTPS", "/healthz"
    if component != "etcd" and host in ("0.0.0.0", "::"):  # noqa: S104  (kubeadm leaves it out)
        host = ""
    asks = {"host": host, "path": path, "port": number, "scheme": scheme}
    alive = {"httpGet": asks, "initialDelaySeconds": 10, "periodSeconds": 10, "timeoutSeconds": 15}
    found: dict[str, Any] = {
        "livenessProbe": {**alive, "failureThreshold": 8},
        "startupProbe": {**alive, "failureThreshold": math.ceil(timeout / 10)},
    }
    if component == "kube-apiserver":
        ready = {"failureThreshold": 3, "periodSeconds": 1, "timeoutSeconds": 15}
        found["readinessProbe"] = {"httpGet": {**asks, "path": "/readyz"}, **ready}
    return found


def _metrics(extra: Mapping[str, str], localhost: str) -> tuple[str, int, str]:
    """Where the probes of etcd ask: the first of its addresses for metrics."""
    if "listen-metrics-urls" not in extra:
        return localhost, 2381, "HTTP"
    try:
        url = urlsplit(extra["listen-metrics-urls"].partition(",")[0])
        host, port = url.hostname or localhost, url.port or 2381
    except ValueError:
        return localhost, 2381, "HTTP"
    return host, port, "HTTPS" if url.scheme == "https" else "HTTP"


def _number(port: str) -> object:
    return int(port) if port.isdecimal() and len(port) < 6 else port


def _mounts(
    component: str, cluster: Mapping[str, Any], extra: Mapping[str, str], spec: Mapping[str, Any]
) -> list[tuple[str, str, str, bool, str]]:
    """Name, path on the host and in the container, whether read only, and type of the path."""
    pki = _folder(cluster)
    if component == "etcd":
        data = _data(cluster)
        certificates = ("etcd-certs", f"{pki}/etcd", f"{pki}/etcd", False, _FOLDER)
        return [("etcd-data", data, data, False, _FOLDER), certificates]
    found = []
    if component != "kube-scheduler":
        there = {str(mapping(one).get("name")) for one in items(spec.get("volumes"))}
        paths = {"ca-certs": "/etc/ssl/certs", "k8s-certs": pki}
        named = {path[1:].replace("/", "-"): path for path in _CERTIFICATES}
        paths |= {name: path for name, path in named.items() if name in there}
        found += [(name, path, path, True, _FOLDER) for name, path in paths.items()]
    if component == "kube-controller-manager":
        plugins = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec"
        plugins = extra.get("flex-volume-plugin-dir", plugins)
        found.append(("flexvolume-dir", plugins, plugins, False, _FOLDER))
    if component != "kube-apiserver":
        login = f"/etc/kubernetes/{component.removeprefix('kube-')}.conf"
        found.append(("kubeconfig", login, login, True, _FILE))
    return found


def _extra_mounts(section: Mapping[str, Any]) -> list[tuple[str, str, str, bool, str]]:
    return [
        (
            str(one.get("name")),
            str(one.get("hostPath")),
            str(one.get("mountPath")),
            one.get("readOnly") is True,
            str(one.get("pathType") or ""),
        )
        for one in map(mapping, items(section.get("extraVolumes")))
    ]
