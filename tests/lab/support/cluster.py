"""What tests ask of a lab's cluster."""

from __future__ import annotations

import json

import yaml

from tests.lab.conftest import LabSite

KUBECTL = "kubectl --kubeconfig /etc/kubernetes/admin.conf"


def kubectl(lab: LabSite, words: str, *, check: bool = True) -> str:
    return lab.shell("cp1", f"{KUBECTL} {words}", check=check)


def allocatable(lab: LabSite, resource: str = "nvidia.com/gpu") -> int:
    node = json.loads(kubectl(lab, f"get node {lab.node('w1')} -o json"))
    return int(node["status"]["allocatable"].get(resource, 0))


def busybox(lab: LabSite) -> str:
    site = yaml.safe_load((lab.directory / "group_vars/all/site.yml").read_text())
    manifest = json.loads((lab.bundle / "manifest.json").read_text())
    image = next(name for name in manifest["images"] if name.startswith("busybox:"))
    return f"{site['registry']}/{image}"
