"""``cluster restore --new-machines``: first the site's directory, then its cluster."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from appliance.cli.commands.cluster.restore_view import restore_as_json, show_forecast
from appliance.cli.screen.confirm import about_site, confirmed
from appliance.cli.screen.hints import say
from appliance.cli.screen.progress import progress
from appliance.cli.screen.render import print_json, refusals_as_json
from appliance.cli.screen.terminal import print_line
from appliance.errors import ApplianceError, Refused
from appliance.model.backup.names import ANOTHER_BACKUP, ANOTHER_KEY, SEE_BACKUPS

if TYPE_CHECKING:
    from appliance.adapters.backup.opened import BackupFile
    from appliance.adapters.site.files import SiteCheck
    from appliance.cli.app import Application
    from appliance.cli.site_session import SiteSession
    from appliance.model.backup.new_machines import NewMachinesPlan
    from appliance.model.backup.site_parts import SiteParts
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.workflows.cluster.restoring.new_machines import NewMachinesResult

FEW: Final = 10
_ELSEWHERE: Final = (
    "use another backup file of this site, from the disk or the server where you keep them"
)
# What to do next in place of what needs the site's directory.
_WITHOUT_A_SITE: Final = {
    ANOTHER_BACKUP: _ELSEWHERE,
    SEE_BACKUPS: _ELSEWHERE,
    ANOTHER_KEY: f"name another key: --identity KEY; or {_ELSEWHERE}",
}


@dataclass(frozen=True)
class NewMachinesOptions:
    """What was typed.

    Attributes:
        file: the backup: a path, or the address of a file elsewhere.
        identity: the key that opens it.
        site: the directory, which may not be there yet.
        expected_keys: fingerprints of host keys that were compared.
    """

    file: str
    identity: Path
    site: Path
    bundle: Path | None = None
    accept_host_keys: bool = False
    expected_keys: tuple[str, ...] = ()
    dry_run: bool = False
    yes: bool = False
    as_json: bool = False


def expected_keys(options: NewMachinesOptions) -> frozenset[str] | None:
    """The only fingerprints that are accepted; None: a person compares what is shown.

    With --yes nobody compares, and the keys of the site's CAs go to these machines.
    """
    if options.expected_keys or (options.yes and not options.dry_run):
        return frozenset(options.expected_keys)
    return None


def restore_onto_new_machines(app: Application, options: NewMachinesOptions) -> None:
    """Write the site where there is none; else make its cluster again.

    Raises:
        Refused: the file is no backup, or something is in the way; nothing was changed.
        NotHealthy: the backup was interrupted, changed or cut, or the key does not open it.
        what the workflow raises.
    """
    from appliance.adapters.backup.opened import BackupFile
    from appliance.adapters.local.site_copy import is_vacant
    from appliance.cli.wired.backups import opened_backup

    if options.expected_keys and not options.accept_host_keys:
        raise click.UsageError("--expect-host-key belongs to --accept-host-keys")
    if is_vacant(options.site):
        with _without_a_site():
            _write_site(BackupFile(_here(options.file), options.identity), options)
        return
    with ExitStack() as stack:
        with progress(plain=options.as_json) as display:
            opened = opened_backup(app.site(options.site), options.file, options.identity, display)
            backup = stack.enter_context(opened)
        _bring_back(app, backup, options)


@contextmanager
def _without_a_site() -> Iterator[None]:
    """Let no hint list the backups: that needs the site which is not written yet."""
    try:
        yield
    except ApplianceError as error:
        error.hint = _WITHOUT_A_SITE.get(error.hint or "", error.hint)
        raise


def _here(file: str) -> Path:
    """The file; a site that is not there yet says nothing of servers.

    Raises:
        Refused: it is elsewhere.
    """
    if "://" in file:
        raise Refused(
            f"{file}: no site is here yet that says how to reach it; nothing was changed",
            hint="copy it and the file NAME.backup.json beside it to this machine, by sftp or a "
            "client of S3; then name that copy",
        )
    return Path(file)


def _write_site(backup: BackupFile, options: NewMachinesOptions) -> None:
    from appliance.adapters.local.site_copy import write_site
    from appliance.model.backup.site_parts import OLD_KEYS, site_parts

    found = site_parts(backup.manifest)
    _require_site(backup.manifest.about.id, found)
    if options.dry_run:
        _told(backup, found, options, None)
        return
    check = write_site(backup, found.files, options.site)
    _told(backup, found, options, check)
    if options.as_json:
        return
    old_keys = options.site / OLD_KEYS
    if old_keys.exists():
        print_line(
            f"host keys of the lost machines are in {old_keys}; nothing trusts them. Compare the "
            "new ones with the machines' consoles when they are shown"
        )
    print_line(
        f"sha256 of the backup: {backup.sha256}: compare it with what its maker noted; whoever has "
        "its public keys may have made it"
    )
    faults = len(check.faults)
    site = shlex.quote(str(options.site))
    if faults:
        print_line(f"the site has {faults} fault{'s' if faults != 1 else ''} on this machine")
    say(
        "next, 1: the password of the vault is not in the backup: write it to "
        f"{options.site / '.appliance/vault-password'} (0600)"
    )
    say(f"next, 2: appliance site check --site {site}")
    say(
        "next, 3, once the new machines answer: appliance cluster restore "
        f"{shlex.quote(options.file)} --identity {_quoted(options.identity)} "
        f"--new-machines --accept-host-keys --bundle DIR --site {site}"
    )


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _require_site(backup: str, found: SiteParts) -> None:
    if found.missing:
        raise Refused(
            f"{backup} does not hold the whole site: {', '.join(found.missing)} missing; no file "
            "was changed",
            hint=_ELSEWHERE,
        )
    if found.too_large:
        raise Refused(
            f"{backup} holds more files than any site has; no file was changed", hint=_ELSEWHERE
        )


def _told(
    backup: BackupFile, found: SiteParts, options: NewMachinesOptions, check: SiteCheck | None
) -> None:
    files = sorted(found.files.values())
    if options.as_json:
        print_json(
            {
                "site": str(options.site),
                "backup": backup.manifest.about.id,
                "sha256": backup.sha256,
                "files": files,
                "left_out": list(found.left_out),
                "faults": [str(fault) for fault in check.faults] if check else [],
                "written": check is not None,
            }
        )
        return
    word = "wrote" if check else "would write"
    print_line(f"{word} the site {backup.manifest.about.site}, {len(files)} files: {options.site}")
    for name in found.left_out[:FEW]:
        print_line(f"not written: {name}: no site has such a file; take it out by hand")
    if len(found.left_out) > FEW:
        print_line(f"not written: {len(found.left_out) - FEW} more")


def _bring_back(app: Application, backup: BackupFile, options: NewMachinesOptions) -> None:
    from appliance.adapters.control_plane.new_machines import SshNewMachines
    from appliance.cli.commands.site.host_keys import accept
    from appliance.cli.wired.new_machines import NewMachineStages
    from appliance.cli.wired.restore import known_releases
    from appliance.model.backup.restore import RestoreOptions
    from appliance.workflows.cluster.restore import COMMAND, RestoreRequest
    from appliance.workflows.cluster.restoring.new_machines import (
        NewMachinesSources,
        restore_new_machines,
    )

    def connect() -> SiteSession:
        return app.connect(options.site, options.bundle, reads_vendor_bundle=True, new_cluster=True)

    first = connect()
    rehearses = _rehearses(first.site, dry_run=options.dry_run)
    accepted: dict[str, str] = {}
    if options.accept_host_keys:
        trust = first.nodes.trust if options.dry_run else None
        expected = expected_keys(options)
        accepted = accept(first.site, assume_yes=options.yes, trust=trust, expected=expected)

    def new_run() -> Run:
        return first.run(COMMAND)

    asked = RestoreOptions(rehearses=rehearses)
    request = RestoreRequest(first.site, new_run(), asked, dry_run=options.dry_run)
    with progress(plain=options.as_json) as display:
        # Keys that are trusted for a dry run only are known to that connection.
        again = (lambda: first) if options.dry_run else connect
        ports = NewMachinesSources(
            SshNewMachines(first.nodes, first.site.settings.ssh.python),
            backup,
            NewMachineStages(again, display, backup, new_run, rehearses),
            tuple(f"host key of {name}: {key}" for name, key in accepted.items()),
            known_releases,
        )
        done = restore_new_machines(
            request, ports, first.opened(lambda plan: _confirm(first, plan, options))
        )
    if options.as_json:
        print_json(as_json(done))
    elif options.dry_run:
        show_plan(done.plan, err=False)
    else:
        tell_done(done, options, first.site.name)


def _rehearses(site: Site, *, dry_run: bool) -> str:
    """The site that this one is like, where it is a closed lab; empty: it is no such lab.

    Raises:
        Refused: it says that it is one, and it is not, or it cannot be seen.
    """
    from appliance.lab.machine.host import LabMachine
    from appliance.lab.machine.podman import Podman
    from appliance.lab.rehearsal.closed import require_closed
    from appliance.lab.rehearsal.opened import OpenedLabs
    from appliance.lab.site.rehearsals import RehearsalFiles

    try:
        like = RehearsalFiles(site.directory).likeness()
    except (OSError, ValueError) as error:
        raise Refused(
            f"{site.name} is a lab like a site, and its file does not say which: {error}",
            hint=f"appliance lab down --name {site.name}, then appliance lab up --like SITE --bare",
        ) from error
    if like is None:
        return ""
    require_closed(site, like.site, LabMachine(), Podman())
    if not dry_run:
        OpenedLabs().note(site.name, site.directory)
    return like.site


def _confirm(connected: SiteSession, plan: NewMachinesPlan, options: NewMachinesOptions) -> bool:
    about = about_site(connected.site)
    return confirmed(options.yes, about, lambda: show_plan(plan, err=True))


def show_plan(plan: NewMachinesPlan, *, err: bool) -> None:
    """Print the forecast of a restore onto new machines, or of its rehearsal."""
    show_forecast(plan.refusals, plan.lines(), err=err)


def tell_done(done: NewMachinesResult, options: NewMachinesOptions, lab: str) -> None:
    """Print how a restore onto new machines ended, or its rehearsal, and what comes next."""
    plan, compared = done.plan, done.compared
    print_line(f"verified: the cluster of the backup runs on {', '.join(plan.members)}")
    print_line(f"recovery point: {plan.recovery}")
    print_line(f"recovery time: {done.took_seconds:.0f} s")
    if done.restored is not None and done.restored.compared:
        keys = done.restored.plan.content["keys"]
        print_line(f"compared: all {keys} keys of etcd were those of the backup")
    for name in done.restored.gone if done.restored else ():
        print_line(f"not Ready, or not of the site: {name}")
    if compared is not None:
        print_line(f"kinds with the same objects: {len(compared.same)}")
        for kind, (was, has) in compared.differ.items():
            print_line(f"changed since: {kind}: {was} in the backup, {has} now")
        print_line(f"not carried: {', '.join(compared.not_carried)}")
    _tell_beside(done)
    site = shlex.quote(str(options.site))
    if plan.rehearses:
        say(f"next: look at it: appliance status --site {site}")
        say(f"then, to destroy what was opened of the backup: appliance lab down --name {lab}")
        return
    say(f"next: appliance install --site {site}")
    for line in plan.left:
        say(f"then: {line}")


def _tell_beside(done: NewMachinesResult) -> None:
    """What became of what is beside the cluster."""
    if done.images:
        print_line(done.images)
    for volume in done.volumes:
        print_line(f"its data is not there: {volume.claim or 'a volume'}: {volume.place}")


def as_json(done: NewMachinesResult) -> dict[str, Any]:
    """What ``-o json`` prints of a plan or of a finished run."""
    plan, compared = done.plan, done.compared
    told: Mapping[str, tuple[int, int]] = compared.differ if compared else {}
    return {
        "claim": plan.key,
        "stage": plan.stage,
        "rehearses": plan.rehearses,
        "members": list(plan.members),
        "leader": plan.leader,
        "steps": list(plan.steps),
        "recovery_point": plan.recovery,
        "left": list(plan.left),
        "known": plan.known,
        "refusals": refusals_as_json(plan.refusals),
        "restored": restore_as_json(done.restored) if done.restored else None,
        "same_kinds": list(compared.same) if compared else None,
        "changed_kinds": {kind: {"was": was, "now": now} for kind, (was, now) in told.items()},
        "not_carried": list(compared.not_carried) if compared else [],
        "images": done.images or None,
        "volumes": [{"claim": one.claim, "place": one.place} for one in done.volumes],
        "took_seconds": round(done.took_seconds, 1),
        "done": done.done,
    }
