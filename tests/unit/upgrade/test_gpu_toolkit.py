"""The operator's toolkit restarts containerd on every node once one of them has left Docker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import PreflightFailed
from appliance.model.state.cluster.cluster import GpuOperator, GpuStack
from appliance.model.state.cluster.pods import Pod
from tests import samples
from tests.unit.upgrade.gate_scene import Scene
from tests.unit.upgrade.rack import NEXT, Bench, FakeEvidence
from tests.unit.upgrade.situations import NEW

STOP = [("no-go", "gpu-toolkit", "w1")]
ALONE, TOGETHER = (("w1",), ("w2",), ("cp1",)), (("w1", "w2"), ("cp1",))
GIVEN_UP = frozenset({"gpu-toolkit"})
TOOLKIT_OFF = {"toolkit": {"enabled": False}}


def scene_of(
    gpu: dict[str, Any] | None,
    batches: tuple[tuple[str, ...], ...] = ALONE,
    accepted: frozenset[str] = frozenset(),
) -> Scene:
    more = {} if gpu is None else {"gpu": gpu}
    scene = Scene(site=samples.site(3, 2, **more), path=(NEW, NEXT))
    nodes = {
        name: replace(node, runtime="docker://20.10.24")
        for name, node in scene.cluster.nodes.items()
    }
    operators = (GpuOperator("gpu-operator", version="22.9.2"),)
    scene.cluster = replace(scene.cluster, nodes=nodes, gpu_operators=operators)
    scene.evidence = replace(
        scene.evidence,
        runtimes_change=True,
        changing=frozenset(name for batch in batches for name in batch),
        runtime_batches=batches,
        accepted=accepted,
    )
    return scene


CASES: list[tuple[str, Scene, list[tuple[str, str, str]]]] = [
    ("a driver of the host needs no toolkit of the operator", scene_of({"driver": "host"}), []),
    ("a driver in a container", scene_of({"driver": "container"}), STOP),
    ("a driver of the site", scene_of({"driver": "preinstalled"}), STOP),
    ("all of them together", scene_of({"driver": "container"}, TOGETHER), []),
    ("given up by name", scene_of({"driver": "container"}, accepted=GIVEN_UP), []),
    ("no toolkit by the site's values",
     scene_of({"driver": "preinstalled", "values": TOOLKIT_OFF}), []),
    ("a toolkit by the site's values",
     scene_of({"driver": "host", "values": {"toolkit": {"enabled": True}}}), STOP),
    ("one left out stays on Docker",
     scene_of({"driver": "container"}, (("w1",), ("cp1",))), STOP),
    ("no runtime changes",
     scene_of({"driver": "container"}, ()), []),
]  # fmt: skip


@pytest.mark.parametrize(("scene", "stops"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_nodes_on_docker_beside_one_on_containerd(
    scene: Scene, stops: list[tuple[str, str, str]]
) -> None:
    assert [found for found in scene.judge() if found[1] == "gpu-toolkit"] == stops


def test_a_toolkit_that_somebody_else_installed_counts_as_well() -> None:
    scene = scene_of(None)
    app = "nvidia-container-toolkit-daemonset"
    pods = tuple(Pod("gpu-operator", f"toolkit-{name}", name, app=app) for name in ("w1", "w2"))
    scene.cluster = replace(scene.cluster, gpu_stack=GpuStack("ready", "22.9.2", pods))
    assert [found for found in scene.judge() if found[1] == "gpu-toolkit"] == STOP


def test_where_the_first_has_changed_there_is_nothing_left_to_prevent() -> None:
    scene = scene_of({"driver": "container"}, (("w2",), ("cp1",)))
    nodes = dict(scene.cluster.nodes)
    nodes["w1"] = replace(nodes["w1"], runtime="containerd://1.6.20")
    scene.cluster = replace(scene.cluster, nodes=nodes)
    assert [found for found in scene.judge() if found[1] == "gpu-toolkit"] == []


def test_the_command_stops_before_the_first_change_and_takes_the_batch_it_names() -> None:
    bench = Bench(to=NEXT)
    bench.evidence = FakeEvidence(bench.rack)
    app = "nvidia-container-toolkit-daemonset"
    pods = tuple(Pod("gpu-operator", f"toolkit-{name}", name, app=app) for name in ("w1", "w2"))
    bench.rack.cluster = replace(
        bench.rack.api,
        gpu_operators=(GpuOperator("gpu-operator", version="22.9.2"),),
        gpu_stack=GpuStack("ready", "22.9.2", pods),
    )
    with pytest.raises(PreflightFailed, match=r"w1: gpu-toolkit: .*issue 533") as stopped:
        bench.upgrade()
    assert bench.rack.done == []
    assert "--max-unavailable 2; " in (stopped.value.hint or "")
    assert "with --allow-outage" in (stopped.value.hint or "")
    shown = bench.upgrade(max_unavailable=2, allow_outage=True, dry_run=True)
    assert "gpu-toolkit" not in [gate.name for gate in shown.gates if gate.stops]
    given_up = bench.upgrade(accepted=GIVEN_UP, dry_run=True)
    assert "gpu-toolkit" not in [gate.name for gate in given_up.gates if gate.stops]
