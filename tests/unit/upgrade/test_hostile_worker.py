"""A worker that lies: what it says runs nothing, decides nothing of others, and crashes nothing."""

from __future__ import annotations

from dataclasses import replace
from time import process_time
from typing import Any

import pytest

from appliance.adapters.kubernetes.handmade import values_of
from appliance.model.state.cluster.cluster import HelmRelease
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import Evidence, Silence
from appliance.model.upgrade.handmade.loss import Loss
from appliance.model.upgrade.losses import Carrier, find_losses
from appliance.model.upgrade.points.gate import Gate
from appliance.model.upgrade.points.versions import dropped
from appliance.workflows.cluster.upgrading.gates import runai_version
from tests import samples
from tests.unit.upgrade.gate_scene import Scene
from tests.unit.upgrade.handmade import KUBELET, documents, untouched


def losses_of(text: str) -> tuple[Loss, ...] | Silence:
    """What is found where w1 has this text more in its kubelet's configuration."""
    found = untouched()
    more: Any = values_of(text)
    found["kubelet_files"]["w1"] = more if isinstance(more, Silence) else {**KUBELET, **more}
    return find_losses(documents(found), Carrier())


@pytest.mark.parametrize("number", ["1" + ":59" * 80_000, "1" + ":59" * 40_000 + ".5"])
def test_a_number_to_the_base_of_sixty_is_text_and_takes_no_time(number: str) -> None:
    began = process_time()
    assert values_of(f"a: {number}") == {"a": number}
    assert process_time() - began < 2


def gates_of(text: str) -> tuple[Gate, ...]:
    return dropped(Evidence(losses=losses_of(text)))


@pytest.mark.parametrize(
    "text",
    [
        "a: [{1: x, b: y}]",
        "a: [{2020-01-01: x}]",
        "a: [{!!binary aGk=: x}]",
        "a: 0x" + "f" * 9000,
        "a: !!set {x, y}",
        "a: .nan",
        "{2020-01-01: 1, 1: 2, true: 3}",
    ],
)
def test_no_value_of_its_kubelet_crashes_the_comparison(text: str) -> None:
    found = losses_of(text)
    assert not isinstance(found, Silence)
    assert {loss.nodes for loss in found} == {("w1",)}
    assert all(len(loss.sentence()) < 400 for loss in found)


@pytest.mark.parametrize("key", ["$(reboot)", "a; reboot #", "`reboot`", "a b", "'"])
def test_a_hint_with_its_key_runs_nothing_when_it_is_pasted(key: str) -> None:
    quoted = "'" + key.replace("'", "''") + "'"
    (gate,) = gates_of(f"{quoted}: 1")
    quote = "'kubelet." + key.replace("'", "'\"'\"'") + "'"
    assert f"--accept-loss {quote}" in gate.cure
    assert "in site.yml" not in gate.cure


def test_a_key_without_end_is_shortened_and_stays_on_one_line() -> None:
    (gate,) = gates_of('"' + "x\\n" * 5000 + '": 1')
    assert len(gate.sentence()) < 400
    assert "\n" not in gate.cure


def test_a_key_that_people_write_stays_as_it_is() -> None:
    (gate,) = gates_of("maxPods: 200")
    assert gate.cure == (
        "to keep it: kubernetes.kubelet.maxPods in site.yml; "
        "to give it up: --accept-loss kubelet.maxPods"
    )


def test_thousands_of_keys_are_counted_and_not_listed() -> None:
    found = gates_of("\n".join(f"k{n}: 1" for n in range(5000)))
    assert len(found) == 101
    assert "4900 more" in found[-1].found


def test_its_facts_say_nothing_of_the_version_of_runai() -> None:
    scene = Scene()
    desired = samples.desired(scene.site)
    scene.cluster = replace(scene.cluster, releases=(HelmRelease("runai", "runai", "deployed"),))
    scene.facts["w1"]["runai"] = {"bundle": {"version": "2.8.12"}}
    observed = Observed(samples.node_facts(scene.facts), scene.cluster)
    assert isinstance(runai_version(desired, observed), Silence)
