"""Removals in which the inventory's address is not that of the node: what answers, or does not."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import IPv4Interface

import pytest

from appliance.errors import ClusterError, PreflightFailed
from appliance.model.node.bmc.report import BmcReport
from appliance.model.state.facts.identity import MachineIdentity
from tests import samples
from tests.unit.membership.test_node_remove import Bench

NAMELESS_UUID = "03000200-0400-0500-0006-000700080009"


def fresh_box(bench: Bench, name: str, serial: str | None = None) -> None:
    """A machine fresh from its image answers at an address, and tells no identity."""
    box = samples.bare(bench.rack.desired.site.node(name))
    box["host"] = {"hostname": "fresh-box", "product_uuid": NAMELESS_UUID, "machine_id": "zz"}
    box["dmi"]["serial"] = serial
    bench.rack.documents[name] = box


@pytest.mark.parametrize("serial", [None, "To be filled by O.E.M."])
@pytest.mark.parametrize("accepted", [MachineIdentity(serial="SN-w2"), None])
def test_an_empty_machine_that_tells_no_identity_is_no_proof_against_a_ready_node(
    serial: str | None, accepted: MachineIdentity | None
) -> None:
    bench = Bench(passport=accepted)
    if accepted is None:
        bench.member("w2", serial=None)
    fresh_box(bench, "w2", serial)
    with pytest.raises(PreflightFailed, match="found a Ready Node"):
        bench.remove("w2", sworn=True)
    assert (bench.steps, bench.archive.documents, bench.rack.deleted) == ([], {}, [])


def test_etcd_keeps_a_living_member_whose_address_an_empty_machine_has() -> None:
    bench = Bench(3, passport=MachineIdentity(serial="SN-cp2"))
    fresh_box(bench, "cp2")
    with pytest.raises(PreflightFailed, match="found a Ready Node"):
        bench.remove("cp2")
    assert (bench.steps, bench.etcd.removed) == ([], [])


def test_an_empty_machine_that_tells_no_identity_is_left_alone_on_the_operators_word() -> None:
    bench = Bench(passport=MachineIdentity(serial="SN-w2"))
    fresh_box(bench, "w2")
    bench.member("w2", ready=False)
    with pytest.raises(PreflightFailed, match="the old machine may come back"):
        bench.remove("w2")
    done = bench.remove("w2", sworn=True)
    assert bench.rack.plays == []
    assert done.plan.to_clean
    assert (done.plan.machine, done.plan.reset) == (MachineIdentity(serial="SN-w2"), None)
    assert any("nothing shows whether" in notice.text for notice in done.plan.notices)


def test_a_bmc_is_asked_where_an_empty_machine_tells_no_identity() -> None:
    bench = Bench(passport=MachineIdentity(serial="SN-w2"))
    fresh_box(bench, "w2")
    bench.bmcs.reports["w2"] = BmcReport("SN-w2", powered_off=True)
    assert bench.remove("w2").done
    assert bench.steps == ["record", "node_object"]


def test_a_machine_without_an_identity_that_was_emptied_needs_no_second_proof() -> None:
    bench = Bench()
    bench.member("w2", serial=None)
    bench.rack.documents["w2"]["dmi"]["serial"] = None
    del bench.rack.documents["w2"]["host"]["product_uuid"]
    bench.rack.fail["delete"] = ClusterError("w2: the API went away")
    with pytest.raises(ClusterError):
        bench.remove("w2")
    bench.rack.fail.clear()
    bench.member("w2", ready=False)
    done = bench.remove("w2")
    assert (done.done, done.plan.to_clean, done.plan.notices) == (True, (), ())
    again = bench.remove("w2")
    assert (again.done, again.plan.to_clean, again.plan.notices) == (False, (), ())


def move(bench: Bench, name: str, address: str) -> None:
    """The inventory has another address for a node than the cluster."""
    site = bench.rack.desired.site
    nodes = tuple(
        replace(node, address=IPv4Interface(address)) if node.name == name else node
        for node in site.nodes
    )
    bench.rack.desired = replace(bench.rack.desired, site=replace(site, nodes=nodes))


@pytest.mark.parametrize("sworn", [True, False])
def test_silence_at_another_address_than_etcds_removes_no_control_plane(sworn: bool) -> None:
    bench = Bench(masters=3)
    bench.die("cp2")
    move(bench, "cp2", "198.18.7.99/24")
    with pytest.raises(PreflightFailed) as refused:
        bench.remove("cp2", sworn=sworn)
    said = " ".join((refused.value.message, *refused.value.details))
    assert "cp2 at 198.18.7.12" in said
    assert (bench.steps, bench.archive.documents, bench.etcd.removed) == ([], {}, [])
    move(bench, "cp2", "198.18.7.12/24")
    assert bench.remove("cp2", sworn=sworn).done
    assert bench.etcd.removed == ["cp2"]


def test_silence_at_another_address_than_the_clusters_proves_no_worker_dead() -> None:
    bench = Bench()
    bench.die("w2")
    move(bench, "w2", "198.18.7.99/24")
    with pytest.raises(PreflightFailed, match=r"198.18.7.99.*198.18.7.22"):
        bench.remove("w2")
    assert bench.steps == []
    assert bench.remove("w2", sworn=True).done


def test_a_control_plane_that_etcd_does_not_list_is_reported_once() -> None:
    bench = Bench(masters=3)
    bench.die("cp3")
    bench.etcd.found.pop()
    done = bench.remove("cp3", dry_run=True)
    assert any("etcd lists no member" in notice.text for notice in done.plan.notices)
    bench = Bench(masters=3)
    bench.rack.fail["delete"] = ClusterError("cp3: the API went away")
    with pytest.raises(ClusterError):
        bench.remove("cp3")
    bench.rack.fail.clear()
    again = bench.remove("cp3")
    assert (again.done, bench.etcd.removed) == (True, ["cp3"])
    assert not any("etcd" in notice.text for notice in again.plan.notices)
