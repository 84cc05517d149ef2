"""Builds the adapters of one site, and the session of ports for its workflows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from appliance.adapters.control_plane.lock import SiteLease, awake_seconds, holder_of
from appliance.adapters.local.clock import SystemClock
from appliance.cli.screen.terminal import print_line
from appliance.cli.wired.looks import disk_files, seen_by
from appliance.model.state.journal import Run

if TYPE_CHECKING:
    from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
    from appliance.adapters.bundle.directory import BundleDirectory
    from appliance.adapters.control_plane.archive import ControlPlaneArchive
    from appliance.adapters.control_plane.journal import FileJournal
    from appliance.adapters.control_plane.kept_documents import KeptDocuments
    from appliance.adapters.control_plane.replicated_journal import KeptJournal
    from appliance.adapters.hardware.redfish_driver import RedfishDriver
    from appliance.adapters.kubernetes.api import KubernetesApi
    from appliance.adapters.kubernetes.api_watch import ApiWatch
    from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain
    from appliance.adapters.site.last_facts import LastFactsFiles
    from appliance.adapters.ssh.nodes import SshNodes
    from appliance.adapters.ssh.power import SshPower
    from appliance.model.bundle.vendor.bundle import VendorBundle
    from appliance.model.bundle.vendor.diagnostics import VendorReport
    from appliance.model.components.runai.upgrade.record import ClaimedVolume
    from appliance.model.node.lost import Workloads
    from appliance.model.site.settings import Site
    from appliance.model.state.desired import Desired
    from appliance.workflows.session.evidence import Evidence
    from appliance.workflows.session.ports import (
        Bmcs,
        Emptying,
        Etcd,
        Jumpboxes,
        Members,
        Observer,
        SiteLock,
    )
    from appliance.workflows.session.session import Session
    from appliance.workflows.session.survey import Preflight
    from appliance.workflows.session.upgrade_evidence import PackageReader, UpgradeEvidence

# How long the end of a command waits for copies of its records: a node may be slow or away.
COPY_SECONDS = 10.0


def note(text: str) -> None:
    """Tell the operator something beside the result."""
    print_line(f"note: {text}", err=True)


@dataclass
class Wiring:
    """One site with its adapters. Nothing is connected to before a port is used."""

    site: Site
    desired: Desired
    nodes: SshNodes
    cluster: KubernetesApi
    bundle: BundleDirectory | None
    last_facts: LastFactsFiles | None = None
    looking_since: float = field(default_factory=awake_seconds)

    @classmethod
    def load(
        cls,
        directory: Path,
        bundle: Path | None,
        changed: Callable[[Site], Site],
        *,
        reads_vendor_bundle: bool,
        new_cluster: bool,
    ) -> Self:
        """Load a site, its release and its bundle from this machine, and build what reaches it.

        Args:
            directory: the site's.
            bundle: the bundle's directory, or None.
            changed: what a command asks for beyond what the site's files say.
            reads_vendor_bundle: whether the vendor's bundle is read where it was not yet.
            new_cluster: a cluster that the site had is given up.

        Raises:
            ConfigError: the site or the release is wrong; every fault at once.
            BundleRefused: ``bundle`` is no bundle.
        """
        from appliance.adapters.bundle.directory import BundleDirectory
        from appliance.adapters.bundle.vendor_bundle import known_vendor_bundle, vendor_bundle_path
        from appliance.adapters.control_plane.journal import founded
        from appliance.adapters.kubernetes.api import KubernetesApi, load_library
        from appliance.adapters.local.content import load_release
        from appliance.adapters.runai.files import (
            backend_certificate,
            cluster_values_sha256,
            issuer_ca,
        )
        from appliance.adapters.site.authority_files import registry_ca
        from appliance.adapters.site.files import load_site
        from appliance.adapters.site.vault import vault_of
        from appliance.adapters.ssh.nodes import SshNodes
        from appliance.model.checks.preflight import probe_arguments
        from appliance.model.state.desired import Desired

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
            registry_ca=registry_ca(site),
            founded="" if new_cluster else founded(site.directory),
        )
        secrets = cache(vault_of(site))
        kept = last_facts(site)
        nodes = SshNodes(
            site,
            probe_arguments(desired),
            meanwhile=load_library,
            secret=lambda n: secrets().get(n),
            seen=seen_by(kept.saw_nodes, disk_files(site).saw_nodes),
        )
        api = KubernetesApi(site, nodes, kept.saw_cluster)
        return cls(site, desired, nodes, api, found, kept)

    @property
    def preflight(self) -> Preflight:
        """The checks before the first change, by what this machine has and knows."""
        from appliance.adapters.local.this_machine import ThisMachine
        from appliance.workflows.session.checks import preflight_with

        return preflight_with(ThisMachine(), self.archive)

    def session(
        self,
        observer: Observer | None = None,
        run: Run | None = None,
        reason: str = "",
        *,
        plays: bool = False,
    ) -> Session:
        """The ports of this site; nothing is connected to here.

        Args:
            observer: sees progress; a command that only looks has none.
            run: what changes the site, as the lock says; None for a command that only looks.
            reason: why, for whoever finds the lock.
            plays: whether Ansible is needed.

        Raises:
            Refused: a program that plays need is not on this machine.
        """
        from appliance.adapters.bundle.known import keeper
        from appliance.adapters.local.this_machine import ThisMachine
        from appliance.workflows.session.session import Session

        given: dict[str, Any] = {
            **({"observer": observer} if observer else {}),
            **({"playbooks": self.playbooks} if plays else {}),
            **({"lock": self.lock(run, reason), "journal": self.journal} if run else {}),
        }
        return Session(
            nodes=self.nodes,
            cluster=self.cluster,
            archive=self.archive,
            documents=self.documents(),
            clock=self.clock,
            control_host=ThisMachine(),
            preflight=self.preflight,
            bundle=self.bundle,
            handed_over=keeper(self.site, note),
            members=self.members,
            evidence=self.evidence,
            run_diagnostics=self._run_diagnostics,
            read_workloads=self._read_workloads,
            read_claimed_volumes=self.read_claimed_volumes,
            keep_handmade=self._keep_handmade,
            read_disks=disk_files(self.site).read,
            **given,
        )

    @property
    def evidence(self) -> Evidence:
        """Logs and lists for support."""
        from appliance.adapters.support.evidence import SiteEvidence

        return SiteEvidence(self.nodes, self.cluster)

    def _run_diagnostics(self, tool: Path, image: str | None) -> VendorReport:
        from appliance.adapters.bundle.vendor_diagnostics import run_vendor_diagnostics

        return run_vendor_diagnostics(self.site, self.nodes, tool, image)

    def _read_workloads(self) -> Workloads:
        from appliance.adapters.kubernetes.nodes.lost import read_workloads

        return read_workloads(self.cluster)

    def read_claimed_volumes(self) -> tuple[ClaimedVolume, ...]:
        """The volumes of Run:ai's claims."""
        from appliance.adapters.kubernetes.claims import read_claimed_volumes

        return read_claimed_volumes(self.cluster)

    @cached_property
    def journal(self) -> KeptJournal:
        """The site's journal; what is appended is copied to the control-plane nodes."""
        from appliance.adapters.control_plane.replicated_journal import KeptJournal

        return KeptJournal(self.records(), self.archive, note)

    @property
    def clock(self) -> SystemClock:
        """Real time."""
        return SystemClock()

    def drain(self) -> KubernetesDrain:
        """Emptying nodes; to be closed."""
        from appliance.adapters.kubernetes.nodes.drain import KubernetesDrain

        return KubernetesDrain(self.cluster)

    def power(self) -> SshPower:
        """The nodes' power."""
        from appliance.adapters.ssh.power import SshPower

        return SshPower(self.site, self.nodes)

    def packages(self) -> PackageReader:
        """What nodes say of their packages."""
        from appliance.adapters.ssh.packages import SshPackages

        return SshPackages(self.nodes)

    def jumpboxes(self) -> Jumpboxes:
        """Hosts on which researchers work."""
        from appliance.adapters.runai.jumpboxes import SshJumpboxes

        return SshJumpboxes(self.site, self.nodes)

    def records(self) -> FileJournal:
        """The records of the site on this machine."""
        from appliance.adapters.control_plane.journal import journal_of

        return journal_of(self.site.directory)

    def documents(self) -> KeptDocuments:
        """Documents of the archive that are kept on this machine."""
        from appliance.adapters.control_plane.kept_documents import KeptDocuments

        return KeptDocuments(self.site.state_directory)

    def bmcs(self) -> Bmcs:
        """The nodes' BMCs."""
        from appliance.adapters.hardware.redfish import RedfishBmcs

        return RedfishBmcs.sharing(self.bmc_driver.sessions)

    @cached_property
    def bmc_driver(self) -> RedfishDriver:
        """The nodes' BMCs, to be driven."""
        from appliance.adapters.hardware.redfish_driver import RedfishDriver
        from appliance.adapters.site.vault import vault_of

        return RedfishDriver(vault_of(self.site))

    @cached_property
    def archive(self) -> ControlPlaneArchive:
        """Documents on the control-plane nodes."""
        from appliance.adapters.control_plane.archive import ControlPlaneArchive

        return ControlPlaneArchive(self.site, self.nodes)

    @cached_property
    def members(self) -> Members:
        """Node objects."""
        from appliance.adapters.kubernetes.nodes.members import KubernetesMembers

        return KubernetesMembers(self.cluster)

    @cached_property
    def etcd(self) -> Etcd:
        """The members of etcd."""
        from appliance.adapters.control_plane.etcd_members import EtcdMembers

        return EtcdMembers(self.nodes, self.site.settings.ssh.python)

    def api_watch(self) -> ApiWatch:
        """Asks the endpoint of the API whether it answers, as long as a block lasts."""
        from appliance.adapters.kubernetes.api_watch import ApiWatch

        endpoint = self.site.settings.control_plane_endpoint
        return ApiWatch(str(self.site.endpoint_address), endpoint.port)

    @cached_property
    def upgrade_evidence(self) -> UpgradeEvidence:
        """What an upgrade is judged by."""
        from appliance.adapters.control_plane.upgrade_evidence import ClusterEvidence

        seen = [self.last_facts.saw_documents] if self.last_facts else []
        return ClusterEvidence(self.site, self.nodes, *seen)

    def _keep_handmade(self, names: Collection[str]) -> None:
        """Read what people changed by hand on these nodes, and keep it."""
        if self.last_facts is None:
            return
        members = [node for node in self.site.cluster_members if node.name in names]
        self.upgrade_evidence.documents(members)

    @contextmanager
    def emptying(self, session: Session, run: Run) -> Iterator[Emptying]:
        """Takes pods away from nodes, as long as the site is this run's."""
        from appliance.workflows.node.maintenance.eviction import REMOVAL_BUDGET_SECONDS, Eviction

        with closing(self.drain()) as drain:
            how = ("drain", run, session.lock.require, REMOVAL_BUDGET_SECONDS)
            yield Eviction(drain, session.clock, session.observer, *how)

    def lock(self, run: Run, reason: str = "", voters: Collection[str] = ()) -> SiteLock:
        """The lock that ``run`` takes at its first step: one changing command at a time.

        A command that finds nothing to do, or only looks, takes nothing and waits for nobody. The
        step raises Refused when another command holds the site, or has changed it since this one
        began to look.
        """
        from appliance.adapters.control_plane.holding import SiteLocks

        what = f"{run.command} {run.id}" + (f" ({reason})" if reason else "")
        lease = SiteLease(self.site, self.nodes, holder_of(run, reason), self.looking_since, note)
        if voters:
            lease.ask_only(voters)
        settle = partial(self.journal.settle, COPY_SECONDS)
        return SiteLocks(self.site.state_directory, what, lease, settle)

    @cached_property
    def playbooks(self) -> AnsiblePlaybooks:
        """Ansible, with the site's vault password.

        Raises:
            Refused: a program that plays need is not on this machine.
        """
        from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
        from appliance.adapters.local.control_host import require
        from appliance.adapters.site.vault import password_file
        from appliance.model.programs import Use

        require(Use.PLAYS, also=[Use.BRING])
        return AnsiblePlaybooks(self.site.directory, password_file(self.site))


def last_facts(site: Site) -> LastFactsFiles:
    """What is kept of a site's nodes."""
    from appliance.adapters.site.last_facts import LastFactsFiles
    from appliance.model.state.nodes.maintenance import timestamp

    names = [node.name for node in site.nodes]
    return LastFactsFiles(site.state_directory, names, lambda: timestamp(SystemClock().now()), note)


def _vendor_bundle(site: Site) -> VendorBundle | None:
    """The site's vendor bundle; a large one takes minutes the first time, so that is said."""
    from appliance.adapters.bundle.vendor_bundle import (
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
    from appliance.adapters.bundle.vendor_bundle import vendor_bundle_path

    path = vendor_bundle_path(site)
    return path is not None and path.is_file()
