"""Whether a backup fits by its release, and what to do where it does not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from appliance.model.backup.restore_view import NodeView
from appliance.model.backup.restoring.restore_release import (
    Begun,
    KnownRelease,
    of_another_install,
    of_another_release,
    release_lines,
)
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
    release: str,
    label: str,
    views: dict[str, NodeView],
    begun: Begun,
    *,
    ran: str = "",
    resumes: bool = False,
) -> Refusal | None:
    about = replace(ABOUT, release=label, kubernetes=ran)
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


OVER = Begun(replace(MARK, over=True), RELEASES)
BEGUN = Begun(MARK, RELEASES)
# release of site.yml, of the backup, what ran then, what nodes run, the note, what forbids it.
BY_WHAT_RAN: dict[str, tuple[str, str, str, dict[str, NodeView], Begun, str]] = {
    "a timer's, under the new release": (NEW, OLD, "1.24.17", cp("1.24.17"), OVER, ""),
    "the same, while workers wait": (NEW, OLD, "1.24.17", cp("1.24.17"), BEGUN, ""),
    "made while an upgrade begins": (NEW, NEW, "1.23.5", cp("1.23.5"), BEGUN, ""),
    "that upgrade was dropped": (OLD, NEW, "1.23.5", cp("1.23.5"), LOST, ""),
    "the note is lost": (NEW, OLD, "1.23.5", cp("1.23.5"), LOST, ""),
    "a release that this tool lacks": (NEW, "x", "1.24.17", cp("1.24.17"), Begun(), ""),
    "the release fits, and the nodes moved": (
        NEW,
        NEW,
        "1.23.5",
        cp("1.24.17"),
        BEGUN,
        "Kubernetes 1.24.17, and a backup of Kubernetes 1.23.5",
    ),
    "one of them moved": (
        NEW,
        OLD,
        "1.23.5",
        {**cp("1.23.5"), "cp2": view("cp2", kubernetes="1.24.17")},
        BEGUN,
        "Kubernetes 1.24.17, and a backup of Kubernetes 1.23.5",
    ),
    "a node does not say it: by the release": (NEW, NEW, "1.24.17", cp(""), OVER, ""),
    "the same, of another one": (
        NEW,
        OLD,
        "1.24.17",
        cp(""),
        OVER,
        f"a backup of the release {OLD}",
    ),
    "no node says anything": (NEW, OLD, "1.24.17", {}, OVER, f"a backup of the release {OLD}"),
    "it says none": (NEW, OLD, "", cp("1.24.17"), OVER, f"a backup of the release {OLD}"),
}


@pytest.mark.parametrize("case", BY_WHAT_RAN)
def test_what_ran_when_a_backup_was_made_decides(case: str) -> None:
    release, label, ran, views, begun, seen = BY_WHAT_RAN[case]
    found = judged(release, label, views, begun, ran=ran)
    assert (found.seen if found else "") == seen


def test_a_restore_that_was_begun_goes_on_without_the_static_pods_that_it_stopped() -> None:
    assert judged(NEW, OLD, cp(""), OVER, ran="1.24.17", resumes=True) is None
    assert judged(NEW, NEW, cp(""), OVER, ran="1.24.17", resumes=True) is None
    assert judged(NEW, OLD, cp(""), OVER, resumes=True) is not None


def test_the_way_back_is_not_told_where_the_name_of_the_release_is_wrong() -> None:
    found = judged(NEW, OLD, cp(""), LOST, ran="1.24.17")
    assert found is not None
    assert BACK not in found.hint


@pytest.mark.parametrize(
    ("release", "label", "ran", "begun", "lines"),
    [
        (NEW, NEW, "1.24.17", LOST, []),
        (NEW, NEW, "", LOST, []),
        (NEW, OLD, "1.24.17", BEGUN, [f"names the release {OLD}, and site.yml {NEW}"]),
        (
            NEW,
            OLD,
            "1.23.5",
            LOST,
            [f"names the release {OLD}, and site.yml {NEW}", f"cluster upgrade --to {NEW}"],
        ),
        (NEW, NEW, "1.23.5", LOST, [f"cluster upgrade --to {NEW}"]),
        # The site.yml of another laptop, from before the upgrade.
        (OLD, NEW, "1.24.17", LOST, [f"names the release {NEW}, and site.yml {OLD}"]),
        (NEW, OLD, "", BEGUN, [f"cluster upgrade --to {NEW}"]),
    ],
)
def test_a_forecast_says_by_what_a_backup_fits(
    release: str, label: str, ran: str, begun: Begun, lines: list[str]
) -> None:
    about = replace(ABOUT, release=label, kubernetes=ran)
    found = release_lines(about, release, begun)
    assert len(found) == len(lines)
    assert all(wanted in one for wanted, one in zip(lines, found, strict=True))


TWICE = Begun(None, {**RELEASES, "k8s-1.23.5-r2": KnownRelease("1.23.5", (OLD,))})


@pytest.mark.parametrize(
    ("release", "label", "ran", "begun", "hint"),
    [
        # The names of the release differ, and what ran is what the site installs.
        (NEW, OLD, "1.24.17", LOST, ""),
        (OLD, NEW, "1.23.5", LOST, ""),
        ("k8s-1.23.5-r2", OLD, "1.23.5", TWICE, ""),
        # Made while an upgrade had begun: the names are the same, and the old one still ran.
        (NEW, NEW, "1.23.5", LOST, f"set appliance_release: {OLD} in site.yml, then run again"),
        (NEW, OLD, "1.23.5", LOST, f"set appliance_release: {OLD} in site.yml, then run again"),
        (
            NEW,
            "k8s-1.23.5-r2",
            "1.23.5",
            TWICE,
            f"set appliance_release: k8s-1.23.5-r2 (or {OLD}) in site.yml, then run again",
        ),
        (
            NEW,
            NEW,
            "1.22.9",
            LOST,
            "take a tool that has a release with Kubernetes 1.22.9; or use another backup; list "
            "them: appliance cluster backup list",
        ),
        # Without the version, the names decide.
        (NEW, NEW, "", LOST, ""),
    ],
)
def test_new_machines_get_the_kubernetes_that_ran(
    release: str, label: str, ran: str, begun: Begun, hint: str
) -> None:
    about = replace(ABOUT, release=label, kubernetes=ran)
    found = of_another_install(about, release, begun)
    assert (found.hint if found else "") == hint
    if found is not None:
        assert found.seen == f"a backup of Kubernetes {ran}"


def test_new_machines_are_judged_by_the_release_without_a_version() -> None:
    found = of_another_install(replace(ABOUT, release=OLD), NEW, LOST)
    assert found is not None
    assert (found.seen, BACK in found.hint) == (f"a backup of the release {OLD}", True)
