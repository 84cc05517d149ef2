"""Whether a backup fits by its release, and what to do where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.backup.restore_view import NodeView
from appliance.model.backup.restoring.restore_release import Begun, of_another_release
from appliance.model.state.plan import Refusal
from appliance.model.state.upgrade import UpgradeMark
from tests.unit.restore.rack import ABOUT, RELEASES, view

OLD, MIDDLE, NEW = RELEASES
MARK = UpgradeMark(NEW, "2026-03-01T03:00:00+00:00", "ada on laptop", before=OLD)
BACK = f"set appliance_release: {OLD} in site.yml"
LOST = Begun(None, RELEASES)


def cp(version: str) -> dict[str, NodeView]:
    return {"cp1": view("cp1", kubernetes=version)}


def judged(
    release: str, label: str, views: dict[str, NodeView], begun: Begun, *, resumes: bool = False
) -> Refusal | None:
    about = replace(ABOUT, release=label)
    return of_another_release(about, release, views, begun, resumes=resumes)


@pytest.mark.parametrize(
    ("release", "label", "views", "begun", "told"),
    [
        # Machines and note are gone; or the note alone is.
        (NEW, OLD, {}, LOST, True),
        (MIDDLE, OLD, {}, LOST, True),
        (NEW, OLD, cp("1.23.5"), LOST, True),
        (NEW, OLD, cp(""), LOST, True),
        # The upgrade changed a node, or is over.
        (NEW, OLD, cp("1.24.17"), LOST, False),
        (NEW, OLD, {}, Begun(replace(MARK, over=True), RELEASES), False),
        # No upgrade leads there.
        (OLD, NEW, {}, LOST, False),
        (NEW, "k8s-1.22.1-r1", {}, LOST, False),
        (NEW, OLD, {}, Begun(), False),
    ],
)
def test_a_refusal_names_the_way_back_where_an_upgrade_may_only_have_begun(
    release: str, label: str, views: dict[str, NodeView], begun: Begun, told: bool
) -> None:
    found = judged(release, label, views, begun)
    assert found is not None
    assert (BACK in found.hint) is told
    assert found.hint.startswith(f"use a backup of the release {release}; list them: ")
