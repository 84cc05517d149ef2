"""What no pod may reach: the rules of each node, and when they are absent."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from appliance.model.components.registry import pod_guard
from appliance.model.site.settings import Node, Site
from appliance.model.state.facts.facts import NodeFacts
from tests import samples
from tests.unit.modules.loading import ROOT

CIDR = "198.19.0.0/17"


def site(nfs: dict[str, Any] | None = None, **changes: Any) -> Site:
    return samples.site(
        nfs=nfs, network={"pod_cidr": CIDR, "service_cidr": "198.19.128.0/17"}, **changes
    )


def node(of: Site, name: str) -> Node:
    return next(found for found in of.nodes if found.name == name)


def seen(rules: object, enabled: str = "enabled") -> dict[str, NodeFacts]:
    document = {
        "schema": 1,
        "firewall": {"pod_guard": rules},
        "services": {"pod-guard": {"enabled": enabled, "active": "active"}},
    }
    return {"w1": NodeFacts(document)}


def whole(of: Site, name: str) -> list[str]:
    hooks = [f"-A {hook} -j APPLIANCE-PODS" for hook in ("FORWARD", "INPUT")]
    return [*hooks, *pod_guard.rules(node(of, name), of)]


def test_a_worker_keeps_its_pods_from_the_registry_and_from_the_storage() -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    rules = pod_guard.rules(node(of, "w1"), of)
    assert "-A APPLIANCE-PODS-DENIED -d 198.18.7.11/32 -p tcp -m tcp --dport 5000 -j DROP" in rules
    assert any("-p tcp -m tcp --dport 2049 -j DROP" in rule for rule in rules)
    assert len(rules) == len(set(rules)) == 12


@pytest.mark.parametrize("name", ["cp1", "w1"])
def test_traffic_of_pods_is_recognised_by_address_interface_and_service(name: str) -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    told = [
        rule
        for rule in pod_guard.rules(node(of, name), of)
        if rule.endswith("-j APPLIANCE-PODS-DENIED")
    ]
    assert told == [
        f"-A APPLIANCE-PODS -s {CIDR} -j APPLIANCE-PODS-DENIED",
        "-A APPLIANCE-PODS -i cni0 -j APPLIANCE-PODS-DENIED",
        "-A APPLIANCE-PODS -i flannel.1 -j APPLIANCE-PODS-DENIED",
        "-A APPLIANCE-PODS -m conntrack --ctstate DNAT -j APPLIANCE-PODS-DENIED",
    ]


@pytest.mark.parametrize("name", ["cp1", "w1"])
def test_a_pod_sends_no_frame_of_the_pod_network_to_any_address(name: str) -> None:
    of = site()
    frames = "-A APPLIANCE-PODS-DENIED -p udp -m udp --dport 8472 -j DROP"
    assert frames in pod_guard.rules(node(of, name), of)


def test_the_node_that_serves_does_so_under_every_address_of_its_own() -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    dropped = [rule for rule in pod_guard.rules(node(of, "cp1"), of) if "-j DROP" in rule]
    served = [rule for rule in dropped if "--dport 8472" not in rule]
    assert len(served) == 7
    assert all("--dst-type LOCAL" in rule and " -d " not in rule for rule in served)


def test_every_chain_that_a_rule_is_in_or_goes_to_is_one_that_the_role_makes() -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    words = [rule.split() for rule in pod_guard.rules(node(of, "cp1"), of)]
    made = yaml.safe_load((ROOT / "roles/kubernetes_node/vars/main.yml").read_text())
    assert made["__kubernetes_node_guard_chains"] == list(pod_guard.CHAINS)
    assert {rule[1] for rule in words} == set(pod_guard.CHAINS)
    assert {rule[-1] for rule in words} == {"DROP", pod_guard.DENIED}


def test_a_foreign_server_is_kept_from_pods_where_its_address_is_known() -> None:
    of = site({"server": "198.18.7.99", "path": "/export"})
    assert any("-d 198.18.7.99/32" in rule for rule in pod_guard.rules(node(of, "w1"), of))
    of = site({"server": "nfs.rack.test", "path": "/export"})
    assert len(pod_guard.rules(node(of, "w1"), of)) == 6


def three_masters(**changes: Any) -> Site:
    endpoint = {
        "name": "api.rack.test",
        "port": 8443,
        "balancer": "keepalived",
        "virtual_address": "198.18.7.100",
    }
    return site(
        {"server": "cp1", "path": "/srv/runai"},
        masters=3,
        control_plane_endpoint=endpoint,
        **changes,
    )


@pytest.mark.parametrize("name", ["cp2", "w1"])
@pytest.mark.parametrize("address", ["198.18.7.11", "198.18.7.100", "198.18.7.101"])
def test_pods_elsewhere_reach_the_server_under_no_address_that_the_site_moves(
    name: str, address: str
) -> None:
    of = three_masters(runai={"address": "198.18.7.101"})
    rules = pod_guard.rules(node(of, name), of)
    for port in ("tcp 2049", "udp 2049", "tcp 111", "udp 111", "tcp 20048", "tcp 5000"):
        protocol, number = port.split()
        to = f"-d {address}/32 -p {protocol} -m {protocol} --dport {number}"
        assert f"-A APPLIANCE-PODS-DENIED {to} -j DROP" in rules


def test_the_address_of_another_node_is_not_the_servers_even_where_the_site_gives_it_twice() -> (
    None
):
    of = three_masters(runai={"address": "198.18.7.21"})
    assert not any("198.18.7.21" in rule for rule in pod_guard.rules(node(of, "w2"), of))


def test_every_address_that_was_seen_of_the_server_is_kept_from_pods() -> None:
    of = three_masters()
    nics = [
        {"addresses": ["198.18.7.11/24", "198.18.7.100/24", "fe80::1/64"]},
        {"addresses": ["198.18.64.11/24"]},
    ]
    all_facts = {"cp1": NodeFacts({"schema": 1, "nics": nics})}
    rules = pod_guard.rules(node(of, "w1"), of, all_facts)
    assert any("-d 198.18.64.11/32 -p tcp -m tcp --dport 2049" in rule for rule in rules)
    without = [rule for rule in rules if "198.18.64.11" not in rule]
    assert without == list(pod_guard.rules(node(of, "w1"), of))
    assert len(rules) == len(set(rules))


def test_a_server_that_tells_of_thousands_of_addresses_costs_the_members_a_few_rules() -> None:
    of = three_masters()
    told = [f"203.0.{n // 250}.{n % 250}/32" for n in range(5000)]
    all_facts = {"cp1": NodeFacts({"schema": 1, "nics": [{"addresses": told}]})}
    assert len(pod_guard.rules(node(of, "w1"), of, all_facts)) < 200


def test_rules_from_before_the_virtual_address_was_named_are_not_enough() -> None:
    of = three_masters()
    rules = [rule for rule in whole(of, "w1") if "198.18.7.100" not in rule]
    assert list(pod_guard.unmet(node(of, "w1"), of, seen(whole(of, "w1")))) == []
    (said,) = pod_guard.unmet(node(of, "w1"), of, seen(rules))
    assert "7 of 21 rules are missing" in said


def test_rules_that_are_all_there_are_found_whatever_the_order_of_their_words() -> None:
    of = site()
    rules = whole(of, "w1")
    rules[-1] = "-A APPLIANCE-PODS-DENIED -p tcp -d 198.18.7.11/32 -m tcp --dport 5000 -j DROP"
    assert list(pod_guard.unmet(node(of, "w1"), of, seen(rules))) == []


@pytest.mark.parametrize("gone", range(8))
def test_each_rule_and_each_hook_is_missed(gone: int) -> None:
    of = site()
    rules = whole(of, "w1")
    del rules[gone]
    (said,) = pod_guard.unmet(node(of, "w1"), of, seen(rules))
    assert "1 of 8 rules are missing" in said


def test_a_rule_for_another_protocol_or_address_does_not_count() -> None:
    of = site()
    for old, new in ((" tcp ", " udp "), ("198.18.7.11", "198.18.7.12"), (CIDR, "10.0.0.0/8")):
        rules = [rule.replace(old, new) for rule in whole(of, "w1")]
        assert list(pod_guard.unmet(node(of, "w1"), of, seen(rules))), (old, new)


def test_rules_that_would_be_gone_after_a_reboot_are_reported() -> None:
    of = site()
    (said,) = pod_guard.unmet(node(of, "w1"), of, seen(whole(of, "w1"), enabled="disabled"))
    assert "does not start at boot" in said


@pytest.mark.parametrize("unread", [None, "text", 5])
def test_rules_that_could_not_be_read_are_no_reason(unread: object) -> None:
    of = site()
    assert list(pod_guard.unmet(node(of, "w1"), of, seen(unread))) == []
