"""``appliance self``: this tool itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance.cli.help.typos import Nouns
from appliance.cli.options import (
    Place,
    allowed_signers_option,
    dry_run_option,
    output_option,
    yes_option,
)
from appliance.cli.screen.confirm import confirmed
from appliance.cli.screen.render import print_json
from appliance.cli.screen.terminal import print_line

if TYPE_CHECKING:
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.cli.app import Application
    from appliance.model.bundle.signature import Signature
    from appliance.workflows.self.upgrade import SelfUpgradePlan

_MEGABYTE = 1_000_000


@click.group(cls=Nouns)
def self() -> None:
    """Upgrade this tool on this machine."""


@self.command()
@click.option(
    "--bundle", type=Place(file_okay=False), metavar="DIR", help="The bundle with the new version."
)
@click.option("--back", is_flag=True, help="Use the version again that the last upgrade replaced.")
@click.option(
    "--site", "sites", type=Place(file_okay=False, exists=True), multiple=True, metavar="DIR",
    help="A site that the new version must accept before the switch; repeatable. Its "
    "bundle_signers must have signed the bundle.",
)  # fmt: skip
@click.option(
    "--downgrade-to", metavar="VERSION", help="Accept a bundle with this earlier version."
)
@allowed_signers_option
@click.option(
    "--unsigned", is_flag=True, help="Accept a bundle whose signature is missing or not checked."
)
@dry_run_option
@yes_option
@output_option
@click.pass_obj
def upgrade(
    app: Application,
    bundle: Path | None,
    sites: tuple[Path, ...],
    downgrade_to: str | None,
    allowed_signers: Path | None,
    output: str,
    *,
    back: bool,
    unsigned: bool,
    dry_run: bool,
    yes: bool,
) -> None:
    """Replace this tool by the version in a bundle, without a network.

    No node is touched. What will happen on this machine:

    \b
    - the signature, and the digest of each wheel, are checked first; without a file of allowed
      signers (--allowed-signers, or bundle_signers of a --site), --unsigned is needed
    - the new version gets an environment of its own beside the present one
    - it is started, and checks the files of each --site, before anything switches
    - the program that you type then leads to it; the present version is kept
    - after an interruption, the same command goes on; until then the present version is in use

    Example: appliance self upgrade --bundle /srv/bundle --site inventories/rack7
    """
    if back:
        other = (
            ("--bundle", bundle),
            ("--site", sites),
            ("--downgrade-to", downgrade_to),
            ("--unsigned", unsigned),
        )
        if named := [name for name, value in other if value]:
            raise click.UsageError(f"--back and {named[0]} exclude each other")
        _go_back(output, dry_run=dry_run, yes=yes)
        return
    if bundle is None:
        raise click.UsageError("give --bundle DIR, or --back")
    by_name = (downgrade_to, allowed_signers)
    plan = _upgrade(app, bundle, sites, by_name, unsigned=unsigned, dry_run=dry_run, yes=yes)
    if output == "json":
        print_json(_plain(plan))
    elif plan.new is None:
        print_line(f"nothing to do: the bundle carries this version, {plan.present.version}")
    elif plan.outcome == "planned":
        for line in _lines(plan):
            print_line(line)
    else:
        print_line(
            f"in use:   appliance {plan.request.offer.tool.version}, {plan.present.launcher}"
        )
        print_line(f"kept:     appliance {plan.present.version}, {plan.present.folder}")
        print_line("changes:  appliance docs changelog")
        print_line("way back: appliance self upgrade --back")


def _upgrade(
    app: Application,
    bundle: Path,
    sites: tuple[Path, ...],
    named: tuple[str | None, Path | None],
    *,
    unsigned: bool,
    dry_run: bool,
    yes: bool,
) -> SelfUpgradePlan:
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.tool.environment import this_environment
    from appliance.adapters.tool.place import Environments
    from appliance.model.bundle.tool import Offer, tool_of
    from appliance.workflows.self.upgrade import SelfUpgradeRequest, self_upgrade

    downgrade_to, allowed = named
    here = this_environment(bundle)
    found = BundleDirectory(bundle)
    offer = Offer(Path(found.directory), found.digest, tool_of(found.manifest, found.directory))
    signature = _signature(app, found, sites, allowed)
    request = SelfUpgradeRequest(
        offer, signature, sites, downgrade_to, dry_run=dry_run, unsigned=unsigned
    )

    def confirm(plan: SelfUpgradePlan) -> bool:
        return confirmed(yes, _lines(plan), lambda: None, "Make it, and switch?")

    return self_upgrade(request, Environments(here, offer, _note), confirm)


def _signature(
    app: Application, bundle: BundleDirectory, sites: tuple[Path, ...], allowed: Path | None
) -> Signature:
    """The first signature that is not accepted; else one by the last file of signers."""
    files = [allowed] if allowed else []
    files += [
        Path(signers) for site in sites if (signers := app.site(site).settings.bundle_signers)
    ]
    checked = [bundle.signature(file) for file in files] or [bundle.signature(None)]
    return next((one for one in checked if one.fault), checked[-1])


def _go_back(output: str, *, dry_run: bool, yes: bool) -> None:
    from appliance.adapters.tool.environment import this_environment
    from appliance.adapters.tool.place import Environments
    from appliance.workflows.self.upgrade import go_back
    from appliance.workflows.session.confirmation import require_confirmed

    place = Environments(this_environment(), None, _note)
    present, earlier = place.present(), place.earlier()
    about = [
        f"present: appliance {present.version}, {present.folder}",
        f"back to: appliance {earlier.version}, {earlier.folder}",
        f"switch:  {present.launcher}",
        "note:    sites that the present version changed refuse an earlier one",
    ]
    if not dry_run:
        require_confirmed(confirmed(yes, about, lambda: None, "Go back?"))
        go_back(place)
    if output == "json":
        print_json(
            {
                "outcome": "planned" if dry_run else "switched",
                "version": earlier.version,
                "environment": str(earlier.folder),
                "program": str(earlier.launcher),
            }
        )
        return
    if dry_run:
        for line in about:
            print_line(line)
        return
    print_line(f"in use: appliance {earlier.version}, {earlier.launcher}")
    print_line(f"kept:   appliance {present.version}, {present.folder}")


def _lines(plan: SelfUpgradePlan) -> list[str]:
    """What is replaced by what, one line each."""
    request, new = plan.request, plan.new
    lines = [
        f"present:   appliance {plan.present.version}, {plan.present.folder}",
        f"bundle:    appliance {request.offer.tool.version}, {request.offer.directory}",
        f"signature: {request.signature.words()}",
    ]
    if new is not None:
        need, free = new.needed_bytes / _MEGABYTE, new.free_bytes / _MEGABYTE
        room = f"needs {need:.0f} MB of disk, of which {free:.0f} MB are free"
        lines += [
            f"new:       {new.folder}, {'made already' if new.is_whole else room}",
            *(f"checks:    {site}" for site in request.sites),
            f"switch:    {plan.present.launcher}",
        ]
    return lines


def _plain(plan: SelfUpgradePlan) -> dict[str, Any]:
    new = plan.new
    return {
        "outcome": plan.outcome,
        "present": {"version": plan.present.version, "environment": str(plan.present.folder)},
        "new": {
            "version": plan.request.offer.tool.version,
            "environment": str(new.folder) if new else None,
            "needed_bytes": new.needed_bytes if new else 0,
        },
        "program": str(plan.present.launcher),
        "signature": plan.request.signature.as_json(),
        "sites": [str(site) for site in plan.request.sites],
    }


def _note(text: str) -> None:
    print_line(f"note: {text}", err=True)
