"""A serial that nobody filled in proves nothing: neither sameness nor difference."""

from __future__ import annotations

import pytest

from appliance.model.checks.preflight import preflight
from appliance.model.node.fencing import FencingEvidence, same_machine
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import identity
from appliance.model.state.facts.placeholders import told_serial, told_uuid
from appliance.model.state.observed import Observed
from tests import samples

SITE = samples.site(workers=2)
DESIRED = samples.desired(SITE)
LEFT = ["System Serial Number", "0123456789", "01234567890123456789AB", "Default string",
        "To be filled by O.E.M.", "Not Specified", "0000000", "XXXXXXXX", "....", " "]  # fmt: skip


@pytest.mark.parametrize("value", LEFT)
def test_two_boards_with_the_vendors_default_do_not_refuse_an_install(value: str) -> None:
    documents = {node.name: samples.bare(node) for node in SITE.nodes}
    for name in ("w1", "w2"):
        documents[name]["dmi"]["serial"] = value
        documents[name]["host"]["product_uuid"] = "03000200-0400-0500-0006-000700080009"
    node_facts = samples.node_facts(documents)
    found = preflight(DESIRED, node_facts, Observed(node_facts, samples.cluster(DESIRED)))
    assert not {f.check for f in found} & {"duplicate_serial", "duplicate_product_uuid"}


def test_two_boards_with_one_real_serial_still_do() -> None:
    documents = {node.name: samples.bare(node) for node in SITE.nodes}
    for name in ("w1", "w2"):
        documents[name]["dmi"]["serial"] = "QTFCOU7280012"
    node_facts = samples.node_facts(documents)
    found = preflight(DESIRED, node_facts, Observed(node_facts, samples.cluster(DESIRED)))
    assert "duplicate_serial" in {f.check for f in found}


def test_a_placeholder_accepted_before_makes_no_machine_another_one() -> None:
    document = samples.bare(SITE.nodes[1])
    document["dmi"]["serial"] = "Default string"
    facts = NodeFacts(document)
    assert facts.serial is None
    assert (
        same_machine(FencingEvidence("w1", None, facts, identity("SN-OLD")), replaces=False) is None
    )


@pytest.mark.parametrize("value", ["QTFCOU7280012", "SN-1", "VMware-56 4d 7b", "1122"])
def test_a_serial_is_kept_as_it_is(value: str) -> None:
    assert told_serial(value) == value


def test_a_uuid_of_the_factory_is_none() -> None:
    assert told_uuid("03000200-0400-0500-0006-000700080009") is None
    assert told_uuid("ffffffff-ffff-ffff-ffff-ffffffffffff") is None
    assert told_uuid("4c4c4544-0042-3510-8051-b4c04f4d3732") is not None
