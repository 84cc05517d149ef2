"""``appliance cluster certificates``: what is shown, asked and refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.app import Application
from appliance.cli.exits import run
from appliance.cli.site_session import SiteSession
from appliance.model.plan.play import Play
from appliance.model.state.observed import Fault
from tests import samples
from tests.cli.faked_site import FakedSite
from tests.fakes import FakeArchive, FakeRack
from tests.unit.certificates import rack as racks

Capture = pytest.CaptureFixture[str]


class Site(FakedSite):
    """A site whose adapters are fakes."""

    @property
    def archive(self) -> Any:
        return FakeArchive()


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRack:
    """Three control-plane nodes; one has certificates that end soon."""
    found = racks.rack(cp2={"server": 12, "admin": 11})
    site = replace(found.desired.site, directory=tmp_path)
    desired = samples.desired(site)
    found.desired = desired

    def play(play: Play, on_task: Any) -> None:
        on_task(play.limit[0], "kubernetes_certificates : Renew", True)
        document = found.documents[play.limit[0]]
        if play.playbook == "kubelet_certificate":
            racks.kubelet_ends(document, racks.YEAR)
        else:
            racks.ends(document)

    def connect(_self: Application, _directory: Path, *_: Any, **__: Any) -> SiteSession:
        return Site(site, desired, found, found, None)  # type: ignore[arg-type]

    monkeypatch.setattr(found, "play", play)
    monkeypatch.setattr(Application, "connect", connect)
    for name in ("APPLIANCE_SITE", "APPLIANCE_YES", "APPLIANCE_OUTPUT", "APPLIANCE_NODES"):
        monkeypatch.delenv(name, raising=False)
    return found


def typed(rack: FakeRack, *words: str) -> int:
    return run(["cluster", "certificates", *words, "--site", str(rack.desired.site.directory)])


def test_the_earliest_is_shown_first(rack: FakeRack, capsys: Capture) -> None:
    assert typed(rack, "show") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:2] == ["cp2", racks.ADMIN]
    assert typed(rack, "show", "--output", "json") == 0
    first, *_ = json.loads(capsys.readouterr().out)["certificates"]
    assert (first["node"], first["path"], first["renewed_by"]) == ("cp2", racks.ADMIN, "kubeadm")


def test_a_script_learns_by_the_exit_code(rack: FakeRack) -> None:
    assert typed(rack, "show", "--exit-code") == 5
    racks.ends(rack.documents["cp2"])
    assert typed(rack, "show", "--exit-code") == 0
    racks.ends(rack.documents["cp3"], kubelet=3)
    assert typed(rack, "show", "--exit-code") == 5


def test_a_node_that_does_not_answer_is_named(rack: FakeRack, capsys: Capture) -> None:
    rack.faults["cp3"] = Fault("cp3", "no SSH on port 22: no answer within 8 s", "ping 198.18.7.13")
    assert typed(rack, "show") == 0
    assert "not read: cp3: no SSH on port 22" in capsys.readouterr().out
    racks.ends(rack.documents["cp2"])
    assert typed(rack, "show", "--exit-code") == 5, "what was not seen is not well"
    capsys.readouterr()
    assert typed(rack, "show", "--output", "json") == 0
    (unread,) = json.loads(capsys.readouterr().out)["not_read"]
    assert unread["node"] == "cp3"


def test_what_is_due_is_renewed_and_a_second_run_has_nothing_to_do(
    rack: FakeRack, capsys: Capture
) -> None:
    assert typed(rack, "renew", "--dry-run") == 0
    assert typed(rack, "renew", "--yes") == 0
    told = capsys.readouterr().out
    assert "certificates renewed on cp2" in told
    assert "kubeconfig cp2:~ubuntu/.kube/config: the API accepts it" in told
    assert typed(rack, "renew", "--yes", "--output", "json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "renewals": [],
        "kubelets": [],
        "kubeconfigs": [],
        "not_read": [],
        "done": False,
    }


def test_without_a_yes_nothing_is_renewed(rack: FakeRack) -> None:
    assert typed(rack, "renew") == 3


def test_a_control_plane_node_that_is_away_is_left_out_by_name_only(
    rack: FakeRack, capsys: Capture
) -> None:
    rack.faults["cp3"] = Fault("cp3", "no SSH on port 22: no answer within 8 s", "ping 198.18.7.13")
    assert typed(rack, "renew", "--yes") == 3
    assert "--without cp3" in capsys.readouterr().err
    assert typed(rack, "renew", "--yes", "--without", "cp3") == 0


def test_a_kubelet_without_a_certificate_gets_one(rack: FakeRack, capsys: Capture) -> None:
    racks.ends(rack.documents["cp2"])
    racks.kubelet_ends(rack.documents["w1"], -3)
    assert typed(rack, "renew", "--dry-run") == 0
    assert "w1: kubelet_certificate: renewed" in capsys.readouterr().out
    assert typed(rack, "renew", "--yes", "--output", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert ([one["node"] for one in told["kubelets"]], told["renewals"]) == (["w1"], [])


def test_a_worker_that_does_not_answer_is_named_and_stops_nothing(
    rack: FakeRack, capsys: Capture
) -> None:
    rack.faults["w1"] = Fault("w1", "no SSH on port 22: no answer within 8 s", "ping 198.18.7.21")
    assert typed(rack, "renew", "--yes") == 0
    assert "w1 did not answer" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["cp9", "jump1"])
def test_only_a_node_of_the_cluster_can_be_left_out(name: str, rack: FakeRack) -> None:
    assert typed(rack, "renew", "--without", name) == 2
