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
    claimed = Thing(persistent_volume_claim=Thing(claim_name=claim), ephemeral=None, name="v")
    other = Thing(persistent_volume_claim=None, ephemeral=None, name="tmp")
    own = Thing(persistent_volume_claim=None, ephemeral=Thing(), name="scratch")
    meta = Thing(namespace="team", name=name, owner_references=owners, labels=labels)
    return Thing(
        metadata=meta, spec=Thing(volumes=[claimed, other, own]), status=Thing(phase=phase)
    )


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
        volume("pvc-5", "web-1-scratch", nfs=nfs),
    ]
    pods = [
        pod("web-1", "data", ("ReplicaSet", "web-5d8")),
        pod("alone", "data", None),
        pod("set-0", "data", ("StatefulSet", "set")),
        pod("ended", "data", ("Job", "tune"), "Succeeded"),
    ]
    data, disk, scratch = read(monkeypatch, volumes, pods)
    users = (User("alone", "pod/alone"), User("set-0", "statefulset/set"))
    web = User("web-1", "deployment/web")
    assert data == Claim(
        "team/data", "uid-data", "pvc-1", "198.18.7.11", "/srv/nfs/data", (*users, web)
    )
    assert (disk.server, disk.path, disk.users) == ("", "/mnt/disk", ())
    assert scratch.users == (web,)


def test_pods_that_cannot_be_read_are_not_taken_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = kubernetes.client.ApiException(status=403, reason="Forbidden")
    with pytest.raises(ClusterError, match="the pods could not be read"):
        read(monkeypatch, [], refused)
