"""STANDIN: a ClusterPolicy's specification -> the DaemonSets that the GPU Operator would make.

Names, labels, order and the images' places are those of GPU Operator 22.9.2; what runs in them is
not. Pure: no call to anything.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

HASH = "nvidia.com/last-applied-hash"
# Operand -> key of the ClusterPolicy's specification, DaemonSet, suffix of its deploy label.
OPERANDS = {
    "driver": ("driver", "nvidia-driver-daemonset", "driver"),
    "toolkit": ("toolkit", "nvidia-container-toolkit-daemonset", "container-toolkit"),
    "validation": ("validator", "nvidia-operator-validator", "operator-validator"),
    "device-plugin": ("devicePlugin", "nvidia-device-plugin-daemonset", "device-plugin"),
    "dcgm-exporter": ("dcgmExporter", "nvidia-dcgm-exporter", "dcgm-exporter"),
    "gfd": ("gfd", "gpu-feature-discovery", "gpu-feature-discovery"),
}
# They read the device plugin's configuration, each node that of its label.
CONFIGURED = ("device-plugin", "gfd")
AVAILABLE, CONFIG_FILE = "/available-configs", "/config/config.yaml"
MANAGER = "/usr/bin/config-manager"
DEPLOY = "nvidia.com/gpu.deploy."
OPERANDS_OFF = "nvidia.com/gpu.deploy.operands"
PRESENT = "nvidia.com/gpu.present"
PCI = "feature.node.kubernetes.io/pci-10de.present"
PLUGINS = "/var/lib/kubelet/device-plugins"
FEATURES = "/etc/kubernetes/node-feature-discovery/features.d"
STATE = "/var/lib/standin-gpus"
FACTS = "/etc/appliance-lab/facts"
VALIDATIONS = "/run/nvidia/validations"
DRIVER_SYSTEM = "ubuntu20.04"


def node_labels(labels: Mapping[str, str]) -> dict[str, str | None]:
    """Return the labels of ours that a node lacks (or has and must lose: None)."""
    present = labels.get(PCI) == "true"
    serves = present and labels.get(OPERANDS_OFF) != "false"
    wanted: dict[str, str | None] = {PRESENT: "true" if present else None}
    for _, _, suffix in OPERANDS.values():
        wanted[DEPLOY + suffix] = "true" if serves else None
    return {key: value for key, value in wanted.items() if labels.get(key) != value}


def image_of(spec: Mapping[str, Any], suffix: str = "") -> str:
    """Return the image that a part of the specification names; a digest takes no suffix."""
    place, version = f"{spec['repository']}/{spec['image']}", str(spec["version"])
    return f"{place}@{version}" if version.startswith("sha256:") else f"{place}:{version}{suffix}"


def is_enabled(name: str, policy: Mapping[str, Any]) -> bool:
    """Return whether an operand is asked for; the validator always is."""
    spec = policy["spec"].get(OPERANDS[name][0]) or {}
    return name == "validation" or spec.get("enabled", True) is not False


def daemonset(name: str, policy: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return one operand's DaemonSet."""
    key, title, suffix = OPERANDS[name]
    spec = policy["spec"]
    common = spec.get("daemonsets") or {}
    image = image_of(spec[key], f"-{DRIVER_SYSTEM}" if name == "driver" else "")
    labels = {"app": title, "app.kubernetes.io/part-of": "gpu-operator", "standin": "true"}
    metadata: dict[str, Any] = {"name": title, "namespace": namespace, "labels": labels}
    metadata["ownerReferences"] = [_owner(policy)]
    pod: dict[str, Any] = {
        "serviceAccountName": "gpu-operator",
        "nodeSelector": {DEPLOY + suffix: "true"},
        "tolerations": common.get("tolerations") or [],
        "priorityClassName": common.get("priorityClassName") or "system-node-critical",
        "terminationGracePeriodSeconds": 1,
        "initContainers": _init_containers(name, spec),
        "containers": [_container(name, title, image, spec)],
        "volumes": [_folder(n, p) for n, p in _VOLUMES.items() if n in _NEEDS.get(name, ())],
    }
    if name in CONFIGURED and (config := _plugin_config(spec)):
        pod["volumes"] += [
            {"name": "available-configs", "configMap": {"name": config[0]}},
            {"name": "config", "emptyDir": {}},
        ]
        pod["shareProcessNamespace"] = True
        pod["initContainers"].append(_manager(name, image, config[1], once=True))
        pod["containers"].append(_manager(name, image, config[1], once=False))
    body = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": metadata,
        "spec": {
            "selector": {"matchLabels": {"app": title}},
            "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }
    text = json.dumps(body, sort_keys=True)
    metadata["annotations"] = {HASH: hashlib.sha256(text.encode()).hexdigest()[:16]}
    return body


_VOLUMES = {
    "plugins": PLUGINS,
    "state": STATE,
    "facts": FACTS,
    "features": FEATURES,
    "validations": VALIDATIONS,
}
_NEEDS = {
    "device-plugin": ("plugins", "state", "facts"),
    "gfd": ("state", "facts", "features"),
    "validation": ("validations", "facts"),
}


def _folder(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}}


