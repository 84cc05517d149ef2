"""A new kubelet of the only control-plane node starts its API server again, after it is Ready."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ClusterError,
    ClusterRefused,
    ClusterSilent,
    NodeUnreachable,
    PreflightFailed,
)
from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import Cluster, Unreachable
from appliance.model.state.upgrade import mark_of
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.losses import Documents
from appliance.workflows.session.patience import API_SECONDS
from tests.unit.upgrade.rack import NEW, NEXT, TAG, Bench
from tests.unit.upgrade.test_upgrade_workflow import judged

API = "kube-apiserver"


def cut(bench: Bench, times: int, node: str = "cp1") -> list[str]:
    """The first tests of a node are cut off; the nodes of every test, filled as they begin."""
    tested, begun = bench.rack.run_network_test, list[str]()

    def test(nodes: Sequence[str], image: str, *, dns: bool = True) -> tuple[str, ...]:
        begun.append(nodes[0])
        if nodes[0] == node and begun.count(node) <= times:
            raise ClusterSilent("the API stopped answering during the network test: SSLError")
        return tested(nodes, image, dns=dns)

    bench.rack.run_network_test = test  # type: ignore[method-assign]
    return begun


@pytest.mark.parametrize("times", [2, 3])
def test_an_api_that_is_gone_when_the_test_begins_is_waited_for(times: int) -> None:
    bench = Bench()
    tested, begun = bench.rack.run_network_test, list[str]()

    def test(nodes: Sequence[str], image: str, *, dns: bool = True) -> tuple[str, ...]:
        begun.append(nodes[0])
        if len(begun) <= times:
            raise NodeUnreachable("no API server answers: cp1: the API refuses the connection")
        return tested(nodes, image, dns=dns)

    bench.rack.run_network_test = test  # type: ignore[method-assign]
    if times == 2:
        assert bench.upgrade().ended
        assert begun == ["cp1", "cp1", "cp1", "w1", "w2"]
        return
    with pytest.raises(ClusterError, match="no API server answers") as failed:
        bench.upgrade()
    assert any("cp1 stays out of service" in line for line in failed.value.details)
    assert bench.upgrade().ended


def without_pod(bench: Bench, *, ready: bool | None = None) -> None:
    """The API server's pod is not told of, or not ready."""
    pods = tuple(
        pod if pod.app != API else replace(pod, ready=bool(ready))
        for pod in bench.rack.api.pods
        if pod.app != API or ready is not None
    )
    bench.rack.cluster = replace(bench.rack.api, pods=pods)


def test_a_test_that_the_api_cut_off_begins_again() -> None:
    bench = Bench()
    begun = cut(bench, 2)
    assert bench.upgrade().ended
    assert begun == ["cp1", "cp1", "cp1", "w1", "w2"]
    assert len([one for one in bench.observer.said if "the test begins again" in str(one)]) == 2
    assert bench.cordoned == []


def test_an_api_that_cuts_off_every_test_leaves_the_node_out_and_the_same_command_ends_it() -> None:
    bench = Bench()
    begun = cut(bench, 3)
    with pytest.raises(ClusterSilent) as failed:
        bench.upgrade()
    assert begun == ["cp1"] * 3
    assert bench.cordoned == ["cp1"]
    assert any("cp1 stays out of service" in line for line in failed.value.details)
    assert bench.upgrade().ended
    assert bench.cordoned == []


def test_the_kubelet_of_a_control_plane_is_renewed_once_its_pods_are_ready() -> None:
    bench = Bench()
    kubelet, slept = bench.rack._kubelet, bench.clock.sleep
    waits: list[float] = []

    def restarts(name: str, tag: str = TAG) -> None:
        kubelet(name, tag)
        if name == "cp1":
            without_pod(bench, ready=False)

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        slept(seconds)
        if len(waits) == 3:
            without_pod(bench, ready=True)

    bench.rack._kubelet = restarts  # type: ignore[method-assign]
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.upgrade().ended
    assert len(waits) == 3


