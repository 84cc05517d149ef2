"""What an unused Docker keeps is told for each node, and removed only when it was asked for."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from appliance.adapters.local.content import load_release
from appliance.errors import PreflightFailed, Refused, StepNotVerified
from appliance.model.plan.play import Play
from appliance.model.site.runai_settings import Runai
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.upgrade import ANNOTATION, UpgradeMark
from appliance.model.upgrade.moves.leftovers import GROUP, leftovers, removal_inventory
from appliance.workflows.cluster.docker_removal import RemovalRequest, RemovalResult, remove_docker
from tests import samples
from tests.fakes import FakeJournal, FakeRack, run
from tests.sessions import fake_session

UNUSED: dict[str, Any] = {
    "data_present": True,
    "data_bytes": 3 << 30,
    "version": None,
    "images_only_here": [],
}


class Rack(FakeRack):
    """Nodes on containerd; Docker's data is on some."""

    def __init__(self, *with_data: str) -> None:
        desired = dataclasses.replace(samples.desired(), release=load_release("k8s-1.24.17-r1"))
        super().__init__(desired)
        self.cluster = samples.cluster(samples.desired())
        self.documents = {
            node.name: samples.converged(node, samples.desired()) for node in desired.site.nodes
        }
        for name, document in self.documents.items():
            docker = UNUSED if name in with_data else {"data_present": False, "version": None}
            document["runtime"] = {"docker": dict(docker), "containerd": {"containers_of_pods": 9}}
        self.has_effect = True

    def play(self, play: Play, on_task: Any) -> None:
        self.plays.append(play)
        for name in play.limit:
            on_task(name, "Remove", True)
            if self.has_effect:
                self.documents[name]["runtime"]["docker"]["data_present"] = False

    def facts(self) -> dict[str, NodeFacts]:
        return {name: NodeFacts(document) for name, document in self.documents.items()}

    def remove(
        self, *, agree: bool = True, dry_run: bool = False, accepted: tuple[str, ...] = ()
    ) -> RemovalResult:
        session = fake_session(self, FakeJournal())
        request = RemovalRequest(self.desired, run(), accepted, dry_run)
        return remove_docker(request, session, lambda _: agree)


def test_only_a_docker_that_runs_no_pods_any_more_is_told_with_its_size() -> None:
    rack = Rack("w1")
    found = leftovers(rack.desired.site, rack.facts())
    assert [one.sentence() for one in found] == [
        "w1: Docker runs no pods any more and keeps 3.0 GiB"
    ]
    rack.documents["w1"]["runtime"]["docker"]["data_bytes"] = None
    (one,) = leftovers(rack.desired.site, rack.facts())
    assert one.sentence().endswith("keeps an unknown amount")
    rack.documents["w1"]["runtime"]["docker"]["version"] = "20.10"
    assert leftovers(rack.desired.site, rack.facts()) == ()
    rack.documents["w1"]["runtime"] = {"docker": dict(UNUSED), "containerd": None}
    assert leftovers(rack.desired.site, rack.facts()) == ()


def test_it_is_removed_once_and_verified() -> None:
    rack = Rack("w1", "w2")
    assert [one.node for one in rack.remove(dry_run=True).due] == ["w1", "w2"]
    assert rack.plays == []
    assert rack.remove().done
    (play,) = rack.plays
    assert (play.playbook, play.limit) == ("docker_removal", ("w1", "w2"))
    assert list(play.inventory["all"]["children"][GROUP]["hosts"]) == ["w1", "w2"]
    assert not rack.remove().done
    assert len(rack.plays) == 1


def test_the_node_of_the_vendors_script_keeps_its_own() -> None:
    rack = Rack("cp1", "w1")
    settings = rack.desired.site.settings.model_copy(
        update={"runai": Runai(vendor_bundle="runai-2.7.1.tar")}
    )
    site = dataclasses.replace(rack.desired.site, settings=settings)
    rack.desired = dataclasses.replace(rack.desired, site=site)
    kept = site.vendor_node.name
    found = rack.remove()
    assert {one.node: one.wanted for one in found.found} == {"cp1": True, "w1": False}
    assert kept == "cp1"
    assert rack.plays[0].limit == ("w1",)


