"""The step runtime: the release's runtime runs with the systemd cgroup driver."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.bundle.release.release import is_of_line
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed


def runtime(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """The runtime of the release's line runs with the systemd cgroup driver, also after a boot."""
    facts = observed.node_facts[node.name]
    wanted = desired.release.runtime
    line = desired.release.needs.get(wanted.name)
    version = facts.at(f"runtime.{wanted.name}.version")
    if not version:
        yield f"{wanted.title} does not run"
        return
    if line is not None and not is_of_line(str(version), line):
        yield f"{wanted.title} is {version}, not {line}"
    driver = facts.at(f"runtime.{wanted.name}.cgroup_driver")
    if driver != "systemd":
        yield f"{wanted.title}'s cgroup driver is {driver}, not systemd"
    if facts.unit(wanted.name).get("enabled") != "enabled":
        yield f"{wanted.title} does not start at boot"
