"""An upgrade that has changed nothing yet is dropped where an earlier one left a worker out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import NodeUnreachable, PlaybookFailed, PreflightFailed
from appliance.model.state.nodes.maintenance import ANNOTATION as MAINTENANCE
from appliance.model.state.nodes.maintenance import Maintenance
from appliance.model.state.observed import Fault
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark, mark_of, owed_before
from appliance.workflows.cluster.upgrading.revive import RECORD
from tests.unit.upgrade.rack import NEW, NEXT, NEXT_TAG, OLD, OLD_TAG, TAG, Bench, FakeEvidence
from tests.unit.upgrade.test_drop import KUBEADM, SINCE, drop, masters_of
from tests.unit.upgrade.test_upgrade_workflow import judged

LONG_SINCE = "2025-06-01T00:00:00+00:00"
OWED = UpgradeMark(
    NEW, LONG_SINCE, "ada", without=("w1",), over=True, accepted=("kubelet.maxPods",)
)
MISTAKE = UpgradeMark(NEXT, SINCE, "bob", before=NEW, former=OWED)


def stopped(mark: UpgradeMark = MISTAKE) -> Bench:
    """All but w1, which is down, run the release of before; the next was typed by mistake."""
    bench = Bench(3)
    bench.evidence = FakeEvidence(bench.rack)
    for name in masters_of(bench):
        bench.rack._kubeadm(name, "apply")
        bench.rack.documents[name]["jobs"] = [KUBEADM]
    nodes = {
        name: replace(node, version=OLD_TAG if name == "w1" else TAG)
        for name, node in bench.rack.api.nodes.items()
    }
    bench.rack.cluster = replace(bench.rack.api, nodes=nodes)
    bench.rack.annotate(masters_of(bench), ANNOTATION, mark.as_text())
    bench.rack.faults["w1"] = Fault("w1", "w1: no answer", "ping it")
    bench.chosen = [NEXT]
    return bench


def of_w1(bench: Bench, **changes: Any) -> None:
    node = replace(bench.rack.api.nodes["w1"], **changes)
    bench.rack.cluster = replace(bench.rack.api, nodes={**bench.rack.api.nodes, "w1": node})


@pytest.mark.parametrize("silent", [True, False])
def test_the_mark_of_what_is_owed_is_there_again(silent: bool) -> None:
    bench = stopped()
    if not silent:
        bench.rack.faults.clear()
    done = drop(bench)
    assert done.done
    assert done.drop is not None
    assert (done.drop.before, done.drop.former) == (NEW, OWED)
    assert mark_of(bench.rack.cluster) == OWED
    assert bench.chosen == [NEXT, NEW]
    assert bench.archive.documents[RECORD] == OWED.as_text()


def test_a_worker_that_is_in_maintenance_meanwhile_began_nothing() -> None:
    kept = Maintenance("1", "ada", "laptop", SINCE, "cordon", "out of service", True, False, "fan")
    bench = stopped()
    of_w1(bench, annotations={MAINTENANCE: kept.as_text()})
    assert drop(bench).done
    for text in (replace(kept, reason=f"upgrade to {NEXT}").as_text(), "{"):
        bench = stopped()
        of_w1(bench, annotations={MAINTENANCE: text})
        with pytest.raises(PreflightFailed, match="out of service"):
            drop(bench)


@pytest.mark.parametrize(
    "changes", [{"version": NEXT_TAG}, {"version": ""}, {"runtime": "containerd://1.6.20"}]
)
def test_a_left_out_worker_that_runs_no_older_release_is_no_proof(changes: dict[str, str]) -> None:
    bench = stopped()
    of_w1(bench, **changes)
    with pytest.raises(PreflightFailed, match=r"w1: .* one known older release"):
        drop(bench)
    assert (mark_of(bench.rack.cluster), bench.chosen) == (MISTAKE, [NEXT])


@pytest.mark.parametrize(
    "former",
    [replace(OWED, without=("cp2",)), replace(OWED, over=False), replace(OWED, release="")],
)
def test_nobody_is_spared_by_a_mark_that_does_not_fit(former: UpgradeMark) -> None:
    bench = stopped(replace(MISTAKE, former=former))
    bench.rack.faults["cp2"] = Fault("cp2", "cp2: no answer", "ping it")
    with pytest.raises(NodeUnreachable, match="2 of 5 nodes"):
        drop(bench)


def test_a_debt_of_another_release_than_what_runs_is_not_given_back() -> None:
    bench = stopped(replace(MISTAKE, former=replace(OWED, release=OLD)))
    with pytest.raises(PreflightFailed, match=f"but the others run {NEW}"):
        drop(bench)


def test_where_nobody_noted_the_debt_the_refusal_says_what_to_do() -> None:
    bench = stopped(replace(MISTAKE, former=None))
    bench.rack.faults.clear()
    with pytest.raises(PreflightFailed) as refused:
        drop(bench)
    hint = refused.value.hint or ""
    assert "w1: not_begun: found kubelet v1.23.5" in refused.value.message
    assert "has begun" not in hint
    assert "appliance node remove w1" in hint
    assert f"appliance cluster upgrade --to {NEXT} --without w1" in hint
    nodes = {name: one for name, one in bench.rack.api.nodes.items() if name != "w1"}
    bench.rack.cluster = replace(bench.rack.api, nodes=nodes)
    assert drop(bench).done, "the way that was named"


def test_an_upgrade_notes_what_it_owes_and_forgets_it_at_its_end() -> None:
    bench = judged()
    bench.rack.documents["cp1"]["jobs"] = [KUBEADM]
    owed = replace(OWED, release=OLD)
    bench.rack.annotate(["cp1"], ANNOTATION, owed.as_text())
    bench.rack.fail["artifacts"] = PlaybookFailed("the mirror has no room")
    for _ in range(2):
        with pytest.raises(PlaybookFailed):
            bench.upgrade()
        mark = mark_of(bench.rack.cluster)
        assert mark is not None
        assert mark.former == owed
    assert drop(bench).done
    assert mark_of(bench.rack.cluster) == owed
    bench.rack.fail.clear()
    assert bench.upgrade(without=("w1",)).ended
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert (mark.over, mark.without, mark.former) == (True, ("w1",), None)


def test_what_is_owed_is_noted_once_and_only_where_it_fits() -> None:
    assert owed_before(None, NEXT) is None
    assert owed_before(OWED, NEXT) == OWED
    assert owed_before(OWED, NEW) is None, "this upgrade does what is owed"
    assert owed_before(MISTAKE, NEXT) == OWED, "it goes on"
    assert owed_before(replace(OWED, former=OWED), NEXT) == OWED
    long = replace(OWED, accepted=tuple(f"{n:0900}" for n in range(9)))
    assert owed_before(long, NEXT) is None


def test_a_mark_without_a_former_one_is_written_as_before() -> None:
    assert "former" not in UpgradeMark(NEW, SINCE, "ada").as_text()
