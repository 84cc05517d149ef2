"""A removal empties only a machine that is proved to be the node, whatever answers there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import ClusterError, PreflightFailed
from appliance.model.node.membership import MemberRecord, Removal
from appliance.model.state.cluster.cluster import Cluster
from tests import samples
from tests.unit.membership.test_node_remove import Bench

OTHER = "https://k8s.other-company.example:6443"
THEIRS = "77" * 32
CA = samples.CLUSTER_CA
GONE = Removal(by="ada@laptop", at="2026-01-01T00:00:00+00:00", serial="SN-w2", reset=True)


def foreign(document: dict[str, Any], *, etcd: bool = False, server: str = OTHER) -> None:
    """Let a machine be a member of another company's cluster."""
    document["host"]["hostname"] = "prod-db-k8s-1"
    document["kubernetes"] |= {
        "kubeconfigs": [{"path": "/etc/kubernetes/kubelet.conf", "server": server}],
        "pki": [{"path": CA, "sha256": THEIRS}],
        "etcd_data": {"present": etcd},
    }


def half_reset(document: dict[str, Any], *, begun: str | None = None) -> None:
    """Let a control-plane node be as `kubeadm reset` leaves it: etcd's data, and no CA."""
    document["kubernetes"] |= {"kubeconfigs": [], "pki": [], "manifests": []}
    document["kubernetes"]["etcd_data"] = {"present": True}
    if begun:
        mark = {"node": begun, "ca_sha256": samples.CLUSTER_CA_SHA256}
        document["kubernetes"]["reset_begun"] = mark


def forget(bench: Bench, name: str) -> None:
    """The cluster has no such Node (any more)."""
    assert isinstance(bench.rack.cluster, Cluster)
    nodes = {key: node for key, node in bench.rack.cluster.nodes.items() if key != name}
    bench.rack.cluster = replace(bench.rack.cluster, nodes=nodes)


def removed_before(bench: Bench, name: str, **changes: Any) -> None:
    """It is written down that the node was removed."""
    record = MemberRecord(name, replace(GONE, serial=f"SN-{name}", **changes))
    bench.archive.documents[record.document] = record.text()


def refused(bench: Bench, name: str, **desired: Any) -> str:
    """The refusal's words; nothing was changed."""
    before = dict(bench.archive.documents)
    with pytest.raises(PreflightFailed) as caught:
        bench.remove(name, **desired)
    assert (bench.rack.plays, bench.rack.deleted, bench.steps) == ([], [], [])
    assert bench.etcd.removed == []
    assert bench.archive.documents == before
    return " ".join((caught.value.message, str(caught.value.hint), *caught.value.details))


@pytest.mark.parametrize("name", ["w2", "cp3"])
@pytest.mark.parametrize("recorded", [False, True])
def test_a_typing_error_in_an_address_never_empties_another_companys_machine(
    name: str, recorded: bool
) -> None:
    bench = Bench(masters=3)
    forget(bench, name)
    foreign(bench.rack.documents[name], etcd=name == "cp3")
    if recorded:
        removed_before(bench, name, reset=False)
    words = refused(bench, name)
    for part in (OTHER, "prod-db-k8s-1", f"serial SN-{name}", f"host_vars/{name}.yml"):
        assert part in words
    # A Node of this name, or the API's own name on the other cluster, changes nothing.
    foreign(bench.rack.documents[name], etcd=True, server="https://198.18.7.11:6443")
    assert "prod-db-k8s-1" in refused(bench, name)


def test_a_second_removal_after_the_machine_moved_to_another_team_finds_nothing_to_do() -> None:
    bench = Bench()
    bench.remove("w2")
    foreign(bench.rack.documents["w2"])
    plays = list(bench.rack.plays)
    done = bench.remove("w2")
    assert not done.done
    assert bench.rack.plays == plays
    assert done.plan.to_clean == ()
    assert OTHER in " ".join(notice.text for notice in done.plan.notices)


def test_with_a_node_that_is_still_there_the_operator_says_that_the_old_machine_is_dead() -> None:
    bench = Bench()
    bench.member("w2", ready=False)
    foreign(bench.rack.documents["w2"])
    assert "--i-know-it-is-dead" in refused(bench, "w2")
    bench.remove("w2", sworn=True)
    assert (bench.rack.plays, bench.rack.deleted) == ([], ["w2"])


def test_a_node_that_is_ready_stays_while_a_stranger_answers_at_its_address() -> None:
    bench = Bench()
    foreign(bench.rack.documents["w2"])
    assert "Ready" in refused(bench, "w2", sworn=True)
    removed_before(bench, "w2")
    refused(bench, "w2")


def test_only_the_option_with_the_machines_own_name_empties_what_nothing_proves() -> None:
    bench = Bench()
    forget(bench, "w2")
    foreign(bench.rack.documents["w2"])
    assert "--lose-machine prod-db-k8s-1" in refused(bench, "w2", lose_machine="w2")
    bench.remove("w2", lose_machine="prod-db-k8s-1")
    variables = bench.rack.plays[0].inventory["all"]["vars"]
    assert variables["node_reset_vouched"] == "operator"


