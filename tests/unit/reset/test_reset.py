"""A whole appliance back to bare machines: order, evidence, data, silence, kills at each act."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pytest

from appliance.errors import LeaseLost, NodeUnreachable, PreflightFailed, Refused, StepNotVerified
from appliance.model.plan.reset.mark import DOCUMENT, ResetMark, parse_reset
from appliance.model.state.cluster.cluster import Unreachable
from tests import samples
from tests.unit.life.rack import FakeDrain
from tests.unit.reset.bench import DATA, Bench, Killed

WHOLE = [
    f"note {DOCUMENT}",
    "reset w1", "bare w1", "reset w2", "bare w2", "reset cp1", "bare cp1",
    "forget kubeconfig", "forget cp1",
]  # fmt: skip


def is_apart(bench: Bench) -> bool:
    """No machine has anything, but for data and what stays."""
    bare = all(bench.rack.documents[node.name] == samples.bare(node) for node in bench.site.nodes)
    return bare and not any(one.goes or one.last for one in bench.rack.has.values())


def test_workers_first_then_the_control_plane_and_documents_last() -> None:
    bench = Bench()
    done = bench.reset()
    assert bench.rack.acts == WHOLE
    assert is_apart(bench)
    assert done.done
    assert [record.step for record in bench.journal.records] == [
        *("node_reset", "node_bare") * 3,
        "reset",
    ]


def test_three_control_planes_go_one_after_the_other_and_the_services_node_last() -> None:
    bench = Bench(masters=3, workers=1)
    bench.reset()
    resets = [act for act in bench.rack.acts if act.startswith("reset")]
    assert resets == ["reset w1", "reset cp3", "reset cp2", "reset cp1"]
    assert bench.rack.acts[-3:] == ["forget cp3", "forget cp2", "forget cp1"]
    assert is_apart(bench)


def test_a_second_run_has_nothing_to_do() -> None:
    bench = Bench()
    bench.reset()
    acts, questions = len(bench.rack.acts), len(bench.asked)
    done = bench.reset()
    assert (done.plan.is_empty, done.done) == (True, False)
    assert (len(bench.rack.acts), len(bench.asked)) == (acts, questions)


@pytest.mark.parametrize("masters", [1, 3])
@pytest.mark.parametrize("half", [False, True], ids=["before", "within"])
def test_killed_at_any_act_the_same_command_ends_it(masters: int, half: bool) -> None:
    whole = Bench(masters)
    whole.reset()
    for number in range(len(whole.rack.acts)):
        bench = Bench(masters)
        bench.rack.kill_at, bench.rack.half = number, half
        with pytest.raises(Killed):
            bench.reset()
        bench.rack.kill_at, bench.rack.dead = None, False
        bench.reset()
        assert is_apart(bench), whole.rack.acts[number]
        assert bench.state() == whole.state(), whole.rack.acts[number]


@pytest.mark.parametrize("kubeconfig", [None, samples.CLUSTER_CA_SHA256])
def test_another_laptop_ends_a_reset_of_the_only_control_plane(kubeconfig: str | None) -> None:
    bench = Bench()
    bench.rack.kill_at, bench.rack.half = WHOLE.index("reset cp1"), True
    with pytest.raises(Killed):
        bench.reset()
    mark = parse_reset(bench.archive.documents[DOCUMENT])
    assert mark is not None
    assert mark.ca == samples.CLUSTER_CA_SHA256
    bench.rack.kill_at, bench.rack.dead, bench.kubeconfig = None, False, kubeconfig
    bench.reset()
    assert is_apart(bench)
    assert any(line.startswith("an earlier run began: by ada on laptop") for line in bench.asked[1])


@pytest.mark.parametrize("masters", [1, 3])
@pytest.mark.parametrize("kubeconfig", [None, samples.CLUSTER_CA_SHA256])
def test_the_mark_of_a_cluster_before_this_one_forbids_nothing(
    masters: int, kubeconfig: str | None
) -> None:
    bench = Bench(masters)
    bench.kubeconfig = kubeconfig
    bench.archive.documents[DOCUMENT] = ResetMark(
        "r0", "ada", "laptop", "2026-01-01T00:00:00Z", "0f" * 32
    ).as_text()
    bench.rack.kill_at = WHOLE.index("bare w1")
    with pytest.raises(Killed):
        bench.reset()
    assert not any(line.startswith("an earlier run began") for line in bench.asked[0])
    mark = parse_reset(bench.archive.documents[DOCUMENT])
    assert mark is not None
    assert mark.ca == samples.CLUSTER_CA_SHA256, "another laptop reads it"
    bench.rack.kill_at, bench.rack.dead, bench.kubeconfig = None, False, None
    bench.reset()
    assert is_apart(bench)


def test_data_stay_and_are_named_unless_they_are_given_up() -> None:
    bench = Bench()
    bench.reset()
    assert bench.rack.has["cp1"].data == DATA
    assert f"cp1: {DATA[0][0]} (snapshots of etcd) stays" in bench.asked[0]
    assert "cp1: chrony stays: it took the place of systemd-timesyncd" in bench.asked[0]
    told = [p.inventory["all"]["vars"] for p in bench.rack.plays if p.playbook == "node_reset"]
    assert all(one["node_reset_snapshots_kept"] for one in told)
    bench.reset(lose_data=True)
    assert len(bench.rack.has["cp1"].data) == 0
    assert f"cp1: {DATA[0][0]} (snapshots of etcd) IS DELETED" in bench.asked[1]
    assert bench.rack.acts[len(WHOLE) :] == [
        f"note {DOCUMENT}", "bare cp1", "forget kubeconfig", "forget cp1",
    ]  # fmt: skip


def test_the_forecast_names_pods_machines_and_the_newest_backup() -> None:
    bench = Bench()
    bench.reset(dry_run=True)
    lines = bench.reset(dry_run=True).lines
    assert "w1: pods that end: 0" in lines
    assert (
        "w1 (serial SN-w1): is reset (kubeadm); its pods end, its cluster data is deleted" in lines
    )
    assert "w1 (serial SN-w1): packages to purge: 2; paths to remove: 3" in lines
    assert any("etcd-snapshots/x.db, 2020-09-13T12:26:40" in line for line in lines)
    assert (bench.rack.acts, bench.asked) == ([], [])
    bench.rack.has["cp1"] = replace(bench.rack.has["cp1"], newest_backup=None)
    assert any(line.startswith("NO BACKUP") for line in bench.reset(dry_run=True).lines)


def test_a_member_that_the_inventory_does_not_have_is_named() -> None:
    bench = Bench()
    cluster: Any = bench.rack.cluster
    bench.rack.cluster = replace(cluster, nodes={**cluster.nodes, "gpu9": cluster.nodes["w1"]})
    lines = bench.reset(dry_run=True).lines
    assert "gpu9: a member that the inventory does not have: IT IS LEFT as it is" in lines


def test_an_api_that_is_away_holds_nothing_up() -> None:
    bench = Bench()
    bench.rack.cluster = Unreachable("connection refused")
    bench.reset()
    assert "what runs is not known: connection refused" in bench.asked[0]
    assert is_apart(bench)


def test_an_api_that_goes_away_after_the_look_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(_drain: FakeDrain, _names: Sequence[str]) -> NoReturn:
        raise NodeUnreachable("no API server answers: cp1: connection refused", hint="")

    monkeypatch.setattr(FakeDrain, "views", gone)
    bench = Bench()
    bench.reset()
    reason = "what runs is not known: no API server answers: cp1: connection refused"
    assert reason in bench.asked[0]
    assert is_apart(bench)


def _another_cluster(bench: Bench) -> None:
    kubernetes = bench.rack.documents["w2"]["kubernetes"]
    kubernetes["kubeconfigs"][0]["server"] = "https://k8s.other.example:6443"
    kubernetes["pki"] = [{"path": samples.CLUSTER_CA, "sha256": "f" * 64}]


def _another_ca(bench: Bench) -> None:
    bench.kubeconfig = "f" * 64


def _another_machine(bench: Bench) -> None:
    bench.rack.documents["w2"]["dmi"]["serial"] = "SN-other"


def _another_site(bench: Bench) -> None:
    bench.rack.has["w2"] = replace(bench.rack.has["w2"], ca_sha256="other")


def _silent(bench: Bench) -> None:
    bench.silence("w2")


def _says_nothing(bench: Bench) -> None:
    bench.rack.unsaid["w2"] = "w2: it does not say what it has: exit 1"


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (_another_cluster, "is a member of another cluster"),
        (_another_ca, "has etcd data of another CA"),
        (_another_machine, "w2 .serial SN-w2"),
        (_another_site, "the CA of another site"),
        (_silent, "port 22 did not answer"),
        (_says_nothing, "does not say what it has"),
    ],
)
def test_one_machine_that_is_not_proved_ours_stops_all_of_it(
    fault: Callable[[Bench], None], said: str
) -> None:
    bench = Bench()
    fault(bench)
    with pytest.raises(PreflightFailed, match=said):
        bench.reset(lose_data=True)
    assert (bench.rack.acts, bench.asked) == ([], [])


def test_a_silent_node_is_left_where_it_is_named() -> None:
    bench = Bench()
    bench.silence("w2")
    done = bench.reset(without=frozenset({"w2"}))
    assert done.plan.left == {"w2": "w2: port 22 did not answer"}
    assert not any(act.endswith("w2") for act in bench.rack.acts)
    assert "forget cp1" in bench.rack.acts


def test_a_node_that_answers_is_not_left_out() -> None:
    bench = Bench()
    with pytest.raises(PreflightFailed, match="w2 answers"):
        bench.reset(without=frozenset({"w2"}))


def test_without_the_only_control_plane_no_lock_and_no_document_is_needed() -> None:
    bench = Bench()
    bench.silence("cp1")
    bench.archive.away = NodeUnreachable("no control plane")
    bench.rack.cluster = Unreachable("cp1 is off")
    bench.journal.refuse = LeaseLost("nobody keeps a lock")
    bench.reset(without=frozenset({"cp1"}))
    assert bench.rack.acts == ["reset w1", "bare w1", "reset w2", "bare w2", "forget kubeconfig"]


@pytest.mark.parametrize(
    "wanted", [{"confirmed_site": "rack8"}, {"without": frozenset({"w9"})}], ids=["site", "node"]
)
def test_a_wrong_name_is_refused_before_anything_is_looked_at(wanted: dict[str, Any]) -> None:
    bench = Bench()
    with pytest.raises(Refused):
        bench.reset(**wanted)
    assert bench.rack.looks == 0


def test_a_no_changes_nothing() -> None:
    bench = Bench()
    bench.answer = False
    with pytest.raises(Refused, match="not confirmed"):
        bench.reset()
    assert bench.rack.acts == []


def test_a_machine_that_keeps_something_is_named() -> None:
    bench = Bench()
    bench.rack.without_effect = {"node_bare"}
    with pytest.raises(StepNotVerified, match="w1: was cleaned, but it still has containerd"):
        bench.reset()
