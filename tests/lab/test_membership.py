"""A worker is removed, wiped and comes back with all that it had. One story, in its order."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite
from tests.lab.support import faults
from tests.lab.support.cluster import KUBECTL
from tests.lab.support.stillness import assert_still, scene

pytestmark = pytest.mark.lab

GONE, STAYING = "w2", ("cp1", "w1")
LABELS = {
    "node-role.kubernetes.io/runai-gpu-worker": "",
    "run.ai/type": "standin-dgx",
    "nvidia.com/mig.config": "all-1g.5gb",
}
ANNOTATIONS = {"example.com/rack": "B7"}
TAINT = {"key": "dedicated", "value": "research", "effect": "NoSchedule"}


def node(lab: LabSite) -> Any:
    """The Node object."""
    return json.loads(lab.shell("cp1", f"{KUBECTL} get node {lab.node(GONE)} -o json"))


def own(lab: LabSite) -> tuple[dict[str, str], dict[str, str], list[dict[str, str]]]:
    """What the test put on the node, as it is now: every label, our annotations, all taints."""
    found = node(lab)
    there = found["metadata"].get("annotations", {})
    return (
        found["metadata"]["labels"],
        {key: there.get(key, "") for key in ANNOTATIONS},
        found["spec"].get("taints", []),
    )


def words(lab: LabSite, *verb: str) -> list[str]:
    """A command for the node that goes."""
    return ["node", *verb, lab.node(GONE), "--site", str(lab.directory)]


@pytest.fixture(scope="module")
def site(installed_lab: LabSite) -> Iterator[LabSite]:
    """The installed lab, its last worker with labels, an annotation and a taint."""
    lab, name = installed_lab, installed_lab.node(GONE)
    labels = " ".join(f"{key}={value}" for key, value in LABELS.items())
    notes = " ".join(f"{key}={value}" for key, value in ANNOTATIONS.items())
    taint = f"{TAINT['key']}={TAINT['value']}:{TAINT['effect']}"
    lab.shell("cp1", f"{KUBECTL} label --overwrite node {name} {labels}")
    lab.shell("cp1", f"{KUBECTL} annotate --overwrite node {name} {notes}")
    lab.shell("cp1", f"{KUBECTL} taint --overwrite node {name} {taint}")
    yield lab
    lab.shell("cp1", f"{KUBECTL} label node {name} {' '.join(f'{key}-' for key in LABELS)}")
    lab.shell("cp1", f"{KUBECTL} annotate node {name} {' '.join(f'{key}-' for key in ANNOTATIONS)}")
    lab.shell("cp1", f"{KUBECTL} taint node {name} {TAINT['key']}-", check=False)


def test_every_member_got_a_passport_when_it_was_verified(site: LabSite) -> None:
    done = succeed("node", "passport", "--site", str(site.directory), "--output", "json")
    found = {one["node"]: one for one in json.loads(done.stdout)["passports"]}
    assert set(found) == {site.node(name) for name in (GONE, *STAYING)}
    assert found[site.node("w1")]["as_accepted"] is True
    facts = found[site.node(GONE)]["passport"]["facts"]
    assert facts["machine"] == f"STANDIN-{site.node(GONE)}"
    assert facts["dimm:STANDIN_A1"].startswith("4 GiB")


def test_a_passport_shows_differences_until_they_are_acknowledged(site: LabSite) -> None:
    done = appliance(*words(site, "passport"), "--exit-code", "--output", "json")
    assert done.returncode == 5, done.stderr
    (view,) = json.loads(done.stdout)["passports"]
    changed = {one["name"] for one in view["differences"]}
    assert changed == {
        *(f"label:{key}" for key in LABELS),
        *(f"annotation:{key}" for key in ANNOTATIONS),
        "taint:dedicated=research:NoSchedule",
    }
    memory = json.loads(faults.shell(site.node(GONE), f"cat {faults.FACTS}/memory.json"))
    with faults.facts(site.node(GONE), "memory", dimms=memory["dimms"][:1]):
        done = appliance(*words(site, "passport"), "--exit-code")
        assert done.returncode == 5
        assert "dimm:STANDIN_B1: found none, expected 4 GiB" in done.stderr
    succeed(*words(site, "passport"), "--acknowledge", "--yes")
    assert appliance(*words(site, "passport"), "--exit-code").returncode == 0


def test_a_removed_worker_leaves_nothing_and_no_install_brings_it_back(site: LabSite) -> None:
    lab, name, before = site, site.node(GONE), scene(site)
    began = time.monotonic()
    succeed(*words(lab, "remove"), "--reason", "a test of it", "--yes")
    print(f"remove: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for the log
    listed = lab.shell("cp1", f"{KUBECTL} get nodes -o name").split()
    assert listed == [f"node/{lab.node(short)}" for short in STAYING]
    folders = "/etc/kubernetes /var/lib/kubelet /var/lib/cni /etc/cni/net.d /run/flannel"
    assert lab.shell(GONE, f"find {folders} -mindepth 1") == ""
    rules = lab.shell(GONE, "iptables-save")
    assert "DOCKER" in rules
    assert not any(word in rules for word in ("KUBE-", "flanneld", "CNI-"))
    assert "cni0" not in lab.shell(GONE, "ip -brief link")
    status = lab.status()
    assert "a test of it" in status["removed"][name]
    assert [one["name"] for one in status["nodes"]] == [lab.node(short) for short in STAYING]
    assert "nothing to do" in lab.install().stdout
    assert_still(before, scene(lab), [lab.node(short) for short in STAYING])
    assert "nothing to do" in succeed(*words(lab, "remove"), "--yes").stdout


def test_other_hardware_does_not_come_back_under_its_name(site: LabSite) -> None:
    lab = site
    with faults.facts(lab.node(GONE), "dmi", serial="STANDIN-another"):
        before = scene(lab)
        done = appliance(*words(lab, "rejoin"), "--yes")
        assert done.returncode == 3, done.stderr
        assert f"expected STANDIN-{lab.node(GONE)}" in done.stderr
        assert f"appliance node add {lab.node(GONE)} --replace" in done.stderr
        assert_still(before, scene(lab))


def test_a_machine_that_another_cluster_has_since_is_neither_emptied_nor_taken(
    site: LabSite,
) -> None:
    lab, theirs = site, "https://k8s.other-company.example:6443"
    # STANDIN for a member of that cluster: what kubeadm leaves that says whose it is.
    config = f"apiVersion: v1\\nkind: Config\\nclusters:\\n- cluster:\\n    server: {theirs}\\n"
    make = "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=theirs"
    lab.shell(
        GONE,
        "mkdir -p /etc/kubernetes/pki /var/lib/etcd/member && echo data > /var/lib/etcd/member/wal"
        f" && printf '{config}' > /etc/kubernetes/kubelet.conf"
        f" && {make} -out /etc/kubernetes/pki/ca.crt 2>/dev/null",
    )
    look = "find /etc/kubernetes /var/lib/etcd -type f -exec sha256sum {} +"
    try:
        before = lab.shell(GONE, look)
        again = succeed(*words(lab, "remove"), "--yes")
        assert theirs in again.stderr
        assert "nothing to do" in again.stdout
        back = appliance(*words(lab, "rejoin"), "--yes")
        assert back.returncode == 3, back.stderr
        assert theirs in back.stderr
        assert lab.shell(GONE, look) == before
    finally:
        lab.shell(GONE, "rm -rf /etc/kubernetes/* /var/lib/etcd/*")


def test_wiped_and_rejoined_it_has_what_it_had(site: LabSite) -> None:
    lab = site
    faults.wipe(lab.directory, lab.node(GONE))
    began = time.monotonic()
    done = succeed(*words(lab, "rejoin"), "--yes", timeout=900)
    print(f"rejoin: {time.monotonic() - began:.1f} s")  # noqa: T201 - a figure for the log
    assert "safe to join: the cluster has no Node of this name" in done.stdout
    labels, annotations, taints = own(lab)
    assert {key: labels.get(key) for key in LABELS} == LABELS
    assert annotations == ANNOTATIONS
    assert TAINT in taints
    assert lab.settled()["removed"] == {}
    assert appliance(*words(lab, "passport"), "--exit-code").returncode == 0
