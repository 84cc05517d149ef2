"""What a rehearsed restore opens goes with the lab; and it is opened in a closed lab only."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.ssh.call import Answer
from appliance.errors import LabError, Refused
from appliance.lab.down import LabDownPorts, lab_down
from appliance.lab.layout import RunningNode
from appliance.lab.machine.podman import Podman
from appliance.lab.rehearsal.closed import require_closed
from appliance.lab.rehearsal.opened import OpenedLabs
from appliance.lab.rehearsal.own_objects import KEPT, OwnObjects
from appliance.lab.site.sites import likeness_file
from appliance.model.site.settings import Node
from tests import samples
from tests.fakes import FakeClock
from tests.unit.lab.test_workflows import FakeMachine

SITE = samples.site(1, 1)
LAB = SITE.name


class ClosedMachine(FakeMachine):
    """A machine with the lab of the site, up and closed unless a test says otherwise."""

    is_closed = True

    def __init__(self) -> None:
        super().__init__()
        self.networks_of = {LAB: IPv4Network("198.18.7.0/24")}
        self.running = [RunningNode(n.name, LAB, "running", n.ip, "image") for n in SITE.nodes]

    def closed(self) -> frozenset[str]:
        return frozenset({LAB} if self.is_closed else ())


def _change(machine: ClosedMachine, what: str) -> None:
    if what == "root":
        machine.root = False
    elif what == "podman":
        machine.present.discard("podman")
    elif what == "open":
        machine.is_closed = False
    elif what == "elsewhere":
        machine.running[-1] = replace(machine.running[-1], address="198.18.9.9")
    elif what == "exited":
        machine.running[-1] = replace(machine.running[-1], state="exited")
    else:
        machine.running.pop()


def test_a_closed_lab_of_this_machine_is_taken() -> None:
    require_closed(SITE, "rack7", ClosedMachine(), ClosedMachine())


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("root", "only root can see"),
        ("podman", "no lab of this machine"),
        ("open", "has a way out"),
        ("elsewhere", "no running node of the lab"),
        ("exited", "no running node of the lab"),
        ("absent", "no running node of the lab"),
    ],
)
def test_what_is_no_closed_lab_of_this_machine_is_refused(what: str, why: str) -> None:
    machine = ClosedMachine()
    _change(machine, what)
    with pytest.raises(Refused, match=why) as caught:
        require_closed(SITE, "rack7", machine, machine)
    assert caught.value.hint


def test_a_lab_is_closed_if_each_of_its_networks_is_internal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    networks = [
        {"labels": {"appliance-lab": "one"}, "internal": True},
        {"labels": {"appliance-lab": "two"}, "internal": True},
        {"labels": {"appliance-lab": "two"}, "internal": False},
        {"labels": {"appliance-lab": "three"}},
        {"name": "podman", "internal": True},
    ]
    monkeypatch.setattr(Podman, "_json", lambda _self, *_words: networks)
    assert Podman().closed() == {"one"}


@pytest.fixture
def opened(tmp_path: Path) -> tuple[OpenedLabs, Path]:
    """A lab in which a backup was opened, and its folder."""
    directory = tmp_path / "like-rack7"
    (directory / ".appliance/runs/1").mkdir(parents=True)
    (directory / ".appliance/runs/1/log").write_text("a log")
    (directory / ".appliance/kubeconfig").write_text("a key")
    (directory / ".appliance/journal").mkdir()
    likeness_file(directory).write_text("{}")
    labs = OpenedLabs(tmp_path / "notes")
    labs.note("like-rack7", directory)
    return labs, directory


def test_the_lab_takes_what_was_opened_with_it(opened: tuple[OpenedLabs, Path]) -> None:
    labs, directory = opened
    machine, notes = FakeMachine(), list[str]()
    ports = LabDownPorts(machine, machine, machine, lambda _nodes: True, notes.append, labs.destroy)
    lab_down("like-rack7", ports)
    assert sorted(path.name for path in (directory / ".appliance").iterdir()) == [
        "journal",
        "like.json",
    ]
    state = directory / ".appliance"
    assert notes == [f"destroyed: {state}/kubeconfig", f"destroyed: {state}/runs"]
    # A second time there is nothing of it any more.
    assert labs.destroy("like-rack7") == ()


def test_it_goes_also_where_podman_is_gone(opened: tuple[OpenedLabs, Path]) -> None:
    labs, directory = opened
    machine = FakeMachine(present=set())
    ports = LabDownPorts(machine, machine, machine, lambda _n: True, list[str]().append)
    lab_down("like-rack7", replace(ports, destroy=labs.destroy), dry_run=True)
    assert (directory / ".appliance/kubeconfig").exists()
    lab_down("like-rack7", replace(ports, destroy=labs.destroy))
    assert not (directory / ".appliance/kubeconfig").exists()


def test_another_lab_keeps_what_it_has(opened: tuple[OpenedLabs, Path]) -> None:
    labs, directory = opened
    assert labs.destroy("like-rack8") == ()
    assert (directory / ".appliance/kubeconfig").exists()


def test_a_folder_that_is_no_such_lab_any_more_is_left_alone(
    opened: tuple[OpenedLabs, Path],
) -> None:
    labs, directory = opened
    likeness_file(directory).unlink()
    assert labs.destroy("like-rack7") == (f"nothing of the backup is left in {directory}",)
    assert (directory / ".appliance/kubeconfig").exists()


def test_no_link_leads_the_removal_elsewhere(
    opened: tuple[OpenedLabs, Path], tmp_path: Path
) -> None:
    labs, directory = opened
    others = tmp_path / "others"
    (directory / ".appliance").rename(others)
    (directory / ".appliance").symlink_to(others)
    labs.destroy("like-rack7")
    assert (others / "kubeconfig").exists()


def test_a_note_that_cannot_be_read_stops_and_says_so(opened: tuple[OpenedLabs, Path]) -> None:
    labs, directory = opened
    note = directory.parent / "notes/like-rack7"
    note.unlink()
    note.symlink_to("/etc/passwd")
    with pytest.raises(LabError, match="cannot be read"):
        labs.destroy("like-rack7")


class ApiNodes:
    """The first control-plane node, its file, and the API behind its kubectl."""

    def __init__(self) -> None:
        self.kept: str | None = None
        self.written: list[dict[str, Any]] = []
        self.proxies = {"cp1": 1, "w1": 1}
        self.comes_back = {"cp1", "w1"}

    def read_as_root(self, _node: Node, path: str, **_: Any) -> Answer:
        assert path == KEPT
        return Answer(1, "", "no such file") if self.kept is None else Answer(0, self.kept, "")

    def run_as_root(self, node: Node, script: str, *, stdin: bytes = b"", timeout: float) -> Answer:
        assert node.name == "cp1"
        assert timeout > 0
        if script.startswith("umask 077 && cat > "):
            self.kept = stdin.decode()
            return Answer(0, "", "")
        if found := re.search(r"get configmap (\S+) -n (\S+) -o json", script):
            metadata = {"name": found[1], "namespace": found[2], "uid": "7", "resourceVersion": "9"}
            made = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"of": "the lab"}}
            return Answer(0, json.dumps({**made, "metadata": metadata}), "")
        if script.endswith("replace -f -"):
            self.written.append(json.loads(stdin))
            return Answer(0, "", "")
        found = re.search(r"spec\.nodeName=(\S+)", script)
        assert found
        if "delete pod" in script:
            self.proxies[found[1]] += 1
            return Answer(0, "", "")
        ready = "True" if found[1] in self.comes_back else "False"
        pod = {
            "metadata": {"uid": f"{self.proxies[found[1]]}", "creationTimestamp": "2026"},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }
        return Answer(0, json.dumps({"items": [pod]}), "")


def _own(nodes: Any) -> OwnObjects:
    return OwnObjects(SITE, nodes, FakeClock())


def test_what_is_kept_is_written_without_what_the_old_cluster_added() -> None:
    nodes = ApiNodes()
    _own(nodes).keep()
    _own(nodes).renew()
    assert [one["metadata"] for one in nodes.written] == [
        {"name": "kubeadm-config", "namespace": "kube-system"},
        {"name": "kube-proxy", "namespace": "kube-system"},
        {"name": "cluster-info", "namespace": "kube-public"},
    ]
    assert {one["data"]["of"] for one in nodes.written} == {"the lab"}
    assert nodes.proxies == {"cp1": 2, "w1": 2}


def test_a_proxy_that_does_not_come_back_is_named() -> None:
    nodes = ApiNodes()
    _own(nodes).keep()
    nodes.comes_back = {"cp1"}
    with pytest.raises(LabError, match="does not come back on w1"):
        _own(nodes).renew()


def test_without_what_was_kept_nothing_is_written() -> None:
    nodes = ApiNodes()
    with pytest.raises(LabError, match="cannot be read"):
        _own(nodes).renew()
    assert nodes.written == []
