"""The command tree, and how a command loads its site."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from appliance.cli.exit_codes import EXIT_CODES
from appliance.cli.help.layout import Lines
from appliance.cli.help.typos import Nouns
from appliance.cli.help.versions import show_versions
from appliance.errors import ApplianceError
from appliance.model.documents.pages import OPERATIONS, SECURITY

if TYPE_CHECKING:
    from appliance.adapters.control_plane.journal import FileJournal
    from appliance.cli.site_session import SiteSession
    from appliance.model.site.settings import Site

# Of every command: a class of contexts would have to be named at each.
click.Context.formatter_class = Lines

DEBUG = "--debug"
# Set by the script of completion, with what it asks for.
COMPLETE = "_APPLIANCE_COMPLETE"
# Name -> module of each command; loaded only when it is named, or listed by --help.
COMMANDS: Mapping[str, str] = {
    "bundle": "appliance.cli.commands.bundle.group",
    "cluster": "appliance.cli.commands.cluster.group",
    "completion": "appliance.cli.help.completion",
    "docs": "appliance.cli.help.docs",
    "gpu": "appliance.cli.commands.gpu.group",
    "hardware": "appliance.cli.commands.hardware.group",
    "health": "appliance.cli.commands.health.command",
    "history": "appliance.cli.commands.status.history",
    "horizon": "appliance.cli.commands.horizon.command",
    "install": "appliance.cli.commands.install.command",
    "kubeconfig": "appliance.cli.commands.site.kubeconfig",
    "lab": "appliance.cli.commands.lab.group",
    "node": "appliance.cli.commands.node.group",
    "plan": "appliance.cli.commands.install.plan",
    "rack": "appliance.cli.commands.rack.group",
    "reset": "appliance.cli.commands.rack.reset",
    "runai": "appliance.cli.commands.runai.group",
    "self": "appliance.cli.commands.self.group",
    "site": "appliance.cli.commands.site.group",
    "status": "appliance.cli.commands.status.command",
    "support": "appliance.cli.commands.support.group",
}


# Name -> summary, so that the list of commands imports none; a test compares them.
SUMMARIES: Mapping[str, str] = {
    "bundle": "Build, check and show bundles: everything that an offline install needs.",
    "cluster": "Maintain the Kubernetes cluster as a whole.",
    "completion": "Print the script that completes this command line in bash, zsh or fish.",
    "docs": "Show the pages of this installation: runbooks, glossary, decisions.",
    "gpu": "Upgrade the GPU stack: the GPU Operator and NVIDIA's drivers.",
    "hardware": "Inspect, qualify, burn in hardware of nodes; show models.",
    "health": "Check everything Run:ai needs; exit with 5 if something is missing.",
    "history": "Show the finished steps of this site, oldest first.",
    "horizon": "Show everything that ends: certificates, CAs, tokens, support.",
    "install": "Install the appliance on the nodes of a site, or repair it.",
    "kubeconfig": "Print a kubeconfig that works on this machine.",
    "lab": "Run a test site on this machine, in containers that behave like bare servers.",
    "node": "Manage single nodes: add, remove, replace, maintain, roles.",
    "plan": "Show what install would do, and why.",
    "rack": "Take the whole rack down for shipping or a power cut, and up again.",
    "reset": "Take the whole appliance apart: every node back to bare Ubuntu.",
    "runai": "Inspect and configure Run:ai.",
    "self": "Upgrade this tool on this machine.",
    "site": "Write, check and show a site.",
    "status": "Show the state of every node, and what needs attention.",
    "support": "Collect everything that support asks for, and explain it.",
}


class Commands(Nouns):
    """A group whose commands are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names, sorted."""
        return sorted(COMMANDS)

    def summaries(self, ctx: click.Context) -> dict[str, str]:  # noqa: ARG002
        """Every command with its summary."""
        return dict(SUMMARIES)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands and of options that begin so; no command is imported."""
        names = [
            CompletionItem(name, help=text)
            for name, text in SUMMARIES.items()
            if name.startswith(incomplete)
        ]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the module of that name; its command has the same name."""
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(COMMANDS[cmd_name]), cmd_name)
        return command if isinstance(command, click.Command) else None

    def main(self, args: Sequence[str] | None = None, *rest: Any, **more: Any) -> Any:
        """Run a command line; ``--debug`` may stand anywhere before ``--``."""
        if COMPLETE in os.environ:
            from appliance.cli.help.completion import complete

            return complete(self, os.environ[COMPLETE])
        words = list(sys.argv[1:] if args is None else args)
        own = words[: words.index("--")] if "--" in words else words
        debug = DEBUG in own
        if debug or "appliance.cli.screen.debug" in sys.modules:
            from appliance.cli.screen.debug import set_debug

            set_debug(debug, words)
        kept = [word for word in own if word != DEBUG]
        return super().main([*kept, *words[len(own) :]], *rest, **more)

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

    def site(self, directory: Path) -> Site:
        """What the site's own files say; nothing else is read.

        Raises:
            ConfigError: the site is wrong; every fault at once.
        """
        from appliance.adapters.site.files import load_site

        return load_site(directory)

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

    def with_release(self, release: str) -> Callable[[Site], Site]:
        """A site as it will be with another release.

        Raises:
            ConfigError: this tool has no such release.
        """
        from appliance.adapters.local.content import load_release

        load_release(release)

        def changed(site: Site) -> Site:
            settings = site.settings.model_copy(update={"appliance_release": release})
            return replace(site, settings=settings)

        return changed


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n"
    + "".join(f"  {code:>3}  {meaning}\n" for code, meaning in EXIT_CODES.items())
    + "\n\b\nPages:     appliance docs PAGE\nA symptom: appliance docs --search TEXT\n"
    f"The pages are files in {OPERATIONS}\nand {SECURITY}.",
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=show_versions,
    help="Show the versions of this tool and of what it uses, and exit.",
)
@click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    help="Log what is done, and show where an error came from. Accepted by every command.",
)
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Install and operate a Run:ai appliance, without internet.

    Every command inspects the nodes first, shows its plan, and verifies the result. Run a command
    again to resume or repair.
    Begin with: appliance lab up (a rehearsal on this machine) or appliance site init (a real rack).
    """
    ctx.obj = Application()
