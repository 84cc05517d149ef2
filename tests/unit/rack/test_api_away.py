"""``rack up`` and ``rack down`` while the only API server is away for a moment."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    ClusterError,
    ClusterSilent,
    NodeUnreachable,
    StepNotVerified,
)
from appliance.model.state.cluster.cluster import ClusterState, Unreachable
from appliance.model.state.facts.facts import NodeFacts
from tests.unit.rack.bench import Bench


def away_at(bench: Bench, moment: int) -> list[int]:
    """No API server answers when it is read for that time; how often it was read."""
    read, reads = bench.world.read, [0]

    def once(node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        reads[0] += 1
        if reads[0] - 1 == moment:
            return Unreachable("cp1: the API does not answer: ReadTimeoutError")
        return read(node_facts)

    bench.world.read = once  # type: ignore[method-assign]
    return reads


def test_a_success_leaves_no_node_out_of_service_whenever_the_api_was_away() -> None:
    for moment in count():
        bench = Bench(masters=1)
        bench.down()
        reads = away_at(bench, moment)
        failed = False
        try:
            done = bench.up()
        except ApplianceError:
            failed = True
        else:
            assert (moment, done.returned) == (moment, ("cp1", "w2", "w1"))
            assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
            assert bench.record.text is None
        if failed:
            bench.up()
            assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
        if reads[0] <= moment:
            break
    assert moment > 5


def test_an_api_that_stays_away_is_no_success() -> None:
    bench = Bench(masters=1)
    bench.down()
    read, reads = bench.world.read, [0]

    def twice(node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        reads[0] += 1
        return read(node_facts) if reads[0] == 1 else Unreachable("cp1: the API does not answer")

    bench.world.read = twice  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="the Kubernetes API does not answer: cp1"):
        bench.up()
    assert bench.record.text is not None
    bench.world.read = read  # type: ignore[method-assign]
    assert bench.up().returned == ("cp1", "w2", "w1")


WHY = "the API refused: the webhook is gone"
REQUESTS = ("view", "mark", "clear", "annotate")


def silent(
    bench: Bench, request: str, number: int, seconds: float, *, lost: bool = False
) -> list[float]:
    """No API server answers that request of this number, nor one after it, for so long; when.

    Args:
        lost: only the answer is lost: the first request took effect.
    """
    ask, asked, since = getattr(bench.world, request), [0], list[float]()

    def once(*words: Any, **more: Any) -> Any:
        asked[0] += 1
        if asked[0] == number:
            since.append(bench.clock.monotonic())
            if lost:
                ask(*words, **more)
                raise ClusterSilent("the API stopped answering: ReadTimeoutError")
        if since and bench.clock.monotonic() < since[0] + seconds:
            raise NodeUnreachable("no API server answers")
        return ask(*words, **more)

    setattr(bench.world, request, once)
    return since


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("request_", REQUESTS)
def test_a_short_silence_of_the_api_keeps_no_node_out(request_: str, lost: bool) -> None:
    for number in count(1):
        bench = Bench(masters=1)
        bench.down()
        since = silent(bench, request_, number, 60, lost=lost)
        assert bench.up().returned == ("cp1", "w2", "w1")
        assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
        assert bench.record.text is None
        if not since:
            break
    assert number > (1 if request_ == "annotate" else 3)


@pytest.mark.parametrize("request_", REQUESTS)
def test_a_long_silence_of_the_api_ends_in_its_name_and_a_second_run_heals(request_: str) -> None:
    bench = Bench(masters=1)
    bench.down()
    began, ask = bench.clock.monotonic(), getattr(bench.world, request_)
    read = bench.world.read
    since = silent(bench, request_, 1, 1e9)

    def answer(node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        return Unreachable("cp1: refused") if since else read(node_facts)

    bench.world.read = answer  # type: ignore[method-assign]
    with pytest.raises(ApplianceError, match=r"the Kubernetes API does not answer|no API server"):
        bench.up()
    # It is asked for 90 s, and looked at for 600 s: not for that long for each node.
    assert bench.clock.monotonic() - began < 900
    setattr(bench.world, request_, ask)
    bench.world.read = read  # type: ignore[method-assign]
    bench.up()
    assert (bench.cordoned, bench.marks, bench.announced) == ([], {}, [])
    assert bench.record.text is None


def test_an_api_that_goes_away_after_the_last_return_is_said_in_words() -> None:
    bench = Bench(masters=1)
    bench.down()
    read, clear, back = bench.world.read, bench.world.clear, list[str]()

    def cleared(node: str, **more: Any) -> None:
        clear(node, **more)
        back.append(node)

    def answer(node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        return read(node_facts) if len(back) < 3 else Unreachable("cp1: refused")

    bench.world.clear = cleared  # type: ignore[method-assign]
    bench.world.read = answer  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified) as stopped:
        bench.up()
    assert stopped.value.message == "the Kubernetes API does not answer: cp1: refused"


def test_the_error_of_a_silent_api_says_why_the_node_before_did_not_return() -> None:
    bench = Bench(masters=1)
    bench.down()
    read, failed = bench.world.read, list[str]()

    def refuse(node: str, **_: Any) -> None:
        failed.append(node)
        raise ClusterError(WHY)

    def answer(node_facts: Mapping[str, NodeFacts]) -> ClusterState:
        return Unreachable("cp1: refused") if failed else read(node_facts)

    bench.world.clear = refuse  # type: ignore[method-assign]
    bench.world.read = answer  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified) as stopped:
        bench.up()
    assert stopped.value.message == "the Kubernetes API does not answer: cp1: refused"
    (line,) = stopped.value.details
    assert line.startswith("cp1 does not come: ")
    assert WHY in line


def test_no_error_of_a_rack_that_goes_down_says_that_nothing_was_changed() -> None:
    for moment in count():
        bench = Bench(masters=1)
        view, views = bench.world.view, [0]

        def once(node: str, *, at: int = moment, ask: Any = view, asked: Any = views) -> Any:
            asked[0] += 1
            if asked[0] - 1 == at:
                raise NodeUnreachable("no API server answers")
            return ask(node)

        bench.world.view = once  # type: ignore[method-assign]
        code = None
        try:
            bench.down()
        except ApplianceError as error:
            code = error.exit_code
        if code is not None:
            assert (moment, code) == (moment, 1 if bench.cordoned else 4)
            bench.down()
        assert bench.world.on == set()
        if views[0] <= moment:
            break
    assert moment > 5
