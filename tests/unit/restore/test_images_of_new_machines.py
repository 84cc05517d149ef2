"""Images of a backup come before the cluster of new machines, which is made without them, too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.errors import ApplianceError, ClusterError, PreflightFailed
from appliance.model.backup.record import Manifest, Part
from tests.unit.restore.new_rack import Killed, NewRack, backed_up, bring_back

BLOB = Part("images/blobs/sha256/" + "a" * 64, "a" * 64, 5_000_000, "cp1")
AGAIN = "appliance cluster restore FILE --identity KEY --only images"


def with_images() -> Manifest:
    found = backed_up()
    return replace(found, parts=(*found.parts, Part("images/images.json", "b" * 64, 9), BLOB))


def test_images_come_before_the_cluster_and_the_end_tells_of_them() -> None:
    rack = NewRack()
    done = bring_back(rack, with_images())
    assert rack.done.index("images") < rack.done.index("install until workers")
    assert done.images == "images brought back: 2 of the backup, 1 names are other images"
    told = "\n".join(done.plan.lines())
    assert (
        "before that, the registry gets those images of the backup that it lacks: 1 blobs" in told
    )


def test_a_backup_without_images_asks_for_none() -> None:
    rack = NewRack()
    assert bring_back(rack).images == ""
    assert "images" not in rack.done


@pytest.mark.parametrize("fault", [ClusterError("cp1: no room"), PreflightFailed("cp1: no room")])
def test_a_cluster_is_made_without_its_images_and_the_end_says_so(fault: ApplianceError) -> None:
    rack = NewRack(images_fault=fault)
    done = bring_back(rack, with_images())
    assert done.done
    assert done.images == f"images were not brought back: cp1: no room; then {AGAIN}"


def test_killed_while_images_come_the_same_command_brings_them() -> None:
    rack = NewRack()
    rack.kill_at = 3
    with pytest.raises(Killed, match="images"):
        bring_back(rack, with_images())
    rack.kill_at = -1
    assert bring_back(rack, with_images()).images.startswith("images brought back: 2")


def test_a_run_that_goes_on_later_says_how_to_see_what_is_lacking() -> None:
    rack = NewRack()
    acts = rack.happens

    def happens(what: str) -> None:
        if what == "restore":
            raise Killed(what)
        acts(what)

    rack.happens = happens  # type: ignore[method-assign]
    with pytest.raises(Killed):
        bring_back(rack, with_images())
    rack.happens = acts  # type: ignore[method-assign]
    done = bring_back(rack, with_images())
    assert done.images == f"images: an earlier run was at them; see {AGAIN} --dry-run"