def test_without_a_yes_or_in_the_middle_of_an_upgrade_nothing_is_changed() -> None:
    rack = Rack("w1")
    with pytest.raises(Refused):
        rack.remove(agree=False)
    mark = UpgradeMark("k8s-1.24.17-r1", "2026-01-01T00:00:00+00:00", "someone")
    assert isinstance(rack.cluster, Cluster)
    node = dataclasses.replace(rack.cluster.nodes["cp1"], annotations={ANNOTATION: mark.as_text()})
    rack.cluster = dataclasses.replace(rack.cluster, nodes={**rack.cluster.nodes, "cp1": node})
    with pytest.raises(PreflightFailed, match="under way"):
        rack.remove()
    assert rack.plays == []


def test_data_that_is_still_there_is_no_success() -> None:
    rack = Rack("w1")
    rack.has_effect = False
    with pytest.raises(StepNotVerified, match="w1: Docker runs no pods any more and keeps"):
        rack.remove()


def test_an_image_that_only_docker_has_is_named_and_nothing_goes_until_it_is_given_up() -> None:
    rack = Rack("w1", "w2")
    rack.documents["w2"]["runtime"]["docker"]["images_only_here"] = ["customer/agent:1", "tool:2"]
    with pytest.raises(PreflightFailed, match=r"w2: .*image customer/agent:1 in Docker") as refused:
        rack.remove()
    assert "--accept-loss docker-image.customer/agent:1" in (refused.value.hint or "")
    assert "docker-image.tool:2" in refused.value.details[0]
    assert [one.images for one in rack.remove(dry_run=True).due] == [
        (),
        ("customer/agent:1", "tool:2"),
    ]
    accepted = ("docker-image.customer/agent:1", "docker-image.tool:2", "kubelet.maxPods")
    with pytest.raises(PreflightFailed):
        rack.remove(accepted=accepted[:1])
    assert rack.plays == []
    assert rack.remove(accepted=accepted).done
    variables = rack.plays[0].inventory["all"]["vars"]
    assert variables["kubernetes_runtime_images_given_up"] == ["customer/agent:1", "tool:2"]
    assert variables["kubernetes_runtime_registry"] == rack.desired.site.image_prefix


TEMPLATE = "{{ lookup('pipe', 'id') }}"


@pytest.mark.parametrize("name", [TEMPLATE, "a b", "a\u202eb", "-x", "%x"])
def test_a_name_that_no_image_can_have_reaches_neither_a_play_nor_a_hint(name: str) -> None:
    rack = Rack("w1")
    rack.documents["w1"]["runtime"]["docker"]["images_only_here"] = [name]
    accepted = (f"docker-image.{name}",)
    with pytest.raises(PreflightFailed, match="could not be compared") as refused:
        rack.remove(accepted=accepted)
    assert name not in f"{refused.value} {refused.value.hint} {refused.value.details}"
    found = removal_inventory(rack.desired.site, "unix:///x.sock", ("w1",), accepted)
    assert found["all"]["vars"]["kubernetes_runtime_images_given_up"] == []


def test_images_that_could_not_be_compared_are_not_removed() -> None:
    rack = Rack("w1")
    rack.documents["w1"]["runtime"]["docker"]["images_only_here"] = None
    with pytest.raises(PreflightFailed, match="could not be compared"):
        rack.remove()
    assert rack.plays == []


@pytest.mark.parametrize(
    ("root", "stops"), [("/data/docker", True), ("/var/lib/docker/", False), (None, False)]
)
def test_data_in_a_folder_of_the_operators_is_refused_before_any_question(
    root: str | None, stops: bool
) -> None:
    rack = Rack("w1")
    rack.documents["w1"]["runtime"]["docker"]["data_root"] = root
    if stops:
        with pytest.raises(PreflightFailed, match=r"w1: .*Docker's data in /data/docker"):
            rack.remove(agree=False)
        assert rack.plays == []
    else:
        assert rack.remove().done
