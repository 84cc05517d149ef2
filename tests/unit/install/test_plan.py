"""The planner, case by case: ``tests/data/plan/*.yml`` are the cases, this is their driver.

A case starts from a ``bare`` or ``converged`` site, changes what was observed, and says what the
plan must be. ``steps`` is complete: a step that is not named must not be planned (``preflight`` is
implied by any other).
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.cli.commands.install.plan_view import plan_as_json, show_install_plan
from appliance.cli.commands.status.view import show_status
from appliance.cli.screen.render import print_json
from appliance.model.plan.planner import Scope, plan
from appliance.model.state.cluster.api_flags import ApiFlags
from appliance.model.state.cluster.cluster import (
    Cluster,
    ClusterState,
    ClusterStorage,
    GpuStack,
    HelmRelease,
    NoCluster,
    Unreachable,
)
from appliance.model.state.cluster.pods import Pod
from appliance.model.state.desired import Desired
from appliance.model.state.observed import Look, Observed
from appliance.model.state.plan import Plan
from tests import golden, samples
from tests.vendor_bundles import judged

DATA = Path(__file__).parents[2] / "data" / "plan"
CASES = [
    pytest.param({"file": path.stem, **case}, id=f"{path.stem}: {case['name']}")
    for path in sorted(DATA.glob("*.yml"))
    for case in yaml.safe_load(path.read_text(encoding="utf-8"))
]


def _put(document: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split("/")
    for key in parents:
        if document.get(key) is None:
            document[key] = {}
        document = document[key]
    document[last] = value


def _cluster(case: dict[str, Any], desired: Desired) -> ClusterState:
    start = case.get("cluster", "none" if case["start"] == "bare" else "healthy")
    if start == "none":
        return NoCluster()
    if start == "unreachable":
        return Unreachable(
            "the API does not answer", case.get("kubeadm_state", {"cp1": "etcd data"})
        )
    found = samples.cluster(desired)
    gone = case.get("cluster_without", [])
    nodes = {
        name: dataclasses.replace(node, **case.get("cluster_set", {}).get(name, {}))
        for name, node in found.nodes.items()
        if name not in gone
    }
    broken, moved = case.get("pods_broken", {}), case.get("pods_on", {})
    pods = tuple(
        dataclasses.replace(
            pod,
            node=moved.get(pod.name, pod.node),
            ready=pod.name not in broken,
            reason=broken.get(pod.name, ""),
        )
        for pod in found.pods
        if pod.node not in gone and pod.name not in case.get("pods_without", [])
    )
    return dataclasses.replace(
        found,
        nodes=nodes,
        pods=pods,
        pod_network=case.get("pod_network", found.pod_network),
        missing=tuple(case.get("missing", ())),
        releases=_releases(case, found),
        vendor_pods=_vendor_pods(case, found),
        runai_unconfirmed=case.get("runai_unconfirmed", False),
        gpu_stack=_gpu_stack(case, found),
        api_flags=ApiFlags(**case.get("api_flags", {})),
        storage=_storage(case, found.storage),
    )


def _vendor_pods(case: dict[str, Any], found: Cluster) -> tuple[Pod, ...]:
    broken = case.get("vendor_pods", {})
    return tuple(
        dataclasses.replace(pod, ready=False, reason=broken[pod.name])
        if pod.name in broken
        else pod
        for pod in found.vendor_pods
    )


def _releases(case: dict[str, Any], found: Cluster) -> tuple[HelmRelease, ...]:
    changes = case.get("releases", {})
    return tuple(
        dataclasses.replace(release, **changes.get(release.name, {}))
        for release in found.releases
        if changes.get(release.name, "as it is") is not None
    )


def _gpu_stack(case: dict[str, Any], found: Cluster) -> GpuStack | None:
    if found.gpu_stack is None:
        return None
    broken = case.get("pods_broken", {})
    pods = tuple(
        dataclasses.replace(pod, ready=pod.name not in broken, reason=broken.get(pod.name, ""))
        for pod in found.gpu_stack.pods
        if pod.name not in case.get("pods_without", [])
    )
    return dataclasses.replace(found.gpu_stack, pods=pods, **case.get("gpu_stack", {}))


def _storage(case: dict[str, Any], found: ClusterStorage) -> ClusterStorage:
    changes = dict(case.get("storage", {}))
    volumes = {name: v for name, v in found.volumes.items() if name not in case.get("no_pv", [])}
    for name, values in changes.pop("volumes", {}).items():
        volumes[name] = dataclasses.replace(volumes[name], **values)
    return dataclasses.replace(found, volumes=volumes, **changes)


def _seen(case: dict[str, Any]) -> tuple[Desired, Observed]:
    site = samples.site(case.get("masters", 1), case.get("workers", 2), **case.get("settings", {}))
    desired = samples.desired(site, with_bundle=case.get("bundle", True))
    if "vendor" in case:
        desired = dataclasses.replace(desired, vendor_bundle=judged(case["vendor"]))
    bare = set(case.get("bare", [node.name for node in site.nodes if case["start"] == "bare"]))
    documents = {
        node.name: samples.bare(node) if node.name in bare else samples.converged(node, desired)
        for node in site.nodes
        if node.name not in case.get("unseen", [])
    }
    for name, changes in case.get("set", {}).items():
        for path, value in changes.items():
            _put(documents[name], path, value)
    for image in case.get("registry_holds", ()):
        documents["cp1"]["registry"]["images"][image] = "sha256:" + "00" * 32
    return desired, Observed(samples.node_facts(documents), _cluster(case, desired))


def _plan(case: dict[str, Any]) -> Plan:
    nodes, joining = (frozenset(case.get(key, ())) for key in ("nodes", "joining"))
    scope = Scope(**case.get("scope", {}), nodes=nodes, joining=joining)
    return plan(*_seen(case), (), scope)


@pytest.mark.parametrize("case", CASES)
def test_the_plan_is_what_the_case_says(case: dict[str, Any]) -> None:
    found, want = _plan(case), case["want"]
    steps = {step.name: list(step.nodes) for step in found.steps if step.name != "preflight"}
    said = "\n".join(f"{r.node}: {r.text}" for step in found.steps for r in step.reasons)
    assert steps == want.get("steps", {}), said
    assert bool(found.steps) == (bool(steps) or bool(want.get("preflight")))
    for sentence in want.get("because", []):
        assert sentence in said
    refused = "\n".join(refusal.sentence() for refusal in found.refusals)
    for sentence in want.get("refused", []):
        assert sentence in refused
    assert bool(found.refusals) == ("refused" in want), refused
    if "leader" in want:
        assert found.choice.leader == want["leader"]
    if "actions" in want:
        assert dict(found.choice.actions) == want["actions"]
    if "joining" in want:
        assert list(found.choice.joining) == want["joining"]
    assert list(found.choice.stale) == want.get("stale", [])


@pytest.mark.parametrize("case", CASES)
def test_plan_and_status_say_what_they_said(
    case: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    (desired, observed), found = _seen(case), _plan(case)
    print_json(plan_as_json(found))
    show_install_plan(found)
    show_status(desired.site, observed, Look(observed.node_facts), plan(desired, observed, ()))
    golden.agree(f"plan/{case['file']}", case["name"], "".join(capsys.readouterr()))


def test_the_cases_are_there() -> None:
    assert len(CASES) >= 60
