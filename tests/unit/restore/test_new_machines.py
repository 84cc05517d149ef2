"""A cluster comes back on new machines, whatever kills the command, and on nothing that is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from appliance.errors import (
    ApplianceError,
    ClusterError,
    PreflightFailed,
    Refused,
    StepNotVerified,
)
from appliance.model.backup.new_machines import (
    AUTHORITIES,
    Machine,
    NewMachinesPlan,
    claim_of,
    plan_new_machines,
)
from appliance.model.backup.not_carried import VolumeData, compare, read_digest
from appliance.model.backup.record import Manifest, Part
from appliance.model.backup.restore import RestoreOptions, plan_restore
from appliance.model.state.cluster.cluster import SERIAL_ANNOTATION
from appliance.model.state.facts.identity import UUID_ANNOTATION, MachineIdentity
from appliance.model.state.plan import Refusal
from appliance.workflows.cluster.restoring.new_machines import changes
from tests import samples
from tests.unit.restore.database_rack import journal_line
from tests.unit.restore.new_rack import (
    DIGEST,
    KEY,
    FakeFile,
    Killed,
    NewRack,
    backed_up,
    bring_back,
)
from tests.unit.restore.rack import ABOUT, view


@pytest.mark.parametrize("masters", [1, 3])
def test_the_acts_in_their_order(masters: int) -> None:
    rack = NewRack(masters)
    found = bring_back(rack)
    assert found.done
    masters_ = [f"cp{number}" for number in range(1, masters + 1)]
    names = [*masters_, "w1"]
    assert rack.done == [
        *(f"claim {name}" for name in names),
        "install until registry",
        "authorities cp1",
        "install until workers",
        *(f"made {name}" for name in names),
        "restore",
        *(f"end {name}" for name in masters_),
        *(f"known {name}" for name in names),
    ]
    assert [one.outcome for one in rack.journal.records] == ["verified"] * 4
    assert "2026-03-01T02:00:00+00:00" in rack.journal.records[0].why[0]
    assert rack.journal.records[0].why[-1] == "host key of cp1: ssh-ed25519 SHA256:a"
    assert found.compared is not None
    assert found.compared.same == ("configmaps", "secrets")
    assert [one.place for one in found.volumes] == ["198.18.7.11:/srv/nfs/data"]


def _acts(masters: int) -> int:
    rack = NewRack(masters)
    bring_back(rack)
    return len(rack.done)


@pytest.mark.parametrize("at", range(_acts(3)))
def test_the_same_command_ends_what_was_killed_anywhere(at: int) -> None:
    rack = NewRack(3, kill_at=at)
    with pytest.raises(Killed):
        bring_back(rack)
    rack.kill_at = -1
    if all("end" in rack.acts.get(f"cp{n}", ()) for n in (1, 2, 3)):
        before = rack.restored
        assert bring_back(rack).done
        assert rack.restored == before, "a living cluster was restored over"
    else:
        assert bring_back(rack).done
    assert all("known" in rack.acts[name] for name in ("cp1", "cp2", "cp3", "w1"))


@pytest.mark.parametrize("known", [True, False])
def test_a_file_that_the_journal_does_not_know_is_told_before_the_question(*, known: bool) -> None:
    """Its CAs and its etcd rule the cluster, so whoever could make it is the question."""
    rack = NewRack()
    told = f"rack7: 5 bytes, sha256 {FakeFile.sha256 if known else '1' * 64}, to /mnt"
    rack.journal.append(replace(journal_line(), why=(told,)))
    plan = bring_back(rack, dry_run=True).plan
    assert plan.known is known
    assert any("does not know the file" in line for line in plan.lines()) is not known


def test_work_in_a_cluster_that_was_made_long_ago_is_not_replaced_silently() -> None:
    """Somebody may have given the restore up after the install, and worked with its cluster."""
    rack = NewRack(kill_at=5)
    with pytest.raises(Killed):
        bring_back(rack)
    rack.kill_at = -1
    plan = bring_back(rack, dry_run=True).plan
    assert plan.stage == "claimed"
    assert not any("since is replaced" in line for line in plan.lines())
    rack.acts["w1"].add("made")
    rack.acts["cp1"].add("made")
    plan = bring_back(rack, dry_run=True).plan
    assert plan.stage == "made"
    assert any("since is replaced" in line for line in plan.lines())


def test_what_could_not_be_told_at_the_end_is_told_by_the_same_command() -> None:
    """A second run is refused once all is done, so nothing would name the volumes any more."""
    rack = NewRack()
    real, told = rack.volumes, ["no API server answers"]

    def volumes() -> Sequence[VolumeData]:
        if told:
            raise ClusterError(told.pop())
        return real()

    rack.volumes = volumes  # type: ignore[method-assign]
    with pytest.raises(ClusterError, match="no API server answers"):
        bring_back(rack)
    found = bring_back(rack)
    assert found.done
    assert found.volumes == real()
    assert found.compared is not None
    assert rack.restored == 1


def test_a_second_run_is_refused() -> None:
    rack = NewRack()
    bring_back(rack)
    done = list(rack.done)
    with pytest.raises(PreflightFailed, match="restored from it already"):
        bring_back(rack)
    assert rack.done == done


def _refused(rack: NewRack, manifest: Manifest | None = None) -> str:
    with pytest.raises(PreflightFailed) as raised:
        bring_back(rack, manifest)
    assert rack.done == [], "something was changed"
    return raised.value.message


def test_a_machine_that_was_in_a_cluster_is_refused() -> None:
    rack = NewRack(traces={"w1": ("/etc/kubernetes/kubelet.conf",)})
    assert "the machine is not new" in _refused(rack)


def test_a_machine_with_another_sites_passport_is_refused() -> None:
    rack = NewRack(traces={"cp1": ("/var/lib/appliance/archive/passports",)})
    assert "the machine is not new" in _refused(rack)


def test_a_machine_that_does_not_answer_is_refused() -> None:
    assert "no answer" in _refused(NewRack(silent={"w1"}))


def test_what_an_install_refuses_is_refused_before_any_change() -> None:
    refusal = Refusal("cp1", "disk", "2 GB", "60 GB", "take a larger one")
    assert "disk" in _refused(NewRack(refusals=(refusal,)))


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"about": replace(ABOUT, site="other")}, "a backup of the site other"),
        ({"about": replace(ABOUT, release="k8s-1.24.17-r1")}, "a backup of the release"),
        ({"endpoint": "api.other:6443"}, "the API at api.other:6443"),
        ({"parts": ()}, "no whole set of CAs"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(changed: dict[str, Any], why: str) -> None:
    rack = NewRack()
    with pytest.raises(PreflightFailed) as raised:
        bring_back(rack, backed_up(1, **changed))
    told = " ".join([raised.value.message, *raised.value.details])
    # Another identifier is another claim; the site's own rack asks for the one of its backup.
    assert why in told


def of_release(rack: NewRack, release: str) -> NewRack:
    """A rack whose site.yml names this release."""
    settings = rack.site.settings.model_copy(update={"appliance_release": release})
    rack.site = replace(rack.site, settings=settings)
    return rack


def test_a_site_whose_upgrade_had_just_begun_is_told_the_way_back() -> None:
    """The note of the upgrade went with the nodes; site.yml has the release that it began."""
    rack = of_release(NewRack(), "k8s-1.23.17-r1")
    (found,) = bring_back(rack, dry_run=True).plan.refusals
    assert found.seen == "a backup of the release k8s-1.23.5-r1"
    assert "set appliance_release: k8s-1.23.5-r1 in site.yml" in found.hint


@pytest.mark.parametrize(("ran", "done"), [("1.23.17", True), ("1.23.5", False)])
def test_new_machines_get_the_kubernetes_that_ran(ran: str, done: bool) -> None:
    """The names of the releases do not matter where the backup says what ran."""
    rack = of_release(NewRack(), "k8s-1.23.17-r1")
    manifest = backed_up(1, about=replace(ABOUT, kubernetes=ran))
    if done:
        assert bring_back(rack, manifest).done
    else:
        assert "a backup of Kubernetes 1.23.5" in _refused(rack, manifest)


def test_another_number_of_control_planes_is_refused() -> None:
    assert "control-plane nodes cp1 198.18.7.11, cp2" in _refused(NewRack(1), backed_up(3))


def test_other_addresses_are_refused() -> None:
    manifest = backed_up(1)
    assert manifest.etcd is not None
    (member,) = manifest.etcd.members
    etcd = replace(manifest.etcd, members=(replace(member, address="198.18.9.9:2380"),))
    assert "cp1 198.18.9.9" in _refused(NewRack(), replace(manifest, etcd=etcd))


def test_nodes_with_different_authorities_are_refused() -> None:
    manifest = backed_up(3)
    parts = tuple(
        replace(part, sha256="f" * 64) if part.name == "control_plane/cp2/pki/ca.crt" else part
        for part in manifest.parts
    )
    assert "other CAs of cp2" in _refused(NewRack(3), replace(manifest, parts=parts))


def test_an_authority_that_is_too_large_is_refused() -> None:
    manifest = backed_up()
    parts = tuple(
        replace(part, size=1 << 20) if part.name.endswith("/ca.key") else part
        for part in manifest.parts
    )
    assert "no whole set" in _refused(NewRack(), replace(manifest, parts=parts))


def test_a_machine_with_an_authority_of_its_own_is_refused() -> None:
    rack = NewRack(acts={"cp1": {"claim"}, "w1": {"claim"}}, authorities={"ca.crt": "f" * 64})
    assert "another ca.crt" in _refused(rack)


def test_authorities_that_kubeadm_made_itself_end_it_before_the_restore() -> None:
    rack = NewRack()
    install = rack.install

    def makes_its_own(until: str) -> None:
        install(until)
        if until == "workers":
            rack.authorities = {**rack.authorities, "sa.pub": "f" * 64}

    rack.install = makes_its_own  # type: ignore[method-assign]
    with pytest.raises(StepNotVerified, match=r"another /etc/kubernetes/pki/sa\.pub"):
        bring_back(rack)
    assert rack.restored == 0


def test_without_a_yes_nothing_is_changed() -> None:
    rack = NewRack()
    with pytest.raises(Refused):
        bring_back(rack, answer=False)
    assert rack.done == []


def test_a_dry_run_shows_the_plan() -> None:
    rack = NewRack(traces={"w1": ("/var/lib/etcd",)})
    found = bring_back(rack, dry_run=True)
    assert rack.done == []
    assert [one.node for one in found.plan.refusals] == ["w1"]
    assert any(line.startswith("recovery point: 2026-03-01") for line in found.plan.lines())


def test_an_install_that_is_refused_later_says_that_something_was_changed() -> None:
    rack = NewRack()

    def refused(until: str) -> None:  # noqa: ARG001 - as the port has it
        raise PreflightFailed("cp1: disk: found 2 GB")

    rack.install = refused  # type: ignore[method-assign]
    with pytest.raises(ApplianceError) as raised:
        bring_back(rack)
    assert raised.value.exit_code == 1
    assert rack.done == ["claim cp1", "claim w1"]


def test_each_node_object_says_which_machine_it_is_now() -> None:
    rack = NewRack()
    bring_back(rack)
    member = samples.cluster(rack.rack.desired).nodes["w1"]
    machine = MachineIdentity(serial="NEW")
    assert changes(member, machine)[SERIAL_ANNOTATION] == "NEW"
    assert changes(replace(member, annotations={SERIAL_ANNOTATION: "NEW"}), machine) == {}
    nameless = MachineIdentity(uuid="u")
    old = replace(member, annotations={SERIAL_ANNOTATION: "OLD"})
    assert changes(old, nameless) == {SERIAL_ANNOTATION: None, UUID_ANNOTATION: "u"}


@pytest.mark.parametrize(
    ("marks", "is_ours"),
    [
        ({KEY: ("claim", "made", "pki")}, True),
        ({KEY: ("claim", "pki")}, False),
        ({KEY: ("claim", "made", "end")}, False),
        ({claim_of("rack-20250101T000000Z"): ("claim", "made")}, False),
        ({}, False),
    ],
)
def test_a_cluster_is_restored_over_only_where_it_was_made_for_it(
    marks: dict[str, tuple[str, ...]], is_ours: bool
) -> None:
    views = {"cp1": view("cp1", etcd="cluster", marks=marks)}
    found = plan_restore(
        samples.site(1, 1),
        backed_up(),
        views,
        RestoreOptions(claim=KEY),
        tool_version="0.1.0",
        now=(1e9, "20260301T030000Z"),
        created=1e9,
    )
    refused = any("a living cluster" in one.expected for one in found.refusals)
    assert refused is not is_ours


def test_without_the_claim_no_mark_lets_a_living_cluster_be_overwritten() -> None:
    views = {"cp1": view("cp1", etcd="cluster", marks={KEY: ("claim", "made")})}
    found = plan_restore(
        samples.site(1, 1),
        backed_up(),
        views,
        RestoreOptions(),
        tool_version="0.1.0",
        now=(1e9, "20260301T030000Z"),
        created=1e9,
    )
    assert any("a living cluster" in one.expected for one in found.refusals)


@pytest.mark.parametrize(
    ("acts", "stage"),
    [
        ({}, "bare"),
        ({"cp1": {"claim"}}, "bare"),
        ({"cp1": {"claim", "made"}, "w1": {"claim"}}, "claimed"),
        ({"cp1": {"claim", "made", "end"}, "w1": {"claim", "made"}}, "made"),
        ({"cp1": {"claim", "made", "known"}, "w1": {"claim", "made", "known"}}, "known"),
    ],
)
def test_the_stage_is_what_the_last_machine_has(acts: dict[str, set[str]], stage: str) -> None:
    assert bring_back(NewRack(acts=acts), dry_run=True).plan.stage == stage


def test_a_plan_has_the_parts_of_one_node_that_has_all() -> None:
    manifest = backed_up(3)
    parts = tuple(part for part in manifest.parts if part.name != "control_plane/cp1/pki/sa.key")
    rack = NewRack(3)
    machines: dict[str, Machine | str] = {n.name: Machine((), (), {}) for n in rack.site.nodes}
    plan = plan_new_machines(
        rack.site,
        replace(manifest, parts=parts),
        machines,
        rack.forecast(),
        tool_version="0.1.0",
        recovery="then",
    )
    assert isinstance(plan, NewMachinesPlan)
    assert set(plan.authorities) == set(AUTHORITIES)
    assert {name.split("/")[1] for name in plan.authorities.values()} == {"cp2"}


def test_a_database_in_the_backup_is_named_with_its_own_command() -> None:
    manifest = backed_up()
    dump = Part("runai/databases/backend.sql", "e" * 64, 9)
    found = bring_back(NewRack(), replace(manifest, parts=(*manifest.parts, dump)), dry_run=True)
    assert any("restore FILE --only database" in line for line in found.plan.left)


def test_kinds_that_changed_are_told_with_both_numbers() -> None:
    now = DIGEST.replace(b'"count": 3, "sha256": "aaaa', b'"count": 4, "sha256": "bbbb')
    found = compare(read_digest(DIGEST), read_digest(now))
    assert found is not None
    assert found.differ == {"configmaps": (3, 4)}
    assert found.same == ("secrets",)
    assert found.not_carried == ("events", "nodes")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"kinds": 3}', b"{" * 9, b"\xff"])
def test_a_digest_that_is_none_compares_nothing(content: bytes) -> None:
    assert compare(read_digest(DIGEST), read_digest(content)) is None
