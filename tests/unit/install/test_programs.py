"""A member that lost a CNI plugin is NotReady for ever: the plan sees it, and who brings it."""

from __future__ import annotations

import dataclasses

import pytest

from appliance.model.bundle.manifest import BundledArtifact, BundleManifest, SourceUsed
from appliance.model.plan.planner import plan
from appliance.model.state.observed import Observed
from tests import samples

PLUGINS = ("bridge", "flannel", "portmap")


def _manifest() -> BundleManifest:
    used = SourceUsed("go", "module", "go.sum")
    artifacts = tuple(
        BundledArtifact(name, "1", "cni", f"cni/{name}", "ab" * 32, 1, used) for name in PLUGINS
    )
    return dataclasses.replace(samples.manifest(), artifacts=artifacts)


@pytest.mark.parametrize("gone", PLUGINS)
def test_a_lost_cni_plugin_makes_the_step_due_that_brings_it(gone: str) -> None:
    desired = dataclasses.replace(samples.desired(), manifest=_manifest())
    documents = {node.name: samples.converged(node, desired) for node in desired.site.nodes}
    for name, document in documents.items():
        there = [plugin for plugin in PLUGINS if name != "w1" or plugin != gone]
        document["cni"] = {"bin": there}
    made = plan(desired, Observed(samples.node_facts(documents), samples.cluster(desired)))
    assert [(step.name, step.nodes) for step in made.steps[1:]] == [("registry", ("w1",))]
    assert made.steps[1].reasons[0].text.startswith(f"CNI plugin {gone} is missing")
