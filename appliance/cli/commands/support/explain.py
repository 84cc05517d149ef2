"""``appliance support explain``: likely causes of what a support bundle shows, offline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.options import Place, output_option
from appliance.cli.screen.hints import say, say_hint
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.model.support.judgement import Cause, Explanation

# How many places of one cause are named; the JSON has all.
FEW = 6
# A bundle comes from outside: what it says about itself is cut.
LONGEST = 200
MOST = 40


@click.command()
@click.argument("file", type=Place(exists=True, dir_okay=False))
@output_option
def explain(file: Path, output: str) -> None:
    """Name likely causes of what FILE, a support bundle, shows. Changes nothing.

    \b
    - offline: no site, no node and no network is needed
    - the checks and the plan of this version are run on the facts inside
    - logs are searched for what programs write when something is wrong
    - nothing of FILE is written to this machine's disk

    Example: appliance support explain support-rack7-20260101-100000.tar.gz
    """
    from appliance.adapters.support.explaining import explain_bundle

    found = explain_bundle(file)
    if output == "json":
        print_json(_as_json(found))
    else:
        _show(found)


def _show(found: Explanation) -> None:
    site, made, version = (
        str(found.about.get(key))[:LONGEST] for key in ("site", "created", "tool_version")
    )
    say(f"site {site}, {made}, by version {version}")
    for doubt in found.doubts:
        print_line(f"warning: {doubt}", err=True)
    for certain, title in ((True, "found by checks"), (False, "likely, by what logs say")):
        causes = [cause for cause in found.causes if cause.certain is certain]
        if causes:
            say(f"{title}:")
        for group in _grouped(causes):
            _show_cause(group)
    for one in found.unanswered[:MOST]:
        print_line(f"no answer: {one.get('where')}: {one.get('what')}: {one.get('cause')}")
    if len(found.unanswered) > MOST:
        say(f"and {len(found.unanswered) - MOST} more without an answer: --output json has all")
    if not found.causes:
        say("no cause found: read the logs inside, the newest lines first")


def _grouped(causes: list[Cause]) -> list[list[Cause]]:
    """Causes of the same name, page and words, with the places that have them."""
    groups: dict[tuple[str, ...], list[Cause]] = {}
    for cause in causes:
        words = cause.said.replace(cause.where, "") if cause.certain else cause.said
        groups.setdefault((cause.name, cause.page, words), []).append(cause)
    return list(groups.values())


def _show_cause(group: list[Cause]) -> None:
    first = group[0]
    places = ", ".join(cause.where for cause in group[:FEW])
    more = f" and {len(group) - FEW} more" if len(group) > FEW else ""
    print_line(f"{first.name}: {places}{more}: {first.said}")
    if not first.certain:
        count = sum(cause.count for cause in group)
        times = f" ({count} lines)" if count > 1 else ""
        print_line(f"   {first.evidence}{times}")
    say_hint(f"appliance docs {first.page}")


def _as_json(found: Explanation) -> dict[str, Any]:
    return {
        "bundle": dict(found.about),
        "causes": [asdict(cause) for cause in found.causes],
        "unanswered": [dict(one) for one in found.unanswered],
        "doubts": list(found.doubts),
    }
