"""Operands on an emptied node are made anew; nobody else's pod is touched."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.modules.loading import load

renewed = load("gpu_operands_renewed", role="gpu_operator")
NEW, OLD = "sha256:" + "1" * 64, "sha256:" + "0" * 64
WANT = {
    "node": "gpu2",
    "namespace": "gpu-operator",
    "images": {"driver": NEW},
    "deadline_seconds": 10,
}


def pod(name: str, owner: str = "", revision: str = "new", **more: Any) -> dict[str, Any]:
    """A pod of a DaemonSet, or of another owner."""
    owners = (
        [{"kind": "DaemonSet", "uid": owner}] if owner else [{"kind": "ReplicaSet", "uid": "r"}]
    )
    labels = {renewed.HASH: revision, "app": name.rpartition("-")[0]}
    return {"metadata": {"name": name, "ownerReferences": owners, "labels": labels, **more}}


class Kubectl:
    """Answers as a cluster in which the operator has written its DaemonSets."""

    def __init__(self, *pods: dict[str, Any], digest: str = NEW, cordoned: bool = True) -> None:
        self.pods, self.digest, self.cordoned = pods, digest, cordoned
        self.deleted: list[str] = []
        self.asked: list[tuple[str, ...]] = []

    def get(self, *arguments: str) -> dict[str, Any] | None:
        self.asked.append(arguments)
        if arguments[0] == "node":
            return {"spec": {"unschedulable": True} if self.cordoned else {}}
        if arguments[0] == "daemonsets":
            image = f"registry.rack.test:5000/driver@{self.digest}"
            spec = {"template": {"spec": {"containers": [{"image": image}]}}}
            return {"items": [{"metadata": {"name": renewed.DRIVER}, "spec": spec}]}
        if arguments[0] == "controllerrevisions":
            return {
                "items": [
                    self._revision("d", 1, "old"),
                    self._revision("d", 2, "new"),
                    self._revision("p", 7, "new"),
                ]
            }
        assert "--field-selector=spec.nodeName=gpu2" in arguments
        return {"items": list(self.pods)}

    @staticmethod
    def _revision(uid: str, number: int, digest: str) -> dict[str, Any]:
        meta = {"ownerReferences": [{"uid": uid}], "labels": {renewed.HASH: digest}}
        return {"revision": number, "metadata": meta}

    def call(self, arguments: list[str]) -> tuple[int, str]:
        assert arguments[:2] == ["delete", "pod"]
        self.deleted.append(arguments[2])
        return 0, ""


def test_pods_of_an_older_template_go_and_the_drivers_first() -> None:
    cluster = Kubectl(
        pod("nvidia-device-plugin-daemonset-x", "p", "old"),
        pod(f"{renewed.DRIVER}-y", "d", "old"),
    )
    assert renewed.converge(cluster, WANT, False) == cluster.deleted
    assert cluster.deleted == [f"{renewed.DRIVER}-y", "nvidia-device-plugin-daemonset-x"]


def test_what_is_current_or_is_no_daemon_sets_or_ends_already_stays() -> None:
    cluster = Kubectl(
        pod(f"{renewed.DRIVER}-y", "d", "new"),
        pod("gpu-operator-5d", revision="old"),
        pod("mine-1", "unknown", "old"),
        pod("nvidia-mig-manager-z", "p", "old", deletionTimestamp="2026-01-01T00:00:00Z"),
    )
    assert renewed.converge(cluster, WANT, False) == []
    assert cluster.deleted == []


def test_check_mode_names_them_and_deletes_none() -> None:
    cluster = Kubectl(pod(f"{renewed.DRIVER}-y", "d", "old"))
    assert renewed.converge(cluster, WANT, True) == [f"{renewed.DRIVER}-y"]
    assert cluster.deleted == []


def test_a_node_that_takes_pods_is_refused() -> None:
    cluster = Kubectl(pod(f"{renewed.DRIVER}-y", "d", "old"), cordoned=False)
    with pytest.raises(renewed.NotRenewed, match="expected a node out of service"):
        renewed.converge(cluster, WANT, False)
    assert cluster.deleted == []


def test_nothing_goes_before_the_operator_has_written_the_new_images() -> None:
    cluster, now = Kubectl(pod(f"{renewed.DRIVER}-y", "d", "old"), digest=OLD), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with pytest.raises(renewed.NotRenewed, match="has not written the bundle's images into nvidia"):
        renewed.wait_for_operator(cluster, WANT, lambda: now[0], sleep)
    assert 10 <= now[0] < 14
    assert cluster.deleted == []


@pytest.mark.parametrize(
    ("image", "late"),
    [
        (f"registry.rack.test:5000/driver@{OLD}", True),
        (f"registry.rack.test:5000/driver@{NEW}", False),
        ("registry.rack.test:5000/driver:525.60.13", False),
        (f"registry.rack.test:5000/others@{OLD}", False),
    ],
)
def test_only_another_digest_of_a_known_image_is_late(image: str, late: bool) -> None:
    spec = {"initContainers": [{"image": image}], "containers": [{}]}
    found = renewed.behind(
        [{"metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}], WANT["images"]
    )
    assert found == (["x"] if late else [])
