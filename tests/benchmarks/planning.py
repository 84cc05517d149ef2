"""How long the plans of large fake sites take: of an install, beside a digest of its facts, and
of an upgrade of two releases, with its evictions, its go/no-go list and its window.

It asserts nothing.
``python -m tests.benchmarks.planning --nodes 1000 --upgraded 200``: needs no lab and no root.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from appliance.model.node.drain import DrainView
from appliance.model.plan.planner import plan
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.cluster.pods import Budget, PodOnNode
from appliance.model.state.cluster.resources import Resources
from appliance.model.state.facts.facts import facts_digest
from appliance.model.state.journal import Record
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import BundleEvidence
from appliance.model.upgrade.gates import gates
from appliance.model.upgrade.moves.room import Room
from appliance.model.upgrade.plan import Situation, UpgradeOptions, plan_upgrade
from appliance.model.upgrade.proof import versions_of
from appliance.model.upgrade.window import EACH, KUBELET, RUNTIME, Clock
from appliance.workflows.cluster.upgrading.look import forecasts_of
from tests import samples
from tests.fakes import FakeRack, run
from tests.sessions import fake_session
from tests.unit.upgrade import rack
from tests.unit.upgrade.gate_scene import Scene

MASTERS, TARGET_SECONDS = 3, 1.0
PODS_OF_A_NODE, RECORDED_RUNS = 30, 20
# Of each pod: a node's pods leave a fifth of it free, so that batches are bounded.
ASKED = Resources(1700, 1 << 30, 1)


def seconds(work: Callable[[], object], rounds: int) -> float:
    """Processor seconds, the median of some rounds: others may be at work on this machine."""
    took = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return statistics.median(took)


class Upgraded:
    """A site of many nodes that goes through two releases, with all that is asked of it.

    Args:
        nodes: how many, the control plane included.
    """

    def __init__(self, nodes: int) -> None:
        self.scene = Scene(samples.site(MASTERS, nodes - MASTERS, appliance_release=rack.NEXT))
        site = self.scene.site
        self.names = [node.name for node in site.cluster_members]
        self.desired = samples.desired(site)
        found = samples.cluster(self.desired)
        docker = {
            name: replace(node, runtime="docker://20.10.24") for name, node in found.nodes.items()
        }
        pods = tuple(rack.running(pod, rack.OLD_TAG) for pod in found.pods)
        self.cluster = replace(found, nodes=docker, pods=pods)
        facts = samples.node_facts(self.scene.facts)
        self.observed = Observed(facts, self.cluster)
        self.pods = {name: tuple(self._pods(name)) for name in self.names}
        every = frozenset(pod.where for pods in self.pods.values() for pod in pods)
        self.budgets = tuple(
            Budget("team", f"web-{n}", frozenset(w for w in every if w.endswith(f"-{n}")), 1)
            for n in range(PODS_OF_A_NODE)
        )
        self.records = list(self._records())

    def _pods(self, node: str) -> Iterator[PodOnNode]:
        for n in range(PODS_OF_A_NODE):
            yield rack.web(node, f"{node}-{n}", requests=ASKED)

    def _records(self) -> Iterator[Record]:
        one = run()
        for number in range(RECORDED_RUNS):
            for step in (KUBELET, RUNTIME, *EACH):
                for sequence, name in enumerate(self.names, 1):
                    yield Record(
                        one.id, sequence, "cluster upgrade", step, (name,), (), "2026-01-01",
                        30.0 + number, "verified", one.operator,
                    )  # fmt: skip

    def views(self, names: list[str]) -> dict[str, DrainView]:
        """What a forecast is made from."""
        nodes = tuple(self.cluster.nodes.values())
        return {
            name: DrainView(name, pods=self.pods[name], budgets=self.budgets, nodes=nodes)
            for name in names
        }

    def plan(self, at_once: int) -> tuple[int, float]:
        """Plan the whole path; return the number of steps, and the window in seconds."""
        site, options = self.scene.site, UpgradeOptions(rack.NEXT, max_unavailable=at_once)
        room = None
        if at_once > 1:
            room = Room(tuple(self.cluster.nodes.values()), self.views(self.names), {})
        versions, services = versions_of(site, self.observed), site.services_node.name
        found = Situation(versions, services=services, room=room)
        planned = plan_upgrade(options, found, rack.HOPS)
        assert planned.steps, planned.refusals
        forecasts = forecasts_of(
            planned, self.observed, fake_session(FakeRack(self.desired), drain=self), room
        )
        clock = Clock(self.records, {})
        window = clock.of_plan(planned)
        changing = {n for step in planned.steps if step.kind == "runtime" for n in step.nodes}
        bundles = {hop.release: BundleEvidence(hop.release) for hop in planned.hops}
        evidence = replace(
            self.scene.evidence,
            bundles=bundles,
            forecasts=forecasts,
            changing=frozenset(changing),
            window_seconds=window.worst,
        )
        gates(site, self.observed, evidence, planned.hops)
        # As the screen shows each of them.
        for step in planned.steps:
            clock.of_step(step)
        return len(planned.steps), window.median


def installs(nodes: int, rounds: int) -> None:
    """Print how long the plan of an install takes."""
    desired = samples.desired(samples.site(MASTERS, nodes - MASTERS))
    converged = samples.node_facts(
        {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    )
    bare = samples.node_facts({node.name: samples.bare(node) for node in desired.site.nodes})
    cluster = samples.cluster(desired)
    node_facts = list(converged.values())
    read = seconds(lambda: [facts_digest(facts) for facts in node_facts], rounds)
    print(f"{nodes} nodes, digests of their facts: {read:.2f} s")  # noqa: T201
    for name, observed in (
        ("nothing to do", Observed(converged, cluster)),
        ("everything to do", Observed(bare, NoCluster())),
    ):
        took = seconds(partial(plan, desired, observed), rounds)
        print(  # noqa: T201
            f"plan, {name}: {took:.2f} s (target {TARGET_SECONDS:.0f}), {took / read:.2f} of that"
        )


def upgrades(nodes: int, rounds: int) -> None:
    """Print how long the plan of an upgrade takes."""
    site = Upgraded(nodes)
    pods, records = PODS_OF_A_NODE * nodes, len(site.records)
    print(f"{nodes} nodes with {pods} pods, {records} records in the journal")  # noqa: T201
    for at_once in (1, 10, 50):
        took = seconds(partial(site.plan, at_once), rounds)
        steps, window = site.plan(at_once)
        print(  # noqa: T201
            f"plan of an upgrade, {at_once} at once: {took:.2f} s (target {TARGET_SECONDS:.0f}), "
            f"{steps} steps, window {window / 3600:.1f} h"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--upgraded", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=5)
    want = parser.parse_args()
    installs(want.nodes, want.rounds)
    upgrades(want.upgraded, want.rounds)


if __name__ == "__main__":
    main()
