"""Every preflight check on data: ``tests/data/preflight/cases/*.yml`` are the cases.

A case starts from bare nodes (or ``start: member``), changes what was seen of some (``see``), the
site, or what is known beside, and says all that one check has to say. No other check may find an
error, unless the case names it under ``also``.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import yaml

from appliance.adapters.local.content import load_release
from appliance.adapters.local.hardware_models import load_hardware, load_role_minima
from appliance.model.bundle.signature import Signature
from appliance.model.checks.preflight import CHECKS, Finding, preflight
from appliance.model.site.settings import Node
from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.cluster import (
    ClusterState,
    ClusterStorage,
    Discovery,
    GpuOperator,
    GpuStack,
    NoCluster,
    Unreachable,
)
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.identity import identity
from appliance.model.state.observed import Observed
from tests import golden, samples
from tests.unit.preflight import machines
from tests.vendor_bundles import judged

CASES: list[tuple[str, dict[str, Any]]] = [
    (f"{path.stem}: {case['name']}", case)
    for path in sorted((machines.DATA / "preflight" / "cases").glob("*.yml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]
KEYS = {
    *("name", "check", "start", "site", "hosts", "masters", "bundle", "manifest", "signature"),
    *("see", "received_after_seconds", "accepted", "findings", "also", "vendor", "storage_proven"),
    *("gpu_operators", "discoveries", "api_flags", "cluster", "cluster_set", "release", "chart"),
}
MODELS = load_hardware()
MINIMA = load_role_minima()


def _desired(case: dict[str, Any]) -> Desired:
    site = samples.site(case.get("masters", 1), 2, **case.get("site", {}))
    nodes = tuple(_node(node, case.get("hosts", {}).get(node.name, {})) for node in site.nodes)
    desired = samples.desired(
        dataclasses.replace(site, nodes=nodes), with_bundle=case.get("bundle", True)
    )
    if desired.manifest is not None and "manifest" in case:
        document = desired.manifest.as_json() | case["manifest"]
        desired = dataclasses.replace(desired, manifest=type(desired.manifest).parse(document))
    if "signature" in case:
        desired = dataclasses.replace(desired, signature=Signature(**case["signature"]))
    if "release" in case:
        desired = dataclasses.replace(desired, release=load_release(case["release"]))
    vendor = judged(**case["vendor"]) if "vendor" in case else None
    return dataclasses.replace(desired, vendor_bundle=vendor, vendor_bundle_file="/media/runai.tar")


def _node(node: Node, changes: dict[str, Any]) -> Node:
    if "groups" in changes:
        node = dataclasses.replace(node, groups=frozenset(changes["groups"]))
    return dataclasses.replace(
        node, hardware=changes.get("hardware"), mac=changes.get("mac", node.mac)
    )


def _node_facts(case: dict[str, Any], desired: Desired) -> dict[str, NodeFacts]:
    found = {}
    for node in desired.site.nodes:
        document = (
            machines.member(node, serves=node == desired.site.services_node)
            if case.get("start") == "member"
            else machines.bare(node)
        )
        for path, value in case.get("see", {}).get(node.name, {}).items():
            machines.put(document, path, value)
        received = case.get("received_after_seconds", {}).get(node.name)
        found[node.name] = NodeFacts(
            document, None if received is None else machines.EPOCH + received
        )
    return found


def scene(case: dict[str, Any]) -> tuple[Desired, Observed]:
    """What a case asks for, and what was seen."""
    desired = _desired(case)
    seen = _node_facts(case, desired)
    cluster: ClusterState = NoCluster()
    if case.get("cluster") == "unreachable":
        cluster = Unreachable("the API does not answer", {"cp1": "etcd data"})
    elif case.get("start") == "member":
        proven = ClusterStorage(is_class=True, tested=case.get("storage_proven"))
        operators = tuple(GpuOperator(**one) for one in case.get("gpu_operators", ()))
        cluster = dataclasses.replace(
            samples.cluster(desired),
            nodes={
                name: dataclasses.replace(node, **case.get("cluster_set", {}).get(name, {}))
                for name, node in samples.cluster(desired).nodes.items()
            },
            storage=proven,
            gpu_operators=operators,
            discoveries=tuple(Discovery(**one) for one in case.get("discoveries", ())),
            api_flags=ApiFlags(**case.get("api_flags", {})),
        )
        if "chart" in case:
            # The version that runs, and whether it is of the bundle's chart.
            stack = dataclasses.replace(
                cluster.gpu_stack or GpuStack(), version=case["chart"]["version"]
            )
            release = dataclasses.replace(cluster.releases[0], chart_sha256=case["chart"]["sha256"])
            cluster = dataclasses.replace(cluster, gpu_stack=stack, releases=(release,))
    return desired, Observed(seen, cluster)


def run(case: dict[str, Any]) -> tuple[Finding, ...]:
    """All findings of a case."""
    desired, observed = scene(case)
    return preflight(
        desired,
        observed.node_facts,
        observed,
        accepted={name: identity(**told) for name, told in case.get("accepted", {}).items()},
        models=MODELS,
        minima=MINIMA,
    )


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in CASES])
def test_check_on_data(case: dict[str, Any]) -> None:
    findings = run(case)
    said = [finding for finding in findings if finding.check == case["check"]]
    wanted = case.get("findings", [])
    assert [(f.node, f.severity) for f in said] == [
        (want["node"], want.get("severity", "error")) for want in wanted
    ], said
    for finding, want in zip(said, wanted, strict=True):
        for part in ("seen", "expected", "hint"):
            assert want.get(part, "") in getattr(finding, part), getattr(finding, part)
    errors = {f.check for f in findings if f.severity == "error"} - {case["check"]}
    assert errors == set(case.get("also", [])), errors


@pytest.mark.parametrize(("name", "case"), CASES, ids=[name for name, _ in CASES])
def test_check_says_what_it_said(name: str, case: dict[str, Any]) -> None:
    said = [f"{f.check}: {f.severity}: {f.sentence()}\n   hint: {f.hint}\n" for f in run(case)]
    file, _, title = name.partition(": ")
    golden.agree(f"preflight/{file}", title, "".join(said))


@pytest.mark.parametrize("start", ["bare", "member"])
@pytest.mark.parametrize("masters", [1, 3])
def test_nodes_that_are_as_they_should_be_have_nothing_to_complain_of(
    start: str, masters: int
) -> None:
    assert [f for f in run({"start": start, "masters": masters}) if f.severity != "info"] == []


def test_every_check_has_a_case_that_finds_something_and_one_that_does_not() -> None:
    good: dict[str, int] = {}
    bad: dict[str, int] = {}
    for _, case in CASES:
        counted = bad if case.get("findings") else good
        counted[case["check"]] = counted.get(case["check"], 0) + 1
    names = {check.__name__ for check in CHECKS} - {"hardware", "role_minima"}
    assert names - bad.keys() == set()
    assert names - good.keys() == set()
    assert {"hardware_model", "minimum_cpus"} <= bad.keys() & good.keys()


def test_every_error_names_a_fact_an_expectation_and_a_next_command() -> None:
    for _, case in CASES:
        for finding in run(case):
            assert finding.seen, finding
            assert finding.expected, finding
            assert finding.hint, finding
            assert finding.node in finding.sentence()
            assert "None" not in finding.sentence(), finding


def test_errors_come_first() -> None:
    findings = run({"see": {"w2": {"swap/active": ["/swap.img"], "routes/default": None}}})
    assert [finding.severity for finding in findings] == ["error", "info"]


def test_a_node_that_was_not_read_is_left_out() -> None:
    desired = samples.desired()
    assert preflight(desired, {}, Observed({}, NoCluster())) == ()


def test_forty_nodes_alike_have_nothing_to_complain_of() -> None:
    desired = samples.desired(samples.site(3, 40))
    seen = {node.name: NodeFacts(machines.bare(node)) for node in desired.site.nodes}
    findings = preflight(desired, seen, Observed(seen, NoCluster()))
    assert {finding.severity for finding in findings} <= {"info"}


def test_no_case_has_an_unused_key() -> None:
    assert {key for _, case in CASES for key in case} - KEYS == set()
