"""What role ``runai_bundle`` is told."""

from __future__ import annotations

import dataclasses
from typing import Any

from appliance.model.components.runai.variables import variables as runai_vars
from appliance.model.state.observed import Observed
from tests import samples
from tests.vendor_bundles import judged


def told(*, at_hand: bool = True, unpacked: bool = False, **settings: Any) -> dict[str, Any]:
    site = samples.site(**settings)
    desired = dataclasses.replace(
        samples.desired(site),
        vendor_bundle=judged("2.7.1") if at_hand else None,
        vendor_bundle_file="/media/runai-2.7.1.tar",
    )
    documents = {node.name: samples.converged(node, desired) for node in site.nodes}
    if unpacked:
        documents["cp1"]["runai"] = {"bundle": judged("2.7.1").record()}
    found = Observed(samples.node_facts(documents), samples.cluster(desired))
    every = runai_vars(samples.planned_run(desired, found))
    return {name: value for name, value in every.items() if not name.startswith("site_dns_")}


SETTINGS: dict[str, Any] = {"runai": {"vendor_bundle": "runai-2.7.1.tar"}}


def test_a_site_without_runai_has_none() -> None:
    assert told() == {}


def test_the_bundle_at_hand_is_streamed() -> None:
    found = told(**SETTINGS)
    assert found["runai_bundle_file"] == "/media/runai-2.7.1.tar"
    assert found["runai_bundle_registry"] == "registry.rack.test:5000"
    assert found["runai_bundle_record"]["deploy"] == "deploy"
    assert found["runai_bundle_record"]["pushes"] == [
        {
            "tag": "gcr.io/run-ai-prod/backend:2.7.1",
            "names": ["run-ai-prod/backend:2.7.1", "backend:2.7.1"],
            "config": "cd" * 32,
        }
    ]


def test_without_it_what_is_on_the_node_is_the_same_record_and_no_file() -> None:
    found = told(at_hand=False, unpacked=True, **SETTINGS)
    assert found["runai_bundle_file"] == ""
    assert found["runai_bundle_record"] == told(**SETTINGS)["runai_bundle_record"]


def test_without_either_there_is_nothing_to_say() -> None:
    assert told(at_hand=False, **SETTINGS) == {}


def test_a_services_host_outside_of_the_cluster_leaves_it_to_a_control_plane() -> None:
    site = samples.site()
    services = dataclasses.replace(site.nodes[1], name="s1", groups=frozenset({"services"}))
    alone = dataclasses.replace(site.nodes[0], groups=frozenset({"control_plane"}))
    other = dataclasses.replace(site, nodes=(alone, services))
    assert (other.vendor_node.name, site.vendor_node.name) == ("cp1", "cp1")
    assert other.services_node.name == "s1"
