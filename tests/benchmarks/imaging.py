"""How long the seeds of a large batch of bare servers take.

It asserts nothing.
``python -m tests.benchmarks.imaging --nodes 500``: needs no lab and no root.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

from appliance.model.node.imaging.seed import for_many
from tests.benchmarks.planning import seconds
from tests.unit.imaging import bench

TARGET_SECONDS = 2.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    want = parser.parse_args()
    first = bench.of_model("gigabyte/g492-zd2")
    images = [replace(first, name=f"w{number}") for number in range(want.nodes)]
    seeds = [bench.seed(image) for image in images]
    took = seconds(lambda: [bench.seed(image) for image in images], want.rounds)
    print(f"{want.nodes} seeds: {took:.2f} s (target {TARGET_SECONDS:.0f} for 500)")  # noqa: T201
    medium = seconds(lambda: for_many(bench.PROGRAMS, seeds), want.rounds)
    print(f"the files of a medium for them: {medium:.2f} s")  # noqa: T201


if __name__ == "__main__":
    main()
