"""An upgrade that has changed nothing yet is dropped; one that began, or may have, is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ClusterError,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
)
from appliance.model.state.nodes.maintenance import ANNOTATION as MAINTENANCE
from appliance.model.state.observed import Fault
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark, mark_of
from appliance.model.upgrade.evidence import Silence
from appliance.workflows.cluster.upgrading.drop import DropRequest, DropResult, drop_upgrade
from appliance.workflows.cluster.upgrading.revive import RECORD
from tests.fakes import run
from tests.sessions import fake_session
from tests.unit.upgrade.rack import HOPS, NEW, NEXT, OLD, TAG, Bench, FakeEvidence
from tests.unit.upgrade.test_upgrade_workflow import judged
from tests.unit.upgrade.test_window import record

SINCE = "2026-01-01T00:00:00+00:00"
LONG_AGO, LATER = 1_600_000_000.0, 1_800_000_000.0
KUBEADM = {"unit": "appliance-kubeadm", "active": "gone", "record": {"rc": 0, "started": LONG_AGO}}


class Killed(BaseException):
    """SIGKILL: nothing of ours runs any more."""


def stopped(masters: int = 3) -> Bench:
    """A rack whose upgrade wrote its mark and site.yml, and nothing else."""
    bench = Bench(masters)
    bench.evidence = FakeEvidence(bench.rack)
    for node in bench.desired.site.control_plane:
        bench.rack.documents[node.name]["jobs"] = [KUBEADM]
    bench.rack.annotate(masters_of(bench), ANNOTATION, UpgradeMark(NEW, SINCE, "ada").as_text())
    bench.chosen = [NEW]
    return bench


def masters_of(bench: Bench) -> list[str]:
    return [node.name for node in bench.desired.site.control_plane]


def drop(bench: Bench, *, agree: bool = True, **more: Any) -> DropResult:
    session = fake_session(
        bench.rack,
        bench.journal,
        archive=bench.archive,
        observer=bench.observer,
        clock=bench.clock,
        choose_release=more.pop("choose_release", bench.chosen.append),
        upgrade_evidence=bench.evidence,
    )
    request = DropRequest(bench.desired.site, HOPS, run("cluster upgrade"), **more)
    return drop_upgrade(request, session, lambda _drop: agree)


def test_what_was_written_is_taken_back_and_recorded() -> None:
    bench = stopped()
    done = drop(bench)
    assert done.done
    assert done.drop is not None
    assert (done.drop.before, done.drop.nodes) == (OLD, ("cp1", "cp2", "cp3"))
    assert mark_of(bench.rack.cluster) is None
    assert bench.chosen == [NEW, OLD]
    assert '"over":true' in bench.archive.documents[RECORD]
    (one,) = bench.journal.records
    assert (one.step, one.outcome) == ("upgrade: drop", "verified")
    assert bench.rack.plays == []
    assert drop(bench) == DropResult(None)


def test_an_upgrade_that_was_stopped_before_its_first_step_is_dropped_and_begun_again() -> None:
    bench = judged()
    assert bench.evidence is not None
    bench.rack.documents["cp1"]["jobs"] = [KUBEADM]
    bench.rack.fail["artifacts"] = PlaybookFailed("the mirror has no room")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    assert mark_of(bench.rack.cluster) is not None
    assert drop(bench).done
    assert bench.evidence.asked_of[0][0] == "cp1"
    bench.rack.fail.clear()
    assert bench.upgrade().ended
    bench.rack.annotate(["cp1"], ANNOTATION, UpgradeMark(NEW, SINCE, "ada").as_text())
    with pytest.raises(PreflightFailed):
        drop(bench)


def _of_api(**changes: Any) -> Callable[[Bench], None]:
    def change(bench: Bench) -> None:
        node = replace(bench.rack.api.nodes["cp2"], **changes)
        bench.rack.cluster = replace(bench.rack.api, nodes={**bench.rack.api.nodes, "cp2": node})

    return change


def _of_jobs(jobs: Any) -> Callable[[Bench], None]:
    return lambda bench: bench.rack.documents["cp3"].update(jobs=jobs)


def _of_kept(kept: Any) -> Callable[[Bench], None]:
    return lambda bench: setattr(bench.evidence, "begun", kept)


def _of_mark(**changes: Any) -> Callable[[Bench], None]:
    text = replace(UpgradeMark(NEW, SINCE, "ada"), **changes).as_text()
    return lambda bench: bench.rack.annotate(masters_of(bench), ANNOTATION, text)


def _of_record(step: str) -> Callable[[Bench], None]:
    return lambda bench: bench.journal.append(record(step, "cp1", 3.0, "failed"))


def _unread(bench: Bench) -> None:
    bench.rack.documents["cp1"]["unseen"] = {"jobs": "systemctl did not answer"}


def _without_evidence(bench: Bench) -> None:
    bench.evidence = None


BEGUN: dict[str, tuple[Callable[[Bench], Any], str]] = {
    "kubeadm ran on one": (lambda bench: bench.rack._kubeadm("cp1", "apply"), "cp1: .* v1.23.17"),
    "kubeadm has nearly ended": (
        lambda bench: bench.rack._kubeadm("cp2", "node"),
        "found docker and v1.23.17 and v1.23.5",
    ),
    "a kubelet is new": (_of_api(version=TAG), "v1.23.17 and v1.23.5"),
    "a runtime is new": (_of_api(runtime="containerd://1.6.20"), "containerd and docker"),
    "a version is unknown": (_of_api(version=""), "cp2: .* no version of kubelet"),
    "a control-plane node is not Ready": (_of_api(ready=False), "cp2: .* no Ready member"),
    "a node is out": (_of_api(annotations={MAINTENANCE: "?"}), "cp2: .* out of service"),
    "kubeadm runs": (_of_jobs([{**KUBEADM, "active": "active"}]), "cp3: .* kubeadm running"),
    "kubeadm ran since": (
        _of_jobs([{**KUBEADM, "record": {"started": LATER}}]),
        "cp3: .* a run of kubeadm since then",
    ),
    "kubeadm ran at no known time": (_of_jobs([{**KUBEADM, "record": None}]), "unknown time"),
    "nobody told of jobs": (_of_jobs(None), "cp3: .* no answer about kubeadm's runs"),
    "jobs were not seen": (_unread, "cp1: .* no answer about kubeadm's runs"),
    "a kubelet is kept": (_of_kept({"cp2"}), "cp2: .* a kubelet kept by this upgrade"),
    "nobody told what is kept": (_of_kept(Silence("cp1: no answer")), "found cp1: no answer"),
    "nobody can be asked what is kept": (_without_evidence, "it was not asked"),
    "the journal has kubeadm": (_of_record("upgrade: control plane"), "in the journal"),
    "the journal has an eviction": (_of_record("maintain: evict"), "in the journal"),
    "it is over": (_of_mark(over=True, without=("w1",)), "upgraded to"),
    "its release is unknown": (_of_mark(release="k8s-9.9.9-r1"), "k8s-9.9.9-r1"),
    "its beginning is unknown": (_of_mark(since="yesterday"), "no answer about kubeadm's runs"),
    "it cannot be read": (
        lambda bench: bench.rack.annotate(["cp2"], ANNOTATION, "{"),
        "cannot be read",
    ),
}


@pytest.mark.parametrize("case", BEGUN)
def test_what_began_or_may_have_is_not_dropped(case: str) -> None:
    change, words = BEGUN[case]
    bench = stopped()
    change(bench)
    before = mark_of(bench.rack.cluster)
    with pytest.raises(PreflightFailed) as refused:
        drop(bench)
    assert re.search(words, "\n".join((refused.value.message, *refused.value.details)))
    assert "appliance cluster upgrade" in str(refused.value.hint)
    assert (mark_of(bench.rack.cluster), bench.chosen) == (before, [NEW])


def test_every_node_that_runs_the_release_has_begun() -> None:
    bench = stopped(1)
    bench.rack._kubeadm("cp1", "apply")
    nodes = {name: replace(node, version=TAG) for name, node in bench.rack.api.nodes.items()}
    bench.rack.cluster = replace(bench.rack.api, nodes=nodes)
    with pytest.raises(PreflightFailed, match=r"docker and v1\.23\.17"):
        drop(bench)
    bench.rack.annotate(["cp1"], ANNOTATION, UpgradeMark(NEXT, SINCE, "ada").as_text())
    found = drop(bench, dry_run=True).drop
    assert found is not None
    assert found.before == NEW, "an upgrade to the next release has not begun"


def test_a_node_that_was_not_read_refuses() -> None:
    for name in ("cp2", "w1"):
        bench = stopped()
        bench.rack.faults[name] = Fault(name, f"{name}: no answer", "ping it")
        with pytest.raises(NodeUnreachable, match=f"{name}"):
            drop(bench)
        assert bench.chosen == [NEW]


def test_a_dry_run_and_a_no_change_nothing() -> None:
    bench = stopped()
    assert drop(bench, dry_run=True).drop is not None
    with pytest.raises(Refused, match="not confirmed"):
        drop(bench, agree=False)
    assert (bench.chosen, bench.journal.records) == ([NEW], [])
    assert mark_of(bench.rack.cluster) is not None


def test_a_site_file_that_cannot_be_written_keeps_the_mark() -> None:
    bench = stopped()

    def closed(_release: str) -> None:
        raise Refused("site.yml could not be written")

    with pytest.raises(Refused):
        drop(bench, choose_release=closed)
    assert mark_of(bench.rack.cluster) is not None


@pytest.mark.parametrize("error", [Killed(), ClusterError("the API refused")])
def test_one_that_was_killed_between_its_writes_is_run_again(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = stopped()

    def half(names: Any, key: str, value: str | None) -> None:
        type(bench.rack).annotate(bench.rack, list(names)[:1], key, value)
        raise error

    monkeypatch.setattr(bench.rack, "annotate", half)
    with pytest.raises(type(error)):
        drop(bench)
    monkeypatch.undo()
    assert mark_of(bench.rack.cluster) is not None, "two nodes have it still"
    assert drop(bench).done
    assert mark_of(bench.rack.cluster) is None
    assert bench.chosen == [NEW, OLD, OLD]


def test_an_upgrade_that_went_on_meanwhile_is_not_dropped() -> None:
    bench = stopped()
    agreed: list[bool] = []
    session = fake_session(
        bench.rack,
        bench.journal,
        archive=bench.archive,
        clock=bench.clock,
        choose_release=bench.chosen.append,
        upgrade_evidence=bench.evidence,
    )

    def confirm(_drop: Any) -> bool:
        bench.rack._kubeadm("cp1", "apply")
        agreed.append(True)
        return True

    with pytest.raises(PreflightFailed):
        drop_upgrade(
            DropRequest(bench.desired.site, HOPS, run("cluster upgrade")), session, confirm
        )
    assert (agreed, bench.chosen) == ([True], [NEW])


def test_a_member_that_the_inventory_lacks_may_have_begun() -> None:
    """An older copy of the site, on another laptop: nobody asks the nodes that it does not know."""
    bench = stopped()
    site = bench.desired.site
    bench.rack._kubeadm("cp3", "node")
    older = replace(site, nodes=tuple(one for one in site.nodes if one.name != "cp3"))
    bench.desired = replace(bench.desired, site=older)
    with pytest.raises(PreflightFailed) as refused:
        drop(bench)
    assert "cp3: not_begun: found a member" in "\n".join(
        (refused.value.message, *refused.value.details)
    )
    assert mark_of(bench.rack.cluster) is not None
    assert bench.chosen == [NEW]
