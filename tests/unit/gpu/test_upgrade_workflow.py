"""The workflow: order, proof after each step; refused, failed, killed and run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from appliance.errors import (
    BundleRefused,
    ClusterError,
    ConfigError,
    Interrupted,
    NodeUnreachable,
    PlaybookFailed,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.checks.preflight import preflight
from appliance.model.state.cluster.cluster import Unreachable
from appliance.model.state.cluster.pods import Budget
from appliance.model.state.findings import Finding
from appliance.model.state.nodes.maintenance import ANNOTATION, maintenance_of
from appliance.model.state.observed import Fault, Observed
from appliance.model.state.upgrade import ANNOTATION as UPGRADE
from appliance.model.state.upgrade import UpgradeMark
from tests import samples
from tests.unit.backup.test_freshness import told_old, with_old_backup
from tests.unit.gpu.upgrade_rack import DRIVER, OPERATOR, Bench, with_nvswitches
from tests.unit.upgrade.rack import web


def operator_of(bench: Bench) -> str | None:
    stack = bench.rack.api.gpu_stack
    return stack.version if stack else None


def test_the_operator_comes_first_and_then_each_node_on_its_own() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    done = bench.upgrade()
    assert done.done
    assert bench.rack.done == ["operator", "evict web-1", "driver w1", "driver w2"]
    assert {bench.rack.driver_of(name) for name in ("w1", "w2")} == {DRIVER}
    assert operator_of(bench) == OPERATOR
    assert bench.cordoned == []
    assert bench.chosen == []


def test_every_node_is_tested_by_a_pod_before_it_takes_users_pods() -> None:
    bench = Bench()
    bench.upgrade()
    assert bench.rack.gpu_proofs == [("w1",), ("w2",)]
    assert bench.steps == [
        "gpu upgrade: operator",
        *("maintain: cordon", "maintain: evict", "gpu upgrade: node"),
        *("return: untaint", "return: test", "return: uncordon"),
        *("maintain: cordon", "maintain: evict", "gpu upgrade: node"),
        *("return: untaint", "return: test", "return: uncordon"),
    ]
    numbers = [record.sequence for record in bench.journal.records]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {record.outcome for record in bench.journal.records} == {"verified"}


def test_a_second_run_finds_nothing_to_do() -> None:
    bench = Bench()
    bench.upgrade()
    again = bench.upgrade()
    assert (again.done, again.plan.steps, len(bench.asked)) == (False, (), 1)
    assert again.plan.proved == ("w1", "w2")


def test_a_dry_run_changes_nothing_and_shows_who_is_evicted_and_what_restarts() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    found = bench.upgrade(dry_run=True)
    assert (bench.rack.plays, bench.asked, bench.journal.records) == ([], [], [])
    assert [pod.name for pod in found.forecasts["w1"].evicted] == ["web-1"]
    assert [(step.kind, step.reboots) for step in found.plan.steps] == [
        *(("operator", False), ("node", True), ("node", True)),
    ]


def test_without_a_yes_nothing_is_changed() -> None:
    bench = Bench()
    bench.answer = lambda _found: False
    with pytest.raises(Refused):
        bench.upgrade()
    assert (bench.rack.plays, bench.cordoned) == ([], [])


def test_a_bundle_that_the_services_node_lacks_comes_first_with_its_images() -> None:
    bench = Bench()
    services = bench.rack.documents["cp1"]
    services["artifacts"]["bundle_digest"] = "00" * 32
    services["registry"]["images"] = {}
    bench.upgrade()
    assert bench.rack.done == ["artifacts", "registry", "operator", "driver w1", "driver w2"]


def test_a_release_is_written_into_the_site_only_where_one_was_typed() -> None:
    bench = Bench()
    bench.upgrade(writes_release=True)
    assert bench.chosen == ["k8s-1.23.5-r1"]


def test_a_power_cut_that_left_the_old_driver_half_removed_is_no_end() -> None:
    bench = Bench(workers=1)
    bench.fails("w1", PlaybookFailed("w1: no answer"))
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    installed = bench.rack.documents["w1"]["packages"]["installed"]
    del installed["cuda-drivers-525"]
    installed["nvidia-dkms-525"] = "525.60.13-1"
    assert bench.upgrade().done
    assert "nvidia-dkms-525" not in installed
    assert bench.cordoned == []


def test_a_node_that_fails_stays_out_the_rest_stops_and_the_same_command_goes_on() -> None:
    bench = Bench()
    bench.fails("w1", PlaybookFailed("w1: dkms did not build the driver"))
    with pytest.raises(PlaybookFailed) as failed:
        bench.upgrade()
    assert failed.value.details[-2].startswith("w1 stays out of service")
    assert failed.value.details[-1] == "not begun: w2"
    assert bench.cordoned == ["w1"]
    mark = maintenance_of(bench.rack.api.nodes["w1"].annotations)
    assert mark is not None
    assert mark.reason == ("GPU upgrade to k8s-1.23.5-r1: GPU Operator 22.9.2, driver 535.183.06")
    assert bench.rack.driver_of("w2") != DRIVER
    assert bench.upgrade().done
    assert bench.rack.done == ["operator", "driver w1", "driver w2"]
    assert bench.cordoned == []


@pytest.mark.parametrize("moment", ["after the play", "before the return"])
def test_a_run_that_was_killed_on_a_node_only_returns_what_is_renewed(moment: str) -> None:
    bench = Bench()
    play, name = bench.rack.play, "w1"

    def killed(*words: object) -> None:
        play(*words)  # type: ignore[arg-type]
        if f"driver {name}" in bench.rack.done:
            bench.rack.play = play  # type: ignore[method-assign]
            raise KeyboardInterrupt

    if moment == "after the play":
        bench.rack.play = killed  # type: ignore[assignment,method-assign]
    else:
        test = bench.rack.run_network_test

        def no_test(*_: object, **__: object) -> tuple[str, ...]:
            bench.rack.run_network_test = test  # type: ignore[method-assign]
            raise KeyboardInterrupt

        bench.rack.run_network_test = no_test  # type: ignore[method-assign]
    with pytest.raises(Interrupted):
        bench.upgrade()
    assert bench.cordoned == ["w1"]
    assert bench.upgrade().done
    assert bench.rack.done == ["operator", "driver w1", "driver w2"]
    assert bench.cordoned == []


def test_a_play_without_effect_is_not_believed() -> None:
    bench = Bench()
    bench.rack._driver = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match=r"w1: driver is 525\.60\.13, not 535\.183\.06"):
        bench.upgrade()
    assert bench.cordoned == ["w1"]


def test_what_another_laptop_did_meanwhile_is_shown_anew() -> None:
    bench = Bench()

    def slow(_found: object) -> bool:
        bench.rack._drive("w1", DRIVER, "cuda-drivers-535")
        return True

    bench.answer = slow
    with pytest.raises(Refused, match="has changed since the plan was shown"):
        bench.upgrade()
    assert bench.rack.plays == []


def test_a_pause_waits_for_the_end_of_the_step() -> None:
    bench = Bench()
    asked = iter([False, False, True])

    @contextmanager
    def pausing() -> Iterator[Callable[[], bool]]:
        yield lambda: next(asked)

    with pytest.raises(Interrupted, match=r"paused before: out of service, .*: w2; no node is out"):
        bench.upgrade(pausing=pausing)
    assert bench.rack.done == ["operator", "driver w1"]
    assert bench.upgrade().done


def test_the_fabric_manager_is_brought_in_step_with_the_driver() -> None:
    bench = Bench()
    with_nvswitches(bench.rack.documents["w1"], "525.60.13")
    bench.upgrade()
    installed = bench.rack.documents["w1"]["packages"]["installed"]
    assert installed["nvidia-fabricmanager-535"].startswith(DRIVER)
    assert not any(name.endswith("-525") for name in installed)


def test_a_lost_node_refuses_everything() -> None:
    bench = Bench()
    bench.rack.faults["w2"] = Fault("w2", "w2: no answer on port 22", "ping it")
    with pytest.raises(PreflightFailed, match=r"w2: nodes: found no answer on port 22"):
        bench.upgrade()
    assert bench.rack.plays == []


def test_a_node_in_maintenance_by_a_person_refuses_everything() -> None:
    bench = Bench()
    bench.fails("w1", PlaybookFailed("w1: no"))
    with pytest.raises(PlaybookFailed):
        bench.upgrade()
    node = bench.rack.api.nodes["w1"]
    mark = maintenance_of(node.annotations)
    assert mark is not None
    text = replace(mark, reason="new riser").as_text()
    changed = replace(node, annotations={**node.annotations, ANNOTATION: text})
    bench.rack.cluster = replace(bench.rack.api, nodes={**bench.rack.api.nodes, "w1": changed})
    with pytest.raises(PreflightFailed, match="new riser") as refused:
        bench.upgrade()
    assert refused.value.hint == "appliance node return w1"


def test_an_upgrade_of_kubernetes_that_is_under_way_refuses() -> None:
    bench = Bench()
    mark = UpgradeMark("k8s-1.23.17-r1", "2026-01-01T00:00:00+00:00", "ada on laptop")
    bench.rack.annotate(["cp1"], UPGRADE, mark.as_text())
    with pytest.raises(PreflightFailed, match=r"an upgrade to k8s-1\.23\.17-r1 is under way"):
        bench.upgrade()


def test_a_budget_that_allows_nothing_refuses_before_the_first_change() -> None:
    bench = Bench()
    bench.drain.pods["w2"] = [web("w2")]
    bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
    with pytest.raises(PreflightFailed, match="PodDisruptionBudget web"):
        bench.upgrade()
    assert bench.rack.plays == []


def test_what_an_install_refuses_is_refused_but_for_the_driver_itself() -> None:
    bench = Bench()
    bench.findings = [
        Finding("w1", "gpu_driver", "error", "driver 525", "535", "appliance gpu upgrade"),
        Finding("w1", "disk", "error", "1 GB free", "20 GB", "make space"),
    ]
    with pytest.raises(PreflightFailed, match="disk: 1 GB free") as refused:
        bench.upgrade()
    assert (refused.value.hint, list(refused.value.details)) == ("make space", [])
    bench.findings.pop()
    assert bench.upgrade().done


def test_without_an_api_server_nothing_begins() -> None:
    bench = Bench()
    bench.rack.cluster = Unreachable("nobody answers")
    with pytest.raises(NodeUnreachable, match="no Kubernetes API server answers"):
        bench.upgrade()


def test_once_a_step_ran_no_error_says_that_nothing_was_changed() -> None:
    bench = Bench()
    bench.rack.fail_on["w1"] = NodeUnreachable("w1: no answer", hint="")
    with pytest.raises(ClusterError, match="w1: no answer"):
        bench.upgrade()


def test_the_bundle_of_another_release_is_refused() -> None:
    bench = Bench()
    other = replace(bench.rack.manifest, release="k8s-1.23.17-r1")
    bench.desired = replace(bench.desired, manifest=other)
    with pytest.raises(BundleRefused, match=r"expected the bundle of k8s-1\.23\.5-r1"):
        bench.upgrade()
    bench.desired = replace(bench.desired, manifest=None)
    with pytest.raises(BundleRefused, match="found no bundle"):
        bench.upgrade()


def test_a_site_without_gpus_has_nothing_to_upgrade() -> None:
    bench = Bench()
    bench.desired = samples.desired()
    with pytest.raises(ConfigError, match="no section gpu"):
        bench.upgrade()


def test_a_bundle_is_read_only_where_it_is_to_be_copied() -> None:
    bench = Bench()
    bench.upgrade(dry_run=True)
    note = ("note", "checking every byte of the bundle")
    assert note not in bench.observer.said
    bench.rack.documents["cp1"]["artifacts"]["bundle_digest"] = "00" * 32
    bench.upgrade(dry_run=True)
    assert bench.observer.said.count(note) == 1
    bench.bundle = None
    with pytest.raises(PreflightFailed, match="--bundle is missing"):
        bench.upgrade()


def test_an_install_does_not_upgrade_an_operator_and_names_the_command() -> None:
    bench = Bench()
    look = bench.rack.look(bench.desired.site.nodes)
    observed = Observed(look.node_facts, bench.rack.cluster)
    found = [
        finding
        for finding in preflight(bench.desired, look.node_facts, observed)
        if finding.check == "gpu_operator_upgrade"
    ]
    assert [(one.node, one.step, one.hint) for one in found] == [
        ("cp1", "gpu", "to upgrade it: appliance gpu upgrade")
    ]
    assert bench.upgrade().done
    after = Observed(bench.rack.look(bench.desired.site.nodes).node_facts, bench.rack.cluster)
    checks = {one.check for one in preflight(bench.desired, after.node_facts, after)}
    assert "gpu_operator_upgrade" not in checks


def test_pods_that_cannot_be_moved_give_the_node_back_and_stop_the_rest() -> None:
    bench = Bench()
    bench.drain.pods["w1"] = [web("w1")]
    play = bench.rack.play

    def close(*words: object) -> None:
        bench.drain.budgets = [Budget("team", "web", frozenset({"team/web-1"}), 0)]
        play(*words)  # type: ignore[arg-type]

    bench.rack.play = close  # type: ignore[assignment,method-assign]
    with pytest.raises(StepNotVerified, match="has allowed no disruption") as stopped:
        bench.upgrade()
    assert bench.cordoned == []
    assert bench.rack.done == ["operator"]
    assert stopped.value.details[-1] == "not begun: w2"
    bench.drain.budgets = []
    assert bench.upgrade().done


def test_a_node_with_gpus_that_carries_data_needs_a_fresh_backup() -> None:
    bench = Bench()
    with_old_backup(bench)
    settings = bench.desired.site.settings
    export = samples.settings(nfs={"server": "w2", "path": "/srv/nfs"}).nfs
    object.__setattr__(settings, "nfs", export)
    with pytest.raises(PreflightFailed, match="w2, which carries the data of volumes"):
        bench.upgrade()
    assert (bench.rack.done, bench.asked) == ([], [])
    assert bench.upgrade(dry_run=True).plan.steps
    assert told_old(bench)
