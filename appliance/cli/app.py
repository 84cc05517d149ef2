"""The command tree, and the only place that builds adapters and hands them to workflows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from appliance import __version__

if TYPE_CHECKING:
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.adapters.journal import FileJournal
    from appliance.adapters.kubernetes import KubernetesApi
    from appliance.adapters.ssh import SshNodes
    from appliance.model.desired import Desired
    from appliance.model.node_roles import RoleRequest, RolesPlan
    from appliance.model.observation import Look
    from appliance.model.photograph import Photograph
    from appliance.model.plan import Plan
    from appliance.model.planner import Scope
    from appliance.model.postconditions import Observed
    from appliance.model.preflight import Finding
    from appliance.model.runai_cli import CliPlan
    from appliance.model.site import Site
    from appliance.model.vendor_bundle import VendorBundle
    from appliance.workflows.install import Installed, InstallPorts, InstallRequest
    from appliance.workflows.node_role import RolesChanged
    from appliance.workflows.ports import Observer
    from appliance.workflows.runai_cli import RunaiCliInstalled
    from appliance.workflows.survey import Survey

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


class SystemClock:
    """Real time."""

    def now(self) -> float:
        """UTC epoch seconds."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass
class Connected:
    """One site with its adapters, for the life of one command."""

    site: Site
    desired: Desired
    nodes: SshNodes
    cluster: KubernetesApi
    bundle: BundleDirectory | None

    def preflight(
        self, desired: Desired, photographs: Mapping[str, Photograph], observed: Observed
    ) -> Sequence[Finding]:
        """The pure checks of the model, with the hardware catalogue of this installation."""
        from appliance.adapters.hardware_files import load_hardware, load_role_minima
        from appliance.model.preflight import preflight

        found = preflight(
            desired, photographs, observed, models=load_hardware(), minima=load_role_minima()
        )
        if self.site.settings.runai is None:
            return found
        from appliance.cli.health_parts import before_runai

        return (*found, *before_runai(desired, observed, found))

    @cached_property
    def wish(self) -> Desired:
        """What is asked for; without a bundle at hand, the one in the site's custody counts."""
        from appliance.adapters.custody import read_custody

        return self.desired if self.bundle else read_custody(self.desired, self.nodes)

    def survey(self, scope: Scope) -> Survey:
        """One look at everything, and the plan that follows."""
        from appliance.workflows.survey import survey

        return survey(self.wish, self.nodes, self.cluster, self.preflight, scope)

    def look(self) -> tuple[Observed, Look, Plan]:
        """One look at everything, nodes that do not answer included."""
        from appliance.model.planner import plan
        from appliance.workflows.survey import observe

        observed, look = observe(self.site, self.nodes, self.cluster)
        findings = self.preflight(self.wish, observed.photographs, observed)
        return observed, look, plan(self.wish, observed, findings)

    def install(
        self,
        scope: Scope,
        progress: Observer,
        confirm: Callable[[Plan], bool],
        *,
        dry_run: bool = False,
    ) -> Installed:
        """Run the install workflow; one at a time per site."""
        from appliance.workflows.install import install

        return self._run(install, "install", scope, progress, confirm, dry_run=dry_run)

    def enable_access(
        self, progress: Observer, confirm: Callable[[Plan], bool], *, dry_run: bool = False
    ) -> Installed:
        """Run the workflow that lets researchers log in; one at a time per site."""
        from appliance.model.planner import EVERYTHING
        from appliance.workflows.runai_access import COMMAND, enable

        return self._run(enable, COMMAND, EVERYTHING, progress, confirm, dry_run=dry_run)

    def _run(
        self,
        workflow: Callable[[InstallRequest, InstallPorts], Installed],
        what: str,
        scope: Scope,
        progress: Observer,
        confirm: Callable[[Plan], bool],
        *,
        dry_run: bool,
    ) -> Installed:
        from appliance.adapters.ansible import AnsiblePlaybooks
        from appliance.adapters.journal import new_run_id
        from appliance.adapters.site_lock import site_lock
        from appliance.adapters.vault import password_file
        from appliance.workflows.install import InstallPorts, InstallRequest

        request = InstallRequest(
            desired=self.wish,
            run=new_run_id(),
            operator=_operator(),
            tool_version=__version__,
            scope=scope,
            dry_run=dry_run,
        )
        ports = InstallPorts(
            nodes=self.nodes,
            cluster=self.cluster,
            playbooks=AnsiblePlaybooks(self.site.directory, password_file(self.site)),
            journal=_journal(self.site.directory),
            clock=SystemClock(),
            observer=progress,
            preflight=self.preflight,
            bundle=self.bundle,
            confirm=confirm,
        )
        with site_lock(self.site.state_directory, f"{what} {request.run}"):
            return workflow(request, ports)

    def node_role(
        self, wish: RoleRequest, confirm: Callable[[RolesPlan], bool], *, dry_run: bool = False
    ) -> RolesChanged:
        """Change Run:ai's roles of nodes; one changing command at a time per site."""
        from appliance.adapters.journal import new_run_id
        from appliance.adapters.site_lock import site_lock
        from appliance.workflows.node_role import NodeRolePorts, NodeRoleRequest, node_role

        request = NodeRoleRequest(
            self.site, wish, new_run_id(), _operator(), __version__, dry_run=dry_run
        )
        ports = NodeRolePorts(self.cluster, _journal(self.site.directory), SystemClock(), confirm)
        with site_lock(self.site.state_directory, f"node role {request.run}"):
            return node_role(request, ports)

    def install_runai_cli(
        self,
        who: tuple[Sequence[str], tuple[str, ...]],
        program: Path | None,
        progress: Observer,
        confirm: Callable[[CliPlan], bool],
        *,
        replace: bool = False,
        dry_run: bool = False,
    ) -> RunaiCliInstalled:
        """Bring Run:ai's CLI to nodes, for users; one changing command at a time per site."""
        from appliance.adapters.ansible import AnsiblePlaybooks
        from appliance.adapters.journal import new_run_id
        from appliance.adapters.jumpboxes import SshJumpboxes, find_program, researchers
        from appliance.adapters.site_lock import site_lock
        from appliance.adapters.vault import password_file
        from appliance.model.runai_cli import CliWish, choose_nodes, kubectl_digest
        from appliance.workflows.runai_cli import RunaiCliPorts, RunaiCliRequest, runai_cli

        nodes, users = who
        site = self.site
        wish = CliWish(
            nodes=choose_nodes(site, nodes),
            program=find_program(site, program),
            researchers=researchers(site, self.nodes, users),
            kubectl_sha256=kubectl_digest(self.wish),
            replace=replace,
        )
        request = RunaiCliRequest(
            self.wish, wish, new_run_id(), _operator(), __version__, dry_run=dry_run
        )
        ports = RunaiCliPorts(
            SshJumpboxes(site, self.nodes),
            AnsiblePlaybooks(site.directory, password_file(site)),
            _journal(site.directory),
            SystemClock(),
            progress,
            confirm,
        )
        with site_lock(site.state_directory, f"runai cli install {request.run}"):
            return runai_cli(request, ports)

    def researcher_kubeconfig(self, user: str, project: str | None) -> str:
        """The kubeconfig of one researcher, as YAML."""
        from appliance.adapters.runai_access import researcher_kubeconfig

        return researcher_kubeconfig(self.site, self.nodes, user, project)

    def certificate_request(self, folder: Path, *, signed: bool) -> dict[str, Path]:
        """Make the backend's key and certificate request; sign it by the site's CA, if asked."""
        from appliance.adapters.runai_access import certificate_request

        return certificate_request(self.site, folder, signed=signed)


