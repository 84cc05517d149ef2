"""The command tree, and how a command gets at a site; adapters are built here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from appliance import __version__
from appliance.errors import ApplianceError
from appliance.model.pages import OPERATIONS, SECURITY

if TYPE_CHECKING:
    from appliance.adapters.journal import FileJournal
    from appliance.cli.connected import Connected
    from appliance.model.site import Site
    from appliance.model.vendor_bundle import VendorBundle

# Name -> module of each command; loaded only when it is named, or listed by --help.
COMMANDS: Mapping[str, str] = {
    "bundle": "appliance.cli.bundle",
    "hardware": "appliance.cli.hardware",
    "health": "appliance.cli.health",
    "history": "appliance.cli.history",
    "install": "appliance.cli.install",
    "lab": "appliance.cli.lab",
    "node": "appliance.cli.node",
    "plan": "appliance.cli.plan",
    "runai": "appliance.cli.runai",
    "site": "appliance.cli.site",
    "status": "appliance.cli.status",
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
                "a connection was closed at its other end while something was sent",
                hint="see who does not answer: appliance status; then the same command again",
            ) from error


class Application:
    """What commands get as their context object: how to reach a site."""

    def asks_for_access(self, directory: Path) -> bool:
        """Whether the site's own files ask for researchers' access."""
        from appliance.adapters.site_files import load_site
        from appliance.model.access import is_enabled

        return is_enabled(load_site(directory))

    def journal(self, directory: Path) -> FileJournal:
        """The journal of a site; it can be read even when the site's files are broken.

        Raises:
            ConfigError: there is neither a site nor a journal.
            Refused: another user keeps it from us.
        """
        from appliance.adapters.journal import journal_of
        from appliance.adapters.site_state import require_some_site

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
    ) -> Connected:
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
        from appliance.adapters.bundle_directory import BundleDirectory
        from appliance.adapters.content import load_release
        from appliance.adapters.journal import founded
        from appliance.adapters.kubernetes import KubernetesApi, load_library
        from appliance.adapters.runai_files import (
            backend_certificate,
            cluster_values_sha256,
            issuer_ca,
        )
        from appliance.adapters.site_files import load_site
        from appliance.adapters.ssh import SshNodes
        from appliance.adapters.vendor_bundle_file import known_vendor_bundle, vendor_bundle_path
        from appliance.cli.connected import Connected
        from appliance.model.desired import Desired
        from appliance.model.preflight import probe_arguments

        site = changed(load_site(directory))
        found = BundleDirectory(bundle) if bundle else None
        signers = site.settings.bundle_signers
        known = known_vendor_bundle(site)
        desired = Desired(
            site=site,
            release=load_release(site.settings.appliance_release),
            manifest=found.manifest if found else None,
            bundle_digest=found.digest if found else None,
            signature=found.signature(Path(signers)) if found and signers else None,
            vendor_bundle=_vendor_bundle(site) if reads_vendor_bundle else known,
            vendor_bundle_unread=not reads_vendor_bundle and known is None and _is_there(site),
            vendor_bundle_file=str(vendor_bundle_path(site) or ""),
            backend_certificate=backend_certificate(site),
            cluster_values_sha256=cluster_values_sha256(site),
            issuer_ca=issuer_ca(site),
            founded="" if new_cluster else founded(site.directory),
        )
        nodes = SshNodes(site, probe_arguments(desired), meanwhile=load_library)
        return Connected(site, desired, nodes, KubernetesApi(site, nodes), found)


def _vendor_bundle(site: Site) -> VendorBundle | None:
    """The site's vendor bundle; a large one takes minutes the first time, so that is said."""
    from appliance.adapters.vendor_bundle_file import (
        find_vendor_bundle,
        is_remembered,
        vendor_bundle_path,
    )

    path = vendor_bundle_path(site)
    if path is not None and path.is_file() and not is_remembered(path):
        size = path.stat().st_size / 1e9
        if size > 1:
            click.echo(f"reading {path} once ({size:.1f} GB)", err=True)
    return find_vendor_bundle(site)


def _is_there(site: Site) -> bool:
    from appliance.adapters.vendor_bundle_file import vendor_bundle_path

    path = vendor_bundle_path(site)
    return path is not None and path.is_file()


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=f"\b\nOperators' pages (install, maintenance, downtime, ...):\n{OPERATIONS}\n"
    f"What is protected from whom:\n{SECURITY}",
)
@click.version_option(__version__, "-V", "--version", prog_name="appliance")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Provision and look after the Run:ai Appliance, without internet.

    Every command looks first, says what it will do, and proves what it did. A second run heals.
    Begin with: appliance lab up (a rehearsal on this machine) or appliance site init (a real rack).
    """
    ctx.obj = Application()
