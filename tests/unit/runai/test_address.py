"""Who carries the address of Run:ai's backend, and how keepalived is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from appliance.model.components.runai import address
from appliance.model.components.runai.component import nodes
from appliance.model.site.settings import Site
from appliance.model.state.observed import Observed
from tests import samples

VIP = "198.18.7.200"
API = {"name": "api.rack.test", "port": 8443, "balancer": "keepalived"}


def site(**runai: Any) -> Site:
    settings = {"vendor_bundle": "runai.tar", "address": VIP, "address_on": "keepalived", **runai}
    found = samples.site(1, 2, runai=settings, system_nodes_shared=True)
    workers = {"w1", "w2"}
    changed = tuple(
        dataclasses.replace(n, groups=n.groups | {"system_nodes"}) if n.name in workers else n
        for n in found.nodes
    )
    return dataclasses.replace(found, nodes=changed)


def seen(of: Site, carrier: str | None = None, **units: Any) -> Observed:
    desired = samples.desired(of)
    documents = {node.name: samples.converged(node, desired) for node in of.nodes}
    for name, document in documents.items():
        document["services"] = {**document["services"], **units}
        if name == carrier:
            document["nics"][0]["addresses"].append(f"{VIP}/24")
    return Observed(samples.node_facts(documents), samples.cluster(desired))


LEAVE = {"runai_address_enabled": False}
RUNS = {address.UNIT: {"active": "active", "enabled": "enabled"}}


def test_each_system_node_is_told_its_own_part_and_the_same_of_the_rest() -> None:
    wanted = site()
    desired, observed = samples.desired(wanted), seen(wanted)
    run = samples.planned_run(desired, observed)
    shared = address.variables(desired, run.manifest)
    assert shared["runai_address_virtual_address"] == f"{VIP}/24"
    assert shared["runai_address_peers"] == [n.ip for n in wanted.system_nodes]
    own = [address.node_variables(run, node) for node in wanted.nodes]
    told = [part for part in own if part["runai_address_enabled"]]
    assert own.count({"runai_address_enabled": False}) == 1
    assert [part["runai_address_own"] for part in told] == shared["runai_address_peers"]
    assert [part["runai_address_priority"] for part in told] == [150, 149]
    assert {part["runai_address_interface"] for part in told} == {"eth0"}
    assert {node.name for node in nodes(wanted)} == {"cp1", "w1", "w2"}


@pytest.mark.parametrize("given", [{"address_on": "node"}, {"address_on": "elsewhere"}])
def test_without_keepalived_every_node_is_told_to_leave_the_address(given: dict[str, str]) -> None:
    wanted = site(**given)
    desired = samples.desired(wanted)
    run = samples.planned_run(desired, seen(wanted))
    assert address.variables(desired, run.manifest) == {}
    assert [address.node_variables(run, node) for node in wanted.nodes] == [LEAVE, LEAVE, LEAVE]
    assert {node.name for node in nodes(wanted)} == {"cp1", "w1", "w2"}


@pytest.mark.parametrize(
    ("given", "due"),
    [({}, ["cp1"]), ({"address_on": "node"}, ["cp1", "w1", "w2"])],
)
def test_who_does_not_carry_the_address_any_more_is_due(
    given: dict[str, str], due: list[str]
) -> None:
    wanted = site(**given)
    desired, observed = samples.desired(wanted), seen(wanted, "w1", **RUNS)
    said = {node.name: list(address.unmet(node, desired, observed)) for node in wanted.nodes}
    assert [name for name, texts in said.items() if texts] == due
    assert all("of an earlier setting" in text for texts in said.values() for text in texts)


@pytest.mark.parametrize(
    ("api", "given", "expected"),
    [
        (None, None, 168),
        ("198.18.7.10", None, 168),
        # The same remainder as the backend's address.
        ("198.18.8.199", None, 169),
        ("198.18.8.199", 77, 77),
    ],
)
def test_the_vrrp_number_is_never_that_of_the_apis_address(
    api: str | None, given: int | None, expected: int
) -> None:
    endpoint = {"control_plane_endpoint": {**API, "virtual_address": api}} if api else {}
    runai = {"address": VIP, "address_on": "keepalived", "router_id": given}
    assert address.router_id(samples.site(1, 2, runai=runai, **endpoint)) == expected


@pytest.mark.parametrize(
    ("carrier", "units", "told"),
    [
        ("w1", RUNS, None),
        (None, RUNS, "no node has Run:ai's address"),
        ("w1", {address.UNIT: {"active": "failed", "enabled": "enabled"}}, "does not run"),
        (
            "w1",
            {address.UNIT: {"active": "active", "enabled": "disabled"}},
            "does not start at boot",
        ),
        ("w1", {}, "does not run"),
    ],
)
def test_the_step_is_due_until_a_system_node_has_the_address(
    carrier: str | None, units: dict[str, Any], told: str | None
) -> None:
    wanted = site()
    desired, observed = samples.desired(wanted), seen(wanted, carrier, **units)
    for node in wanted.system_nodes:
        said = list(address.unmet(node, desired, observed))
        assert [told is not None and told in text for text in said] == [True] * (told is not None)


@pytest.mark.parametrize(
    ("given", "carrier", "said"),
    [
        ({}, "w2", f"Run:ai's address {VIP}: w2"),
        ({}, None, f"Run:ai's address {VIP}: on no node that answered"),
        ({"address_on": "elsewhere"}, None, f"Run:ai's address {VIP}: carried by a load balancer"),
        ({"address": None, "address_on": "node"}, None, None),
    ],
)
def test_status_says_who_carries_it(
    given: dict[str, Any], carrier: str | None, said: str | None
) -> None:
    wanted = site(**given)
    found = address.sentence(wanted, seen(wanted, carrier))
    assert found is said is None or str(found).startswith(str(said))
