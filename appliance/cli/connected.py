"""One site with its adapters: the only place that hands adapters to workflows."""

from __future__ import annotations

import getpass
import os
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec

import click

from appliance import __version__
from appliance.adapters.clock import SystemClock
from appliance.adapters.lease import SiteLease, awake_seconds, holder_of
from appliance.model.journal import Run

if TYPE_CHECKING:
    from appliance.adapters.ansible import AnsiblePlaybooks
    from appliance.adapters.archive import ControlPlaneArchive
    from appliance.adapters.bundle_directory import BundleDirectory
    from appliance.adapters.kept_journal import KeptJournal
    from appliance.adapters.kubernetes import KubernetesApi
    from appliance.adapters.kubernetes_drain import KubernetesDrain
    from appliance.adapters.member_records import MemberRecords
    from appliance.adapters.power import SshPower
    from appliance.adapters.ssh import SshNodes
    from appliance.model.desired import Desired
    from appliance.model.node_roles import RoleRequest, RolesPlan
    from appliance.model.observation import Look
    from appliance.model.passport import Passport
    from appliance.model.photograph import Photograph
    from appliance.model.plan import Plan
    from appliance.model.planner import Scope
    from appliance.model.postconditions import Observed
    from appliance.model.preflight import Finding
    from appliance.model.runai_cli import CliPlan
    from appliance.model.site import Site
    from appliance.workflows.install import Installed, InstallPorts, InstallRequest
    from appliance.workflows.node_role import RolesChanged
    from appliance.workflows.ports import Bmcs, Emptying, Etcd, Members, Observer
    from appliance.workflows.runai_cli import RunaiCliInstalled
    from appliance.workflows.survey import Survey


# How long the end of a command waits for copies of its records: a node may be slow or away.
COPY_SECONDS = 10.0
About = ParamSpec("About")


def _note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


