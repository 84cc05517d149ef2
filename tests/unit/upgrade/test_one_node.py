"""A cluster of one node, and of one more: CoreDNS has no place while the only node is out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PreflightFailed, StepNotVerified
from appliance.model.state.cluster.pods import Pod, PodOnNode, Toleration
from tests.unit.upgrade.rack import NEW, Bench, web

DNS = "kube-dns"


def placed(bench: Bench) -> None:
    """CoreDNS' pods go where there is a place, as the scheduler has it."""
    api = bench.rack.api
    free = [name for name, node in api.nodes.items() if not node.unschedulable]

    def of(pod: Pod) -> Pod:
        if pod.app != DNS or (pod.node in free and pod.ready):
            return pod
        return replace(pod, node=free[0] if free else None, ready=bool(free))

    bench.rack.cluster = replace(api, pods=tuple(map(of, api.pods)))


def of_one(workers: int = 0) -> Bench:
    """A cluster whose CoreDNS moves as pods do."""
    bench = Bench(workers=workers)
    drain, evict, clear = bench.drain, bench.drain.evict, bench.drain.clear
    dns = PodOnNode(
        "kube-system",
        "coredns-1",
        "cp1",
        owner=("ReplicaSet", "coredns"),
        siblings=1,
        tolerations=(Toleration("node-role.kubernetes.io/master", effect="NoSchedule"),),
    )

    def moved(pod: PodOnNode) -> str:
        said = evict(pod)
        placed(bench)
        for there in {one.node for one in bench.rack.api.pods if one.app == DNS and one.node}:
            drain.pods[there].append(replace(pod, node=there))
        return said

    def cleared(node: str, **words: Any) -> None:
        clear(node, **words)
        placed(bench)

    def tested(nodes: Sequence[str], image: str, *, dns: bool = True) -> tuple[str, ...]:
        assert image
        bench.rack.proofs.append((*nodes, "dns") if dns else tuple(nodes))
        answers = any(pod.app == DNS and pod.ready for pod in bench.rack.api.pods)
        return () if answers or not dns else ("the cluster's DNS does not resolve proof",)

    drain.evict = moved  # type: ignore[method-assign]
    drain.clear = cleared  # type: ignore[method-assign]
    bench.rack.run_network_test = tested  # type: ignore[method-assign]
    drain.pods["cp1"] = [dns]
    return bench


def test_the_only_node_returns_although_dns_waits_for_it() -> None:
    bench = of_one()
    assert bench.upgrade(allow_outage=True).ended
    assert bench.cordoned == []
    assert bench.rack.proofs == [("cp1",)]
    assert any("DNS was not tested" in str(words) for words in bench.observer.said)
    assert [pod.node for pod in bench.rack.api.pods if pod.app == DNS] == ["cp1"]


def test_where_another_node_runs_dns_it_is_tested() -> None:
    bench = of_one(workers=1)
    assert bench.upgrade().ended
    assert all("dns" in proof for proof in bench.rack.proofs)
    assert len(bench.rack.proofs) == 2


def test_a_dns_that_does_not_start_on_the_node_keeps_it_out() -> None:
    bench = of_one()
    evict = bench.drain.evict

    def broken(pod: PodOnNode) -> str:
        said = evict(pod)
        api = bench.rack.api
        pods = [replace(p, node="cp1") if p.app == DNS else p for p in api.pods]
        bench.rack.cluster = replace(api, pods=tuple(pods))
        return said

    bench.drain.evict = broken  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="coredns-1 is not ready"):
        bench.upgrade(NEW, allow_outage=True)
    assert bench.cordoned == ["cp1"]


def tainted(bench: Bench) -> Bench:
    """As kubeadm leaves its first node: pods of users have no place there."""
    nodes = bench.rack.api.nodes
    cp1 = replace(nodes["cp1"], taints=("node-role.kubernetes.io/master=:NoSchedule",))
    bench.rack.cluster = replace(bench.rack.api, nodes={**nodes, "cp1": cp1})
    return bench


def test_dns_goes_to_a_control_plane_whose_taint_it_tolerates() -> None:
    bench = tainted(of_one(workers=1))
    assert bench.upgrade().ended
    assert bench.rack.done.count("evict coredns-1") == 2
    assert bench.cordoned == []


def test_a_pod_that_tolerates_no_taint_still_needs_a_yes() -> None:
    bench = tainted(of_one(workers=1))
    bench.drain.pods["w1"] = [web("w1")]
    with pytest.raises(PreflightFailed, match="no other node can take its pods"):
        bench.upgrade()
    assert (bench.rack.plays, bench.cordoned) == ([], [])
