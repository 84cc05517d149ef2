"""The command tree, and how a command loads its site."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance import __version__
from appliance.cli.exits import EXIT_CODES
from appliance.errors import ApplianceError
from appliance.model.documents.pages import OPERATIONS, SECURITY

if TYPE_CHECKING:
    from appliance.adapters.control_plane.journal import FileJournal
    from appliance.cli.site_session import SiteSession
    from appliance.model.site.settings import Site

# Name -> module of each command; loaded only when it is named, or listed by --help.
COMMANDS: Mapping[str, str] = {
    "bundle": "appliance.cli.bundle.group",
    "hardware": "appliance.cli.hardware",
    "health": "appliance.cli.health.command",
    "history": "appliance.cli.status.history",
    "install": "appliance.cli.install.command",
    "lab": "appliance.cli.lab.group",
    "node": "appliance.cli.node.group",
    "plan": "appliance.cli.install.plan",
    "runai": "appliance.cli.runai.group",
    "site": "appliance.cli.site.group",
    "status": "appliance.cli.status.command",
}


class Commands(click.Group):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, sorted."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of that name; its command has the same name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; Click would end without a word where a connection of ours breaks."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ApplianceError(
                "the other end closed a connection while data was being sent",
                hint="see which node fails: appliance status; then run the same command again",
            ) from error


class Application:
    """What commands get as their context object: how to reach a site."""

    def asks_for_access(self, directory: Path) -> bool:
        """Whether the site's own files ask for researchers' access."""
        from appliance.adapters.site.files import load_site
        from appliance.model.components.access.oidc import is_enabled

        return is_enabled(load_site(directory))

    def journal(self, directory: Path) -> FileJournal:
        """The journal of a site; it can be read even when the site's files are broken.

        Raises:
            ConfigError: there is neither a site nor a journal.
            Refused: another user keeps it from us.
        """
        from appliance.adapters.control_plane.journal import journal_of
        from appliance.adapters.site.state import require_some_site

        journal = journal_of(directory)
        require_some_site(directory)
        return journal

    def connect(
        self,
        directory: Path,
        bundle: Path | None = None,
        changed: Callable[[Site], Site] = lambda site: site,
        *,
        reads_vendor_bundle: bool = False,
        new_cluster: bool = False,
    ) -> SiteSession:
        """Load a site, its release and its bundle, and prepare the adapters; connects lazily.

        Args:
            directory: the site's.
            bundle: the bundle's directory, or None.
            changed: what a command asks for beyond what the site's files say.
            reads_vendor_bundle: whether the vendor's bundle is read where it was not yet, as a
                command needs that installs from it; else what is known of it will do.
            new_cluster: a cluster that the site had is given up.

        Raises:
            ConfigError: the site or the release is wrong; every fault at once.
            BundleRefused: ``bundle`` is no bundle.
        """
        from appliance.cli.site_session import SiteSession

        return SiteSession.load(
            directory,
            bundle,
            changed,
            reads_vendor_bundle=reads_vendor_bundle,
            new_cluster=new_cluster,
        )


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n"
    + "".join(f"  {code:>3}  {meaning}\n" for code, meaning in EXIT_CODES.items())
    + f"\n\b\nOperators' pages (install, maintenance, downtime, ...):\n{OPERATIONS}\n"
    f"Security (trust, secrets, ports):\n{SECURITY}",
)
@click.version_option(__version__, "-V", "--version", prog_name="appliance")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Install and operate a Run:ai appliance, without internet.

    Every command inspects the nodes first, shows its plan, and verifies the result. Run a command
    again to resume or repair.
    Begin with: appliance lab up (a rehearsal on this machine) or appliance site init (a real rack).
    """
    ctx.obj = Application()