@pytest.mark.parametrize("server", [OTHER, "https://k8s.example.com:6443"])
def test_no_option_empties_etcd_data_of_another_ca(server: str) -> None:
    bench = Bench(masters=3)
    endpoint = bench.rack.desired.site.settings.control_plane_endpoint
    named = server if server == OTHER else f"https://{endpoint.name}:{endpoint.port}"
    foreign(bench.rack.documents["cp3"], etcd=True, server=named)
    words = refused(bench, "cp3", lose_machine="prod-db-k8s-1")
    assert "this command never cleans it" in words
    assert "--lose-machine" not in words


def test_without_a_ca_the_accepted_serial_is_enough_for_a_worker_and_its_own_api() -> None:
    bench = Bench()
    for name in ("cp1", "w2"):
        bench.rack.documents[name]["kubernetes"]["pki"] = [{"path": CA, "error": "timed out"}]
    bench.remove("w2")
    variables = bench.rack.plays[0].inventory["all"]["vars"]
    assert (variables["node_reset_vouched"], variables["node_reset_ca_sha256"]) == ("serial", "")


@pytest.mark.parametrize("why", ["unknown", "shared"])
def test_a_serial_that_proves_nothing_is_no_evidence(why: str) -> None:
    bench = Bench()
    for name in ("cp1", "w2"):
        bench.rack.documents[name]["kubernetes"]["pki"] = []
    serial = None if why == "unknown" else "Default string"
    for document in bench.rack.documents.values():
        document["dmi"]["serial"] = serial
    bench.member("w2", serial=serial)
    assert "neither its CA nor its serial, UUID or board proves that it is w2" in refused(
        bench, "w2"
    )


def test_another_member_of_our_own_cluster_at_the_address_is_refused_by_its_name() -> None:
    bench = Bench()
    forget(bench, "w2")
    kubernetes = bench.rack.documents["w2"]["kubernetes"]
    subject = "CN=system:node:w9,O=system:nodes"
    kubelet = "/var/lib/kubelet/pki/kubelet-client-current.pem"
    kubernetes["pki"] = [*kubernetes["pki"], {"path": kubelet, "subject": subject}]
    assert "is the member w9" in refused(bench, "w2")


def test_control_planes_that_disagree_on_the_ca_prove_nothing_by_it() -> None:
    bench = Bench(masters=3)
    foreign(bench.rack.documents["cp2"], etcd=True)
    foreign(bench.rack.documents["w2"])
    forget(bench, "w2")
    assert OTHER in refused(bench, "w2")
    bench.remove("w1")
    assert bench.rack.plays[0].inventory["all"]["vars"]["node_reset_vouched"] == "serial"


def test_a_half_reset_machine_needs_the_mark_or_the_document_of_its_own_removal() -> None:
    bench = Bench(masters=3)
    half_reset(bench.rack.documents["cp3"])
    assert "etcd data" in refused(bench, "cp3")
    half_reset(bench.rack.documents["cp3"], begun="cp2")
    assert "etcd data" in refused(bench, "cp3")
    half_reset(bench.rack.documents["cp3"], begun="cp3")
    bench.remove("cp3")
    assert bench.rack.plays[0].inventory["all"]["vars"]["node_reset_vouched"] == "ca"


@pytest.mark.parametrize("serial", ["SN-cp3", None])
def test_a_control_plane_removal_that_was_killed_in_the_reset_goes_on_with_the_first_rerun(
    serial: str | None,
) -> None:
    bench = Bench(masters=3)
    bench.member("cp3", serial=serial)
    bench.rack.documents["cp3"]["dmi"]["serial"] = serial
    bench.rack.fail["node_reset"] = ClusterError("cp3: killed")
    with pytest.raises(ClusterError):
        bench.remove("cp3")
    bench.rack.fail.clear()
    # What kubeadm reset leaves. The role's mark is there; without it, the serial of the document.
    half_reset(bench.rack.documents["cp3"], begun="cp3" if serial is None else None)
    bench.remove("cp3")
    variables = bench.rack.plays[-1].inventory["all"]["vars"]
    assert variables["node_reset_vouched"] == ("removal" if serial else "ca")
    assert "cp3" not in bench.rack.cluster.nodes  # type: ignore[union-attr]


def test_a_mark_alone_is_something_left_to_do() -> None:
    bench = Bench()
    bench.rack.documents["w2"] = samples.bare(bench.rack.desired.site.node("w2"))
    mark = {"node": "w2", "ca_sha256": samples.CLUSTER_CA_SHA256}
    bench.rack.documents["w2"]["kubernetes"]["reset_begun"] = mark
    forget(bench, "w2")
    removed_before(bench, "w2", reset=False)
    bench.remove("w2")
    assert [play.playbook for play in bench.rack.plays] == ["node_reset"]


def test_a_machine_that_never_joined_has_nothing_to_empty() -> None:
    bench = Bench()
    bench.rack.documents["w2"] = samples.bare(bench.rack.desired.site.node("w2"))
    forget(bench, "w2")
    bench.remove("w2")
    assert (bench.steps, bench.rack.plays) == (["record"], [])


def test_a_member_of_an_earlier_cluster_of_this_site_is_known_by_its_serial() -> None:
    """The site was installed again under the same name; the worker still has the old CA."""
    bench = Bench()
    bench.rack.documents["w2"]["kubernetes"]["pki"] = [{"path": CA, "sha256": THEIRS}]
    bench.remove("w2")
    assert bench.rack.plays[0].inventory["all"]["vars"]["node_reset_vouched"] == "serial"
