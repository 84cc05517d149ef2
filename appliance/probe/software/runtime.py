"""The container runtime: runtime."""

from __future__ import annotations

import json
import re
from typing import Any, Dict, List, Optional, Set

from ..source import Source
from .unused_docker import images_only_here

DOCKER_SOCKET = "/run/docker.sock"
# Contains a folder for each namespace that ever had containers, with one for each that runs: moby
# is Docker's, k8s.io the kubelet's.
CONTAINERD_CONFIG = "/etc/containerd/config.toml"
CONTAINERD_TASKS = "/run/containerd/io.containerd.runtime.v2.task"
# A folder for each container of the kubelet's that runs, and for each pod's sandbox.
KUBELETS_TASKS = CONTAINERD_TASKS + "/k8s.io"
# A folder for each container of Docker's that runs: of the system's containerd, or its own.
OUTLIVING = (
    CONTAINERD_TASKS + "/moby",
    "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
)
# Of a container that runs nothing.
AT_REST = ("created", "exited", "dead")
# Of a container that would end with Docker.
GOING = ("running", "paused", "restarting")
POD_LABEL = "io.kubernetes.pod.uid"
STORAGE_DRIVERS = ("overlay2", "overlay", "aufs", "devicemapper", "btrfs", "zfs", "vfs")
DU_SECONDS = 5
DAEMON_JSON = "/etc/docker/daemon.json"
# Keys of daemon.json that may carry credentials or addresses with them.
HIDDEN_KEYS = ("log-opts", "proxies")


def runtime(source: Source) -> Dict[str, Any]:
    """Return the answers of Docker and containerd, and Docker's configuration file."""
    docker = _daemon_json(source)
    data_root = docker["data_root"] or "/var/lib/docker"
    inside = source.names(data_root)
    docker["data_present"] = bool(inside)
    docker["data_drivers"] = [name for name in inside if name in STORAGE_DRIVERS]
    docker["data_containers"] = len(source.names(data_root + "/containers"))
    if _running(source):
        docker.update(_answers(source))
    elif any(source.names(folder) for folder in OUTLIVING):
        reason = "Docker does not run, but its containers do"
        source.unseen(reason, "runtime.docker.containers_of_pods")
    elif inside and source.names(KUBELETS_TASKS):
        docker["data_bytes"] = _size(source, data_root)
        registry = source.request.registry_prefix or source.request.registry
        docker["images_only_here"] = images_only_here(source, data_root, registry)
    version = None
    if source.exists("/run/containerd/containerd.sock"):
        text = source.command("containerd-version", ["containerd", "--version"], quiet=True)
        words = (text or "").split()
        version = words[2] if len(words) > 2 else None
    configuration = source.text(CONTAINERD_CONFIG)
    containerd = {
        "version": version,
        "namespaces": [
            name
            for name in source.names(CONTAINERD_TASKS)
            if source.names("%s/%s" % (CONTAINERD_TASKS, name))
        ],
        "cgroup_driver": _cgroup_driver(configuration),
        "default_runtime": _default_runtime(configuration),
        "containers_of_pods": len(source.names(KUBELETS_TASKS)),
    }
    return {"docker": docker, "containerd": containerd}


def _size(source: Source, folder: str) -> Optional[int]:
    """Return the bytes of what a Docker that is not used any more keeps; None where it takes long.

    Only on a node whose pods containerd runs.
    """
    argv = ["du", "--summarize", "--one-file-system", "--block-size=1", folder]
    text = source.command("docker-du", argv, seconds=DU_SECONDS, quiet=True)
    word = (text or "").split("\t", 1)[0]
    return int(word) if word.isdigit() else None


def _cgroup_driver(configuration: Optional[str]) -> Optional[str]:
    """Return the cgroup driver of containerd's configuration; None without one.

    Its own default is cgroupfs. This Python has no reader of TOML, and the key occurs once.
    """
    if configuration is None:
        return None
    lines = (line.split("#", 1)[0].replace(" ", "") for line in configuration.splitlines())
    return "systemd" if "SystemdCgroup=true" in list(lines) else "cgroupfs"


