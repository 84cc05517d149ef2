"""Which claims there are, where their volumes are, and which pods have them."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace as Thing
from typing import Any

import kubernetes.client
import pytest

from appliance.adapters.kubernetes.claims import read_claims
from appliance.errors import ClusterError
from appliance.model.backup.volumes.record import Claim, User


class Api:
    @contextmanager
    def any_client(self) -> Any:
        yield object()


def volume(name: str, claim: str, phase: str = "Bound", **source: Any) -> Any:
    kinds = dict.fromkeys(("nfs", "host_path", "local", "csi"))
    reference = Thing(namespace="team", name=claim, uid=f"uid-{claim}") if claim else None
    spec = Thing(claim_ref=reference, **{**kinds, **source})
    return Thing(metadata=Thing(name=name), spec=spec, status=Thing(phase=phase))


def pod(name: str, claim: str, owner: tuple[str, str] | None, phase: str = "Running") -> Any:
    owners = [Thing(controller=True, kind=owner[0], name=owner[1])] if owner else None
    labels = {"pod-template-hash": "5d8"}
    none = {"persistent_volume_claim": None, "ephemeral": None, "nfs": None}
    claimed = Thing(**{**none, "persistent_volume_claim": Thing(claim_name=claim)}, name="v")
    own = Thing(**{**none, "ephemeral": Thing()}, name="scratch")
    volumes = [claimed, Thing(**none, name="tmp"), own]
    meta = Thing(namespace="team", name=name, owner_references=owners, labels=labels)
    return Thing(metadata=meta, spec=Thing(volumes=volumes), status=Thing(phase=phase))


def mounting(name: str, server: str, path: str, phase: str = "Running") -> Any:
    """A pod that mounts an export without a claim, as a data source of Run:ai does."""
    found = pod(name, "none", None, phase)
    found.metadata.namespace = "other"
    nfs = Thing(server=server, path=path)
    found.spec.volumes[0] = Thing(
        persistent_volume_claim=None, ephemeral=None, nfs=nfs, name="data"
    )
    return found


def read(patch: pytest.MonkeyPatch, volumes: Any, pods: Any) -> tuple[Claim, ...]:
    class Core:
        def __init__(self, _client: Any) -> None:
            pass

        def list_persistent_volume(self, **_: Any) -> Any:
            return Thing(items=volumes)

        def list_pod_for_all_namespaces(self, **_: Any) -> Any:
            if isinstance(pods, Exception):
                raise pods
            return Thing(items=pods)

    patch.setattr(kubernetes.client, "CoreV1Api", Core)
    api: Any = Api()
    return read_claims(api)


def test_each_bound_claim_has_its_place_and_its_users(monkeypatch: pytest.MonkeyPatch) -> None:
    nfs = Thing(server="198.18.7.11", path="/srv/nfs/data")
    volumes = [
        volume("pvc-1", "data", nfs=nfs),
        volume("pvc-2", "disk", local=Thing(path="/mnt/disk")),
        volume("pvc-3", "old", "Released", nfs=nfs),
        volume("pvc-4", ""),
        volume("pvc-5", "web-1-scratch", nfs=Thing(server="198.18.7.11", path="/srv/nfs/scr")),
    ]
    pods = [
        pod("web-1", "data", ("ReplicaSet", "web-5d8")),
        pod("alone", "data", None),
        pod("set-0", "data", ("StatefulSet", "set")),
        pod("ended", "data", ("Job", "tune"), "Succeeded"),
    ]
    data, disk, scratch = read(monkeypatch, volumes, pods)
    users = (User("alone", "pod/alone", "team"), User("set-0", "statefulset/set", "team"))
    web = User("web-1", "deployment/web", "team")
    assert data == Claim(
        "team/data", "uid-data", "pvc-1", "198.18.7.11", "/srv/nfs/data", (*users, web)
    )
    assert (disk.server, disk.path, disk.users) == ("", "/mnt/disk", ())
    assert scratch.users == (web,)


@pytest.mark.parametrize(
    ("server", "path", "uses"),
    [
        ("198.18.7.11", "/srv/nfs/data", True),
        ("198.18.7.11", "/srv/nfs/data/", True),
        ("198.18.7.11", "/srv/nfs/data/models", True),
        ("cp1.rack.test", "/srv/nfs/data/models", True),
        # As the provisioner mounts it, which makes and removes folders in it.
        ("198.18.7.11", "/srv/nfs", False),
        ("198.18.7.11", "/srv/nfs/data-2", False),
        ("198.18.7.11", "/srv/nfs/other", False),
    ],
)
def test_pods_that_mount_the_folder_without_the_claim_use_it_too(
    server: str, path: str, uses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = [volume("pvc-1", "data", nfs=Thing(server="198.18.7.11", path="/srv/nfs/data"))]
    pods = [mounting("m", server, path), mounting("ended", server, path, "Failed")]
    (data,) = read(monkeypatch, volumes, pods)
    assert data.users == ((User("m", "pod/m", "other"),) if uses else ())


def test_pods_of_another_claim_with_the_same_folder_use_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    volumes = [
        volume("pvc-1", "data", nfs=Thing(server="198.18.7.11", path="/srv/nfs/data")),
        volume("pvc-2", "twin", nfs=Thing(server="cp1", path="/srv/nfs/data")),
        volume("pvc-3", "else", nfs=Thing(server="cp1", path="/srv/nfs/else")),
    ]
    data, _, _ = read(monkeypatch, volumes, [pod("p", "twin", None), pod("q", "else", None)])
    assert data.users == (User("p", "pod/p", "team"),)


@pytest.mark.parametrize("order", [1, -1])
def test_what_a_claim_of_the_same_name_left_does_not_hide_the_one_that_is_bound(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes = [
        volume("pvc-1", "data", nfs=Thing(server="s", path="/srv/nfs/new")),
        volume("pvc-2", "data", "Released", nfs=Thing(server="s", path="/srv/nfs/old")),
    ][::order]
    (data,) = read(monkeypatch, volumes, [])
    assert (data.volume, data.path) == ("pvc-1", "/srv/nfs/new")


def test_pods_that_cannot_be_read_are_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = kubernetes.client.ApiException(status=403, reason="Forbidden")
    with pytest.raises(ClusterError, match="the pods could not be read"):
        read(monkeypatch, [], refused)
