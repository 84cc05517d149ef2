"""Hand-made settings are kept whole and without secrets, and a lab shows the same losses."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from typing import Any

import pytest

from appliance.model.documents.typed_json import typed
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.losses import Carrier, Documents, find_losses
from appliance.model.upgrade.rehearsal.handmade import (
    FILE_NOT_COPIED,
    NOT_MADE,
    SECRET,
    Handmade,
    handmade_of,
    parts,
    put_into_kubelet,
    put_into_static_pod,
    put_into_workload,
    reason_not_made,
)
from appliance.model.upgrade.rehearsal.last_facts import (
    HandmadeSettings,
    LastFacts,
    read_last_facts,
)
from tests.unit.upgrade.handmade import (
    Change,
    arguments,
    at,
    changed,
    documents,
    kubelet,
    of_container,
    of_pod,
    of_static_pod,
    proxy_env,
    replaced,
    sidecar,
    untouched,
    volume,
    without,
)
from tests.unit.upgrade.secret_settings import SECRETS


def kept(found: Documents) -> Mapping[str, tuple[Handmade, ...]]:
    """What is kept, as it is read again from its file."""
    handmade = handmade_of(found)
    assert not isinstance(handmade, Silence), handmade
    return {
        node: tuple(typed(vars(one), Handmade) for one in settings)
        for node, settings in handmade.items()
    }


def losses(found: Documents) -> set[tuple[str, tuple[str, ...], str]]:
    lost = find_losses(found, Carrier())
    assert not isinstance(lost, Silence), lost
    return {(loss.name, loss.nodes, loss.was) for loss in lost}


def lab_like(settings: Mapping[str, tuple[Handmade, ...]]) -> Documents:
    """A cluster that nobody touched, with what is kept put into it."""
    lab: dict[str, Any] = untouched()
    for node, changes in settings.items():
        for part, some in parts([one for one in changes if not reason_not_made(one)]).items():
            if part == "kubelet":
                lab["kubelet_files"][node] = put_into_kubelet(lab["kubelet_files"][node], some)
            elif node:
                pods = lab["manifests"][node]
                pods[part] = put_into_static_pod(pods[part], some)
            else:
                key = part.replace("-", "_")
                lab[key] = put_into_workload(lab[key], some)
    return documents(lab)


MADE: dict[str, list[Change]] = {
    "nothing": [],
    "an argument": [arguments("kube-apiserver", "--profiling=false")],
    "one without a value": [arguments("kube-scheduler", "--profiling")],
    "one that is given twice": [arguments("kube-apiserver", "--feature=a", "--feature=b")],
    "one that was removed": [without("kube-controller-manager", "leader-elect")],
    "another value": [replaced("kube-scheduler", "bind-address", "127.0.0.2")],
    "a number of the kubelet": [kubelet("maxPods", 250)],
    "a mapping of the kubelet": [kubelet("evictionHard", {"memory.available": "5%"}, "cp2")],
    "a list of the kubelet": [kubelet("allowedUnsafeSysctls", ["net.core.somaxconn"])],
    "CoreDNS' memory": [of_container("coredns", "resources", {"limits": {"memory": "1Gi"}})],
    "CoreDNS' place": [
        of_pod("coredns", "nodeSelector", {"zone": "a", "kubernetes.io/os": "linux"})
    ],
    "CoreDNS' tolerations": [of_pod("coredns", "tolerations", [{"operator": "Exists"}])],
    "kube-proxy's environment": [proxy_env],
    "memory of a static pod": [of_static_pod("resources", {"requests": {"memory": "4Gi"}})],
    "environment of a static pod": [of_static_pod("env", [{"name": "ETCD_X", "value": "1"}])],
    "a volume": [volume],
    "three at once": [
        arguments("kube-apiserver", "--profiling=false"),
        kubelet("maxPods", 250),
        of_container("coredns", "resources", {"limits": {"memory": "1Gi"}}),
    ],
}


@pytest.mark.parametrize("changes", MADE.values(), ids=MADE)
def test_a_lab_made_from_what_is_kept_loses_the_same(changes: list[Change]) -> None:
    site = changed(*changes)
    assert losses(lab_like(kept(site))) == losses(site)


def nested(levels: int) -> list[Any]:
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def of(changes: list[Change]) -> Handmade:
    (one,) = [one for settings in kept(changed(*changes)).values() for one in settings]
    return one


LEFT_OUT: dict[str, tuple[list[Change], str, str]] = {
    "a file": (
        [arguments("kube-apiserver", "--audit-policy-file=/etc/kubernetes/audit.yaml")],
        "kube-apiserver.audit-policy-file",
        FILE_NOT_COPIED,
    ),
    "a file of the kubelet": (
        [kubelet("tlsCertFile", "/var/lib/kubelet/own.crt")],
        "kubelet.tlsCertFile",
        FILE_NOT_COPIED,
    ),
    "another container": ([sidecar], "coredns.containers", "containers of others are not copied"),
    "a secret": (
        [arguments("kube-apiserver", "--oidc-client-secret=hunter2-hunter2")],
        "kube-apiserver.oidc-client-secret",
        SECRET,
    ),
    "a password in an environment": (
        [of_static_pod("env", [{"name": "DB_PASSWORD", "value": "hunter2-hunter2"}])],
        "etcd.env.DB_PASSWORD",
        SECRET,
    ),
    "a password in an address": (
        [arguments("kube-apiserver", "--egress=https://ada:hunter2-hunter2@proxy.example")],
        "kube-apiserver.egress",
        SECRET,
    ),
    "names of hosts in a manifest": (
        [at("manifests", "cp1", "etcd", "spec", "hostAliases", value=[{"ip": "198.18.7.20"}])],
        "etcd.pod.hostAliases",
        NOT_MADE,
    ),
    "a command that tells a password": (
        [
            at(
                *("manifests", "cp1", "etcd", "spec", "containers", 0, "lifecycle", "preStop"),
                value={"exec": {"command": ["mail", "--password", "hunter2-hunter2"]}},
            )
        ],
        "etcd.container.lifecycle.preStop.exec.command",
        NOT_MADE,
    ),
    "a volume that is missing": (
        [at("manifests", "cp1", "kube-scheduler", "spec", "volumes", value=[])],
        "kube-scheduler.volumes.kubeconfig",
        NOT_MADE,
    ),
    "what the lab needs": (
        [kubelet("failSwapOn", True)],
        "kubelet.failSwapOn",
        "the lab needs a value of its own there",
    ),
}


@pytest.mark.parametrize(("changes", "name", "reason"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_what_a_lab_cannot_have_is_kept_with_its_name_and_its_reason(
    changes: list[Change], name: str, reason: str
) -> None:
    one = of(changes)
    assert (one.name, reason_not_made(one, ("failSwapOn",))) == (name, reason)
    assert "hunter2" not in repr(one)


@pytest.mark.parametrize("changes", SECRETS.values(), ids=SECRETS)
def test_no_secret_is_kept_in_a_name_or_a_value_or_what_is_rendered(
    changes: list[Change],
) -> None:
    settings = kept(changed(*changes))
    assert any(settings.values())
    assert "hunter2" not in repr(settings)
    assert "424242" not in repr(settings)


HOSTILE: dict[str, list[Change]] = {
    "a date": [kubelet("since", date(2026, 1, 1))],
    "a number without end": [kubelet("maxPods", 10**400)],
    "no number": [kubelet("maxPods", float("nan"))],
    "a command to the terminal": [kubelet("a\x1b[31m", "\x1b[31m")],
    "half a character": [kubelet("maxPods", "\ud800")],
    "a text without end": [kubelet("maxPods", "x" * 1_000_000)],
    "keys without end": [kubelet(f"key{n}", n) for n in range(5000)],
    "keys that are no text": [kubelet("a", {1: 2, None: 3})],
    "a deep list": [kubelet("a", nested(3000))],
}


@pytest.mark.parametrize("changes", HOSTILE.values(), ids=HOSTILE)
def test_whatever_a_worker_writes_what_is_kept_can_be_read_again(changes: list[Change]) -> None:
    settings = kept(changed(*changes))["w1"]
    assert 0 < len(settings) <= 201
    facts = LastFacts("w1", handmade=HandmadeSettings("2026-11-01", settings))
    assert read_last_facts(json.dumps(facts.as_json())) == facts


def test_a_node_whose_files_were_not_read_is_not_said_to_have_no_such_setting() -> None:
    found = untouched()
    found["kubelet_files"]["w1"] = Silence("no answer")
    found["manifests"]["cp2"]["etcd"] = Silence("no answer")
    assert set(kept(documents(found))) == {"", "cp1"}


def test_without_an_answer_of_the_api_nothing_is_kept() -> None:
    found = untouched()
    found["coredns"] = Silence("no answer")
    assert isinstance(handmade_of(documents(found)), Silence)
