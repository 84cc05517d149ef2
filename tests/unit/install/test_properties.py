"""What holds of every plan, whatever was observed: tried on generated racks."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as some

from appliance.model.plan.planner import Scope, plan
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster, Unreachable
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.observed import Observed
from appliance.model.state.plan import Plan
from tests import samples

# One thing wrong with a node that was well: path into its document, and what stands there instead.
WRONGS: tuple[tuple[str, Any], ...] = (
    ("swap.active", ["/swap.img"]),
    ("sysctl", {}),
    ("modules", {}),
    ("resolver.hosts", {}),
    ("trust.site_ca_sha256", None),
    ("artifacts.serving.ok", False),
    ("artifacts.package_source", {}),
    ("clock.service", "systemd-timesyncd"),
    ("runtime.docker.version", None),
    ("runtime.docker.cgroup_driver", "cgroupfs"),
    ("registry.serving.ok", False),
    ("trust.docker", {}),
    ("kubernetes.kubeadm_version", None),
    ("kubernetes.kubelet_active", False),
)
SETTINGS = settings(max_examples=40, deadline=None, derandomize=True)


class Rack:
    """A wish and what was observed of it; no dataclass, whose whole text would be shown."""

    def __init__(
        self, desired: Desired, observed: Observed, wrong: Mapping[str, tuple[str, ...]]
    ) -> None:
        self.desired = desired
        self.observed = observed
        self.wrong = wrong

    def __repr__(self) -> str:
        members = getattr(self.observed.cluster, "nodes", type(self.observed.cluster).__name__)
        return f"Rack(wrong={self.wrong}, seen={[*self.observed.node_facts]}, {[*members]})"

    def plan(self, scope: Scope | None = None) -> Plan:
        return plan(self.desired, self.observed, scope=scope or Scope())


def _with(document: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        document = document.setdefault(key, {})
    document[last] = value


@some.composite
def racks(draw: some.DrawFn, *, known: bool = False) -> Rack:
    """A rack of up to 3 + 6 nodes: bare or converged ones, some with things wrong, some unseen."""
    desired = samples.desired(
        samples.site(draw(some.sampled_from([1, 3])), draw(some.integers(0, 6)))
    )
    documents, wrong = {}, {}
    for node in desired.site.nodes:
        document = copy.deepcopy(samples.converged(node, desired))
        chosen = draw(some.lists(some.sampled_from(WRONGS), max_size=3, unique_by=lambda w: w[0]))
        for path, value in chosen:
            _with(document, path, value)
        wrong[node.name] = tuple(path for path, _ in chosen)
        if not known and draw(some.booleans()):
            document, wrong[node.name] = samples.bare(node), ("bare",)
        documents[node.name] = document
    cluster: ClusterState = samples.cluster(desired)
    if not known:
        gone = draw(some.sets(some.sampled_from([node.name for node in desired.site.nodes])))
        assert isinstance(cluster, Cluster)
        left = {name: node for name, node in cluster.nodes.items() if name not in gone}
        alternatives: list[ClusterState] = [
            dataclasses.replace(cluster, nodes=left),
            NoCluster(),
            Unreachable("silence", {"cp1": "etcd data"}),
        ]
        cluster = draw(some.sampled_from(alternatives))
        unseen = draw(
            some.sets(some.sampled_from([node.name for node in desired.site.workers] or [""]))
        )
        documents = {name: doc for name, doc in documents.items() if name not in unseen}
    node_facts = {name: NodeFacts(document) for name, document in documents.items()}
    return Rack(desired, Observed(node_facts, cluster), wrong)


@SETTINGS
@given(racks())
def test_steps_are_in_order_with_reasons_of_nodes_that_they_concern(rack: Rack) -> None:
    made = rack.plan()
    order = [step.name for step in INSTALL]
    names = [step.name for step in made.steps]
    assert names == sorted(names, key=order.index)
    assert not names or names[0] == "preflight"
    assert set(names).isdisjoint(made.satisfied)
    for step in made.steps:
        concerned = {node.name for node in BY_NAME[step.name].nodes(rack.desired.site)}
        assert step.reasons
        assert {reason.node for reason in step.reasons} <= set(step.nodes) <= concerned
        assert len(set(step.nodes)) == len(step.nodes)


@SETTINGS
@given(racks())
def test_one_node_leads_and_at_most_one_begins_a_cluster(rack: Rack) -> None:
    choice = rack.plan().choice
    masters = {node.name for node in rack.desired.site.control_plane}
    assert choice.leader in masters
    assert set(choice.actions) == masters
    beginning = [name for name, action in choice.actions.items() if action in {"init", "resume"}]
    assert beginning in ([], [choice.leader])
    if "init" in choice.actions.values():
        assert isinstance(rack.observed.cluster, NoCluster)
    assert not set(choice.joining) & masters


@SETTINGS
@given(racks(), some.randoms())
def test_the_order_in_which_nodes_answered_means_nothing(rack: Rack, random: Any) -> None:
    names = list(rack.observed.node_facts)
    random.shuffle(names)
    shuffled = {name: rack.observed.node_facts[name] for name in names}
    observed = Observed(shuffled, rack.observed.cluster)
    assert plan(rack.desired, observed) == rack.plan()


@SETTINGS
@given(racks(known=True))
def test_a_node_with_which_nothing_is_wrong_gets_no_reason(rack: Rack) -> None:
    blamed = {
        r.node for step in rack.plan().steps if step.name != "preflight" for r in step.reasons
    }
    assert blamed == {name for name, paths in rack.wrong.items() if paths}


@SETTINGS
@given(racks(), some.data())
def test_a_scope_keeps_to_its_nodes_and_steps(rack: Rack, data: some.DataObject) -> None:
    names = [node.name for node in rack.desired.site.nodes]
    nodes = frozenset(data.draw(some.sets(some.sampled_from(names), min_size=1)))
    until = data.draw(some.sampled_from([step.name for step in INSTALL]))
    made = rack.plan(Scope(until=until, nodes=nodes))
    allowed = [step.name for step in INSTALL][: [s.name for s in INSTALL].index(until) + 1]
    for step in made.steps:
        assert step.name in allowed
        assert step.name == "preflight" or set(step.nodes) <= nodes


@SETTINGS
@given(racks(known=True))
def test_a_rack_that_was_put_right_needs_nothing(rack: Rack) -> None:
    documents = {
        node.name: samples.converged(node, rack.desired) for node in rack.desired.site.nodes
    }
    observed = Observed(samples.node_facts(documents), rack.observed.cluster)
    made = plan(rack.desired, observed)
    assert (made.steps, made.refusals) == ((), ())


def test_a_plan_costs_each_node_of_a_large_site_the_same() -> None:
    assert _calls(205) < 12 * _calls(20)


def _calls(nodes: int) -> int:
    """How many functions the plan of a site calls where there is nothing to do."""
    desired = samples.desired(samples.site(3, nodes - 3))
    observed = Observed(
        samples.node_facts({n.name: samples.converged(n, desired) for n in desired.site.nodes}),
        samples.cluster(desired),
    )
    called = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal called
        called += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        found = plan(desired, observed)
    finally:
        sys.setprofile(before)
    assert not found.steps
    return called
