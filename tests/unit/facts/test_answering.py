"""What is told of the machine that answers at a node's address."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.node.answering import answering
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Fault, Look
from tests import samples

NODE = samples.site().node("w2")


def seen(**changes: Any) -> str:
    document = samples.bare(NODE)
    for section, values in changes.items():
        document[section] = {**document[section], **values}
    return answering(NODE, Look({"w2": NodeFacts(document)})).answer


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "host name w2, serial SN-w2"),
        ({"host": {"hostname": "gpu9"}}, "host name gpu9, serial SN-w2"),
        ({"host": {"hostname": None}}, "host name unknown, serial SN-w2"),
        ({"host": {"hostname": ""}}, "host name unknown, serial SN-w2"),
        (
            {"dmi": {"serial": "To be filled by O.E.M."}, "host": {"product_uuid": "A-1"}},
            "host name w2, serial unknown, UUID a-1",
        ),
    ],
)
def test_a_machine_is_described_by_its_own_facts(changes: dict[str, Any], said: str) -> None:
    assert seen(**changes) == said


@pytest.mark.parametrize(
    ("more", "begins"),
    [
        ({}, "no answer: "),
        ({"answers": True}, "unknown: a machine answers, but was not identified: "),
        ({"deceives": True}, "unknown: a machine answers, but was not identified: "),
        ({"logged_in": True}, "unknown: a machine answers, but was not identified: "),
    ],
)
def test_a_machine_that_was_not_seen_is_reported_with_the_reason(
    more: dict[str, Any], begins: str
) -> None:
    faults = (Fault("w1", "w1: is off", ""), Fault("w2", "w2: no key fits", "", **more))
    found = answering(NODE, Look({}, faults))
    assert (found.node, found.address) == ("w2", "198.18.7.22")
    assert found.answer == f"{begins}no key fits"


def test_a_machine_that_was_not_inspected_is_unknown() -> None:
    assert answering(NODE, Look({})).answer == "unknown: not inspected"
