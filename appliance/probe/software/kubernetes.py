"""The parts of a cluster on this node, complete or not: kubernetes, cni."""

from __future__ import annotations

import base64
import json
import os
import re
from functools import partial
from typing import Any, Dict, List, Optional

from ..certificates.certificates import describe, describe_pem, digest_of_file
from ..services.wire import https_status
from ..source import Source

MANIFESTS = "/etc/kubernetes/manifests"
PKI = "/etc/kubernetes/pki"
ETCD_DATA = "/var/lib/etcd"
KUBELET_CONFIG = "/var/lib/kubelet/config.yaml"
KUBECONFIGS = ("admin", "kubelet", "controller-manager", "scheduler", "bootstrap-kubelet")
HEALTH_URL = "https://127.0.0.1:6443/healthz"
# Written by role api_oidc: the issuer's CA, and a mark while flags are being changed.
OIDC_CA = PKI + "/appliance-oidc-ca.crt"
CHANGE_MARK = "/etc/kubernetes/appliance/api-server/change.json"
# Written by role kubernetes_certificates: exists while certificates are renewed.
RENEWAL_MARK = "/etc/kubernetes/appliance/certificates/renewal.json"
# Written by role kubelet_certificate: exists while the kubelet's own is renewed.
KUBELET_RENEWAL_MARK = "/etc/kubernetes/appliance/certificates/kubelet.json"
# Written by role node_reset; exists from its first step to its last.
RESET_MARK = "/var/lib/appliance/node-reset.json"
SUBNET_FILE = "/run/flannel/subnet.env"
KUBELET_KEYS = (
    "cgroupDriver", "clusterDNS", "clusterDomain", "failSwapOn", "staticPodPath",
    "rotateCertificates", "resolvConf", "maxPods", "imageGCHighThresholdPercent",
)  # fmt: skip


def kubernetes(source: Source, kubelet_active: bool) -> Dict[str, Any]:
    """Return versions, static pods, certificates, kubeconfigs, etcd data, kubelet settings."""
    versions = (
        ("kubeadm_version", ["kubeadm", "version", "-o", "short"]),
        ("kubelet_version", ["kubelet", "--version"]),
        ("kubectl_version", ["kubectl", "version", "--client", "--short"]),
    )
    calls: List[Any] = [partial(_version, source, key, argv) for key, argv in versions]
    calls += [
        lambda: _pki(source),
        lambda: _kubeconfigs(source),
        lambda: _health(source),
    ]
    answers = source.together(calls)
    if answers[3] is None or answers[4] is None:
        # An empty list would make a member look like a bare node.
        raise TimeoutError("no answer before the deadline")
    found: Dict[str, Any] = {key: answers[i] for i, (key, _) in enumerate(versions)}
    found.update(
        {
            "kubelet_active": kubelet_active,
            "manifests": _yaml_names(source, MANIFESTS),
            "pki": answers[3],
            "kubeconfigs": answers[4],
            "etcd_data": _etcd_data(source),
            "kubelet_config": _kubelet_config(source),
            "bootstrap_kubeconfig": source.exists("/etc/kubernetes/bootstrap-kubelet.conf"),
            "api_healthz": answers[5],
            "node_ip": _flag(source, "node-ip"),
            "kubeadm_flags": _flag(source, None),
            "apiserver": _apiserver(source),
            "reset_begun": _reset_begun(source),
            "renewal_begun": source.exists(RENEWAL_MARK),
            "kubelet_renewal_begun": source.exists(KUBELET_RENEWAL_MARK),
            "kubeadm_config": source.exists("/etc/kubernetes/appliance-kubeadm.yaml"),
        }
    )
    return found


def _reset_begun(source: Source) -> Optional[Dict[str, Any]]:
    """Return the cluster membership recorded by an unfinished reset of this machine."""
    text = source.text(RESET_MARK) if source.exists(RESET_MARK) else None
    if text is None:
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    found = found if isinstance(found, dict) else {}
    return {key: str(found.get(key) or "")[:64] for key in ("node", "ca_sha256")}


def _yaml_names(source: Source, folder: str) -> List[str]:
    return [name for name in source.names(folder) if name.endswith((".yaml", ".yml", ".json"))]


def _version(source: Source, key: str, argv: List[str]) -> Optional[str]:
    text = source.command(key.replace("_", "-"), argv, quiet=True)
    match = re.search(r"v\d+\.\d+\.\d+\S*", text or "")
    return match.group(0) if match else None


def _pki(source: Source) -> List[Dict[str, Any]]:
    paths = [
        "%s/%s" % (folder, name)
        for folder in (PKI, PKI + "/etcd")
        for name in source.names(folder)
        if name.endswith(".crt")
    ]
    kubelet = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    calls: List[Any] = [
        partial(describe, source, path, path[: -len(".crt")] + ".key") for path in paths
    ]
    if source.exists(kubelet):
        calls.append(lambda: describe(source, kubelet, kubelet))
    found = source.all_together(calls)
    alone = [
        "%s/%s" % (folder, name)
        for folder in (PKI, PKI + "/etcd")
        for name in source.names(folder)
        if name.endswith(".key") and name != "sa.key"
    ]
    missing = [key for key in alone if key[: -len(".key")] + ".crt" not in paths]
    found += [{"path": key[:-4] + ".crt", "error": "key without certificate"} for key in missing]
    return sorted(found, key=lambda entry: str(entry["path"]))


