"""What a node says is never more than one word of a command that a person is told to type."""

from __future__ import annotations

import pytest

from appliance.model.checks.preflight import preflight
from appliance.model.state.cluster.cluster import NoCluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from tests import samples

EVIL = "4711;touch${IFS}/tmp/owned"


@pytest.mark.parametrize("unit", [None, EVIL])
def test_the_holder_of_a_lock_is_one_word(unit: str | None) -> None:
    desired = samples.desired(samples.site())
    documents = {node.name: samples.bare(node) for node in desired.site.nodes}
    documents["w1"]["packages"] |= {"manager_lock_held_by": EVIL, "manager_lock_unit": unit}
    node_facts = {name: NodeFacts(document) for name, document in documents.items()}
    observed = Observed(node_facts, NoCluster())
    hints = [f.hint for f in preflight(desired, node_facts, observed) if f.check == "package_lock"]
    assert hints
    assert all(f"ps -fp '{EVIL}'" in hint for hint in hints)