def test_a_run_that_goes_on_waits_for_the_pods_of_a_kubelet_that_has_just_started() -> None:
    bench = Bench()
    cut(bench, 3)
    with pytest.raises(ClusterSilent):
        bench.upgrade()
    whole, slept = bench.rack.api, bench.clock.sleep
    without_pod(bench)

    def sleep(seconds: float) -> None:
        slept(seconds)
        if bench.clock.now() > began + 30:
            bench.rack.cluster = whole

    began = bench.clock.now()
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.upgrade().ended
    assert ("note", "cp1: kube-apiserver is absent; waiting for it") in bench.observer.said


@pytest.mark.parametrize("under_way", [False, True])
def test_a_part_that_stays_away_refuses(under_way: bool) -> None:
    bench = Bench()
    if under_way:
        cut(bench, 3)
        with pytest.raises(ClusterSilent):
            bench.upgrade()
    without_pod(bench)
    began = bench.clock.now()
    with pytest.raises(PreflightFailed, match="kube-apiserver of version unknown"):
        bench.upgrade()
    # Nothing is waited for where no upgrade could have started a kubelet.
    assert (bench.clock.now() - began >= API_SECONDS) is under_way


@pytest.mark.parametrize("workers", [0, 2])
def test_an_api_that_starts_again_at_the_very_end_is_waited_for(workers: int) -> None:
    bench = Bench(workers=workers)
    cleared, slept, last = bench.drain.clear, bench.clock.sleep, f"w{workers}" if workers else "cp1"
    whole: list[Cluster] = []

    def clear(node: str, **more: Any) -> None:
        cleared(node, **more)
        if node == last:
            whole.append(bench.rack.api)
            bench.rack.cluster = Unreachable("cp1: the API refuses the connection")

    def sleep(seconds: float) -> None:
        slept(seconds)
        if whole and not isinstance(bench.rack.cluster, Cluster):
            bench.rack.cluster = whole[0]

    bench.drain.clear = clear  # type: ignore[method-assign]
    bench.clock.sleep = sleep  # type: ignore[method-assign]
    assert bench.upgrade().ended
    assert mark_of(bench.rack.api) is None


def test_an_api_that_stays_away_at_the_very_end_is_an_error_and_the_same_command_ends_it() -> None:
    bench = Bench(workers=0)
    cleared, whole = bench.drain.clear, list[Cluster]()

    def clear(node: str, **more: Any) -> None:
        cleared(node, **more)
        whole.append(bench.rack.api)
        bench.rack.cluster = Unreachable("cp1: the API refuses the connection")

    bench.drain.clear = clear  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="no Kubernetes API server answers: what runs is"):
        bench.upgrade()
    bench.rack.cluster = whole[0]
    assert bench.upgrade().ended


@pytest.mark.parametrize(
    ("error", "goes_on"), [(ClusterError("no answer"), True), (ClusterRefused("404"), False)]
)
def test_the_mark_is_written_once_the_api_answers_again(error: ClusterError, goes_on: bool) -> None:
    bench = Bench(workers=0)
    annotated, asked = bench.rack.annotate, list[str | None]()

    def annotate(names: Sequence[str], key: str, value: str | None) -> None:
        asked.append(value)
        if value is None and asked.count(None) <= 5:
            raise error
        annotated(names, key, value)

    bench.rack.annotate = annotate  # type: ignore[method-assign]
    if not goes_on:
        with pytest.raises(ClusterRefused):
            bench.upgrade()
        assert asked.count(None) == 1
        return
    assert bench.upgrade().ended
    assert mark_of(bench.rack.api) is None


