"""What no pod may reach: the rules of each node, and when they are absent."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model import pod_guard
from appliance.model.photograph import Photograph
from appliance.model.site import Node, Site
from tests import samples

CIDR = "198.19.0.0/17"


def site(nfs: dict[str, Any] | None = None, **changes: Any) -> Site:
    return samples.site(
        nfs=nfs, network={"pod_cidr": CIDR, "service_cidr": "198.19.128.0/17"}, **changes
    )


def node(of: Site, name: str) -> Node:
    return next(found for found in of.nodes if found.name == name)


def seen(rules: object, enabled: str = "enabled") -> Photograph:
    document = {
        "schema": 1,
        "firewall": {"pod_guard": rules},
        "services": {"pod-guard": {"enabled": enabled, "active": "active"}},
    }
    return Photograph(document)


def whole(of: Site, name: str) -> list[str]:
    hooks = [f"-A {hook} -j APPLIANCE-PODS" for hook in ("FORWARD", "INPUT")]
    return [*hooks, *pod_guard.rules(node(of, name), of)]


def test_a_worker_keeps_its_pods_from_the_registry_and_from_the_storage() -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    rules = pod_guard.rules(node(of, "w1"), of)
    assert rules[:2] == (
        f"-A APPLIANCE-PODS -s {CIDR} -d 198.18.7.11/32 -p tcp -m tcp --dport 5000 -j DROP",
        "-A APPLIANCE-PODS -d 198.18.7.11/32 -p tcp -m tcp --dport 5000 "
        "-m conntrack --ctstate DNAT -j DROP",
    )
    assert any("-p tcp -m tcp --dport 2049 -j DROP" in rule for rule in rules)
    assert len(rules) == len(set(rules)) == 14


def test_the_node_that_serves_does_so_under_every_address_of_its_own() -> None:
    of = site({"server": "cp1", "path": "/srv/runai"})
    rules = pod_guard.rules(node(of, "cp1"), of)
    assert all("--dst-type LOCAL" in rule and " -d " not in rule for rule in rules)


def test_a_foreign_server_is_kept_from_pods_where_its_address_is_known() -> None:
    of = site({"server": "198.18.7.99", "path": "/export"})
    assert any("-d 198.18.7.99/32" in rule for rule in pod_guard.rules(node(of, "w1"), of))
    of = site({"server": "nfs.rack.test", "path": "/export"})
    assert len(pod_guard.rules(node(of, "w1"), of)) == 2


def test_rules_that_are_all_there_are_found_whatever_the_order_of_their_words() -> None:
    of = site()
    rules = whole(of, "w1")
    rules[-1] = (
        "-A APPLIANCE-PODS -d 198.18.7.11/32 -p tcp -m conntrack --ctstate DNAT "
        "-m tcp --dport 5000 -j DROP"
    )
    assert list(pod_guard.unmet(node(of, "w1"), of, seen(rules))) == []


@pytest.mark.parametrize("gone", range(4))
def test_each_rule_and_each_hook_is_missed(gone: int) -> None:
    of = site()
    rules = whole(of, "w1")
    del rules[gone]
    (said,) = pod_guard.unmet(node(of, "w1"), of, seen(rules))
    assert "1 of 4 rules are absent" in said


def test_a_rule_for_another_protocol_or_address_does_not_count() -> None:
    of = site()
    for old, new in ((" tcp ", " udp "), ("198.18.7.11", "198.18.7.12"), (CIDR, "10.0.0.0/8")):
        rules = [rule.replace(old, new) for rule in whole(of, "w1")]
        assert list(pod_guard.unmet(node(of, "w1"), of, seen(rules))), (old, new)


def test_rules_that_would_be_gone_after_a_reboot_are_told() -> None:
    of = site()
    (said,) = pod_guard.unmet(node(of, "w1"), of, seen(whole(of, "w1"), enabled="disabled"))
    assert "would not start at boot" in said


@pytest.mark.parametrize("unread", [None, "text", 5])
def test_rules_that_could_not_be_read_are_no_reason(unread: object) -> None:
    of = site()
    assert list(pod_guard.unmet(node(of, "w1"), of, seen(unread))) == []