def _kubeconfigs(source: Source) -> List[Dict[str, Any]]:
    """Name, server and client certificate of each kubeconfig; never a key or a token."""
    calls = [
        partial(_kubeconfig, source, name)
        for name in KUBECONFIGS
        if source.exists("/etc/kubernetes/%s.conf" % name)
    ]
    return source.all_together(calls)


def _kubeconfig(source: Source, name: str) -> Dict[str, Any]:
    text = source.text("/etc/kubernetes/%s.conf" % name) or ""
    server = re.search(r"^\s*server:\s*(\S+)", text, re.MULTILINE)
    path = "/etc/kubernetes/%s.conf" % name
    found: Dict[str, Any] = {"path": path, "server": server.group(1) if server else None}
    data = re.search(r"^\s*client-certificate-data:\s*(\S+)", text, re.MULTILINE)
    if data:
        try:
            pem = base64.b64decode(data.group(1)).decode("ascii", "replace")
        except ValueError:
            found["error"] = "client certificate is not base64"
            return found
        facts = describe_pem(source, "kubeconfig-" + name, pem)
        found.update({k: facts[k] for k in ("subject", "not_after", "error") if k in facts})
    return found


def _etcd_data(source: Source) -> Dict[str, Any]:
    total = 0
    member = source.exists(ETCD_DATA + "/member")
    for folder, _, files in os.walk(str(source.path(ETCD_DATA))):
        for file in files:
            try:
                total += os.lstat(os.path.join(folder, file)).st_size  # noqa: PTH118
            except OSError:
                continue  # etcd removed it while we looked
    return {"present": bool(total) or member, "bytes": total, "member_dir": member}


def _kubelet_config(source: Source) -> Optional[Dict[str, Any]]:
    """Return the settings we need from the kubelet's file, as kubeadm writes it."""
    text = source.text(KUBELET_CONFIG)
    if text is None:
        return None
    found: Dict[str, Any] = {}
    key = ""
    for line in text.splitlines():
        pair = re.match(r"(\w+):\s*(.*)$", line)
        item = re.match(r"\s*-\s+(\S+)\s*$", line)
        if pair:
            key = pair.group(1)
            found[key] = _scalar(pair.group(2))
        elif item and key:
            so_far = found[key] if isinstance(found[key], list) else []
            found[key] = [*so_far, _scalar(item.group(1))]
    return {key: found[key] for key in KUBELET_KEYS if key in found}


def _scalar(text: str) -> Any:
    text = text.strip().strip("\"'")
    if text in ("true", "false"):
        return text == "true"
    return int(text) if re.match(r"-?\d+$", text) else (text or None)


def _flag(source: Source, name: Optional[str]) -> Optional[str]:
    text = source.word("/var/lib/kubelet/kubeadm-flags.env")
    if text is None or name is None:
        return text.partition("=")[2].strip('"') if text else None
    match = re.search(r"--%s=(\S+?)[\"\s]" % name, text + " ")
    return match.group(1) if match else None


def _apiserver(source: Source) -> Optional[Dict[str, Any]]:
    """Return the settings of the API server's static pod."""
    text = source.text(MANIFESTS + "/kube-apiserver.yaml")
    if text is None:
        return None
    found: Dict[str, Any] = {
        "oidc": dict(re.findall(r"^\s*- \"?--(oidc-[a-z-]+)=([^\s\"]+)\"?$", text, re.MULTILINE)),
        "oidc_ca_sha256": digest_of_file(source, OIDC_CA),
        "change_unfinished": source.exists(CHANGE_MARK),
    }
    for key, flag in (
        ("advertise_address", "advertise-address"),
        ("service_cidr", "service-cluster-ip-range"),
        ("etcd_servers", "etcd-servers"),
    ):
        match = re.search(r"--%s=(\S+)" % flag, text)
        found[key] = match.group(1) if match else None
    image = re.search(r"image:\s*(\S+)", text)
    found["image"] = image.group(1) if image else None
    return found


def _health(source: Source) -> Optional[Dict[str, Any]]:
    if not source.exists(MANIFESTS + "/kube-apiserver.yaml"):
        return None
    # Its certificate does not name 127.0.0.1, but always "kubernetes".
    return https_status(source, "api-healthz", HEALTH_URL, ca=PKI + "/ca.crt", name="kubernetes")


def cni(source: Source, interfaces: Dict[str, Any]) -> Dict[str, Any]:
    """Return the pod network's files and interfaces, and leftovers of an earlier cluster."""
    subnet = None
    for line in source.lines(SUBNET_FILE):
        if line.startswith("FLANNEL_SUBNET="):
            subnet = line.split("=", 1)[1]
    paths = ("/var/lib/cni", "/var/lib/calico", "/var/lib/weave", "/run/flannel", "/etc/calico")
    return {
        "conf": [n for n in source.names("/etc/cni/net.d") if not n.endswith(".bak")],
        "bin": source.names("/opt/cni/bin"),
        "interfaces": interfaces,
        "leftovers": [path for path in paths if source.names(path)],
        "flannel_subnet": subnet,
    }
