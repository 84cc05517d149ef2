"""Preflight asks each node once what it calls itself, and not once for each pair of nodes."""

from __future__ import annotations

from collections import Counter

from appliance.model.components.base.subject import Index
from appliance.model.state.facts.facts import NodeFacts
from tests import samples

SITE = samples.site(workers=40)


def test_what_nodes_say_of_themselves_is_read_once_each() -> None:
    documents = {node.name: samples.bare(node) for node in SITE.nodes}
    documents["w7"]["dmi"]["serial"] = documents["w9"]["dmi"]["serial"]
    node_facts = samples.node_facts(documents)
    asked: Counter[int] = Counter()

    def serial(facts: NodeFacts) -> tuple[str | None]:
        asked[id(facts)] += 1
        return (facts.serial,)

    index = Index(node_facts)
    names = {
        name: index.names("serial", str(facts.serial), serial) for name, facts in node_facts.items()
    }
    assert sorted(names["w9"]) == ["w7", "w9"]
    assert list(names["w8"]) == ["w8"]
    assert set(asked.values()) == {1}
