"""The wipe guard: what may be erased without a word, and what only by its serial."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.node.baseline import Passport
from appliance.model.node.imaging.wipe import Evidence, differences, wipe_refusals
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import MachineIdentity
from tests import samples
from tests.unit.imaging import bench

SITE = bench.site()
DESIRED = samples.desired(SITE)
NODE = SITE.node("w1")
MACHINE = MachineIdentity(serial="SN-w1")
HOSTS = frozenset({"api.rack.test"})


def _facts(**changes: Any) -> NodeFacts:
    document = samples.bare(NODE)
    document["mounts"] = [{"device": "/dev/sda2", "mount": "/", "fstype": "ext4"}]
    for path, value in changes.items():
        place = document
        *folders, last = path.split("__")
        for folder in folders:
            place = place[folder]
        place[last] = value
    return NodeFacts(document)


def _kubelet(server: str) -> list[dict[str, str]]:
    return [{"path": "/etc/kubernetes/kubelet.conf", "server": server}]


def _passport(node: str, serial: str) -> Passport:
    return Passport(node, {"machine": serial})


CASES: dict[str, tuple[Evidence, list[str]]] = {
    "nothing answers, nothing is known": (Evidence("w1", MACHINE), []),
    "a live kubelet": (
        Evidence("w1", MACHINE, _facts(kubernetes__kubelet_active=True)),
        ["kubelet"],
    ),
    "a member that is stopped": (
        Evidence("w1", MACHINE, _facts(kubernetes__kubeconfigs=_kubelet("https://api.rack.test:6443"))),
        ["kubelet"],
    ),
    "a member of another site": (
        Evidence("w1", MACHINE, _facts(kubernetes__kubeconfigs=_kubelet("https://api.other.test:6443"))),
        ["site"],
    ),
    "etcd data": (
        Evidence("w1", MACHINE, _facts(kubernetes__etcd_data={"present": True})),
        ["kubeadm"],
    ),
    "a mounted data disk": (
        Evidence("w1", MACHINE, _facts(mounts=[{"device": "/dev/sdb1", "mount": "/srv/runai"}])),
        ["data disk"],
    ),
    "mounts that nobody read": (Evidence("w1", MACHINE, _facts(mounts=None)), ["data disk"]),
    "Kubernetes that nobody read": (Evidence("w1", MACHINE, _facts(kubernetes=None)), ["kubelet"]),
    "an operating system of somebody's": (Evidence("w1", MACHINE, _facts()), ["system"]),
    "a machine that lets nobody in": (
        Evidence("w1", MACHINE, alive="permission denied"),
        ["SSH"],
    ),
    "another machine at the address": (
        Evidence("w1", MachineIdentity(serial="SN-9"), _facts()),
        ["address"],
    ),
    "the passport of another node": (
        Evidence("w1", MACHINE, passports={"w2": _passport("w2", "SN-w1")}),
        ["passport"],
    ),
    "accepted, and silent": (
        Evidence("w1", MACHINE, passports={"w1": _passport("w1", "SN-w1")}),
        ["passport"],
    ),
    "accepted, and a run of ours stopped on it": (
        Evidence("w1", MACHINE, passports={"w1": _passport("w1", "SN-w1")}, unfinished=True),
        [],
    ),
    "passports that could not be read": (
        Evidence("w1", MACHINE, unread="no control-plane node answers"),
        ["passport"],
    ),
    "passports of others": (
        Evidence("w1", MACHINE, passports={"w2": _passport("w2", "SN-w2")}),
        [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_only_what_is_nobodys_is_installed(case: str) -> None:
    evidence, checks = CASES[case]
    found = wipe_refusals(evidence, (), HOSTS)
    assert [one.check for one in found] == checks
    assert all("--wipe" in one.hint for one in found)


@pytest.mark.parametrize("case", CASES)
def test_the_serial_in_wipe_lets_it_be_erased(case: str) -> None:
    evidence, _ = CASES[case]
    assert wipe_refusals(evidence, [str(evidence.machine.serial)], HOSTS) == ()


@pytest.mark.parametrize("wipe", ["SN-w", "SN-w11", "sn-w1", "", "*"])
def test_another_serial_lets_nothing_be_erased(wipe: str) -> None:
    evidence, _ = CASES["a live kubelet"]
    assert wipe_refusals(evidence, [wipe], HOSTS)


def test_a_machine_without_a_serial_cannot_be_named() -> None:
    evidence = Evidence("w1", MachineIdentity(), _facts())
    (refusal,) = wipe_refusals(evidence, ["", "None"], HOSTS)
    assert "--wipe SERIAL" in refusal.hint


def test_what_answers_as_asked_is_installed() -> None:
    image = bench.image()
    assert differences(image, _facts(), "debian-12") == ()
    other = _facts(host__hostname="ubuntu", nics=[])
    assert len(differences(image, other, "ubuntu-20.04")) == 3
