"""A StorageClass whose fixed fields differ is made again; as wanted, or not ours, it stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

made_again = load("storage_class_made_again", role="nfs_volumes")
OURS = "appliance.dev/nfs"
STATIC = "kubernetes.io/no-provisioner"
WANT = {
    "name": "appliance-nfs",
    "provisioner": OURS,
    "parameters": {"archiveOnDelete": "true"},
    "mount_options": ["nfsvers=3"],
    "ours": [OURS, STATIC],
}
AS_WANTED = {
    "provisioner": OURS,
    "parameters": {"archiveOnDelete": "true"},
    "mountOptions": ["nfsvers=3"],
    "reclaimPolicy": "Retain",
    "volumeBindingMode": "Immediate",
}


class FakeKubectl:
    def __init__(self, held: dict[str, Any] | None) -> None:
        self.held = held
        self.calls: list[list[str]] = []
        self.applied: dict[str, Any] = {}

    def get(self, kind: str, name: str) -> dict[str, Any] | None:
        assert (kind, name) == ("storageclass", "appliance-nfs")
        return self.held

    def call(self, arguments: list[str]) -> tuple[int, str]:
        self.calls.append(arguments)
        if arguments[0] == "apply":
            self.applied = json.loads(Path(arguments[1].partition("=")[2]).read_text())
        return 0, ""


@pytest.mark.parametrize(
    ("held", "differing"),
    [
        (None, []),
        (AS_WANTED, []),
        ({**AS_WANTED, "mountOptions": None}, ["mountOptions"]),
        ({**AS_WANTED, "parameters": {}}, ["parameters"]),
        ({**AS_WANTED, "reclaimPolicy": "Delete"}, ["reclaimPolicy"]),
        ({**AS_WANTED, "volumeBindingMode": "WaitForFirstConsumer"}, ["volumeBindingMode"]),
        ({"provisioner": STATIC, "reclaimPolicy": "Retain", "volumeBindingMode": "Immediate"},
         ["mountOptions", "parameters", "provisioner"]),
    ],
)  # fmt: skip
def test_a_class_of_ours_is_made_again_exactly_when_a_fixed_field_differs(
    held: dict[str, Any] | None, differing: list[str]
) -> None:
    kubectl = FakeKubectl(held)
    assert made_again.converge(kubectl, WANT, check_mode=False) == differing
    assert [words[0] for words in kubectl.calls] == (["delete", "apply"] if differing else [])
    if differing:
        assert kubectl.calls[0] == ["delete", "--ignore-not-found", "storageclass", "appliance-nfs"]
        assert AS_WANTED.items() <= kubectl.applied.items()


def test_what_somebody_gave_the_class_stays() -> None:
    notes = {"backup.example/keep": "yes", made_again.LAST_APPLIED: "{}"}
    kubectl = FakeKubectl(
        {
            "provisioner": STATIC,
            "allowVolumeExpansion": True,
            "metadata": {"uid": "1", "labels": {"team": "ml"}, "annotations": notes},
        }
    )
    made_again.converge(kubectl, WANT, check_mode=False)
    assert kubectl.applied == {
        **AS_WANTED,
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "allowVolumeExpansion": True,
        "metadata": {
            "name": "appliance-nfs",
            "labels": {"team": "ml"},
            "annotations": {"backup.example/keep": "yes"},
        },
    }


def test_check_mode_tells_and_deletes_nothing() -> None:
    kubectl = FakeKubectl({"provisioner": STATIC})
    assert "provisioner" in made_again.converge(kubectl, WANT, check_mode=True)
    assert kubectl.calls == []


def test_a_class_of_that_name_with_another_provisioner_is_left_and_named() -> None:
    kubectl = FakeKubectl({"provisioner": "nfs.csi.example"})
    with pytest.raises(made_again.ClassError, match=r"has the provisioner nfs\.csi\.example"):
        made_again.converge(kubectl, WANT, check_mode=False)
    assert kubectl.calls == []
