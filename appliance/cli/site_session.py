"""One site of one command: the desired state, the operator, and its workflows."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

from appliance import __version__
from appliance.cli.screen.hints import say_hint
from appliance.cli.screen.interrupts import pausing
from appliance.cli.screen.render import show_warnings
from appliance.cli.wiring import Wiring, note
from appliance.errors import ApplianceError
from appliance.model.state.journal import Run

if TYPE_CHECKING:
    from appliance.adapters.kubernetes.connection.copies import KubeconfigCopies
    from appliance.model.components.access.runai_cli import CliPlan
    from appliance.model.components.control_plane.certificates import CertificateExpiry
    from appliance.model.components.control_plane.renewal import RenewalPlan
    from appliance.model.components.node_metadata.node_roles import RoleRequest, RolesPlan
    from appliance.model.components.runai.upgrade.plan import UpgradePlan
    from appliance.model.plan.planner import Scope
    from appliance.model.state.desired import Desired
    from appliance.model.state.observed import Fault, Look, Observed
    from appliance.model.state.plan import Plan
    from appliance.model.support.items import Contents
    from appliance.model.upgrade.plan import UpgradeOptions
    from appliance.workflows.cluster.certificates import RenewalResult
    from appliance.workflows.cluster.docker_removal import RemovalResult
    from appliance.workflows.cluster.upgrading.look import UpgradeResult
    from appliance.workflows.gpu.look import GpuUpgradeResult
    from appliance.workflows.horizon import HorizonResult
    from appliance.workflows.install import InstallRequest, InstallResult
    from appliance.workflows.node.role import RoleResult
    from appliance.workflows.runai.cli import RunaiCliResult
    from appliance.workflows.runai.upgrade import RunaiUpgradeResult
    from appliance.workflows.session.member_records import MemberRecords
    from appliance.workflows.session.ports import Drain, Observer
    from appliance.workflows.session.session import Session
    from appliance.workflows.session.survey import Survey
    from appliance.workflows.support.bundle import BundleRequest, BundleResult, Render

PAUSES = "pausing after this step; Ctrl-C again interrupts it"
About = ParamSpec("About")


@dataclass
class SiteSession(Wiring):
    """One site with its adapters, for the life of one command."""

    _inventory: Desired | None = field(default=None, init=False)
    _records: MemberRecords | None = field(default=None, init=False)

    def load_desired(self) -> Desired:
        """What is asked for: the inventory, without the nodes that were removed on purpose.

        Reads what the control-plane nodes keep of members and, without a bundle at hand, the one
        on the services node; both once for a command.
        """
        from appliance.model.node.membership import as_recorded

        return as_recorded(self.load_inventory(), self.read_records())

    def load_inventory(self) -> Desired:
        """What the inventory asks for, with the bundle at hand or on the services node."""
        from appliance.adapters.bundle.mirror import read_mirror

        if self._inventory is None:
            bare = self.desired
            self._inventory = bare if self.bundle else read_mirror(bare, self.nodes, note)
        return self._inventory

    def read_records(self) -> MemberRecords:
        """Node -> what is kept of it, read once; a command that changes something requires them."""
        from appliance.workflows.session.member_records import read_records

        if self._records is None:
            self._records = read_records(self.archive)
            if self._records.unread:
                show_warnings([self._records.unread.message])
        return self._records

    def survey(self, scope: Scope) -> Survey:
        """One look at everything, and the plan that follows."""
        from appliance.workflows.session.survey import survey

        return survey(self.load_desired(), self.nodes, self.cluster, self.preflight, scope)

    def look(self) -> tuple[Observed, Look, Plan]:
        """One look at everything, nodes that do not answer included."""
        from appliance.workflows.status import look_and_plan

        return look_and_plan(self.load_desired(), self.session())

    def install(
        self,
        scope: Scope,
        progress: Observer,
        confirm: Callable[[Plan], bool],
        *,
        dry_run: bool = False,
    ) -> InstallResult:
        """Run the install workflow; one at a time per site."""
        from appliance.workflows.install import install

        return self._run(install, "install", scope, progress, confirm, dry_run=dry_run)

    def enable_access(
        self, progress: Observer, confirm: Callable[[Plan], bool], *, dry_run: bool = False
    ) -> InstallResult:
        """Run the workflow that lets researchers log in; one at a time per site."""
        from appliance.model.plan.planner import EVERYTHING
        from appliance.workflows.runai.access import COMMAND, enable

        return self._run(enable, COMMAND, EVERYTHING, progress, confirm, dry_run=dry_run)

    def run(self, command: str, bundle_digest: str | None = None) -> Run:
        """A new run of a command: its id, and who typed it where."""
        from appliance.adapters.control_plane.journal import new_run_id
        from appliance.cli.screen.retype import typed

        return Run(
            id=new_run_id(),
            command=command,
            operator=os.environ.get("SUDO_USER") or getpass.getuser(),
            tool_version=__version__,
            host=socket.gethostname(),
            bundle_digest=bundle_digest,
            arguments=typed(command, sys.argv[1:]),
        )

    @cached_property
    def vault_is_open(self) -> bool:
        """True; a vault that stays closed is refused, before a play changes anything."""
        from appliance.adapters.site.vault_check import require_open

        require_open(self.site)
        return True

    def warn_of_vault(self, plan: Plan) -> None:
        """Warn of a vault that plays could not open, where a plan is only shown."""
        from appliance.model.plan.steps import BY_NAME

        if not any(BY_NAME[step.name].has_playbook for step in plan.steps):
            return
        try:
            self.vault_is_open  # noqa: B018  (raises)
        except ApplianceError as error:
            show_warnings([f"an install would be refused: {error.message}"])
            if error.hint:
                say_hint(error.hint, err=True)

    def opened(self, confirm: Callable[About, bool]) -> Callable[About, bool]:
        """The same question, asked once the vault was opened, as plays will have to."""
        return lambda *args, **kwargs: self.vault_is_open and confirm(*args, **kwargs)

    def _opened_for_plays(self, confirm: Callable[[Plan], bool]) -> Callable[[Plan], bool]:
        """The same of a plan, made by records that were read; steps by the API need no vault."""
        from appliance.model.plan.steps import BY_NAME

        def asked(plan: Plan) -> bool:
            self.read_records().require()
            played = any(BY_NAME[step.name].has_playbook for step in plan.steps)
            return (not played or self.vault_is_open) and confirm(plan)

        return asked

    def _run(
        self,
        workflow: Callable[[InstallRequest, Session, Callable[[Plan], bool]], InstallResult],
        what: str,
        scope: Scope,
        progress: Observer,
        confirm: Callable[[Plan], bool],
        *,
        dry_run: bool,
    ) -> InstallResult:
        from appliance.workflows.install import InstallRequest

        desired = self.load_desired()
        run = self.run(what, desired.bundle_digest)
        request = InstallRequest(desired=desired, run=run, scope=scope, dry_run=dry_run)
        session = self.session(progress, run, plays=True)
        return workflow(request, session, self._opened_for_plays(confirm))

    def certificates(self) -> tuple[Mapping[str, Sequence[CertificateExpiry]], Sequence[Fault]]:
        """Member -> when its certificates of Kubernetes end; and which nodes did not answer."""
        from appliance.model.components.control_plane.certificates import endings
        from appliance.workflows.session.survey import look_patiently

        look = look_patiently(self.nodes, self.site.cluster_members)
        return {name: endings(facts) for name, facts in look.node_facts.items()}, look.faults

    def renew_certificates(
        self,
        what: tuple[int, tuple[str, ...]],
        progress: Observer,
        confirm: Callable[[RenewalPlan], bool],
        *,
        dry_run: bool = False,
    ) -> RenewalResult:
        """Renew kubeadm's certificates; ``what``: within how many days, and without which nodes."""
        from appliance.workflows.cluster import certificates

        run = self.run(certificates.COMMAND)
        request = certificates.RenewalRequest(self.site, run, *what, dry_run=dry_run)
        session = replace(self.session(progress, run, plays=True), try_kubeconfigs=self.copies.test)
        return certificates.renew_certificates(request, session, confirm)

    @property
    def copies(self) -> KubeconfigCopies:
        """The copies of the administrator's kubeconfig, each tested by a request."""
        from appliance.adapters.kubernetes.connection.copies import KubeconfigCopies

        return KubeconfigCopies(self.site, self.nodes)

    def upgrade(
        self,
        options: UpgradeOptions,
        progress: Observer,
        drain: Drain,
        confirm: Callable[[UpgradeResult], bool],
        *,
        more_bundles: Sequence[Path] = (),
        accepted: Sequence[str] = (),
        allow_outage: bool = False,
        dry_run: bool = False,
    ) -> UpgradeResult:
        """Upgrade Kubernetes, with bundles beside the session's own; one command at a time."""
        from appliance.adapters.site.settings_choice import choose_release, require_choosable
        from appliance.cli.upgrade_bundles import supplies_of, upgrade_request
        from appliance.workflows.cluster.upgrade import COMMAND, upgrade

        if not dry_run:
            require_choosable(self.site.directory, options.to)
        desired = self.load_desired()
        request = replace(
            upgrade_request(desired, options, self.run(COMMAND, desired.bundle_digest)),
            supplies=supplies_of(desired, self.nodes, (self.bundle, *more_bundles), options.to),
            accepted=frozenset(accepted),
            allow_outage=allow_outage,
            dry_run=dry_run,
            pausing=lambda: pausing(lambda: progress.note(PAUSES)),
        )
        session = replace(
            self.session(progress, request.run, plays=True),
            drain=drain,
            upgrade_evidence=self.upgrade_evidence,
            choose_release=partial(choose_release, self.site.directory),
        )
        return upgrade(request, session, self.opened(confirm))

    def remove_docker(
        self,
        progress: Observer,
        confirm: Callable[[RemovalResult], bool],
        *,
        accepted: Sequence[str] = (),
        dry_run: bool = False,
    ) -> RemovalResult:
        """Remove the Docker that runs no pods any more; one changing command at a time."""
        from appliance.workflows.cluster.docker_removal import RemovalRequest, remove_docker
        from appliance.workflows.cluster.upgrade import COMMAND

        run = self.run(COMMAND)
        session = self.session(progress, run, plays=True)
        request = RemovalRequest(self.load_desired(), run, accepted, dry_run)
        return remove_docker(request, session, self.opened(confirm))

    def upgrade_gpus(
        self,
        progress: Observer,
        drain: Drain,
        confirm: Callable[[GpuUpgradeResult], bool],
        *,
        to: str = "",
        dry_run: bool = False,
        **accepted: bool,
    ) -> GpuUpgradeResult:
        """Upgrade the GPU stack; ``to``: the release that is written into site.yml; empty: none."""
        from appliance.adapters.site.settings_choice import choose_release, require_choosable
        from appliance.workflows.gpu.look import GpuUpgradeRequest
        from appliance.workflows.gpu.upgrade import COMMAND, gpu_upgrade

        if to and not dry_run:
            require_choosable(self.site.directory, to)
        desired = self.load_desired()
        request = GpuUpgradeRequest(
            desired,
            self.run(COMMAND, desired.bundle_digest),
            writes_release=bool(to),
            dry_run=dry_run,
            **accepted,
            pausing=lambda: pausing(lambda: progress.note(PAUSES)),
        )
        session = replace(
            self.session(progress, request.run, plays=True),
            drain=drain,
            choose_release=partial(choose_release, self.site.directory),
        )
        return gpu_upgrade(request, session, self.opened(confirm))

    def node_role(
        self, roles: RoleRequest, confirm: Callable[[RolesPlan], bool], *, dry_run: bool = False
    ) -> RoleResult:
        """Change Run:ai's roles of nodes; one changing command at a time per site."""
        from appliance.workflows.node.role import NodeRoleRequest, node_role

        run = self.run(f"node role {roles.verb}")
        request = NodeRoleRequest(self.site, roles, run, dry_run=dry_run)
        return node_role(request, self.session(run=run), confirm)

    def upgrade_runai(
        self,
        progress: Observer,
        confirm: Callable[[UpgradePlan], bool],
        *,
        dry_run: bool = False,
        abandon: bool = False,
        without_backup: bool = False,
    ) -> RunaiUpgradeResult:
        """Upgrade Run:ai to the vendor bundle of the site, or drop an upgrade that began."""
        from appliance.adapters.site.settings_choice import choose_vendor_bundle
        from appliance.workflows.runai.abandon import abandon_upgrade
        from appliance.workflows.runai.upgrade import COMMAND, RunaiUpgradeRequest, upgrade_runai

        desired = self.load_desired()
        run = self.run(COMMAND, desired.bundle_digest)
        request = RunaiUpgradeRequest(desired, run, dry_run, without_backup)
        choose = partial(choose_vendor_bundle, self.site.directory)
        session = replace(self.session(progress, run, plays=True), choose_vendor_bundle=choose)
        workflow = abandon_upgrade if abandon else upgrade_runai
        return workflow(request, session, self.opened(confirm))

    def install_runai_cli(
        self,
        who: tuple[Sequence[str], tuple[str, ...]],
        program: Path | None,
        progress: Observer,
        confirm: Callable[[CliPlan], bool],
        *,
        replaces: bool = False,
        dry_run: bool = False,
    ) -> RunaiCliResult:
        """Bring Run:ai's CLI to nodes, for users; one changing command at a time per site."""
        from appliance.adapters.runai.jumpboxes import find_program, researchers
        from appliance.model.components.access import runai_cli as access
        from appliance.workflows.runai.cli import COMMAND, RunaiCliRequest, runai_cli

        nodes, users = who
        site = self.site
        # What this machine can refuse comes before any node is asked.
        chosen, cli = access.choose_nodes(site, nodes), find_program(site, program)
        people = researchers(site, self.nodes, users)
        desired = self.load_desired()
        roles = access.CliOptions(
            nodes=chosen,
            program=cli,
            researchers=people,
            kubectl_sha256=access.kubectl_digest(desired),
            replace=replaces,
        )
        run = self.run(COMMAND, desired.bundle_digest)
        request = RunaiCliRequest(desired, roles, run, dry_run=dry_run)
        session = replace(self.session(progress, run, plays=True), jumpboxes=self.jumpboxes())
        return runai_cli(request, session, self.opened(confirm))

    def horizon(self) -> HorizonResult:
        """Everything of this site that ends."""
        from appliance.workflows.horizon import read_horizon

        return read_horizon(self.site, self.desired.release, self.session())

    def support_bundle(
        self, request: BundleRequest, progress: Observer, contents: Contents, render: Render
    ) -> BundleResult:
        """Gather everything that support asks for."""
        from appliance.workflows.support.bundle import gather_bundle

        return gather_bundle(request, self.session(progress), contents, render)

    def researcher_kubeconfig(self, user: str, project: str | None) -> str:
        """The kubeconfig of one researcher, as YAML."""
        from appliance.adapters.runai.access import researcher_kubeconfig

        return researcher_kubeconfig(self.site, self.nodes, user, project)

    def certificate_request(self, folder: Path | None, *, signed: bool) -> dict[str, Path]:
        """Make the backend's key and certificate request; sign it by the site's CA, if asked."""
        from appliance.adapters.runai.access import certificate_request

        return certificate_request(self.site, folder, signed=signed)
