"""Go, no-go or unknown before the first change; what did not answer is never a go."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from appliance.model.state.cluster.cluster import Cluster, HelmRelease, Unreachable
from appliance.model.state.observed import Observed
from appliance.model.upgrade.evidence import (
    BundleEvidence,
    DeprecatedUse,
    Evidence,
    Silence,
    SnapshotProof,
)
from appliance.model.upgrade.gates import gates, stopping
from appliance.workflows.cluster.upgrading.gates import runai_version
from tests import samples
from tests.unit.upgrade.gate_scene import (
    GB,
    NAMES,
    Scene,
    along,
    annotated,
    asked,
    away,
    blocks,
    certificate,
    disk,
    etcd,
    fact,
    loss,
    member,
    no_api,
    no_member,
    node_object,
    operator,
    uses,
)
from tests.unit.upgrade.situations import HOPS, NEW, NEXT, maintenance

LATE = Silence("no answer in time")
STOP, UNKNOWN = "no-go", "unknown"
CHANGING = asked(changing=frozenset({"w1", "w2"}))
Found = list[tuple[str, str, str]]
CASES: list[tuple[str, list[Callable[[Scene], None]], Found]] = [
    ("everything is well", [], []),
    # Containers of Docker that are no pods.
    (
        "a container that is no pod, where the runtime does not change",
        [fact("w1", "runtime.docker.foreign_running", ["gitlab"])],
        [],
    ),
    (
        "a container that is no pod, on another node than those that change",
        [CHANGING, fact("cp1", "runtime.docker.foreign_running", ["gitlab"])],
        [],
    ),
    (
        "containers that are no pods",
        [CHANGING, fact("w1", "runtime.docker.foreign_running", ["gitlab", "postgres"])],
        [(STOP, "docker", "w1")],
    ),
    (
        "a Docker that does not list its containers",
        [CHANGING, fact("w2", "runtime.docker.foreign_running", None)],
        [(UNKNOWN, "docker", "w2")],
    ),
    (
        "a Docker that an earlier run has stopped",
        [CHANGING, fact("w2", "runtime.docker", {"version": None})],
        [],
    ),
    # Bundle and images.
    ("the bundle was not looked at", [asked(bundles={NEW: LATE})], [(UNKNOWN, "bundle", "")]),
    (
        "the bundle of another release",
        [asked(bundles={NEW: BundleEvidence(NEXT)})],
        [(STOP, "bundle", "")],
    ),
    (
        "a bundle with a damaged file",
        [asked(bundles={NEW: BundleEvidence(NEW, ("bin/kubeadm: another sha256",))})],
        [(STOP, "bundle", "")],
    ),
    ("a bundle that is mirrored by the run", [asked(bundles={NEW: BundleEvidence(NEW)})], []),
    (
        "the bundle of the second release on the way is not there",
        [asked(bundles={NEW: BundleEvidence(NEW)}), along(NEW, NEXT)],
        [(UNKNOWN, "bundle", "")],
    ),
    (
        "the bundle of the second release is damaged",
        [
            asked(
                bundles={NEW: BundleEvidence(NEW), NEXT: BundleEvidence(NEXT, ("apt: cut off",))}
            ),
            along(NEW, NEXT),
        ],
        [(STOP, "bundle", "")],
    ),
    (
        "the bundle of the second release is needed after the pause",
        [
            asked(bundles={NEW: BundleEvidence(NEW), NEXT: BundleEvidence(NEXT, later=True)}),
            along(NEW, NEXT),
        ],
        [],
    ),
    # Run:ai's own value for the runtime.
    (
        "Run:ai names Docker and the runtime stays",
        [asked(runai="2.8", runai_runtime="docker"), along(NEW, NEXT)],
        [],
    ),
    (
        "Run:ai names Docker and the runtime changes in the second hop",
        [asked(runai="2.8", runai_runtime="docker", runtimes_change=True), along(NEW, NEXT)],
        [(STOP, "runai-runtime", "")],
    ),
    (
        "Run:ai names no runtime, which is Docker",
        [asked(runai="2.8", runai_runtime="", runtimes_change=True), along(NEW, NEXT)],
        [(STOP, "runai-runtime", "")],
    ),
    (
        "Run:ai names containerd",
        [asked(runai="2.8", runai_runtime="containerd", runtimes_change=True), along(NEW, NEXT)],
        [],
    ),
    (
        "the values of Run:ai did not answer",
        [asked(runai="2.8", runai_runtime=LATE, runtimes_change=True), along(NEW, NEXT)],
        [(UNKNOWN, "runai-runtime", "")],
    ),
    (
        "no Run:ai, and the runtime changes",
        [asked(runtimes_change=True), along(NEW, NEXT)],
        [],
    ),
    ("images were not asked for", [asked(absent_images=LATE)], [(UNKNOWN, "images", "")]),
    (
        "images of one node came late, one lacks some, one is not listed",
        [asked(absent_images={"cp1": (), "cp2": (), "cp3": LATE, "w1": ("a", "b", "c", "d")})],
        [(UNKNOWN, "images", "cp3"), (STOP, "images", "w1"), (UNKNOWN, "images", "w2")],
    ),
    (
        "images that the run loads first",
        [asked(absent_images=LATE, images_are_loaded=True)],
        [],
    ),
    # What runs on the new Kubernetes.
    ("Run:ai 2.8 on 1.23 and 1.24", [asked(runai="2.8.12"), along(NEW, NEXT)], []),
    ("Run:ai 2.5 on 1.23", [asked(runai="v2.5.0")], []),
    ("Run:ai 2.5 ends at 1.23", [asked(runai="2.5"), along(NEW, NEXT)], [(STOP, "runai", "")]),
    ("Run:ai 2.4 ends at 1.23", [asked(runai="2.4.1"), along(NEW, NEXT)], [(STOP, "runai", "")]),
    ("Run:ai of an unknown line", [asked(runai="2.13.1")], [(UNKNOWN, "runai", "")]),
    ("Run:ai without a version", [asked(runai="latest")], [(UNKNOWN, "runai", "")]),
    ("Run:ai with an empty version", [asked(runai="")], [(UNKNOWN, "runai", "")]),
    ("Run:ai did not answer", [asked(runai=LATE)], [(UNKNOWN, "runai", "")]),
    ("operator 22.9 on 1.23 and 1.24", [operator("22.9.2"), along(NEW, NEXT)], []),
    ("operator 25.3 begins at 1.29", [operator("25.3.2")], [(STOP, "gpu-operator", "")]),
    (
        "operator 1.9 was tested on 1.23 alone",
        [operator("1.9.1"), along(NEW, NEXT)],
        [(UNKNOWN, "gpu-operator", "")],
    ),
    ("an operator of an unknown line", [operator("99.1")], [(UNKNOWN, "gpu-operator", "")]),
    ("an operator without a version", [operator(None)], [(UNKNOWN, "gpu-operator", "")]),
    # Deprecated APIs.
    ("an API that a later release removes", [uses("1.25")], []),
    (
        "an API that a release on the way removes",
        [uses("1.24"), along(NEW, NEXT)],
        [(STOP, "deprecated-apis", "")],
    ),
    ("an API that was removed before", [uses("1.22")], [(STOP, "deprecated-apis", "")]),
    ("an API without a known end", [uses("")], []),
    ("an end that is no version", [uses("soon")], [(UNKNOWN, "deprecated-apis", "")]),
    ("metrics came late", [asked(deprecated=LATE)], [(UNKNOWN, "deprecated-apis", "")]),
    ("the same use from three servers", [uses("1.20", "1.20")], [(STOP, "deprecated-apis", "")]),
    # What kubeadm drops.
    ("documents came late", [asked(losses=LATE)], [(UNKNOWN, "dropped", "")]),
    ("a loss", [asked(losses=(loss("kubelet.maxPods"),))], [(STOP, "dropped", "w1")]),
    ("a loss that is carried", [asked(losses=(loss("kubelet.maxPods", carried=True),))], []),
    (
        "a loss that is acknowledged by name",
        [asked(losses=(loss("a"), loss("b")), accepted=frozenset({"a"}))],
        [(STOP, "dropped", "w1")],
    ),
    (
        "a loss is not acknowledged by a part of its name",
        [asked(losses=(loss("kubelet.maxPods"),), accepted=frozenset({"kubelet", "*", ""}))],
        [(STOP, "dropped", "w1")],
    ),
    # Nodes.
    (
        "no API",
        [no_api],
        [(UNKNOWN, name, "") for name in ("gpu-operator", "gpu-toolkit", "nodes")],
    ),
    (
        "a node is lost",
        [away("w1")],
        [(UNKNOWN, name, "w1") for name in ("nodes", "certificates", "disk", "time")],
    ),
    (
        "a lost node that is left out",
        [away("w1"), asked(left_out=frozenset({"w1"}))],
        [],
    ),
    ("a node that is no member", [no_member], [(STOP, "nodes", "w1")]),
    ("a node not Ready", [node_object("w1", ready=False)], [(STOP, "nodes", "w1")]),
    (
        "a node in maintenance of another",
        [node_object("w1", annotations=annotated(maintenance("new disk")))],
        [(STOP, "nodes", "w1")],
    ),
    (
        "a node that this upgrade took out",
        [node_object("w1", ready=False, annotations=annotated(maintenance(f"upgrade to {NEW}")))],
        [],
    ),
    (
        "a node that another upgrade took out",
        [node_object("w1", annotations=annotated(maintenance(f"upgrade to {NEXT}")))],
        [(STOP, "nodes", "w1")],
    ),
    # Budgets.
    ("budgets came late", [asked(forecasts=LATE)], [(UNKNOWN, "budgets", "")]),
    ("a budget blocks", [blocks("w2")], [(STOP, "budgets", "w2")]),
    ("no forecast of any node", [asked(forecasts={}, left_out=frozenset({"cp1", "cp2", "cp3"}))],
     [(UNKNOWN, "budgets", "w1"), (UNKNOWN, "budgets", "w2")]),
    # Certificates.
    ("no forecast of the window", [asked(window_seconds=LATE)], [(UNKNOWN, "certificates", "")]),
    ("a certificate that ends within the window", [certificate("cp2", 0.5)],
     [(STOP, "certificates", "cp2")]),
    ("a certificate that ends within the margin", [certificate("cp2", 1.02)],
     [(STOP, "certificates", "cp2")]),
    ("a certificate that ends after it", [certificate("cp2", 1.1)], []),
    ("a certificate that has expired", [certificate("w1", -3)], [(STOP, "certificates", "w1")]),
    ("a long window", [asked(window_seconds=20 * 86_400.0), certificate("cp2", 15)],
     [(STOP, "certificates", "cp2")]),
    ("no certificate was listed", [fact("cp1", "kubernetes.pki", [])],
     [(UNKNOWN, "certificates", "cp1")]),
    ("a clock that was not read", [fact("cp1", "clock.epoch", None)],
     [(UNKNOWN, "certificates", "cp1")]),
    # Disks.
    ("the size of the images is not known", [asked(image_bytes=LATE)], [(UNKNOWN, "disk", "")]),
    ("no space", [disk("w1", 1.0), asked(absent_images={}, images_are_loaded=True)],
     [(STOP, "disk", "w1")]),
    ("a worker whose images are there needs less", [disk("w1", 1.2)], []),
    (
        "images move from Docker on the nodes that change, not on one that has changed",
        [
            asked(absent_images={}, runtimes_change=True, changing=frozenset({"w2"})),
            asked(images_are_loaded=True),
            disk("w1", 3.5),
            disk("w2", 3.5),
        ],
        [(STOP, "disk", "w2")],
    ),
    ("a large etcd", [disk("cp1", 20, etcd_bytes=8 * GB)], [(STOP, "disk", "cp1")]),
    ("etcd's size was not read", [fact("cp1", "kubernetes.etcd_data", {})],
     [(UNKNOWN, "disk", "cp1")]),
    ("file systems were not read", [fact("cp1", "filesystems", [])], [(UNKNOWN, "disk", "cp1")]),
    ("file systems of another form", [fact("cp1", "filesystems", [{"mount": 7}, None])],
     [(UNKNOWN, "disk", "cp1")]),
    # Time.
    ("a clock that is not synchronised", [fact("w1", "clock.synchronised", False)],
     [(STOP, "time", "w1")]),
    ("chronyd did not answer", [fact("w1", "clock.synchronised", None)],
     [(UNKNOWN, "time", "w1")]),
    ("a clock that is off", [fact("w1", "clock.offset_seconds", -9.0)], [(STOP, "time", "w1")]),
    # etcd.
    ("etcd came late", [asked(etcd=LATE)], [(UNKNOWN, "etcd", "")]),
    ("no member answered", [etcd()],
     [(UNKNOWN, "etcd", "cp1"), (UNKNOWN, "etcd", "cp2"), (UNKNOWN, "etcd", "cp3")]),
    ("a member did not answer", [etcd(member(1), member(2))], [(UNKNOWN, "etcd", "cp3")]),
    ("a strange member", [etcd(member(1), member(2), member(3), member(4))],
     [(STOP, "etcd", "cp4")]),
    ("two members of one node", [etcd(member(1), member(2), member(3), member(3))],
     [(STOP, "etcd", "cp3")]),
    ("an unhealthy member", [etcd(member(1), member(2), member(3, healthy=False))],
     [(STOP, "etcd", "cp3")]),
    ("an alarm", [etcd(member(1, alarms=("NOSPACE",)), member(2), member(3))],
     [(STOP, "etcd", "cp1")]),
    ("two leaders", [etcd(member(1), member(2, leader="a2"), member(3))], [(STOP, "etcd", "")]),
    ("a leader from elsewhere", [etcd(*(member(n, leader="ff") for n in (1, 2, 3)))],
     [(STOP, "etcd", "")]),
    ("no leader", [etcd(member(1), member(2, leader=""), member(3))], [(STOP, "etcd", "cp2")]),
    ("a learner", [etcd(member(1), member(2), member(3, learner=True))], [(STOP, "etcd", "cp3")]),
    ("a member behind", [etcd(member(1), member(2, revision=2), member(3))],
     [(STOP, "etcd", "cp2")]),
    ("a few revisions apart", [etcd(member(1), member(2, revision=980), member(3))], []),
    ("two versions", [etcd(member(1), member(2, version="3.5.6"), member(3))],
     [(STOP, "etcd", "")]),
    # The snapshot.
    ("no snapshot", [asked(snapshot=LATE)], [(UNKNOWN, "snapshot", "")]),
    ("the run makes it", [asked(snapshot=LATE, snapshot_follows=True)], []),
    ("a snapshot without keys",
     [asked(snapshot=SnapshotProof("cp1", "/a.db", "ab", 9, 990, 0, "cd"))],
     [(STOP, "snapshot", "cp1")]),
    ("a snapshot of another etcd",
     [asked(snapshot=SnapshotProof("cp1", "/a.db", "ab", 9, 9_000_000, 4, "cd"))],
     [(STOP, "snapshot", "cp1")]),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "stops"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_each_point_is_judged(changes: list[Callable[[Scene], None]], stops: Found) -> None:
    scene = Scene()
    for change in changes:
        change(scene)
    assert list(scene.judge()) == stops


def test_nothing_that_was_not_asked_is_a_go() -> None:
    scene = Scene()
    scene.evidence = Evidence()
    unknown = {name for verdict, name, _ in scene.judge() if verdict == "unknown"}
    assert unknown == NAMES - {"gpu-operator", "gpu-toolkit", "nodes", "time"}


def test_nothing_at_all_is_no_go() -> None:
    scene = Scene()
    scene.facts, scene.cluster, scene.evidence = {}, Unreachable("nothing"), Evidence()
    assert {name for _, name, _ in scene.judge()} == NAMES


def test_hundreds_of_uses_are_counted_and_not_listed() -> None:
    scene = Scene()
    uses_of = tuple(DeprecatedUse("g", "v1", f"kind-{n}", "1.20") for n in range(500))
    scene.evidence = replace(scene.evidence, deprecated=uses_of)
    assert len(scene.judge()) == 21


def test_a_gate_is_told_as_a_refusal() -> None:
    scene = Scene()
    scene.evidence = replace(scene.evidence, etcd=Silence("the gateway is silent"))
    observed = Observed(samples.node_facts(scene.facts), scene.cluster)
    (gate,) = stopping(gates(scene.site, observed, scene.evidence, [HOPS[NEW]]))
    told = gate.refusal()
    assert (told.node, told.check) == ("the cluster", "etcd")
    assert told.seen == "no answer (the gateway is silent)"
    assert told.hint == gate.cure


def test_two_hundred_nodes_are_judged_within_a_second() -> None:
    site = samples.site(3, 200)
    scene = Scene(site)
    assert isinstance(scene.cluster, Cluster)
    began = time.process_time()
    assert scene.judge() == ()
    assert time.process_time() - began < 1


def test_the_version_of_runai_is_that_of_the_unpacked_bundle() -> None:
    scene = Scene()
    desired = samples.desired(scene.site)

    def seen() -> Observed:
        return Observed(samples.node_facts(scene.facts), scene.cluster)

    assert runai_version(desired, seen()) is None
    scene.cluster = replace(scene.cluster, releases=(HelmRelease("runai", "runai", "deployed"),))
    assert isinstance(runai_version(desired, seen()), Silence)
    named = samples.site(1, 1, runai={"vendor_bundle": "/media/runai-air-gapped-2.8.4.tar"})
    assert runai_version(samples.desired(named), seen()) == "2.8"
    scene.facts["cp1"]["runai"] = {"bundle": {"version": "2.5.11"}}
    assert runai_version(desired, seen()) == "2.5.11"
    scene.facts, scene.cluster = {}, Unreachable("nothing answers")
    assert isinstance(runai_version(desired, seen()), Silence)
