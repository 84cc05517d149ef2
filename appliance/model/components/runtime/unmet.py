"""The step runtime: Docker runs with the systemd cgroup driver."""

from __future__ import annotations

from collections.abc import Iterator

from appliance.model.bundle.release.release import is_of_line
from appliance.model.site.settings import Node
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Observed


def runtime(node: Node, desired: Desired, observed: Observed) -> Iterator[str]:
    """Docker of the release's line runs with the systemd cgroup driver, also after a reboot."""
    facts = observed.node_facts[node.name]
    version = facts.at("runtime.docker.version")
    wanted = desired.release.needs.get("docker", "")
    if not version:
        yield "Docker does not run"
        return
    if wanted and not is_of_line(str(version), wanted):
        yield f"Docker is {version}, not {wanted}"
    if facts.at("runtime.docker.cgroup_driver") != "systemd":
        yield f"Docker's cgroup driver is {facts.at('runtime.docker.cgroup_driver')}, not systemd"
    if facts.unit("docker").get("enabled") != "enabled":
        yield "Docker does not start at boot"
