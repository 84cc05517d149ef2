"""What was seen comes back as it was: every field of a cluster, whatever the site asks for."""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any

import pytest

from appliance.model.documents.strict_json import Unreadable
from appliance.model.state.cluster.cluster import Cluster, ClusterState, NoCluster, Unreachable
from appliance.model.state.observed import Fault, Observed
from appliance.model.support.record import (
    desired_of,
    observed_document,
    read_recorded,
    site_document,
)
from appliance.model.support.redaction import redacted
from tests import samples

DESIRED = samples.desired(samples.site(3, 2, runai={}, gpu={}))
SITE = DESIRED.site


def filled(kind: Any) -> Any:  # noqa: PLR0911 - one for each kind of type
    """A value of a type in which no field has its default."""
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        made = {f.name: filled(hints[f.name]) for f in dataclasses.fields(kind) if f.init}
        return kind(**made)  # type: ignore[operator]
    if origin in (typing.Union, UnionType):
        return filled(next(one for one in inner if one is not NoneType))
    if origin is typing.Literal:
        return inner[0]
    if origin is typing.Annotated:
        return filled(inner[0])
    if origin is tuple:
        return tuple(filled(one) for one in (inner[:1] if inner[-1] is Ellipsis else inner))
    if origin is frozenset:
        return frozenset({filled(inner[0])})
    if origin is not None and issubclass(origin, Mapping):
        return {filled(inner[0]): filled(inner[1])}
    return {str: "word", int: 7, float: 7.5, bool: True}[kind]


def back(cluster: ClusterState, faults: tuple[Fault, ...] = ()) -> Any:
    seen = observed_document(SITE, DESIRED, Observed({}, cluster, faults))
    texts = json.loads(json.dumps(redacted([site_document(SITE), seen])))
    return read_recorded(*texts)


@pytest.mark.parametrize(
    "cluster",
    [NoCluster(), Unreachable("cp1: refused", {"cp1": "manifests"}), samples.cluster(DESIRED)],
    ids=["none", "unreachable", "a cluster"],
)
def test_a_cluster_comes_back_as_it_was(cluster: ClusterState) -> None:
    faults = (Fault("w1", "w1: no SSH", "ping it", answers=True),)
    found = back(cluster, faults)
    assert found.cluster == cluster
    assert found.faults == faults
    assert found.site.nodes == SITE.nodes
    assert found.site.settings == SITE.settings
    assert found.manifest == DESIRED.manifest


def test_a_package_with_the_name_of_a_secret_keeps_its_version() -> None:
    assert DESIRED.manifest is not None
    odd = {"base-passwd": "3.6.1", "libsecret-1-0": "0.20.5-3", "passwd": "1:4.13+dfsg1-1"}
    manifest = dataclasses.replace(DESIRED.manifest, packages={**DESIRED.manifest.packages, **odd})
    desired = dataclasses.replace(DESIRED, manifest=manifest)
    seen = observed_document(SITE, desired, Observed({}, NoCluster(), ()))
    texts = json.loads(json.dumps(redacted([site_document(SITE), seen])))
    assert read_recorded(*texts).manifest == manifest


def test_every_field_of_a_cluster_comes_back() -> None:
    every = filled(Cluster)
    found = back(every).cluster
    for field in dataclasses.fields(Cluster):
        if field.name != "runai_logins":
            assert getattr(found, field.name) == getattr(every, field.name), field.name
    # By its name it holds passwords; the users in it are not told.
    assert found.runai_logins.first_passwords == ("[redacted: value]",)


def test_the_desired_state_is_the_one_of_the_site() -> None:
    found = desired_of(back(samples.cluster(DESIRED)), DESIRED)
    assert found.site.nodes == SITE.nodes
    assert found.bundle_digest == DESIRED.bundle_digest
    assert found.manifest == DESIRED.manifest


@pytest.mark.parametrize("document", [None, [], {"cluster": {"state": "odd"}, "wish": {}}])
def test_what_is_no_look_is_refused(document: Any) -> None:
    with pytest.raises(Unreadable):
        read_recorded(site_document(SITE), document)