@dataclass
class Connected:
    """One site with its adapters, for the life of one command."""

    site: Site
    desired: Desired
    nodes: SshNodes
    cluster: KubernetesApi
    bundle: BundleDirectory | None
    looking_since: float = field(default_factory=awake_seconds)

    def preflight(
        self, desired: Desired, photographs: Mapping[str, Photograph], observed: Observed
    ) -> Sequence[Finding]:
        """The pure checks of the model, with the hardware catalogue of this installation."""
        from appliance.adapters.control_host import cannot_bring
        from appliance.adapters.hardware_files import load_hardware, load_role_minima
        from appliance.model.preflight import preflight

        found = (
            *preflight(
                desired, photographs, observed, models=load_hardware(), minima=load_role_minima()
            ),
            *cannot_bring(desired, observed),
        )
        if self.site.settings.runai is None:
            return found
        from appliance.cli.health_parts import before_runai

        return (*found, *before_runai(desired, observed, found))

    @cached_property
    def _inventory(self) -> Desired:
        """All that the inventory asks for; without a bundle at hand, the one in custody counts."""
        from appliance.adapters.custody import read_custody

        return self.desired if self.bundle else read_custody(self.desired, self.nodes, _note)

    @cached_property
    def wish(self) -> Desired:
        """What is asked for: the inventory, without nodes that were removed on purpose."""
        return self.wish_with(frozenset())

    def wish_with(self, back: frozenset[str]) -> Desired:
        """The same, with some of the nodes that were removed."""
        from appliance.model.membership import belongings, removed

        gone = removed(self.site, self.records) - back
        kept = belongings(self.records)
        return replace(self._inventory, site=self.site.without(gone), kept=kept)

    @cached_property
    def records(self) -> MemberRecords:
        """Node -> what is written down of it; who changes something has to require them."""
        from appliance.adapters.member_records import read_records

        return read_records(self.archive)

    def survey(self, scope: Scope) -> Survey:
        """One look at everything, and the plan that follows."""
        from appliance.workflows.survey import survey

        return survey(self.wish, self.nodes, self.cluster, self.preflight, scope)

    def look(self) -> tuple[Observed, Look, Plan]:
        """One look at everything, nodes that do not answer included."""
        from appliance.model.planner import plan
        from appliance.workflows.survey import observe

        observed, look = observe(self.wish.site, self.nodes, self.cluster)
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

    def run(self, command: str, bundle_digest: str | None = None) -> Run:
        """A new run of a command: its id, and who typed it where."""
        from appliance.adapters.journal import new_run_id
        from appliance.cli.retype import typed

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
    def journal(self) -> KeptJournal:
        """The site's journal; what is appended is copied to the control-plane nodes."""
        from appliance.adapters.journal import journal_of
        from appliance.adapters.kept_journal import KeptJournal

        return KeptJournal(journal_of(self.site.directory), self.archive, _note)

    @property
    def clock(self) -> SystemClock:
        """Real time."""
        return SystemClock()

    def drain(self) -> KubernetesDrain:
        """Emptying nodes; to be closed."""
        from appliance.adapters.kubernetes_drain import KubernetesDrain

        return KubernetesDrain(self.cluster)

    def power(self) -> SshPower:
        """The nodes' power."""
        from appliance.adapters.power import SshPower

        return SshPower(self.site, self.nodes)

    def bmcs(self) -> Bmcs:
        """The nodes' BMCs."""
        from appliance.adapters.redfish import RedfishBmcs, vault_of

        return RedfishBmcs(vault_of(self.site))

    @cached_property
    def archive(self) -> ControlPlaneArchive:
        """Documents on the control-plane nodes."""
        from appliance.adapters.archive import ControlPlaneArchive

        return ControlPlaneArchive(self.site, self.nodes)

    @cached_property
    def members(self) -> Members:
        """Node objects."""
        from appliance.adapters.kubernetes_members import KubernetesMembers

        return KubernetesMembers(self.cluster)

    @cached_property
    def etcd(self) -> Etcd:
        """The members of etcd."""
        from appliance.adapters.etcd_members import EtcdMembers

        return EtcdMembers(self.nodes, self.site.settings.ssh.python)

    @contextmanager
    def emptying(self, observer: Observer, run: Run) -> Iterator[Emptying]:
        """Takes pods away from nodes."""
        from appliance.workflows.eviction import REMOVAL_BUDGET_SECONDS, Eviction

        with closing(self.drain()) as drain:
            how = ("drain", run, self.journal.begin, REMOVAL_BUDGET_SECONDS)
            yield Eviction(drain, SystemClock(), observer, *how)

    def passport(self, node: str) -> Passport | None:
        """A node's passport; None without one.

        Raises:
            NodeUnreachable: no control-plane node answers.
        """
        from appliance.workflows.passports import read_passport

        return read_passport(self.archive, node)

    @contextmanager
    def changing(self, run: Run, reason: str = "") -> Iterator[None]:
        """Let ``run`` hold the site from its first step on: one changing command at a time.

        Nothing is taken before a step begins (``journal.begin``, which the Recorder calls), so a
        command that finds nothing to do, or only looks, takes nothing and waits for nobody. That
        step raises Refused when another command holds the site, or has changed it since this one
        began to look.
        """
        from appliance.adapters.holding import Holding

        what = f"{run.command} {run.id}" + (f" ({reason})" if reason else "")
        lease = SiteLease(self.site, self.nodes, holder_of(run, reason), self.looking_since, _note)
        holding = Holding(self.site.state_directory, what, lease)
        self.journal.guard = holding
        try:
            yield
        finally:
            self.journal.guard = None
            try:
                self.journal.settle(COPY_SECONDS)
            finally:
                holding.end()

    @cached_property
    def playbooks(self) -> AnsiblePlaybooks:
        """Ansible, with the site's vault password.

        Raises:
            Refused: a program that plays need is not on this machine.
        """
        from appliance.adapters.ansible import AnsiblePlaybooks
        from appliance.adapters.control_host import require
        from appliance.adapters.vault import password_file
        from appliance.model.programs import Use

        require(Use.PLAYS, also=[Use.BRING])
        return AnsiblePlaybooks(self.site.directory, password_file(self.site))

    @cached_property
    def vault_is_open(self) -> bool:
        """True; a vault that stays closed is refused, before a play changes anything."""
        from appliance.adapters.site_vault import require_open

        require_open(self.site)
        return True

    def opened(self, confirm: Callable[About, bool]) -> Callable[About, bool]:
        """The same question, asked once the vault was opened, as plays will have to."""
        return lambda *args, **kwargs: self.vault_is_open and confirm(*args, **kwargs)

    def _opened_for_plays(self, confirm: Callable[[Plan], bool]) -> Callable[[Plan], bool]:
        """The same of a plan, made by records that were read; steps by the API need no vault."""
        from appliance.model.steps import BY_NAME

        def asked(plan: Plan) -> bool:
            self.records.require()
            played = any(not BY_NAME[step.name].by_port for step in plan.steps)
            return (not played or self.vault_is_open) and confirm(plan)

        return asked

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
        from appliance.workflows.install import InstallRequest

        run = self.run(what, self.wish.bundle_digest)
        request = InstallRequest(desired=self.wish, run=run, scope=scope, dry_run=dry_run)
        ports = self.install_ports(progress, confirm)
        with self.changing(run):
            return workflow(request, ports)

    def install_ports(self, progress: Observer, confirm: Callable[[Plan], bool]) -> InstallPorts:
        """Everything outside that an install of this site needs."""
        from appliance.adapters.known_bundle import keeper
        from appliance.workflows.install import InstallPorts

        return InstallPorts(
            nodes=self.nodes,
            cluster=self.cluster,
            playbooks=self.playbooks,
            journal=self.journal,
            clock=SystemClock(),
            observer=progress,
            preflight=self.preflight,
            bundle=self.bundle,
            confirm=self._opened_for_plays(confirm),
            archive=self.archive,
            members=self.members,
            handed_over=keeper(self.site, _note),
        )

    def node_role(
        self, wish: RoleRequest, confirm: Callable[[RolesPlan], bool], *, dry_run: bool = False
    ) -> RolesChanged:
        """Change Run:ai's roles of nodes; one changing command at a time per site."""
        from appliance.workflows.node_role import NodeRolePorts, NodeRoleRequest, node_role

        run = self.run(f"node role {wish.verb}")
        request = NodeRoleRequest(self.site, wish, run, dry_run=dry_run)
        ports = NodeRolePorts(self.cluster, self.journal, SystemClock(), confirm)
        with self.changing(run):
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
        from appliance.adapters.jumpboxes import SshJumpboxes, find_program, researchers
        from appliance.model.runai_cli import CliWish, choose_nodes, kubectl_digest
        from appliance.workflows.runai_cli import COMMAND, RunaiCliPorts, RunaiCliRequest, runai_cli

        nodes, users = who
        site = self.site
        wish = CliWish(
            nodes=choose_nodes(site, nodes),
            program=find_program(site, program),
            researchers=researchers(site, self.nodes, users),
            kubectl_sha256=kubectl_digest(self.wish),
            replace=replace,
        )
        run = self.run(COMMAND, self.wish.bundle_digest)
        request = RunaiCliRequest(self.wish, wish, run, dry_run=dry_run)
        ports = RunaiCliPorts(
            SshJumpboxes(site, self.nodes),
            self.playbooks,
            self.journal,
            SystemClock(),
            progress,
            self.opened(confirm),
        )
        with self.changing(run):
            return runai_cli(request, ports)

    def researcher_kubeconfig(self, user: str, project: str | None) -> str:
        """The kubeconfig of one researcher, as YAML."""
        from appliance.adapters.runai_access import researcher_kubeconfig

        return researcher_kubeconfig(self.site, self.nodes, user, project)

    def certificate_request(self, folder: Path | None, *, signed: bool) -> dict[str, Path]:
        """Make the backend's key and certificate request; sign it by the site's CA, if asked."""
        from appliance.adapters.runai_access import certificate_request

        return certificate_request(self.site, folder, signed=signed)