def _owner(policy: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": policy["apiVersion"],
        "kind": policy["kind"],
        "name": policy["metadata"]["name"],
        "uid": policy["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _plugin_config(spec: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the ConfigMap of the device plugin and the key in it, or None."""
    config = (spec.get("devicePlugin") or {}).get("config") or {}
    if not config.get("name"):
        return None
    return config["name"], config.get("default") or ""


def _mounts(name: str) -> list[dict[str, Any]]:
    return [{"name": n, "mountPath": _VOLUMES[n]} for n in _NEEDS.get(name, ())]


_NODE_NAME = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}


def _container(name: str, title: str, image: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    environment = [_NODE_NAME, {"name": "RUNTIME", "value": _runtime(spec)}]
    mounts = _mounts(name)
    if name in CONFIGURED:
        strategy = (spec.get("mig") or {}).get("strategy") or "none"
        environment.append({"name": "MIG_STRATEGY", "value": strategy})
    if name in CONFIGURED and (config := _plugin_config(spec)):
        environment.append({"name": "CONFIG_DIR", "value": AVAILABLE})
        environment.append({"name": "CONFIG_DEFAULT", "value": config[1]})
        environment.append({"name": "CONFIG_FILE", "value": CONFIG_FILE})
        mounts += _CONFIG_MOUNTS
    arguments = {"validation": ["wait"], "gfd": ["gfd"]}.get(name, [])
    return {
        "name": title,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "args": arguments,
        "env": environment,
        "volumeMounts": mounts,
    }


# The configurations to choose from, and the one that the config manager chose.
_CONFIG_MOUNTS = [
    {"name": "available-configs", "mountPath": AVAILABLE},
    {"name": "config", "mountPath": CONFIG_FILE.rpartition("/")[0]},
]


# NVIDIA's own program of each, which the config manager signals after a change.
_PROGRAMS = {"device-plugin": "nvidia-device-plugin", "gfd": "gpu-feature-discovery"}


def _manager(name: str, image: str, default: str, *, once: bool) -> dict[str, Any]:
    """NVIDIA's config manager: puts the configuration of the node's label where an operand reads.

    The environment is that of NVIDIA/k8s-device-plugin v0.13.0 and v0.18.2,
    cmd/config-manager/main.go.
    """
    values = {
        "ONESHOT": "true" if once else "false",
        "NODE_LABEL": "nvidia.com/device-plugin.config",
        "CONFIG_FILE_SRCDIR": AVAILABLE,
        "CONFIG_FILE_DST": CONFIG_FILE,
        "DEFAULT_CONFIG": default,
        "FALLBACK_STRATEGIES": "empty",
        "SEND_SIGNAL": "false" if once else "true",
        "SIGNAL": "1",
        "PROCESS_TO_SIGNAL": _PROGRAMS[name],
    }
    return {
        "name": "config-manager-init" if once else "config-manager",
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "command": [MANAGER],
        "env": [_NODE_NAME, *({"name": key, "value": value} for key, value in values.items())],
        "volumeMounts": _CONFIG_MOUNTS,
    }


def _runtime(spec: Mapping[str, Any]) -> str:
    return str((spec.get("operator") or {}).get("defaultRuntime") or "")


def _init_containers(name: str, spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    if name == "driver":
        manager = (spec["driver"].get("manager")) or {}
        return [{"name": "k8s-driver-manager", "image": image_of(manager), "args": ["once"]}]
    if name == "toolkit":
        init = (spec.get("operator") or {}).get("initContainer") or {}
        return [{"name": "driver-validation", "image": image_of(init), "command": ["true"]}]
    if name != "validation":
        return []
    return [
        {
            "name": f"{part}-validation",
            "image": image_of(spec["validator"]),
            "args": [part],
            "env": [_NODE_NAME],
            "volumeMounts": _mounts(name),
        }
        for part in ("driver", "toolkit", "cuda", "plugin")
    ]


def is_rolled_out(daemonset: Mapping[str, Any]) -> bool:
    """Return whether every pod of a DaemonSet is of the newest template, and ready."""
    status = daemonset.get("status") or {}
    wanted = status.get("desiredNumberScheduled", 0)
    newest = status.get("observedGeneration") == daemonset["metadata"].get("generation")
    counted = (status.get("numberReady", 0), status.get("updatedNumberScheduled", 0))
    return bool(newest and counted == (wanted, wanted))
