"""``appliance support bundle``: one file with everything that support asks for."""

from __future__ import annotations

import dataclasses
import io
import json
import time
from collections.abc import Callable, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance import __version__
from appliance.cli.commands.health.view import health_as_json, show_health
from appliance.cli.commands.install.plan_view import plan_as_json, show_install_plan
from appliance.cli.commands.node.claims_view import doubts_as_json, show_doubts
from appliance.cli.commands.node.lost_view import lost_nodes_as_json, show_lost_nodes
from appliance.cli.commands.status.verdict import verdict_of
from appliance.cli.commands.status.view import removed_sentences, show_status, status_as_json
from appliance.cli.options import Place, output_option, site_option
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, show_warnings
from appliance.cli.screen.terminal import print_line
from appliance.model.node.logs import seconds_of
from appliance.model.state.nodes.node_state import in_maintenance
from appliance.model.support.items import DEFAULT_MB, MB, Contents, Limits, Unanswered
from appliance.model.support.requests import DEFAULT_SINCE

if TYPE_CHECKING:
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.workflows.health import HealthResult
    from appliance.workflows.status import StatusResult
    from appliance.workflows.support.bundle import BundleRequest

SMALLEST_MB, LARGEST_MB = 5, 2000
# How many of what did not answer are printed; the file has all.
FEW = 10


def _since(_context: click.Context, _parameter: click.Parameter, value: str) -> int:
    seconds = seconds_of(value)
    if seconds is None:
        raise click.BadParameter(f"{value!r} is no duration: expected one as 90s, 15m, 1h or 2d")
    return seconds


@click.command()
@click.option(
    "--since",
    metavar="DURATION",
    default=DEFAULT_SINCE,
    show_default=True,
    callback=_since,
    help="Logs and records of this time, for example 2h or 3d.",
)
@click.option(
    "--to",
    type=Place(dir_okay=False),
    metavar="FILE",
    help="The file to write. Default: support-SITE-TIME.tar.gz in the current folder.",
)
@click.option(
    "--anonymise",
    is_flag=True,
    help="Replace names, addresses and serial numbers; what stands for what is kept beside FILE.",
)
@click.option(
    "--most",
    type=click.IntRange(SMALLEST_MB, LARGEST_MB),
    default=DEFAULT_MB,
    show_default=True,
    metavar="MB",
    help="The largest size, before compression.",
)
@site_option
@output_option
@click.pass_obj
def bundle(
    app: Application,
    since: int,
    to: Path | None,
    most: int,
    site: Path,
    output: str,
    *,
    anonymise: bool,
) -> None:
    """Write one file with everything that support asks for. Changes nothing.

    \b
    - site without secrets, facts of all nodes, plan, status, health, journal, logs of runs
    - of each node: kubelet, Docker, kernel, disks; of the cluster: events, Helm's history,
      logs of unhealthy pods of the appliance; never logs of researchers' pods
    - nodes that do not answer are named in the file, and hold up nothing
    - secrets are taken out: those of the vault, and what looks like one
    - with --anonymise names, addresses and serial numbers are replaced, each by the same word

    Example: appliance support bundle --site inventories/rack7 --since 2h
    """
    from appliance.adapters.support.archive import new_bundle, require_new
    from appliance.adapters.support.machine import known_secrets

    connected = app.connect(site)
    path = (to or Path(_default_name(connected.site.name, anonymise=anonymise))).absolute()
    names = path.with_name(f"{path.name}.names.json")
    for wanted in (path, names) if anonymise else (path,):
        require_new(wanted)
    known, unknown = known_secrets(connected.site)
    title = "appliance support bundle"
    with progress(plain=output == "json", title=title) as display, new_bundle(path) as writer:
        contents = Contents(writer.put, Limits(total_bytes=most * MB), known)
        if unknown:
            contents.missing("this machine", "the vault's values, to take them out", unknown)
        request = _request(connected, since, anonymise=anonymise)
        found = connected.support_bundle(request, display, contents, rendered)
    if contents.pseudonyms is not None:
        _keep_names(names, contents.pseudonyms.used)
    show_warnings(found.found.warnings)
    size = path.stat().st_size
    if output == "json":
        print_json(_as_json(path, size, contents, names if anonymise else None))
        return
    _show(path, size, contents, names if anonymise else None)


def _default_name(site: str, *, anonymise: bool) -> str:
    moment = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    return f"support-{moment}.tar.gz" if anonymise else f"support-{site}-{moment}.tar.gz"


def _request(connected: SiteSession, since: int, *, anonymise: bool) -> BundleRequest:
    from appliance.adapters.support.names import site_key
    from appliance.workflows.status import StatusRequest
    from appliance.workflows.support.bundle import BundleRequest

    desired, members = connected.load_desired(), connected.read_records()
    return BundleRequest(
        StatusRequest(connected.site, desired, members),
        since,
        __version__,
        tuple(connected.records().read()),
        site_key(connected.site.state_directory) if anonymise else None,
    )


def rendered(found: StatusResult, health: HealthResult) -> Mapping[str, object]:
    """Status, plan and health as the commands of these names print them, text and JSON."""
    desired = found.desired
    site, observed = desired.site, found.observed
    verdict = verdict_of(found)
    status = {
        **status_as_json(site, observed, found.look, found.plan, desired.manifest),
        "removed": removed_sentences(found.removed),
        "lost": lost_nodes_as_json(found.losses),
        "doubtful": doubts_as_json(found.doubts),
        "verdict": verdict.word,
        "faults": list(verdict.faults),
        "next": verdict.next,
    }

    def show() -> None:
        show_status(site, observed, found.look, found.plan, desired.manifest)
        show_lost_nodes(found.losses, in_maintenance(site, observed))
        show_doubts(found.doubts)
        say(verdict.sentence())

    return {
        "status.json": status,
        "status.txt": _printed(show),
        "plan.json": plan_as_json(found.plan),
        "plan.txt": _printed(lambda: show_install_plan(found.plan)),
        "health.json": health_as_json(health),
        "health.txt": _printed(lambda: show_health(health)),
    }


def _printed(show: Callable[[], None]) -> str:
    """What a view prints on stdout."""
    with redirect_stdout(io.StringIO()) as text:
        show()
    return text.getvalue()


def _keep_names(path: Path, used: Mapping[str, str]) -> None:
    from appliance.adapters.local.state_files import write_once

    write_once(path, json.dumps(used, indent=1, ensure_ascii=False) + "\n")


def _as_json(path: Path, size: int, contents: Contents, names: Path | None) -> dict[str, object]:
    return {
        "file": str(path),
        "bytes": size,
        "contents": [dataclasses.asdict(entry) for entry in contents.entries],
        "unanswered": [dataclasses.asdict(one) for one in contents.unanswered],
        "names": str(names) if names else None,
    }


def _show(path: Path, size: int, contents: Contents, names: Path | None) -> None:
    cut = [entry.name for entry in contents.entries if entry.left_out]
    if cut:
        print_line(f"cut, the newest part is there: {', '.join(cut)}")
    for one in contents.unanswered[:FEW]:
        print_line(f"no answer: {_sentence(one)}")
    more = len(contents.unanswered) - FEW
    if more > 0:
        say(f"and {more} more: unanswered.json in the file")
    say(f"written: {path} ({size / MB:.1f} MB, {len(contents.entries)} texts)")
    if names is not None:
        say(f"names: {names} says what stands for what; it stays here")
    say("look inside before you send it: appliance docs ask-for-support")


def _sentence(one: Unanswered) -> str:
    return f"{one.where}: {one.what}: {one.cause}"
