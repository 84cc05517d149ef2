"""How long the plan of a large fake site takes, beside a digest of its facts.

It asserts nothing.
``python -m tests.benchmarks.planning --nodes 1000``: needs no lab and no root.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial

from appliance.model.plan.planner import plan
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.facts.facts import facts_digest
from appliance.model.state.observed import Observed
from tests import samples

MASTERS, TARGET_SECONDS = 3, 1.0


def seconds(work: Callable[[], object], rounds: int) -> float:
    """The median of some rounds."""
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        took.append(time.perf_counter() - began)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    want = parser.parse_args()
    desired = samples.desired(samples.site(MASTERS, want.nodes - MASTERS))
    converged = samples.node_facts(
        {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    )
    bare = samples.node_facts({node.name: samples.bare(node) for node in desired.site.nodes})
    cluster = samples.cluster(desired)
    node_facts = list(converged.values())
    read = seconds(lambda: [facts_digest(facts) for facts in node_facts], want.rounds)
    print(f"{want.nodes} nodes, digests of their facts: {read:.2f} s")  # noqa: T201
    for name, observed in (
        ("nothing to do", Observed(converged, cluster)),
        ("everything to do", Observed(bare, NoCluster())),
    ):
        took = seconds(partial(plan, desired, observed), want.rounds)
        print(  # noqa: T201
            f"plan, {name}: {took:.2f} s (target {TARGET_SECONDS:.0f}), {took / read:.2f} of that"
        )


if __name__ == "__main__":
    main()
