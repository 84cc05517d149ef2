"""A backup is restored into a lab like its site: into no other, and never onto the site."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.cli.commands.cluster.new_machines import NewMachinesOptions, show_plan, tell_done
from appliance.errors import PreflightFailed
from appliance.model.backup.record import Manifest
from appliance.model.backup.restore import RestoreOptions, plan_restore
from tests import golden, samples
from tests.unit.restore.new_rack import Killed, NewRack, backed_up, bring_back
from tests.unit.restore.rack import ABOUT, BACKUP, view

SITE = "rack7"


def of_the_site(masters: int = 1, site: str = SITE, **changes: Any) -> Manifest:
    """A backup of another site, with the names of the lab's nodes and other addresses."""
    made = backed_up(masters)
    assert made.etcd is not None
    members = tuple(
        replace(one, address=f"10.7.0.{number}:2380")
        for number, one in enumerate(made.etcd.members, 1)
    )
    return replace(
        made,
        about=replace(ABOUT, id=BACKUP, site=site),
        endpoint="api.rack7.example:6443",
        etcd=replace(made.etcd, members=members),
        **changes,
    )


def _refused(rack: NewRack, manifest: Manifest, rehearses: str = SITE) -> str:
    with pytest.raises(PreflightFailed) as raised:
        bring_back(rack, manifest, rehearses=rehearses)
    assert rack.done == [], "something was changed"
    return " ".join([raised.value.message, *raised.value.details])


def test_the_labs_own_objects_are_kept_before_and_written_after() -> None:
    rack = NewRack()
    found = bring_back(rack, of_the_site(), rehearses=SITE)
    assert found.done
    acts = [one for one in rack.done if one.endswith(" own") or one in ("restore", "made cp1")]
    assert acts == ["keep own", "made cp1", "restore", "renew own"]


def test_how_long_it_took_is_in_the_journal_of_the_lab() -> None:
    rack = NewRack()
    bring_back(rack, of_the_site(), rehearses=SITE)
    steps = {one.step: one.why for one in rack.journal.records}
    assert "kube-system/kube-proxy" in steps["cluster restore: lab's own objects"]
    took, kinds = steps["cluster restore: rehearsed"]
    assert took.startswith("the restore of rack7 took ")
    assert kinds == "2 kinds of objects are the same; others: none"


def _acts() -> int:
    rack = NewRack(3)
    bring_back(rack, of_the_site(3), rehearses=SITE)
    return len(rack.done)


@pytest.mark.parametrize("at", range(_acts()))
def test_the_same_command_ends_what_was_killed_anywhere(at: int) -> None:
    rack = NewRack(3, kill_at=at)
    with pytest.raises(Killed):
        bring_back(rack, of_the_site(3), rehearses=SITE)
    rack.kill_at = -1
    assert bring_back(rack, of_the_site(3), rehearses=SITE).done
    assert "renew own" in rack.done
    assert all("known" in rack.acts[name] for name in ("cp1", "cp2", "cp3", "w1"))


def test_a_site_that_is_no_lab_takes_no_backup_of_another_one() -> None:
    assert "a backup of the site rack7" in _refused(NewRack(), of_the_site(), rehearses="")


def test_a_lab_takes_no_backup_but_of_the_site_that_it_is_like() -> None:
    assert "a backup of the site rack8" in _refused(NewRack(), of_the_site(site="rack8"))
    # Not its own either: that is no rehearsal, and its addresses are its own.
    assert "a backup of the site rack" in _refused(NewRack(), of_the_site(site="rack"))


def test_machines_with_the_addresses_of_the_site_are_refused() -> None:
    made = of_the_site()
    assert made.etcd is not None
    own = replace(made.etcd, members=backed_up().etcd.members)  # type: ignore[union-attr]
    assert "which the site has" in _refused(NewRack(), replace(made, etcd=own))


def test_a_lab_with_other_control_plane_nodes_is_refused() -> None:
    assert "control-plane nodes cp1, cp2, cp3" in _refused(NewRack(), of_the_site(3))


def test_a_second_time_it_says_how_to_begin_anew() -> None:
    rack = NewRack()
    bring_back(rack, of_the_site(), rehearses=SITE)
    (found,) = bring_back(rack, of_the_site(), rehearses=SITE, dry_run=True).plan.refusals
    assert "restored from it already" in found.seen
    assert "appliance lab up --like SITE --bare" in found.hint


def test_the_forecast_says_what_is_opened_where_and_what_is_not_carried() -> None:
    lines = bring_back(NewRack(), of_the_site(), rehearses=SITE, dry_run=True).plan.lines()
    text = "\n".join(lines)
    assert "rehearses the restore of rack7 in a lab: nothing is asked of rack7" in text
    assert "they go when the lab is taken down" in text
    assert "kube-system/kubeadm-config" in text
    assert "not brought back: data of volumes" in text
    # The journal of a lab knows no file, and what could rule the lab is in it anyway.
    assert "does not know the file" not in text


def test_what_the_operator_reads(capsys: pytest.CaptureFixture[str]) -> None:
    """The page of rehearsals shows it."""
    options = NewMachinesOptions(f"{BACKUP}.backup", Path("rack7.key"), Path("like-rack7"))
    rack = NewRack()
    show_plan(bring_back(rack, of_the_site(), rehearses=SITE, dry_run=True).plan, err=False)
    tell_done(bring_back(rack, of_the_site(), rehearses=SITE), options, "like-rack7")
    said = capsys.readouterr()
    golden.agree("restore/rehearsed", "a rehearsal", golden.steady(said.out + said.err))


@pytest.mark.parametrize(("rehearses", "refused"), [(SITE, False), ("", True), ("rack8", True)])
def test_etcd_itself_asks_again(rehearses: str, *, refused: bool) -> None:
    found = plan_restore(
        samples.site(1, 1),
        of_the_site(),
        {"cp1": view("cp1")},
        RestoreOptions(rehearses=rehearses),
        tool_version="0.1.0",
        now=(1e9, "20260301T030000Z"),
        created=1e9,
    )
    assert any("a backup of the site" in one.seen for one in found.refusals) is refused
