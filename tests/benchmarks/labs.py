"""Labs of the benchmark, and what is read of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from appliance.model.site.settings import Site
from tests.benchmarks.measured import Measured, measure, nodes_cpu_seconds

Result = dict[str, Any]


def appliance(*words: str) -> list[str]:
    """The command line of this checkout."""
    return [sys.executable, "-m", "appliance", *words]


class Lab:
    """One lab's name, and labs made under it one after the other, each with a new site."""

    def __init__(self, name: str, bundle: Path, folder: Path) -> None:
        self.name = name
        self.bundle = bundle
        self._folder = folder
        self._count = 0

    def up(self, *words: str, environment: dict[str, str] | None = None) -> tuple[Path, Measured]:
        """Take what is there down, and bring it up anew; what ``lab up`` took is measured."""
        self.down()
        self._count += 1
        site = self._folder / f"site-{self._count}"
        argv = appliance("lab", "up", "--name", self.name, "--site", str(site), "--yes", *words)
        if environment is None:
            argv += ["--bundle", str(self.bundle)]
        return site, measure(argv, environment=environment)

    def down(self) -> None:
        """Take it down, in whatever state it is."""
        measure(appliance("lab", "down", "--name", self.name, "--yes"))


@contextmanager
def node_cpu(site: Site, result: Result) -> Iterator[None]:
    """Add to the result what the nodes' processors did in between."""
    names = [node.name for node in site.nodes]
    before = nodes_cpu_seconds(names)
    yield
    after = nodes_cpu_seconds(names)
    if before is not None and after is not None:
        result["nodes_cpu_seconds"] = round(after - before, 1)


def steps_of(site: Path) -> dict[str, float]:
    """Step -> seconds that it took last."""
    told = measure(appliance("history", "--site", str(site), "--output", "json"))
    return {record["step"]: record["took_seconds"] for record in json.loads(told.output)}