class Application:
    """What commands get as their context object: how to reach a site."""

    def asks_for_access(self, directory: Path) -> bool:
        """Whether the site's own files ask for researchers' access."""
        from appliance.adapters.site_files import load_site
        from appliance.model.access import is_enabled

        return is_enabled(load_site(directory))

    def journal(self, directory: Path) -> FileJournal:
        """The journal of a site; it can be read even when the site's files are broken."""
        return _journal(directory)

    def connect(
        self,
        directory: Path,
        bundle: Path | None = None,
        changed: Callable[[Site], Site] = lambda site: site,
    ) -> Connected:
        """Load a site, its release and its bundle, and prepare the adapters; connects lazily.

        Args:
            directory: the site's.
            bundle: the bundle's directory, or None.
            changed: what a command asks for beyond what the site's files say.

        Raises:
            ConfigError: the site or the release is wrong; every fault at once.
            BundleRefused: ``bundle`` is no bundle.
        """
        from appliance.adapters.bundle_directory import BundleDirectory
        from appliance.adapters.content import load_release
        from appliance.adapters.kubernetes import KubernetesApi
        from appliance.adapters.runai_files import issuer_ca
        from appliance.adapters.site_files import load_site
        from appliance.adapters.ssh import SshNodes
        from appliance.adapters.vendor_bundle_file import vendor_bundle_path
        from appliance.model.desired import Desired
        from appliance.model.preflight import probe_arguments

        site = changed(load_site(directory))
        found = BundleDirectory(bundle) if bundle else None
        signers = site.settings.bundle_signers
        desired = Desired(
            site=site,
            release=load_release(site.settings.appliance_release),
            manifest=found.manifest if found else None,
            bundle_digest=found.digest if found else None,
            signature=found.signature(Path(signers)) if found and signers else None,
            vendor_bundle=_vendor_bundle(site),
            vendor_bundle_file=str(vendor_bundle_path(site) or ""),
            issuer_ca=issuer_ca(site),
        )
        nodes = SshNodes(site, probe_arguments(desired))
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


def _operator() -> str:
    return os.environ.get("SUDO_USER") or os.environ.get("USER") or "unknown"


def _journal(directory: Path) -> FileJournal:
    from appliance.adapters.journal import FileJournal

    return FileJournal(directory / ".appliance" / "journal")


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "APPLIANCE"},
)
@click.version_option(__version__, "-V", "--version", prog_name="appliance")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Provision and look after the Run:ai Appliance, without internet.

    Every command looks first, says what it will do, and proves what it did. A second run heals.
    Begin with: appliance lab up (a rehearsal on this machine) or appliance site init (a real rack).
    """
    ctx.obj = Application()
