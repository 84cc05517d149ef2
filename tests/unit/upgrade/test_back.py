"""``--back``: what an upgrade began on a node is taken back, or the refusal says why not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.adapters.local.content import load_release
from appliance.errors import (
    ApplianceError,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.plan.play import Play
from appliance.model.state.upgrade import mark_of
from appliance.model.upgrade.inventory import BACK_GROUP
from appliance.workflows.cluster.upgrading.back import CRI_SOCKET
from tests.unit.upgrade.rack import NEW, NEXT, OLD_TAG, TAG, Bench
from tests.unit.upgrade.test_hops import whole

NEW_ONE = "unix:///run/containerd/containerd.sock"


def with_a_way_back(bench: Bench) -> Bench:
    """Plays put the kubelet of before, or Docker, back."""
    forward = bench.rack.play

    def back(play: Play, on_task: Callable[[str, str, bool | None], None]) -> None:
        hosts = play.inventory["all"]["children"].get(BACK_GROUP, {}).get("hosts")
        if not hosts:
            forward(play, on_task)
            return
        (name,), said = hosts, play.inventory["all"]["vars"]
        bench.rack.done.append(f"back {name} {said['kubernetes_upgrade_back']}")
        bench.rack.plays.append(play)
        nodes = bench.rack.api.nodes
        old = {"1.23.17": OLD_TAG, "1.24.17": TAG}[said["kubernetes_upgrade_version"]]
        node = replace(nodes[name], ready=True, version=old)
        bench.rack.cluster = replace(bench.rack.api, nodes={**nodes, name: node})

    bench.rack.play = back  # type: ignore[method-assign]
    return bench


def changed(bench: Bench, name: str, **changes: object) -> None:
    nodes = bench.rack.api.nodes
    node = replace(nodes[name], **changes)  # type: ignore[arg-type]
    bench.rack.cluster = replace(bench.rack.api, nodes={**nodes, name: node})


def failed(name: str, to: str = NEW, pause_after: str = "") -> Bench:
    """An upgrade whose step on a node failed; the node is out of service, and not Ready."""
    bench = with_a_way_back(Bench(to=to))
    if pause_after:
        bench.upgrade(pause_after=pause_after)
    bench.rack.fail_on[name] = PlaybookFailed(f"{name}: the kubelet does not start")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    changed(bench, name, ready=False)
    assert bench.cordoned == [name]
    return bench


FAILED = {
    "a worker's kubelet": ("w1", NEW, "", "kubelet"),
    "a worker's runtime": ("w1", NEXT, NEW, "runtime"),
    "a control plane's runtime": ("cp1", NEXT, NEW, "runtime"),
}


@pytest.mark.parametrize(("name", "to", "pause_after", "part"), FAILED.values(), ids=FAILED)
def test_a_step_that_failed_is_taken_back_and_the_node_serves_again(
    name: str, to: str, pause_after: str, part: str
) -> None:
    bench = failed(name, to, pause_after)
    assert bench.upgrade(back=name).done
    assert bench.rack.done[-1] == f"back {name} {part}"
    assert bench.cordoned == []
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert not mark.over
    assert bench.upgrade().ended
    assert bench.cordoned == []


def test_docker_is_the_runtime_again_that_kubeadm_reads_of_the_node() -> None:
    bench = failed("w1", NEXT, NEW)
    changed(
        bench, "w1", annotations={**bench.rack.api.nodes["w1"].annotations, CRI_SOCKET: NEW_ONE}
    )
    bench.upgrade(back="w1")
    docker = load_release(NEW).runtime.socket
    assert bench.rack.api.nodes["w1"].annotations[CRI_SOCKET] == docker
    assert "docker" in docker


def test_a_kubelet_that_goes_back_has_the_runtime_that_it_had() -> None:
    bench = failed("w1")
    bench.upgrade(back="w1")
    assert CRI_SOCKET not in bench.rack.api.nodes["w1"].annotations


def test_what_is_put_back_is_what_this_upgrade_kept() -> None:
    bench = failed("w1")
    bench.upgrade(back="w1")
    words = {
        play.inventory["all"]["vars"]["kubernetes_upgrade_id"]
        for play in bench.rack.plays
        if play.playbook == "kubernetes_upgrade"
    }
    mark = mark_of(bench.rack.cluster)
    assert mark is not None
    assert words == {mark.id}


def test_a_kubelet_of_the_second_release_goes_back_to_the_first() -> None:
    bench = with_a_way_back(Bench(to=NEXT))
    while bench.rack.done.count("apply cp1") < 2:
        bench.upgrade(pause_after="cp1")
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: the kubelet does not start")
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    assert bench.upgrade(back="w1").done
    assert bench.rack.api.nodes["w1"].version == TAG
    assert bench.rack.api.nodes["w1"].runtime.startswith("containerd")
    assert bench.upgrade().ended
    whole(bench)


def test_the_dry_run_shows_what_would_be_taken_back() -> None:
    bench = failed("w1")
    before = list(bench.rack.done)
    found = bench.upgrade(back="w1", dry_run=True)
    assert [(step.kind, step.nodes) for step in found.plan.steps] == [("back", ("w1",))]
    assert bench.rack.done == before


def test_without_a_yes_nothing_is_taken_back() -> None:
    bench = failed("w1")
    bench.answer = False
    with pytest.raises(Refused):
        bench.upgrade(back="w1")
    assert bench.cordoned == ["w1"]


def begun() -> Bench:
    bench = with_a_way_back(Bench(to=NEXT))
    bench.upgrade(pause_after="cp1")
    return bench


NO_WAY: list[tuple[Callable[[], Bench], str, str, str]] = [
    (Bench, "w1", "no upgrade is under way", "appliance status"),
    (begun, "w1", "a node in service", "appliance cluster upgrade --to k8s-1.24.17-r1"),
    (begun, "cp1", "a control-plane node in service", "appliance cluster upgrade --to"),
]


@pytest.mark.parametrize(("made", "name", "seen", "hint"), NO_WAY)
def test_where_there_is_no_way_back_the_refusal_says_why_and_what_to_do(
    made: Callable[[], Bench], name: str, seen: str, hint: str
) -> None:
    bench = made()
    before = list(bench.rack.done)
    with pytest.raises(PreflightFailed, match=seen) as refused:
        bench.upgrade(back=name)
    assert hint in str(refused.value.hint)
    assert bench.rack.done == before


def test_a_runtime_that_was_changed_goes_forward_only() -> None:
    bench = failed("w1", NEXT, NEW)
    changed(bench, "w1", runtime="containerd://1.6.20")
    with pytest.raises(PreflightFailed, match="the container runtime containerd by now"):
        bench.upgrade(back="w1")


def test_a_node_that_does_not_come_back_stays_out() -> None:
    bench = failed("w1")
    bench.rack.play = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="w1: it is not Ready"):
        bench.upgrade(back="w1")
    assert bench.cordoned == ["w1"]


def test_after_the_kubelet_went_back_no_error_says_that_nothing_was_changed() -> None:
    bench = failed("w1")
    bench.archive.documents.clear()
    with pytest.raises(ApplianceError, match="facts saved before") as stopped:
        bench.upgrade(back="w1")
    assert bench.rack.done[-1] == "back w1 kubelet"
    assert stopped.value.exit_code == 1


def test_another_node_that_is_down_is_named_and_left_out_of_a_way_back() -> None:
    bench = failed("w1")
    changed(bench, "w2", ready=False)
    with pytest.raises(PreflightFailed, match=r"w2: .*not Ready") as refused:
        bench.upgrade(back="w1")
    assert "--without w2" in str(refused.value.hint)
    assert bench.upgrade(back="w1", without=("w2",)).done
    assert bench.rack.done[-1] == "back w1 kubelet"
    assert bench.cordoned == []


def test_a_node_that_was_left_out_when_the_upgrade_ended_goes_forward_only() -> None:
    bench = failed("w1")
    assert bench.upgrade(without=("w1",)).ended
    assert bench.cordoned == ["w1"]
    with pytest.raises(PreflightFailed, match=r"upgraded to .* without w1") as refused:
        bench.upgrade(back="w1")
    assert refused.value.hint == "go on: appliance cluster upgrade --to k8s-1.23.17-r1"


def test_a_node_that_was_left_out_at_the_end_finds_what_the_same_upgrade_kept_of_it() -> None:
    bench = failed("w1")
    assert bench.upgrade(without=("w1",)).ended
    first = mark_of(bench.rack.cluster)
    assert first is not None
    changed(bench, "w1", ready=True)
    bench.clock.sleep(86_400)
    assert bench.upgrade().ended
    last = [play for play in bench.rack.plays if play.playbook == "kubernetes_upgrade"][-1]
    assert last.limit == ("w1",)
    assert last.inventory["all"]["vars"]["kubernetes_upgrade_id"] == first.id
    assert mark_of(bench.rack.cluster) is None