def _default_runtime(configuration: Optional[str]) -> Optional[str]:
    """Return what gives containers their GPUs, or not; None where the file names none."""
    found = re.search(r'(?m)^\s*default_runtime_name\s*=\s*"([\w.-]{1,64})"', configuration or "")
    return found.group(1) if found else None


def _running(source: Source) -> bool:
    """Whether dockerd runs; a query would start it where systemd owns the socket."""
    if not source.live:
        return source.recorded("docker-info") is not None
    pid = source.word("/run/docker.pid")
    return bool(pid) and source.exists("/proc/%s" % pid)


def _daemon_json(source: Source) -> Dict[str, Any]:
    found: Dict[str, Any] = {
        "version": None,
        "cgroup_driver": None,
        "storage_driver": None,
        "data_root": None,
        "data_bytes": None,
        "containers_running": None,
        "containers_foreign": [],
        "containers_of_pods": None,
        "foreign_running": None,
        "images": [],
        "images_only_here": None,
        "daemon_json": None,
        "daemon_json_error": None,
    }
    text = source.text(DAEMON_JSON)
    if text is None or not text.strip():
        return found
    try:
        document = json.loads(text)
    except ValueError as error:
        found["daemon_json_error"] = str(error)
        return found
    if not isinstance(document, dict):
        found["daemon_json_error"] = "not a JSON object"
        return found
    found["daemon_json"] = {k: v for k, v in document.items() if k not in HIDDEN_KEYS}
    found["data_root"] = document.get("data-root")
    return found


def _answers(source: Source) -> Dict[str, Any]:
    def ask(key: str, path: str) -> Any:
        return source.unix_http(key, DOCKER_SOCKET, path)

    info, containers, images = source.together(
        [
            lambda: ask("docker-info", "/info"),
            lambda: ask("docker-containers", "/containers/json?all=1"),
            lambda: ask("docker-images", "/images/json"),
        ]
    )
    if not isinstance(containers, list):
        containers = None
    if containers is None and source.live:
        paths = ("containers_of_pods", "foreign_running")
        source.unseen(
            "Docker did not list its containers", *("runtime.docker." + path for path in paths)
        )
    listed = {
        "containers_foreign": _foreign(containers),
        "containers_of_pods": _pods(containers),
        "foreign_running": _foreign_running(containers),
    }
    if not isinstance(info, dict):
        return listed
    return {
        **listed,
        "version": info.get("ServerVersion"),
        "cgroup_driver": info.get("CgroupDriver"),
        "cgroup_version": info.get("CgroupVersion"),
        "storage_driver": info.get("Driver"),
        "data_root": info.get("DockerRootDir"),
        "default_runtime": info.get("DefaultRuntime"),
        "containers_running": info.get("ContainersRunning"),
        "images": _tags(images),
    }


def _foreign(containers: Optional[List[Dict[str, Any]]]) -> List[str]:
    """Return the names of containers that the kubelet did not create."""
    names = []
    for container in containers or []:
        name = (container.get("Names") or ["?"])[0].lstrip("/")
        if not name.startswith("k8s_"):
            names.append(name)
    return sorted(names)


def _foreign_running(containers: Optional[List[Dict[str, Any]]]) -> Optional[List[str]]:
    """Return the names of containers that run and are no pods'; None when unknown.

    The same as role kubernetes_runtime goes by before it ends Docker.
    """
    if containers is None:
        return None
    names = []
    for one in containers:
        name = (one.get("Names") or ["?"])[0].lstrip("/")
        is_pods = name.startswith("k8s_") and POD_LABEL in (one.get("Labels") or {})
        if not is_pods and one.get("State") in GOING:
            names.append(name)
    return sorted(names)


def _pods(containers: Optional[List[Dict[str, Any]]]) -> Optional[int]:
    """Return how many containers of the kubelet may be running; None when unknown."""
    if containers is None:
        return None
    moving = [one for one in containers if one.get("State") not in AT_REST]
    names = [(one.get("Names") or ["?"])[0].lstrip("/") for one in moving]
    return len([name for name in names if name.startswith("k8s_")])


def _tags(images: Optional[List[Dict[str, Any]]]) -> List[str]:
    tags: Set[str] = set()
    for image in images or []:
        tags.update(tag for tag in image.get("RepoTags") or [] if tag != "<none>:<none>")
    return sorted(tags)
