"""An upgrade that was killed while the only API server's kubelet was stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, NodeUnreachable, Refused
from appliance.model.documents.typed_json import read_typed
from appliance.model.plan.play import Play
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.upgrade import UpgradeMark
from appliance.model.upgrade.inventory import REVIVE_GROUP
from appliance.workflows.cluster.upgrading.revive import RECORD
from tests.fakes import FakeJournal
from tests.unit.upgrade.rack import NEW, NEXT, Bench
from tests.unit.upgrade.test_hops import Killed, whole


class OnceJournal(FakeJournal):
    """The lock of one command, as a site has it: once it was released it is not taken again."""

    released = False

    def __exit__(self, *words: object) -> None:
        super().__exit__(*words)
        self.released = self.released or (not self.entered and self.begun > 0)

    def require(self) -> tuple[str, ...]:
        assert not self.released, "a command takes the site once"
        return super().require()


def stopped(at: str = "runtime") -> Bench:
    """A run that was killed on the only control-plane node; its kubelet is stopped."""
    bench = Bench(to=NEXT)
    rack, whole_play = bench.rack, bench.rack.play

    def change(play: Play, on_task: Callable[..., None]) -> None:
        if play.playbook == f"kubernetes_{at}" and play.limit == ("cp1",):
            rack.documents["cp1"]["kubernetes"]["kubelet_active"] = False
            raise Killed
        whole_play(play, on_task)

    rack.play = change  # type: ignore[method-assign]
    with pytest.raises(Killed):
        bench.upgrade()
    known, rack.cluster = rack.cluster, Unreachable("connection refused")

    def start(play: Play, on_task: Callable[..., None]) -> None:
        groups = play.inventory["all"]["children"]
        if groups.get(REVIVE_GROUP, {}).get("hosts"):
            rack.done.append(f"revive {' '.join(play.limit)}")
            rack.documents["cp1"]["kubernetes"]["kubelet_active"] = True
            rack.cluster = known
            return
        whole_play(play, on_task)

    rack.play = start  # type: ignore[method-assign]
    bench.journal = OnceJournal()
    return bench


def test_the_same_command_starts_what_it_had_stopped_and_ends_the_upgrade() -> None:
    bench = stopped()
    assert bench.upgrade().ended
    assert "revive cp1" in bench.rack.done
    assert [step.kind for step in bench.asked[-2].plan.steps] == ["revive"]
    whole(bench)


def test_it_is_asked_for_and_refused_without_a_yes() -> None:
    bench = stopped()
    bench.answer = False
    with pytest.raises(Refused):
        bench.upgrade()
    assert "revive cp1" not in bench.rack.done


def changed(bench: Bench, **changes: Any) -> None:
    """Another record than the one of this upgrade."""
    mark = read_typed(bench.archive.documents[RECORD], UpgradeMark)
    bench.archive.documents[RECORD] = replace(mark, **changes).as_text()


@pytest.mark.parametrize("changes", [{"release": NEW}, {"over": True}])
def test_without_a_record_of_this_upgrade_nothing_is_started(changes: dict[str, Any]) -> None:
    bench = stopped()
    changed(bench, **changes)
    with pytest.raises(NodeUnreachable, match="no Kubernetes API server answers"):
        bench.upgrade()
    assert "revive cp1" not in bench.rack.done


def test_a_record_that_cannot_be_read_starts_nothing() -> None:
    bench = stopped()
    bench.archive.documents[RECORD] = '{"release": 7}'
    with pytest.raises(NodeUnreachable):
        bench.upgrade()
    assert "revive cp1" not in bench.rack.done


def test_a_kubelet_that_runs_is_not_the_reason_and_nothing_is_started() -> None:
    bench = stopped()
    bench.rack.documents["cp1"]["kubernetes"]["kubelet_active"] = True
    with pytest.raises(NodeUnreachable):
        bench.upgrade()
    assert "revive cp1" not in bench.rack.done


def test_a_dry_run_starts_nothing() -> None:
    bench = stopped()
    with pytest.raises(NodeUnreachable):
        bench.upgrade(dry_run=True)
    assert "revive cp1" not in bench.rack.done


def test_at_its_end_the_record_says_that_it_is_over() -> None:
    bench = Bench()
    bench.upgrade()
    assert '"over":true' in bench.archive.documents[RECORD]


def test_after_a_kubelet_was_started_no_error_says_that_nothing_was_changed() -> None:
    bench = stopped()
    start = bench.rack.play

    def in_vain(play: Play, on_task: Callable[..., None]) -> None:
        start(play, on_task)
        bench.rack.cluster = Unreachable("connection refused")

    bench.rack.play = in_vain  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="no Kubernetes API server answers"):
        bench.upgrade()
    assert bench.rack.done[-1] == "revive cp1"
