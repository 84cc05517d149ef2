"""``appliance horizon``: everything that ends, the earliest first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.render import print_json, print_table
from appliance.cli.screen.terminal import print_line
from appliance.errors import NotHealthy, Refused
from appliance.model.upkeep.horizon.calendar import calendar
from appliance.model.upkeep.horizon.endings import MOST_DAYS, WITHIN_DAYS, Ending, due

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.workflows.horizon import HorizonResult

_BEGIN = b"BEGIN:VCALENDAR"
# What is done about what does not count, by its kind.
_KEPT = {"certificate": "the kubelet renews it", "token": "each joining makes a new one"}


@click.command()
@click.option(
    "--within",
    type=click.IntRange(0, MOST_DAYS),
    default=WITHIN_DAYS,
    show_default=True,
    metavar="DAYS",
    help="Exit with 5 if something that needs you ends within so many days.",
)
@click.option(
    "--ics",
    type=Place(dir_okay=False),
    metavar="FILE",
    help="Also write a calendar; a later one of the same site replaces its events.",
)
@site_option
@output_option
@click.pass_obj
def horizon(app: Application, within: int, ics: Path | None, site: Path, output: str) -> None:
    """Show everything that ends: certificates, CAs, tokens, support. Changes nothing.

    \b
    - every node is inspected once, over SSH; the Kubernetes API is not needed
    - certificates of Kubernetes, of the mirror, the registry and Run:ai's backend; CAs
    - join tokens, and when the vendor of each part of the release stops fixing it
    - what cannot be read is listed as unknown, with the reason
    - what renews itself, and support that has ended, are listed and do not count

    Example: appliance horizon --site inventories/rack7 --within 60 --ics rack7.ics
    """
    connected = app.connect(site)
    found = connected.horizon()
    if ics is not None:
        _write(ics, calendar(connected.site.name, found.endings, found.now))
    if output == "json":
        print_json(_as_json(connected.site.name, found))
    else:
        _show(found)
        if ics is not None:
            say(f"calendar: {ics}")
    late = due(found.endings, found.now, within)
    if late:
        first = late[0]
        more = f" (and {len(late) - 1} more)" if late[1:] else ""
        raise NotHealthy(
            f"{first.where}: {first.what} {_when(first, found.now)}{more}", hint=_hint(first)
        )
    if found.faults:
        fault = found.faults[0]
        raise NotHealthy(f"{fault.node}: not read: {fault.reason}", hint=fault.hint)
    unread = [one for one in found.endings if one.is_unread()]
    if unread:
        one = unread[0]
        raise NotHealthy(f"{one.where}: {one.what}: not read: {one.unknown}", hint=_hint(one))


def _is_calendar(path: Path) -> bool:
    """By its beginning alone; a device or a pipe is none, and may have no end."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(len(_BEGIN)) == _BEGIN


def _write(path: Path, text: str) -> None:
    from appliance.adapters.local.state_files import COMMITTABLE, replace_file

    if path.exists() and not _is_calendar(path):
        raise Refused(f"{path} exists, and is no calendar", hint="name another file: --ics FILE")
    replace_file(path.absolute(), text, mode=COMMITTABLE)


def _show(found: HorizonResult) -> None:
    known = [one for one in found.endings if one.ends is not None]
    print_table(
        ("ends", "days", "kind", "where", "what", "next"),
        [
            (
                f"{one.ends:%Y-%m-%d}" if one.ends else "",
                f"{one.left(found.now):.0f}",
                one.kind,
                one.where,
                one.what,
                one.next if one.counts else _KEPT.get(one.kind, one.next),
            )
            for one in known
        ],
        spare=("next", "kind"),
    )
    unknown: dict[tuple[str, str], list[str]] = {}
    for one in found.endings:
        if one.ends is None:
            unknown.setdefault((one.where, one.unknown), []).append(one.what)
    for (where, why), what in unknown.items():
        print_line(f"unknown: {where}: {', '.join(what)}: {why}")
    for one in known:
        if one.doubt:
            print_line(f"as the node says: {one.where}: {one.what}: {one.doubt}")
    for fault in found.faults:
        say_hint(fault.hint)


def _when(ending: Ending, now: float) -> str:
    left = ending.left(now) or 0.0
    return f"ended {-left:.0f} days ago" if left < 0 else f"ends in {left:.0f} days"


def _hint(ending: Ending) -> str:
    return ending.next or "see the whole list: appliance horizon"


def _as_json(site: str, found: HorizonResult) -> dict[str, Any]:
    return {
        "site": site,
        "endings": [
            {
                "kind": one.kind,
                "where": one.where,
                "what": one.what,
                "ends": one.ends.isoformat() if one.ends else None,
                "days_left": None if one.ends is None else round(one.left(found.now) or 0.0, 1),
                "counts": one.counts,
                "unknown": one.unknown,
                "doubt": one.doubt,
                "next": one.next,
            }
            for one in found.endings
        ],
        "unreachable": [{"node": f.node, "reason": f.reason, "hint": f.hint} for f in found.faults],
    }
