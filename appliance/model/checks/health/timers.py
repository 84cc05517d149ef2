"""Whether the timers of the control plane run, and how their last runs ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from appliance.model.checks.engine import Skipped
from appliance.model.checks.health.inputs import Answers, HealthInputs
from appliance.model.components.timers.wanted import (
    BACKUP,
    NAMES,
    carrier,
    is_asked,
    lacks_age,
    settings_on,
)
from appliance.model.site.settings import Node, Site
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.findings import Finding, Severity
from appliance.model.state.observed import Observed

NAME: Final = "timers"
HOUR: Final = 3600.0
# A run waits for a node that is off, or for a command that is at work.
GRACE_HOURS: Final = 3.0
# The year 9999.
_LAST_EPOCH: Final = 253_402_300_000
_EXPECTED: Final = "runs that end well"


@dataclass(frozen=True)
class TimerView:
    """What is known of one timer of one node.

    Attributes:
        node: its name.
        timer: backup or certificates.
        last: when its last run that was done ended, UTC epoch seconds; None: none was.
        told: of that run, in words; empty without one.
    """

    node: str
    timer: str
    last: float | None = None
    told: str = ""

    def sentence(self, now: float) -> str:
        """The state of the timer in one line."""
        if self.last is None:
            return f"{self.node}: timer {self.timer}: no run was done yet"
        hours = max(now - self.last, 0.0) / HOUR
        moment = datetime.fromtimestamp(self.last, UTC).strftime("%Y-%m-%d %H:%M UTC")
        more = f": {self.told}" if self.told else ""
        return f"{self.node}: timer {self.timer}: last done {moment}, {hours:.0f} h ago{more}"


def views(desired: Desired, observed: Observed) -> tuple[TimerView, ...]:
    """Every timer of ours that was seen on the control plane."""
    found = []
    for node in desired.site.control_plane:
        facts = observed.node_facts.get(node.name)
        for name in NAMES if facts is not None else ():
            seen = _seen(facts, name)
            if seen:
                success = seen.get("success") or {}
                ended = _epoch(success.get("ended"))
                found.append(TimerView(node.name, name, ended, _told(name, success)))
    return tuple(found)


def _seen(facts: NodeFacts | None, name: str) -> Mapping[str, Any]:
    return (facts.at(f"timers.{name}") if facts is not None else None) or {}


def _epoch(value: object) -> float | None:
    """A moment that a node tells, as a date can have it."""
    if isinstance(value, int | float) and 0 <= value < _LAST_EPOCH:
        return float(value)
    return None


def _told(name: str, run: Mapping[str, Any]) -> str:
    if name == BACKUP and run.get("id"):
        return f"{run['id']}, {int(run.get('size') or 0) // 10**6} MB"
    return f"renewed {run['renewed']}" if run.get("renewed") else ""


def findings(desired: Desired, observed: Observed, now: float) -> Iterator[Finding]:
    """What is wrong with the timers of a site, node by node."""
    yield from _without_age(desired)
    for node in desired.site.control_plane:
        facts = observed.node_facts.get(node.name)
        if facts is None:
            continue
        for name, wanted in settings_on(node, desired).items():
            seen = _seen(facts, name)
            if wanted is None:
                yield from _stray(node, name, seen)
            elif seen:
                yield from _judged(desired.site, node, name, seen, now)
            elif not (name == BACKUP and lacks_age(desired)):
                yield Finding(
                    node.name,
                    NAME,
                    "warning",
                    f"no timer {name}",
                    "the timer that site.yml asks for",
                    "appliance install --only timers",
                )


def _without_age(desired: Desired) -> Iterator[Finding]:
    chosen = carrier(desired.site)
    if chosen is None or not lacks_age(desired):
        return
    yield Finding(
        chosen.name,
        NAME,
        "warning",
        "a bundle without the program age, so no node can encrypt a backup",
        "a bundle with it, for backup: schedule",
        "build it again: appliance bundle build; then: appliance install --bundle DIR; until then: "
        "appliance cluster backup create",
        of_site=True,
    )


def _stray(node: Node, name: str, seen: Mapping[str, Any]) -> Iterator[Finding]:
    if not seen:
        return
    yield Finding(
        node.name,
        NAME,
        "warning",
        f"a timer {name} that site.yml does not ask for here",
        "no timers but those of site.yml",
        "appliance install --only timers",
    )


def _judged(
    site: Site, node: Node, name: str, seen: Mapping[str, Any], now: float
) -> Iterator[Finding]:
    last, success = seen.get("last") or {}, seen.get("success") or {}
    more = f"appliance node logs {node.name} --unit appliance-timed-{name}"

    def finding(severity: Severity, what: str, hint: str = more) -> Finding:
        return Finding(node.name, NAME, severity, what, _EXPECTED, hint)

    if not seen.get("enabled") or seen.get("active") != "active":
        yield finding("error", f"the timer {name}, which does not wait for its time", _install())
    severity, what = _outcome(seen, last, has_success=bool(success))
    if what:
        yield finding(severity, f"the timer {name}: {what}")
    if name == BACKUP:
        yield from _late(site, seen, now, finding)
        if success.get("lacking"):
            what = f"the timer {name}: its backup lacks {success.get('first_lack')}"
            yield finding("warning", what)


def _outcome(
    seen: Mapping[str, Any], last: Mapping[str, Any], *, has_success: bool
) -> tuple[Severity, str]:
    """What is wrong with the last run, in words; empty: nothing is."""
    outcome = last.get("outcome")
    if outcome == "failed":
        count = seen.get("failures") or 1
        times = f", {count} times in a row" if count > 1 else ""
        return "error", f"its run of {_when(last)} failed{times}: {last.get('why')}"
    if outcome == "began" and not seen.get("running"):
        return "error", f"its run of {_when(last)} was killed"
    if seen.get("failed"):
        return "error", "its service failed, and wrote nothing down"
    if outcome == "skipped" and not has_success:
        return "warning", f"no run was done yet: {last.get('why')}"
    return "error", ""


def _install() -> str:
    return "appliance install --only timers"


def _late(site: Site, seen: Mapping[str, Any], now: float, finding: Any) -> Iterator[Finding]:
    """A node that is off, and runs that give way, leave no failure behind."""
    schedule = site.settings.backup.schedule if site.settings.backup else None
    last, ended = seen.get("last") or {}, _epoch((seen.get("success") or {}).get("ended"))
    if schedule is None or ended is None:
        return
    hours = (now - ended) / HOUR
    if hours < -GRACE_HOURS:
        # Until then it would look like a fresh one.
        yield finding("error", f"the timer backup: its last run ended in {-hours:.0f} hours' time")
    if hours > 2 * schedule.hours + GRACE_HOURS:
        why = f"; the last one was skipped: {last.get('why')}" if last.get("why") else ""
        yield finding("error", f"the timer backup: no run was done for {hours:.0f} hours{why}")


def _when(run: Mapping[str, Any]) -> str:
    began = _epoch(run.get("began"))
    if began is None:
        return "an unknown time"
    return datetime.fromtimestamp(began, UTC).strftime("%Y-%m-%d %H:%M UTC")


def timers(inputs: HealthInputs) -> Answers:
    """Timers of the control plane wait for their time, and their last runs ended well."""
    seen = views(inputs.desired, inputs.observed)
    if inputs.clock is None or not (seen or is_asked(inputs.site)):
        yield Skipped("the site asks for no timers")
        return
    yield from findings(inputs.desired, inputs.observed, inputs.clock)
    for view in seen:
        yield view.sentence(inputs.clock)


def is_judged(inputs: HealthInputs) -> bool:
    """Whether there is anything to judge: a site without timers shows no such check."""
    return bool(is_asked(inputs.site) or views(inputs.desired, inputs.observed))
