"""A lab that is like a site: an upgrade there is watched, and ends with a report."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from appliance.cli.screen.render import show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.api_watch import ApiWatch
    from appliance.cli.site_session import SiteSession
    from appliance.lab.site.rehearsals import RehearsalFiles
    from appliance.model.upgrade.rehearsal.likeness import Likeness
    from appliance.workflows.cluster.upgrading.look import UpgradeResult

COMMAND = "cluster upgrade"


@dataclass
class _Heard:
    """What the run told of itself: its plan, and how it ended."""

    found: UpgradeResult | None = None

    def __call__(self, found: UpgradeResult) -> UpgradeResult:
        """Take the newest of it."""
        self.found = found
        return found


@contextmanager
def rehearsing(
    connected: SiteSession, to: str, accepted: Sequence[str], *, dry_run: bool
) -> Iterator[Callable[[UpgradeResult], UpgradeResult]]:
    """Watch an upgrade and write the report, where the site is a lab that is like another one.

    Args:
        connected: the site.
        to: the release that was asked for.
        accepted: names of settings whose loss was accepted.
        dry_run: nothing is run, so nothing is reported.

    Yields:
        What takes the plan, and later the result, of the run.
    """
    heard = _Heard()
    files, like = (None, None) if dry_run else _lab_of(connected)
    if files is None or like is None:
        yield heard
        return
    began, before = time.monotonic(), {one.run for one in connected.records().read()}
    outcome = "it ended without a word"
    with connected.api_watch() as watch:
        try:
            yield heard
            outcome = _outcome(heard.found)
        except ApplianceError as error:
            outcome = f"failed: {error.message}"
            raise
        except KeyboardInterrupt:
            outcome = "interrupted"
            raise
        finally:
            took = time.monotonic() - began
            asked = (to, tuple(accepted), outcome, took)
            _report(connected, (files, like), heard, asked, watch, before)


def _lab_of(connected: SiteSession) -> tuple[RehearsalFiles | None, Likeness | None]:
    from appliance.lab.site.rehearsals import RehearsalFiles

    files = RehearsalFiles(connected.site.directory)
    try:
        return files, files.likeness()
    except (OSError, ValueError) as error:
        show_warnings([f"no report is written: {error}"])
        return None, None


def _outcome(found: UpgradeResult | None) -> str:
    if found is None or not found.done:
        return "nothing to do: every node runs the release"
    if not found.ended:
        return f"paused after {found.plan.paused_after}"
    return "every node has the release"


def _of_the_site(like: Likeness, found: UpgradeResult) -> str:
    from appliance.model.upgrade.rehearsal.site_window import site_window

    plan, measured = found.plan, found.clock.measured
    return site_window(plan, like.stands_for, like.took, measured).sentence()


def _report(
    connected: SiteSession,
    lab: tuple[RehearsalFiles, Likeness],
    heard: _Heard,
    asked: tuple[str, tuple[str, ...], str, float],
    watch: ApiWatch,
    before: set[str],
) -> None:
    """Write the report; no fault there changes or hides the outcome of the run."""
    try:
        _write(connected, lab, heard, asked, watch, before)
    except Exception as error:
        # Whatever it is: the upgrade ran, and its own error is what the operator has to see.
        what = str(error) or type(error).__name__
        show_warnings([f"the report was not written: {what}"])


def _write(
    connected: SiteSession,
    lab: tuple[RehearsalFiles, Likeness],
    heard: _Heard,
    asked: tuple[str, tuple[str, ...], str, float],
    watch: ApiWatch,
    before: set[str],
) -> None:
    """Write down the run, and the report of all runs."""
    from appliance.adapters.control_plane.journal import new_run_id
    from appliance.lab.alike import not_made
    from appliance.lab.layout import stand_ins
    from appliance.model.state.nodes.maintenance import timestamp
    from appliance.model.upgrade.rehearsal.report.rehearsed import (
        RehearsedRun,
        judged,
        planned_steps,
    )
    from appliance.model.upgrade.rehearsal.report.report import Rehearsal

    files, like = lab
    to, accepted, outcome, took = asked
    found = heard.found
    records = connected.records().read()
    own = [one.run for one in records if one.command == COMMAND and one.run not in before]
    run = RehearsedRun(
        run=own[-1] if own else new_run_id(),
        started=timestamp(connected.clock.now() - took),
        to=to,
        outcome=outcome,
        took_seconds=round(took, 1),
        path=tuple(hop.release for hop in found.plan.hops) if found else (),
        steps=planned_steps(found.plan, found.clock) if found else (),
        gates=judged(found.gates) if found else (),
        accepted=accepted,
        window=found.clock.of_plan(found.plan).sentence() if found else "",
        site_window=_of_the_site(like, found) if found else "",
        api=watch.watched(),
    )
    played = [
        (one.part, one.played_by) for one in stand_ins({connected.site.settings.operating_system})
    ]
    files.keep(run)
    for path in files.write(Rehearsal(like, tuple(not_made(like)), files.runs(), records, played)):
        print_line(f"report: {path}", err=True)
