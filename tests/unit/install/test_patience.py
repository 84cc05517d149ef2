"""Waits do not follow a clock that is set, and look once more after their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import cycle

import pytest

from appliance.errors import NodeUnreachable, StepNotVerified
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster, Unreachable
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.workflows.cluster.upgrading.look import observe_patiently
from appliance.workflows.session.patience import API_SECONDS, Patience, api_silence, observe_until
from tests import samples
from tests.fakes import FakeClock, FakeObserver, FakeRack
from tests.sessions import fake_session
from tests.unit.install.test_install import Bench


class SetForward(FakeClock):
    """Somebody sets the clock by an hour, again and again."""

    def now(self) -> float:
        self.jumps = getattr(self, "jumps", 0) + 1
        return super().now() + 3600.0 * self.jumps


class Slow(FakeRack):
    """A rack whose first look at the network hangs, and brings what was so before it hung."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__(samples.desired())
        self.clock, self.seconds = clock, seconds

    def read(self, node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        now = super().read(node_facts)
        if not self.plays or self.plays[-1].playbook != "network" or not self.seconds:
            return now
        self.clock.sleep(self.seconds)
        self.seconds = 0.0
        assert isinstance(now, Cluster)
        return replace(now, pods=tuple(replace(pod, ready=False) for pod in now.pods))


def test_a_clock_that_is_set_forward_ends_no_wait() -> None:
    bench = Bench(clock=SetForward())
    bench.rack.reads_until_pods_are_ready = 20
    bench.install()
    assert {record.outcome for record in bench.journal.records} == {"verified"}


def test_patience_ends_with_a_look_that_began_after_it() -> None:
    clock = FakeClock()
    patience = Patience(clock, 10.0)
    assert not patience.is_over()
    clock.sleep(9.0)
    assert not patience.is_over()
    clock.sleep(3600.0)  # a look that hung
    assert not patience.is_over()
    assert patience.is_last
    assert patience.is_over()


def test_no_patience_means_one_look() -> None:
    assert Patience(FakeClock(), 0.0).is_over()


@pytest.mark.parametrize("hung", [10.0, 100_000.0])
def test_a_look_that_hung_beyond_the_deadline_is_not_the_last(hung: float) -> None:
    clock = FakeClock()
    rack = Slow(clock, hung)
    bench = Bench(rack=rack, clock=clock)
    bench.install()
    assert rack.seconds == 0.0
    assert {record.outcome for record in bench.journal.records} == {"verified"}


def test_what_never_comes_still_ends_the_wait() -> None:
    bench = Bench()
    bench.rack.without_effect = {"runtime"}
    began = bench.clock.monotonic()
    with pytest.raises(StepNotVerified):
        bench.install()
    assert 20 <= bench.clock.monotonic() - began < 25


@pytest.mark.parametrize(("away", "looks"), [(0, 1), (2, 3), (1000, 20)])
def test_an_api_that_is_away_is_waited_for_and_said(away: int, looks: int) -> None:
    rack, clock, observer = (
        FakeRack(samples.desired(samples.site(1, 2))),
        FakeClock(),
        FakeObserver(),
    )
    began, seen = clock.now(), list[Observed]()

    def look() -> Observed:
        gone = len(seen) < away
        cluster = Unreachable("cp1: refused") if gone else samples.cluster(rack.desired)
        seen.append(Observed({}, cluster))
        return seen[-1]

    session = fake_session(rack, clock=clock, observer=observer)
    assert observe_until(look, api_silence, session) is seen[-1]
    assert len(seen) == looks
    assert isinstance(seen[-1].cluster, Cluster) is (away < looks)
    words = "the Kubernetes API does not answer: cp1: refused; waiting for it"
    # Once a minute: what is waited for stays on the screen, and does not fill it.
    assert observer.said == [("note", words)] * min(away, 1 if away < looks else 2)
    # The last look begins after the end of the time.
    assert (clock.now() - began >= API_SECONDS) is (away == 1000)


def test_without_time_to_wait_the_first_look_is_the_last() -> None:
    rack, clock, observer = (
        FakeRack(samples.desired(samples.site(1, 2))),
        FakeClock(),
        FakeObserver(),
    )
    seen = Observed({}, NoCluster())
    session = fake_session(rack, clock=clock, observer=observer)
    began = clock.now()
    assert observe_until(lambda: seen, api_silence, session, 0) is seen
    assert (clock.now(), observer.said) == (began, [])
    assert api_silence(seen) == "the Kubernetes API does not answer: no cluster"


def test_where_there_is_no_cluster_nothing_is_waited_for() -> None:
    rack, clock, observer = (
        FakeRack(samples.desired(samples.site(3, 2))),
        FakeClock(),
        FakeObserver(),
    )
    session = fake_session(rack, clock=clock, observer=observer)
    began, answers = clock.now(), dict(rack.look(rack.desired.site.nodes).node_facts)

    def look() -> Observed:
        return Observed(answers, rack.read(answers))

    assert isinstance(observe_until(look, api_silence, session).cluster, NoCluster)
    assert (clock.now(), observer.said) == (began, [])
    with pytest.raises(NodeUnreachable, match="no control-plane node has a cluster") as caught:
        observe_patiently(rack.desired.site.nodes, session, "nothing can be upgraded")
    assert "appliance install" in (caught.value.hint or "")
    assert (clock.now(), observer.said) == (began, [])
    # One that does not answer may have it: then nobody knows, and it is waited for.
    del answers["cp3"]
    assert isinstance(observe_until(look, api_silence, session).cluster, Unreachable)
    assert clock.now() - began >= API_SECONDS


def test_a_long_wait_fills_no_screen_and_says_each_new_reason_at_once() -> None:
    rack, clock, observer = (
        FakeRack(samples.desired(samples.site(1, 2))),
        FakeClock(),
        FakeObserver(),
    )
    reasons = cycle(("cp1: refused", "cp1: timed out"))

    def look() -> Observed:
        return Observed({}, Unreachable(next(reasons)))

    session = fake_session(rack, clock=clock, observer=observer)
    observe_until(look, api_silence, session, 600.0)
    first, second = (
        f"the Kubernetes API does not answer: {one}; waiting for it"
        for one in ("cp1: refused", "cp1: timed out")
    )
    said = [text for _, text in observer.said]
    assert said[:2] == [first, second]
    assert len(said) == 2 * 600 / 60 + 1
