"""Hints say an ``ssh`` that reaches the node: the site's user, port, key and jump host."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.nodes.network import address_in_use
from appliance.model.components.base.subject import Subject
from appliance.model.plan.planner import plan
from appliance.model.site.ssh import ssh_command
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.observed import Observed
from tests import samples

FAR = {
    "user": "ada",
    "port": 2222,
    "private_key": "/home/ada/my keys/rack",
    "jump_host": "ops@jump.example:22",
}
LOGIN = "ssh -p 2222 -i '/home/ada/my keys/rack' -J ops@jump.example:22 ada@198.18.7."


@pytest.mark.parametrize(
    ("ssh", "wanted"),
    [
        ({}, "ssh ubuntu@198.18.7.11 uptime"),
        ({"user": "ada"}, "ssh ada@198.18.7.11 uptime"),
        ({"port": 2222}, "ssh -p 2222 ubuntu@198.18.7.11 uptime"),
        ({"private_key": "/keys/rack"}, "ssh -i /keys/rack ubuntu@198.18.7.11 uptime"),
        ({"jump_host": "jump.example"}, "ssh -J jump.example ubuntu@198.18.7.11 uptime"),
        (FAR, f"{LOGIN}11 uptime"),
    ],
)
def test_the_sites_way_to_a_node_is_typed(ssh: dict[str, Any], wanted: str) -> None:
    site = samples.site(ssh=ssh)
    assert ssh_command(site, site.node("cp1"), "uptime") == wanted
    assert ssh_command(site, site.node("cp1")) == wanted.removesuffix(" uptime")


def _seen(masters: int = 1) -> tuple[Any, Observed]:
    desired = samples.desired(samples.site(masters, 2, ssh=FAR))
    documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    return desired, Observed(samples.node_facts(documents), samples.cluster(desired))


def test_findings_of_preflight_and_of_health_say_it() -> None:
    desired, observed = _seen()
    node = desired.site.node("w1")
    subject = Subject(node, observed.node_facts["w1"], desired, observed)
    assert subject.ssh("uptime") == f"{LOGIN}21 uptime"
    assert HealthInputs(desired, observed).ssh(node, "uptime") == f"{LOGIN}21 uptime"


def test_an_address_that_two_have_names_the_other_by_its_login() -> None:
    desired, observed = _seen()
    other = samples.bare(desired.site.node("w2"))
    other["nics"][0]["addresses"] = ["198.18.7.21/24"]
    others = samples.node_facts({"w2": other})
    subject = Subject(
        desired.site.node("w1"), observed.node_facts["w1"], desired, observed, others=others
    )
    assert [finding.hint for finding in address_in_use(subject)] == [
        f"correct the address of w2: {LOGIN}22 ip -br address"
    ]


def test_a_lost_quorum_is_looked_at_by_the_leaders_login() -> None:
    desired, observed = _seen(3)
    silent = Unreachable("no answer", {"cp1": "etcd data", "cp2": "etcd data"})
    broken = dict(observed.node_facts)
    (refusal, *_) = plan(desired, Observed(broken, silent)).refusals
    assert refusal.hint == (
        f"find out why etcd has no quorum: {LOGIN}11 sudo docker ps -a --filter name=etcd"
    )
