"""What is asked before an upgrade, and that a late answer stays unknown to the end."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.model.site.settings import Node
from appliance.model.state.cluster.cluster import HelmRelease, Unreachable
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import DeprecatedUse, EtcdStatus, Silence
from appliance.model.upgrade.gates import stopping
from appliance.model.upgrade.losses import Documents
from appliance.model.upgrade.plan import UpgradePlan, UpgradeStep
from appliance.model.upgrade.window import Estimate
from appliance.workflows.cluster.upgrade_evidence import (
    UNMEASURED_SECONDS,
    Askers,
    Foreseen,
    gather,
    judge,
    runai_version,
)
from tests import samples
from tests.fakes import FakeBundle
from tests.unit.upgrade.gate_scene import Scene, forecast, member
from tests.unit.upgrade.handmade import untouched
from tests.unit.upgrade.situations import HOPS, NEW

LATE = Silence("no answer in time")


class Etcd:
    """Every member is well, or none answers."""

    def __init__(self, answer: Silence | None = None) -> None:
        self._answer = answer

    def statuses(self, asked: Sequence[Node]) -> tuple[EtcdStatus, ...] | Silence:
        return self._answer or tuple(member(int(node.name[2:])) for node in asked)


class Handmade:
    """Nobody changed anything by hand, but for what the case says."""

    def __init__(self, uses: tuple[DeprecatedUse, ...] | Silence = (), **changes: Any) -> None:
        self._uses = uses
        self._changes = changes

    def documents(self, members: Iterable[Node]) -> Documents:
        names = [node.name for node in members]
        found = {**untouched(), **self._changes}
        manifests = found["manifests"]["cp1"]
        found["manifests"] = {name: manifests for name in names if name.startswith("cp")}
        kubelet = found["kubelet_files"]["w1"]
        found["kubelet_files"] = dict.fromkeys(names, kubelet)
        return Documents(**found)

    def deprecated_uses(self) -> tuple[DeprecatedUse, ...] | Silence:
        return self._uses


STEPS = (UpgradeStep("nodes", NEW, ("w1",), ("old",)),)
PLAN = UpgradePlan((HOPS[NEW],), STEPS)
FORESEEN = Foreseen({"w1": forecast("w1")}, Estimate(60, 90, "journal"), mirrored=NEW)


def askers(etcd: Silence | None = None, **handmade: Any) -> Askers:
    return Askers(Etcd(etcd), Handmade(**handmade))


def seen(scene: Scene) -> Observed:
    return Observed(samples.node_facts(scene.facts), scene.cluster)


def stops(
    asked: Askers, plan: UpgradePlan = PLAN, foreseen: Foreseen = FORESEEN
) -> list[tuple[str, str]]:
    scene = Scene()
    found = judge(samples.desired(scene.site), seen(scene), plan, foreseen, asked)
    return [(gate.verdict, gate.name) for gate in stopping(found)]


def test_everything_that_was_asked_is_judged() -> None:
    assert stops(askers()) == []


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        (askers(etcd=LATE), "etcd"),
        (askers(uses=LATE), "deprecated-apis"),
        (askers(coredns=LATE), "dropped"),
        (askers(cluster_configuration=LATE), "dropped"),
    ],
)
def test_a_late_answer_stays_unknown(asked: Askers, name: str) -> None:
    assert stops(asked) == [("unknown", name)]


def test_a_hand_made_setting_stops_the_upgrade_until_it_is_given_up_by_name() -> None:
    kubelets = {"w1": {**untouched()["kubelet_files"]["w1"], "maxPods": 200}}
    asked = askers(kubelet_files=kubelets)
    assert stops(asked) == [("no-go", "dropped")]
    assert stops(asked, foreseen=replace(FORESEEN, accepted=("kubelet.maxPods",))) == []


def test_a_setting_of_the_site_file_is_carried() -> None:
    scene = Scene(samples.site(3, 2, kubernetes={"kubelet": {"maxPods": 200}}))
    kubelets = {"w1": {**untouched()["kubelet_files"]["w1"], "maxPods": 200}}
    asked = askers(kubelet_files=kubelets)
    found = judge(samples.desired(scene.site), seen(scene), PLAN, FORESEEN, asked)
    assert stopping(found) == ()


def test_without_a_path_nothing_is_asked() -> None:
    assert judge(samples.desired(), seen(Scene()), UpgradePlan(), FORESEEN, askers()) == ()
    over = UpgradePlan((HOPS[NEW],))
    assert judge(samples.desired(), seen(Scene()), over, FORESEEN, askers()) == ()


def test_the_bundle_at_hand_is_verified_where_the_mirror_lacks_it() -> None:
    elsewhere = replace(FORESEEN, mirrored="")
    assert stops(askers(), foreseen=elsewhere) == [("unknown", "bundle")]
    other = replace(askers(), bundle=FakeBundle(samples.manifest()))
    assert stops(other, foreseen=elsewhere) == [("no-go", "bundle")]


def test_an_unmeasured_window_asks_certificates_for_a_day() -> None:
    scene = Scene()
    foreseen = replace(FORESEEN, window=Estimate(0, 0, "unknown"))
    found = gather(samples.desired(scene.site), seen(scene), PLAN, foreseen, askers())
    assert found.window_seconds == UNMEASURED_SECONDS


def test_the_version_of_runai_is_that_of_the_unpacked_bundle() -> None:
    scene = Scene()
    desired = samples.desired(scene.site)
    assert runai_version(desired, seen(scene)) is None
    scene.cluster = replace(scene.cluster, releases=(HelmRelease("runai", "runai", "deployed"),))
    unknown = runai_version(desired, seen(scene))
    assert isinstance(unknown, Silence)
    named = samples.site(1, 1, runai={"vendor_bundle": "/media/runai-air-gapped-2.8.4.tar"})
    assert runai_version(samples.desired(named), seen(scene)) == "2.8"
    scene.facts["cp1"]["runai"] = {"bundle": {"version": "2.5.11"}}
    assert runai_version(desired, seen(scene)) == "2.5.11"


def test_without_an_api_the_version_of_runai_is_unknown() -> None:
    scene = Scene()
    scene.cluster = Unreachable("nothing answers")
    assert isinstance(runai_version(samples.desired(scene.site), seen(scene)), Silence)
