"""What is an operator's on a Node object, what comes back by itself, and the documents."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.node.membership import (
    MemberRecord,
    Removal,
    kept_metadata,
    parse_record,
    removed,
)
from appliance.model.state.cluster.cluster import ClusterNode
from appliance.model.state.nodes.node_metadata import (
    NodeMetadata,
    is_own_label,
    merged,
    metadata_of,
    missing,
)
from tests import samples

OWN = [
    "run.ai/type",
    "node-role.kubernetes.io/runai-system",
    "node-role.kubernetes.io/runai-gpu-worker",
    "node-role.kubernetes.io/runai-cpu-worker",
    "nvidia.com/mig.config",
    "nvidia.com/gpu.deploy.operands",
    "topology.kubernetes.io/zone",
    "node.kubernetes.io/instance-type",
    "example.com/rack",
    "gpu",
]
OTHERS = [
    "kubernetes.io/hostname",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node.kubernetes.io/exclude-from-external-load-balancers",
    "feature.node.kubernetes.io/pci-10de.present",
    "nvidia.com/gpu.count",
    "nvidia.com/mig.config.state",
    "nvidia.com/gpu.deploy.driver",
]
NODE = ClusterNode(
    "w2",
    ready=True,
    labels=dict.fromkeys((*OWN, *OTHERS), "x"),
    annotations={
        "appliance.dev/dmi-serial": "SN",
        "appliance.dev/maintenance": "{}",
        "flannel.alpha.coreos.com/backend-data": "{}",
        "kubeadm.alpha.kubernetes.io/cri-socket": "s",
        "node.alpha.kubernetes.io/ttl": "0",
        "volumes.kubernetes.io/controller-managed-attach-detach": "true",
        "example.com/owner": "ada",
    },
    taints=(
        "dedicated=research:NoSchedule",
        "runai=drain:NoExecute",
        "node.kubernetes.io/unschedulable=:NoSchedule",
        "node.kubernetes.io/not-ready=:NoExecute",
    ),
)
KEPT = metadata_of(NODE)


@pytest.mark.parametrize("key", OWN)
def test_a_label_that_is_not_written_again_is_kept(key: str) -> None:
    assert is_own_label(key)
    assert key in KEPT.labels


@pytest.mark.parametrize("key", OTHERS)
def test_a_label_that_is_written_again_automatically_is_not_kept(key: str) -> None:
    assert not is_own_label(key)
    assert key not in KEPT.labels


def test_annotations_and_taints_of_operators_are_kept_alone() -> None:
    assert KEPT.annotations == {"example.com/owner": "ada"}
    assert KEPT.taints == ("dedicated=research:NoSchedule",)


def test_nothing_is_missing_on_the_node_it_was_taken_from() -> None:
    assert list(missing(KEPT, NODE)) == []


def test_each_thing_that_is_missing_is_named() -> None:
    fresh = replace(NODE, labels={"run.ai/type": "other"}, annotations={}, taints=())
    kept = NodeMetadata({"run.ai/type": "dgx"}, {"a/b": "c"}, ("k=v:NoSchedule",))
    assert list(missing(kept, fresh)) == [
        "its label run.ai/type=dgx is missing",
        "its annotation a/b is missing",
        "its taint k=v:NoSchedule is missing",
    ]  # fmt: skip


def test_a_taint_that_kubeadm_set_again_is_removed_again() -> None:
    master = "node-role.kubernetes.io/master=:NoSchedule"
    tainted = ClusterNode("cp1", ready=True, taints=(master,))
    assert list(missing(NodeMetadata(labels={}), tainted)) == [
        f"has the taint {master}, which was removed before"
    ]
    assert list(missing(NodeMetadata(taints=(master,)), tainted)) == []


def test_what_was_kept_and_not_put_back_yet_is_not_lost_by_a_second_removal() -> None:
    older = NodeMetadata({"a": "1", "b": "1"}, {}, ("t=:NoSchedule",))
    assert merged(older, NodeMetadata({"b": "2"})) == NodeMetadata(
        {"a": "1", "b": "2"}, {}, ("t=:NoSchedule",)
    )
    assert merged(None, KEPT) == KEPT


def test_a_document_is_read_as_it_was_written() -> None:
    record = MemberRecord("w2", Removal("ada@laptop", "2026-01-01T00:00:00+00:00", "old"), KEPT)
    assert parse_record(record.text()) == record
    assert parse_record(MemberRecord("w2").text()) == MemberRecord("w2")
    assert record.document == "members/w2.json"


@pytest.mark.parametrize("text", ["", "[]", "{}", "nonsense"])
def test_what_is_no_document_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json's own and ours
        parse_record(text)


def test_keys_of_a_newer_tool_are_left_out() -> None:
    text = '{"node": "w2", "removed": {"by": "a", "at": "b", "new": 1}, "kept": null, "more": {}}'
    assert parse_record(text) == MemberRecord("w2", Removal("a", "b"))


GONE = Removal("ada", "now")


@pytest.mark.parametrize(
    ("names", "masters", "expected"),
    [
        ((), 1, set()),
        (("w2",), 1, {"w2"}),
        (("w1", "w2"), 1, {"w1", "w2"}),
        (("x9",), 1, set()),
        (("cp2",), 3, {"cp2"}),
        # cp1 serves the others: nobody could have removed it.
        (("cp1",), 3, set()),
        (("cp1",), 1, set()),
    ],
)
def test_the_removed_are_those_of_this_site(
    names: tuple[str, ...], masters: int, expected: set[str]
) -> None:
    records = {name: MemberRecord(name, GONE) for name in names}
    assert removed(samples.site(masters), records) == expected


def test_belongings_are_of_those_that_have_some() -> None:
    records = {"w1": MemberRecord("w1", GONE), "w2": MemberRecord("w2", None, KEPT)}
    assert kept_metadata(records) == {"w2": KEPT}
