"""The lab like a site, planned from what was kept; an unknown site is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import PreflightFailed, Refused
from appliance.lab.alike import not_made
from appliance.lab.site.site import KUBELET
from appliance.lab.site.sites import LabSiteFiles, likeness_file
from appliance.model.upgrade.rehearsal.handmade import SECRET, Handmade
from appliance.model.upgrade.rehearsal.last_facts import HandmadeSettings, LastCluster
from appliance.model.upgrade.rehearsal.likeness import SeenSite, plan_likeness, read_likeness
from tests import samples
from tests.unit.rehearsal.scene import (
    MACHINE,
    MEMBER,
    MEMORY,
    PODS,
    PROFILING,
    SEEN,
    facts,
    handmade,
    seen,
)

CLUSTER = LastCluster(SEEN, "v1.23.5", "", HandmadeSettings(SEEN, (MEMORY,)))


def test_it_has_the_whole_control_plane_and_one_worker_of_each_kind() -> None:
    like = plan_likeness(seen(3, 4, nodes={"w3": handmade(PODS)}))
    assert {node.name: node.stands_for for node in like.nodes} == {
        "cp1": (), "cp2": (), "cp3": (), "w1": ("w2", "w4"), "w3": (),
    }  # fmt: skip
    assert [node.name for node in like.nodes if node.control_plane] == ["cp1", "cp2", "cp3"]
    assert (like.site, like.release) == (seen().site.name, "k8s-1.23.5-r1")


def test_three_handmade_settings_are_all_in_the_plan() -> None:
    nodes = {"cp1": handmade(PROFILING), "w1": handmade(PODS), "w2": handmade(PODS)}
    like = plan_likeness(seen(nodes=nodes, cluster=CLUSTER))
    assert [(one.name, on, why) for one, on, why in not_made(like)] == [
        ("kube-apiserver.profiling", ("cp1",), ""),
        ("kubelet.maxPods", ("w1",), ""),
        ("coredns.resources.limits.memory", (), ""),
    ]


def test_labels_taints_and_gpus_are_those_of_the_site() -> None:
    member = replace(MEMBER, labels={"rack": "7"}, taints=("gpu=true:NoSchedule",))
    machine = replace(MACHINE, gpus={"0x20b0": 6, "0x2330": 2})
    like = plan_likeness(seen(1, 1, nodes={"w1": {"member": member, "machine": machine}}))
    worker = like.nodes[-1]
    assert (worker.labels, worker.taints, worker.gpus) == (
        {"rack": "7"},
        ("gpu=true:NoSchedule",),
        8,
    )
    assert dict(like.gpus) == {"w1": 8}
    assert any("its GPUs are stand-ins: 6 of 0x20b0, 2 of 0x2330" in d for d in like.differences)


def test_a_worker_that_no_look_has_seen_is_named_and_left_out() -> None:
    like = plan_likeness(seen(1, 3, unseen=("w2",)))
    assert "w2" not in {n for node in like.nodes for n in (node.name, *node.stands_for)}
    assert "w2 is not in the lab: no look has kept its facts" in like.differences


@pytest.mark.parametrize(
    ("workers", "changes", "said"),
    [
        (1, {}, False),
        (3, {}, True),
        (3, {"w3": handmade(PODS)}, False),
    ],
    ids=["as on the site", "one for three", "two kinds"],
)
def test_an_only_worker_that_stands_for_others_has_nowhere_for_its_pods(
    workers: int, changes: dict[str, Any], said: bool
) -> None:
    like = plan_likeness(seen(1, workers, nodes=changes))
    assert any("needs --allow-outage" in text for text in like.differences) is said


@pytest.mark.parametrize(
    ("changes", "left_out"),
    [
        ({}, set()),
        ({"registry": "registry.rack.test:9443"}, {"registry"}),
        ({"network": {"pod_cidr": "198.18.0.0/17"}}, {"pod_cidr", "service_cidr"}),
    ],
    ids=["all", "a port of the lab's own", "a range of the lab's own"],
)
def test_it_carries_the_names_and_ranges_that_a_lab_can_have(
    changes: dict[str, Any], left_out: set[str]
) -> None:
    site = samples.site(1, 1)
    network = site.settings.network.model_copy(
        update={k: IPv4Network(v) for k, v in changes.get("network", {}).items()}
    )
    settings = site.settings.model_copy(update={**changes, "network": network})
    like = plan_likeness(seen(site=replace(site, settings=settings)))
    assert set(like.carried) == {"pod_cidr", "service_cidr", "registry"} - left_out
    assert read_likeness(json.dumps(like.as_json())).carried == like.carried


def test_more_kinds_than_a_lab_can_have_are_named() -> None:
    members = {
        f"w{n}": {"member": replace(MEMBER, taints=(f"a={n}:NoSchedule",))} for n in range(1, 23)
    }
    like = plan_likeness(seen(1, 22, nodes=members))
    assert len([node for node in like.nodes if not node.control_plane]) == 20
    assert "w21 is not in the lab: a lab has at most 20 workers" in like.differences


REFUSED: dict[str, tuple[SeenSite, str]] = {
    "a control-plane node that no look has seen": (
        seen(3, 1, unseen=("cp2",)),
        "no look has kept facts of control-plane node cp2",
    ),
    "hand-made settings that no look has read": (
        seen(nodes={"cp1": {"handmade": None}}),
        "no look has read the hand-made settings of cp1",
    ),
    "another version than the release has": (
        seen(nodes={"w1": {"member": replace(MEMBER, kubelet="v1.23.17")}}),
        "w1 ran v1.23.17 on 2026-11-01, and k8s-1.23.5-r1 has v1.23.5",
    ),
    "an upgrade that is under way": (
        seen(cluster=replace(CLUSTER, upgrading="an upgrade to X is under way")),
        "an upgrade to X is under way",
    ),
    "a cluster that no look has seen": (
        replace(seen(), cluster=None),
        "no look has seen its cluster",
    ),
}


@pytest.mark.parametrize(("found", "why"), REFUSED.values(), ids=REFUSED)
def test_a_site_of_which_too_little_is_known_is_refused(found: SeenSite, why: str) -> None:
    with pytest.raises(PreflightFailed) as caught:
        plan_likeness(found)
    assert why in caught.value.message
    assert "appliance status --site" in str(caught.value.hint)


def test_what_site_yml_carries_is_not_made_by_hand() -> None:
    site = samples.site(1, 1)
    kubernetes = site.settings.kubernetes.model_copy(
        update={
            "kubelet": {"maxPods": 250, "tlsCertFile": "/own.crt", "auth": {"token": "hunter2"}}
        }
    )
    site = replace(site, settings=site.settings.model_copy(update={"kubernetes": kubernetes}))
    like = plan_likeness(seen(nodes={"w1": handmade(PODS)}, site=site))
    ((one, _nodes, reason),) = not_made(like)
    assert (one.name, reason) == ("kubelet.maxPods", "site.yml carries it, and the lab's does too")
    assert like.kubelet == {"maxPods": 250}
    assert sum("of site.yml is not in the lab" in d for d in like.differences) == 2


def test_what_the_lab_needs_for_itself_is_named() -> None:
    swap = Handmade("kubelet", ("failSwapOn",), "true", "false", value=True)
    assert swap.keys[0] in KUBELET
    like = plan_likeness(seen(nodes={"w1": handmade(swap)}))
    ((_one, _nodes, reason),) = not_made(like)
    assert reason == "the lab needs a value of its own there"


def test_a_secret_is_named_without_its_value() -> None:
    hidden = Handmade("etcd", ("env", "PASSWORD"), "[redacted: value]", "absent", secret=True)
    like = plan_likeness(seen(nodes={"cp1": handmade(hidden)}))
    ((_one, _nodes, reason),) = not_made(like)
    assert reason == SECRET


def test_what_is_written_down_is_read_again() -> None:
    nodes = {"cp1": handmade(PROFILING), "w1": handmade(PODS)}
    like = plan_likeness(seen(nodes=nodes, cluster=CLUSTER))
    assert read_likeness(json.dumps(like.as_json())) == like


def test_the_facts_of_a_services_node_outside_the_cluster_are_not_needed() -> None:
    site = samples.site(1, 1)
    first, *others = site.nodes
    nodes = (replace(first, groups=first.groups - {"services"}), *others)
    extra = replace(first, name="srv", groups=frozenset({"services"}))
    like = plan_likeness(seen(site=replace(site, nodes=(*nodes, extra)), unseen=("srv",)))
    assert [(node.name, node.control_plane) for node in like.nodes] == [
        ("srv", False), ("cp1", True), ("w1", False),
    ]  # fmt: skip


def test_all_that_was_kept_is_in_the_facts_of_the_scene() -> None:
    """The premise of the cases: each part was seen."""
    found: Any = facts(samples.site().nodes[0])
    assert all((found.machine, found.member, found.handmade))


OF_OTHERS = (
    Handmade("kubelet", ("staticPodURL",), "http://a.b", "absent", value="http://a.b/pod"),
    Handmade("kubelet", ("staticPodPath",), "pods", "/etc", value="pods"),
    Handmade("kubelet", ("authentication", "anonymous", "enabled"), "true", "false", value=True),
    Handmade("kubelet", ("authorization", "mode"), "AlwaysAllow", "Webhook", value="AlwaysAllow"),
    Handmade("kube-proxy", ("command",), "sh", "kube-proxy", value=["/bin/sh", "-c", "id"]),
    Handmade("kube-proxy", ("command",), "sh", "kube-proxy", value="/bin/sh"),
    Handmade("kube-proxy", ("command",), "absent", "kube-proxy", there=False),
)


@pytest.mark.parametrize("one", OF_OTHERS, ids=lambda one: one.name)
def test_nothing_of_a_site_runs_programs_of_others_on_this_machine(one: Handmade) -> None:
    """Nodes of a lab are privileged containers, and a worker writes what it likes of itself."""
    like = plan_likeness(seen(nodes={"w1": handmade(one)}))
    assert [why for _, _, why in not_made(like)] == ["it would run programs of others in the lab"]


def test_other_arguments_of_the_same_program_are_made() -> None:
    words = ["/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "-v=2"]
    one = Handmade("kube-proxy", ("command",), "-v=2", "none", value=words)
    like = plan_likeness(seen(nodes={"w1": handmade(one)}))
    assert [why for _, _, why in not_made(like)] == [""]


def test_a_lab_that_is_like_one_site_is_not_taken_for_another(tmp_path: Path) -> None:
    """Names of labs are cut: two sites with the same nodes may get the same one."""
    like, files = plan_likeness(seen()), LabSiteFiles(lambda *_: None)
    files.keep_likeness(tmp_path, like)
    files.keep_likeness(tmp_path, like)
    with pytest.raises(Refused, match="is a lab like"):
        files.keep_likeness(tmp_path, replace(like, site="another"))
    assert read_likeness(likeness_file(tmp_path).read_text()).site == like.site


def test_two_sites_of_one_name_do_not_share_a_lab(tmp_path: Path) -> None:
    files, found = LabSiteFiles(lambda *_: None), replace(seen(), folder="/sites/a/rack")
    files.keep_likeness(tmp_path, plan_likeness(found))
    files.keep_likeness(tmp_path, plan_likeness(found))
    for other in (replace(found, folder="/sites/b/rack"), replace(seen(3), folder=found.folder)):
        with pytest.raises(Refused, match="another site that is named") as refused:
            files.keep_likeness(tmp_path, plan_likeness(other))
        assert "--name" in str(refused.value.hint)
        assert "lab down" in str(refused.value.hint)
    more_workers = replace(seen(workers=5), folder=found.folder)
    files.keep_likeness(tmp_path, plan_likeness(more_workers))


def test_a_lab_of_an_older_version_is_the_sites_by_its_name(tmp_path: Path) -> None:
    like, files = plan_likeness(seen()), LabSiteFiles(lambda *_: None)
    files.keep_likeness(tmp_path, replace(like, origin=""))
    files.keep_likeness(tmp_path, like)
    assert read_likeness(likeness_file(tmp_path).read_text()).origin == like.origin
