"""Nothing that runs on a node names a place outside of the site."""

from __future__ import annotations

import re

from tests.contract import tree

# What looks like a host and is a name: API groups, labels and annotations of Kubernetes, and ours.
NAMESPACES = re.compile(
    r"\b(?:[a-z0-9-]+\.)*(?:k8s\.io|kubernetes\.io|coreos\.com|x-k8s\.io|nvidia\.com|run\.ai|appliance\.dev)/"
    r"(?!.*:v?\d+\.\d+)"
)
# Documentation's own names and addresses (RFC 2606, 5737), this host, and a variable's place.
NOWHERE = re.compile(
    r"(?i)^(localhost|unix|127\.\d+\.\d+\.\d+|\[::1\]|.*\.(example|test|invalid|local)|example\.\w+"
    r"|192\.0\.2\.\d+|198\.51\.100\.\d+|203\.0\.113\.\d+|.*[{}%$<>].*|)$"
)
URL = re.compile(r"\b(?:https?|ftp|git|ssh)://(?P<host>[^\s/:'\"`)\]]*)")
# A host with a path behind it: what an image or a package archive is called by.
PLACE = re.compile(
    r"(?<![\w./@-])(?P<host>(?:[a-z0-9-]+\.)+(?:com|org|net|io|dev|cloud|gov|edu|ai))"
    r"(?::\d+)?/[\w.-]"
)
# Where comments point at a manual of a program that runs there.
FOLDERS = ("tasks", "templates", "handlers", "defaults", "vars", "files", "library", "module_utils")


def _outside(text: str) -> set[str]:
    plain = NAMESPACES.sub("", text)
    found = [match["host"] for match in URL.finditer(plain)]
    found += [match["host"] for match in PLACE.finditer(plain)]
    return {host for host in found if not NOWHERE.match(host)}


def test_the_search_finds_what_it_looks_for() -> None:
    assert _outside("image: quay.example.io/coreos/flannel:v1") == {"quay.example.io"}
    assert _outside("deb http://archive.vendor.com/ubuntu focal main") == {"archive.vendor.com"}
    assert _outside("k8s.gcr.io/pause:3.6") == {"k8s.gcr.io"}
    assert _outside("registry.k8s.io/pause:3.6") == {"registry.k8s.io"}


def test_the_search_lets_names_of_the_site_and_of_kubernetes_pass() -> None:
    assert _outside("apiVersion: kubeadm.k8s.io/v1beta3") == set()
    assert _outside("node-role.kubernetes.io/master: ''") == set()
    assert _outside("https://{{ artifact_client_server }}/apt ./") == set()
    assert _outside("http://127.0.0.1:6443/healthz https://localhost:1/") == set()


def test_no_role_or_playbook_names_a_public_host() -> None:
    paths = [
        path
        for path in tree.under("roles", "playbooks")
        if len(path.parts) > 2 and (path.parts[0] == "playbooks" or path.parts[2] in FOLDERS)
    ]
    assert paths
    named = {str(path): sorted(hosts) for path in paths if (hosts := _outside(tree.read(path)))}
    assert named == {}


def test_no_task_brings_anything_from_the_web() -> None:
    fetching = {"get_url", "git", "apt_key", "apt_repository", "pip", "rpm_key", "unarchive"}
    tasks = [task for role in tree.roles() for task in role.tasks]
    assert [task.where for task in tasks if task.module in fetching] == []
