"""The workflow: order, proof after each step; refused, failed, killed and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from appliance.cli.commands.node.patch import patch_as_json
from appliance.errors import (
    Interrupted,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.patch.plan import PatchOptions, Situation, plan_patch
from appliance.model.patch.state import NodeState
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.nodes.maintenance import maintenance_of
from appliance.model.upgrade.evidence import EtcdStatus, Silence
from tests import samples, samples_gpu
from tests.unit.patch.bench import INDEX, KERNEL, OLD_KERNEL, UPDATES, Bench, manifest, state
from tests.unit.upgrade.rack import web

WITH_KERNEL = {**UPDATES, f"linux-image-{KERNEL}": "5.4.0-216.236"}


def mark_reason(bench: Bench, name: str) -> str | None:
    mark = maintenance_of(bench.rack.api.nodes[name].annotations)
    return mark.reason if mark else None


def test_workers_come_first_and_the_services_node_last() -> None:
    bench = Bench(masters=3, workers=2)
    bench.drain.pods["w1"] = [web("w1")]
    done = bench.patch()
    assert done.done
    assert bench.patched == ["w1", "w2", "cp2", "cp3", "cp1"]
    assert "evict web-1" in bench.rack.done
    assert bench.cordoned == []
    for name in bench.patched:
        found = bench.rack.states[name]
        assert isinstance(found, NodeState)
        assert UPDATES.items() <= found.packages.items()


def test_a_batch_is_patched_in_one_play() -> None:
    bench = Bench(workers=3)
    bench.patch(max_unavailable=2)
    assert bench.rack.batches == [("w1", "w2"), ("w3",), ("cp1",)]


def test_the_play_is_given_the_packages_and_the_index_that_the_manifest_names() -> None:
    bench = Bench(workers=1)
    bench.patch(reboot="always")
    assert bench.rack.hosts["w1"]["node_patch_packages"] == UPDATES
    assert bench.rack.hosts["w1"]["node_patch_index_digest"] == INDEX
    assert bench.rack.hosts["w1"]["node_patch_boot_from"] == "boot-1-w1"


def test_json_has_what_a_node_owes_of_an_earlier_patch() -> None:
    bench = Bench(workers=1)
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    bench.rack.states["w1"] = replace(found, stale=("ssh.service",), interrupted=True)
    told = patch_as_json(bench.patch(dry_run=True))["nodes"]["w1"]
    assert (told["owed"], told["repairs_dpkg"], told["out_of_service"]) == (
        ["ssh.service"], True, False,
    )  # fmt: skip


def test_a_bundle_that_the_services_node_lacks_comes_first() -> None:
    bench = Bench()
    services = bench.rack.documents["cp1"]
    services["artifacts"]["bundle_digest"] = bench.desired.bundle_digest
    assert next(step.kind for step in bench.patch(dry_run=True).plan.steps) == "nodes"
    services["artifacts"]["bundle_digest"] = "00" * 32
    bench.patch()
    assert bench.rack.done[0] == "artifacts"


def test_a_new_kernel_boots_the_node_and_its_return_accepts_it() -> None:
    bench = Bench(workers=1, bundle=manifest(WITH_KERNEL))
    bench.patch(nodes=("w1",))
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    assert (found.kernel, found.boot) == (KERNEL, "boot-2-w1")
    assert bench.cordoned == []


def test_a_second_run_finds_nothing_to_do() -> None:
    bench = Bench()
    bench.patch()
    again = bench.patch()
    assert (again.done, again.plan.steps, len(bench.asked)) == (False, (), 1)


def test_a_dry_run_changes_nothing() -> None:
    bench = Bench()
    found = bench.patch(dry_run=True)
    assert (bench.rack.plays, bench.rack.done, bench.asked) == ([], [], [])
    assert bench.journal.records == []
    assert found.forecasts.keys() == {"w1", "w2", "cp1"}


def test_without_a_yes_nothing_is_changed() -> None:
    bench = Bench()
    bench.answer = False
    with pytest.raises(Refused):
        bench.patch()
    assert (bench.rack.done, bench.cordoned) == ([], [])


def test_a_node_that_fails_stays_out_and_the_rest_stops() -> None:
    bench = Bench(workers=3)
    bench.rack.fail_on["w2"] = PlaybookFailed("w2: apt failed")
    with pytest.raises(PlaybookFailed) as caught:
        bench.patch()
    assert "w2 stays out of service; run the same command again" in caught.value.details[-1]
    assert bench.patched == ["w1", "w2"]
    assert bench.cordoned == ["w2"]
    assert mark_reason(bench, "w2") == "patch of its packages"


def test_a_node_of_a_batch_that_does_not_boot_stays_out_and_the_others_return() -> None:
    bench = Bench(workers=3, bundle=manifest(WITH_KERNEL))
    bench.rack.dead = {"w1"}
    with pytest.raises(PlaybookFailed) as caught:
        bench.patch(max_unavailable=2)
    assert "w1 stays out of service" in caught.value.details[-1]
    assert (bench.patched, bench.cordoned) == (["w1", "w2"], ["w1"])


def test_the_same_command_ends_what_failed_and_begins_with_the_node_that_is_out() -> None:
    bench = Bench(workers=3)
    bench.rack.fail_on["w2"] = PlaybookFailed("w2: apt failed")
    with pytest.raises(PlaybookFailed):
        bench.patch()
    bench.rack.done.clear()
    bench.patch()
    assert bench.patched == ["w2", "w3", "cp1"]
    assert bench.cordoned == []


def test_a_run_that_was_killed_after_the_packages_only_brings_the_node_back() -> None:
    bench = Bench(workers=1)
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: killed")
    with pytest.raises(PlaybookFailed):
        bench.patch(nodes=("w1",))
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    bench.rack.states["w1"] = replace(found, packages={**found.packages, **UPDATES})
    bench.patch(nodes=("w1",))
    assert bench.rack.hosts["w1"]["node_patch_packages"] == {}
    assert bench.cordoned == []


def gpu_bench() -> Bench:
    """A worker with GPUs, the driver on the host, and a bundle with all that a new kernel needs."""
    whole = samples_gpu.manifest_with_gpus(manifest(WITH_KERNEL))
    parts = {f"linux-{part}-{KERNEL}": "5.4.0-216.236" for part in ("image", "modules", "headers")}
    whole = replace(whole, packages={**whole.packages, **parts})
    return Bench(workers=1, bundle=whole, gpu={"driver": "host", "kernels": [KERNEL]})


def test_a_run_that_was_killed_before_the_driver_was_built_builds_it_before_the_boot() -> None:
    bench = gpu_bench()
    bench.rack.fail_on["w1"] = PlaybookFailed("w1: killed")
    with pytest.raises(PlaybookFailed):
        bench.patch(nodes=("w1",))
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    bench.rack.states["w1"] = replace(found, packages={**found.packages, **WITH_KERNEL})
    plan = bench.patch(nodes=("w1",), dry_run=True).plan
    assert (plan.refusals, plan.nodes["w1"].driver_kernel) == ((), KERNEL)
    assert f"w1: kernel {KERNEL} is installed, and {OLD_KERNEL} runs" in plan.steps[-1].why


def test_a_node_is_refused_that_would_boot_a_kernel_without_its_driver() -> None:
    bench = gpu_bench()
    without = {k: v for k, v in bench.manifest.packages.items() if KERNEL not in k}
    bench.desired = replace(
        bench.desired,
        manifest=replace(
            bench.manifest,
            packages=without,
            updates=manifest().updates,
        ),
    )
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    image = {f"linux-image-{KERNEL}": "5.4.0-216.236"}
    bench.rack.states["w1"] = replace(found, packages={**found.packages, **image})
    with pytest.raises(PreflightFailed, match="NVIDIA's driver cannot be built for it without"):
        bench.patch(nodes=("w1",))
    assert (bench.patched, bench.cordoned) == ([], [])


def test_a_new_kernel_replaces_no_driver() -> None:
    bench = gpu_bench()
    bench.patch(nodes=("w1",))
    given = bench.rack.hosts["w1"]["gpu_driver_packages"]
    assert f"linux-headers-{KERNEL}" in given
    assert [name for name in given if not name.startswith("linux-headers-")] == []


def test_a_node_with_another_driver_than_the_bundles_is_refused() -> None:
    bench = gpu_bench()
    bench.rack.documents["w1"]["modules"]["nvidia_version"] = "525.60.13"
    with pytest.raises(
        PreflightFailed, match=r"driver 525\.60\.13, and 535\.183\.06 in the bundle"
    ):
        bench.patch(nodes=("w1",))
    assert (bench.patched, bench.cordoned) == ([], [])


def test_a_power_cut_of_dpkg_is_a_reason_of_its_own() -> None:
    bench = Bench(workers=1)
    found = bench.rack.states["w1"]
    assert isinstance(found, NodeState)
    bench.rack.states["w1"] = replace(
        found, packages={**found.packages, **UPDATES}, interrupted=True
    )
    done = bench.patch(nodes=("w1",))
    assert done.plan.steps[-1].why == ("w1: dpkg was interrupted",)
    assert done.done


def sick(asked: object) -> tuple[EtcdStatus, ...]:
    assert asked
    return (
        EtcdStatus("cp1", True, "1", "1", 7, "3.5.1", 1),
        EtcdStatus("cp2", False, "2", "1", 7, "3.5.1", 1),
        EtcdStatus("cp3", True, "3", "1", 7, "3.5.1", 1),
    )


def test_a_sick_member_of_etcd_refuses_before_the_first_change() -> None:
    bench = Bench(masters=3)
    assert bench.evidence is not None
    bench.evidence.statuses = sick  # type: ignore[method-assign]
    with pytest.raises(PreflightFailed, match="cp2: etcd: found an unhealthy member"):
        bench.patch()
    assert bench.rack.done == []


def test_no_second_control_plane_is_taken_out_while_a_member_is_sick() -> None:
    bench = Bench(masters=3, workers=0)
    assert bench.evidence is not None
    well = bench.evidence.statuses

    def until_one_is_patched(asked: object) -> tuple[EtcdStatus, ...] | Silence:
        return sick(asked) if bench.patched else well(bench.desired.site.control_plane)

    bench.evidence.statuses = until_one_is_patched  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match="an unhealthy member"):
        bench.patch()
    assert len(bench.patched) == 1


@pytest.mark.parametrize("sick_node", ["cp2", "cp3"])
def test_a_control_plane_that_is_out_goes_on_though_its_own_member_is_away(
    sick_node: str,
) -> None:
    bench = Bench(masters=3, workers=0)
    assert bench.evidence is not None
    bench.rack.fail_on["cp2"] = PlaybookFailed("cp2: dpkg was cut off")
    with pytest.raises(PlaybookFailed):
        bench.patch()
    assert (bench.patched, bench.cordoned) == (["cp2"], ["cp2"])
    well = bench.evidence.statuses

    def until_it_is_whole(asked: object) -> tuple[EtcdStatus, ...] | Silence:
        assert asked
        found = well(bench.desired.site.control_plane)
        if bench.patched != ["cp2"] or isinstance(found, Silence):
            return found
        return tuple(replace(one, healthy=one.node != sick_node) for one in found)

    bench.evidence.statuses = until_it_is_whole  # type: ignore[method-assign]
    if sick_node == "cp3":
        with pytest.raises(PreflightFailed, match="cp3: etcd: found an unhealthy member"):
            bench.patch()
        assert bench.patched == ["cp2"]
        return
    assert bench.patch().done
    assert bench.patched == ["cp2", "cp2", "cp3", "cp1"]
    assert bench.cordoned == []


def test_workers_alone_ask_nothing_of_etcd() -> None:
    bench = Bench(masters=3)
    assert bench.evidence is not None
    bench.evidence.statuses = sick  # type: ignore[method-assign]
    assert bench.patch(nodes=("w1", "w2")).done


def test_an_eviction_that_cannot_end_is_refused() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    with pytest.raises(PreflightFailed):
        bench.patch()
    assert bench.rack.done == []


def test_no_api_server_is_told_before_any_change() -> None:
    bench = Bench()
    bench.rack.cluster = Unreachable("no answer")
    with pytest.raises(NodeUnreachable, match="no Kubernetes API server answers"):
        bench.patch()


def test_a_pause_ends_at_the_next_step() -> None:
    bench = Bench()

    @contextmanager
    def pausing() -> Iterator[Callable[[], bool]]:
        yield lambda: bool(bench.patched)

    with pytest.raises(Interrupted, match="paused before"):
        bench.patch(pausing=pausing)
    assert (bench.patched, bench.cordoned) == (["w1"], [])


def test_a_plan_that_changed_meanwhile_is_refused() -> None:
    bench = Bench()

    def late(_found: object) -> bool:
        found = bench.rack.states["w1"]
        assert isinstance(found, NodeState)
        bench.rack.states["w1"] = replace(found, held=frozenset({"libtiff5"}))
        return True

    with pytest.raises(Refused, match="the nodes have changed since the plan was shown"):
        bench.patch(confirm=late)
    assert bench.rack.done == []


def test_a_configuration_file_that_stayed_is_told() -> None:
    bench = Bench(workers=1)
    patch = bench.rack._patch

    def keeps(name: str) -> None:
        patch(name)
        found = bench.rack.states[name]
        assert isinstance(found, NodeState)
        bench.rack.states[name] = replace(found, kept_files={"/etc/ssh/sshd_config.ucf-dist": "7"})

    bench.rack._patch = keeps  # type: ignore[method-assign]
    done = bench.patch(nodes=("w1",))
    told = "w1: kept /etc/ssh/sshd_config; the package's own is /etc/ssh/sshd_config.ucf-dist"
    assert done.kept == (told,)
    assert ("note", told) in bench.observer.said


def test_every_record_is_verified_and_the_next_forecast_knows_its_time() -> None:
    bench = Bench(workers=1)
    first = bench.patch(dry_run=True)
    assert first.durations.of_plan(first.plan).source == "unknown"
    bench.patch()
    assert {record.outcome for record in bench.journal.records} == {"verified"}
    assert "patch: packages" in [record.step for record in bench.journal.records]
    for name in ("w1", "cp1"):
        found = bench.rack.states[name]
        assert isinstance(found, NodeState)
        old = {key: v for key, v in found.packages.items() if key not in UPDATES}
        bench.rack.states[name] = replace(found, packages={**old, "libtiff5": "4.1.0-1"})
    again = bench.patch(dry_run=True)
    assert again.durations.of_plan(again.plan).source == "journal"
    assert not again.durations.of_plan(again.plan).repeated


def test_a_services_node_outside_the_cluster_is_patched_without_a_drain() -> None:
    bench = Bench()
    site = bench.desired.site
    cp1, *others = site.nodes
    outside = replace(cp1, name="srv", address=samples._node("srv", 40, set()).address)
    nodes = (
        replace(cp1, groups=frozenset({"control_plane"})),
        *others,
        replace(outside, groups=frozenset({"services"})),
    )
    moved = replace(bench.desired, site=replace(site, nodes=nodes))
    found = Situation(
        {node.name: state(node.name) for node in nodes},
        dict.fromkeys(("cp1", "w1", "w2")),
        mirrored=True,
    )
    plan = plan_patch(moved.site, bench.manifest, PatchOptions(), found)
    assert [(step.kind, step.nodes) for step in plan.steps] == [
        *(("nodes", ("w1",)), ("nodes", ("w2",)), ("nodes", ("cp1",)), ("host", ("srv",))),
    ]
    assert plan.refusals == ()