@pytest.mark.parametrize("silent", [3, 1000])
def test_settings_are_read_again_before_the_first_step(silent: int) -> None:
    bench = judged()
    assert bench.evidence is not None
    whole, asked = bench.evidence.documents, list[float]()

    def documents(members: Iterable[Node]) -> Documents:
        asked.append(bench.clock.now())
        # The first time is the judgement before the run.
        away = 1 < len(asked) <= 1 + silent
        found = whole(members)
        return replace(found, cluster_configuration=Silence("no API answers")) if away else found

    bench.evidence.documents = documents  # type: ignore[method-assign]
    if silent == 3:
        assert bench.upgrade().ended
        assert (
            "note",
            "ConfigMap kubeadm-config: no API answers; reading it again",
        ) in bench.observer.said
        return
    with pytest.raises(ClusterError, match="could not be read: ConfigMap kubeadm-config: no API"):
        bench.upgrade()
    assert asked[-1] - asked[1] >= API_SECONDS
    assert not [one for one in bench.rack.done if one.startswith("apply")]


@pytest.mark.parametrize("question", ["documents", "deprecated_uses"])
@pytest.mark.parametrize(
    ("silent", "away", "goes_on"),
    [
        # It is there again when it is looked for.
        (1, 0, True),
        (3, 2, True),
        (1000, 1000, False),
        # It answers, and not this question.
        (1000, 0, False),
        (1000, 3, False),
    ],
)
def test_an_api_that_starts_while_its_evidence_is_read_is_asked_again(
    question: str, silent: int, away: int, goes_on: bool
) -> None:
    bench = judged()
    assert bench.evidence is not None
    ask, read, asked, looked = getattr(bench.evidence, question), bench.rack.read, [0], [0]

    def answer(*words: Any) -> Any:
        asked[0] += 1
        if asked[0] > silent:
            return ask(*words)
        silence = Silence("no API server answers")
        return replace(ask(*words), cluster_configuration=silence) if words else silence

    def look(node_facts: Any) -> Any:
        looked[0] += asked[0] > 0
        return Unreachable("SSLError") if 0 < looked[0] <= away else read(node_facts)

    setattr(bench.evidence, question, answer)
    bench.rack.read = look  # type: ignore[method-assign]
    began = bench.clock.now()
    if goes_on:
        assert bench.upgrade().ended
        said = [str(one[1]) for one in bench.observer.said if one[0] == "note"]
        assert len([text for text in said if text.endswith("answers; asking again")]) == silent
        return
    with pytest.raises(PreflightFailed, match="no API server answers"):
        bench.upgrade()
    assert (bench.clock.now() - began >= API_SECONDS) == (away == 1000)
    assert away == 1000 or asked == [away + 2]
    assert bench.rack.done == []


@pytest.mark.parametrize("seconds", [60, 1e9])
@pytest.mark.parametrize("to", [NEW, NEXT])
def test_an_api_that_is_away_when_the_bundle_is_copied_is_waited_for(
    to: str, seconds: float
) -> None:
    bench = Bench(to=to)
    annotated, read, since = bench.rack.annotate, bench.rack.read, list[float]()

    def annotate(names: Sequence[str], key: str, value: str | None) -> None:
        annotated(names, key, value)
        if value is not None:
            # The bundle of each release of the path comes next.
            since[:] = [bench.clock.monotonic()]

    def answer(facts: Any) -> Any:
        away = since and bench.clock.monotonic() < since[0] + seconds
        return Unreachable("cp1: the API refuses the connection") if away else read(facts)

    bench.rack.annotate = annotate  # type: ignore[method-assign]
    bench.rack.read = answer  # type: ignore[method-assign,assignment]
    if seconds == 60:
        assert bench.upgrade().ended
        return
    began = bench.clock.monotonic()
    with pytest.raises(ClusterError, match="the API refuses the connection"):
        bench.upgrade()
    assert bench.clock.monotonic() - began >= API_SECONDS
    assert bench.rack.done == []
    bench.rack.read = read  # type: ignore[method-assign]
    assert bench.upgrade().ended
