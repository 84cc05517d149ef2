"""What a restore onto new machines is made of: other commands, each of which looks anew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from appliance.errors import ApplianceError

if TYPE_CHECKING:
    from appliance.adapters.backup.opened import BackupFile
    from appliance.cli.site_session import SiteSession
    from appliance.lab.rehearsal.own_objects import OwnObjects
    from appliance.model.backup.not_carried import VolumeData
    from appliance.model.state.journal import Run
    from appliance.model.state.plan import Plan
    from appliance.workflows.cluster.restore import RestoreResult
    from appliance.workflows.cluster.restoring.images import ImagesResult
    from appliance.workflows.session.ports import Observer
    from appliance.workflows.session.session import Session


@dataclass(frozen=True)
class NewMachineStages:
    """The commands, with one progress display and one backup.

    Attributes:
        connect: a site with its adapters, that begins to look now.
        display: sees progress.
        backup: the one that is restored.
        new_run: a new run of the command: each stage has its own records in the journal.
        rehearses: the site that this one, a lab, is like; empty: it is restored itself.
    """

    connect: Callable[[], SiteSession]
    display: Observer
    backup: BackupFile
    new_run: Callable[[], Run]
    rehearses: str = ""

    def begin(self) -> tuple[Run, Session]:
        """A run of its own in the journal, and its ports, which begin to look now."""
        run = self.new_run()
        return run, self.connect().session(self.display, run, plays=True)

    def forecast(self) -> Plan:
        """What an install up to the workers would do.

        Raises:
            what the survey of an install raises; BundleRefused: there is no bundle for it.
        """
        from appliance.model.plan.planner import Scope
        from appliance.workflows.cluster.restoring.new_machines import UNTIL
        from appliance.workflows.site.bundle_at_hand import require_bundle

        connected = self.connect()
        found = connected.survey(Scope(until=UNTIL))
        if found.plan.steps and not found.plan.refusals:
            require_bundle(found, connected.load_desired(), connected.session(self.display))
        return found.plan

    def install(self, until: str) -> None:
        """Install up to a step; the question was answered before."""
        from appliance.model.plan.planner import Scope

        self.connect().install(Scope(until=until), self.display, lambda _plan: True)

    def images(self) -> ImagesResult:
        """Bring the backup's images back; the question was answered before."""
        from appliance.cli.wired.images import image_restore_ports
        from appliance.workflows.cluster.restoring.images import ImagesRequest, restore_images

        connected, run = self.connect(), self.new_run()
        request = ImagesRequest(connected.site, run, made_of_it=True, rehearses=self.rehearses)
        session = connected.session(self.display, run)
        ports = image_restore_ports(connected, self.backup)
        return restore_images(request, session, ports, lambda _plan: True)

    def restore(self, claim: str, *, only_resumed: bool) -> RestoreResult | None:
        """Restore etcd over what was made; the question was answered before."""
        from appliance.cli.wired.restore import restore_ports
        from appliance.model.backup.restore import RestoreOptions
        from appliance.workflows.cluster.restore import RestoreRequest, cluster_restore

        connected = self.connect()
        request = RestoreRequest(
            connected.site, self.new_run(), RestoreOptions(claim=claim, rehearses=self.rehearses)
        )
        session, ports = restore_ports(connected, self.display, request, self.backup)
        if only_resumed:
            planned = replace(request, dry_run=True)
            if not cluster_restore(planned, session, ports, lambda _plan: False).plan.resumes:
                return None
        return cluster_restore(request, session, ports, lambda _plan: True)

    def keep_own(self) -> None:
        """Keep what a lab has of its own in its cluster."""
        self._own_objects().keep()

    def renew_own(self) -> None:
        """Write what was kept over what the restore brought."""
        self._own_objects().renew()

    def _own_objects(self) -> OwnObjects:
        from appliance.lab.rehearsal.own_objects import OwnObjects

        connected = self.connect()
        return OwnObjects(connected.site, connected.nodes, connected.session(self.display).clock)

    def volumes(self) -> Sequence[VolumeData]:
        """Every volume that the restored cluster knows."""
        from appliance.adapters.kubernetes.claims import read_volumes

        return read_volumes(self.connect().cluster)

    def digest(self) -> bytes:
        """The digest over the objects of the cluster; empty where a node does not give it."""
        from appliance.adapters.backup.sources import NodeSources
        from appliance.model.backup.names import DIGEST, OBJECTS

        connected = self.connect()
        node = connected.site.control_plane[0]
        sources = NodeSources(connected.site, connected.nodes)
        try:
            with sources.of_node(node, [OBJECTS], f"compare-{self.new_run().id}") as stream:
                for part in stream.answer().parts:
                    content = b"".join(stream.content(part.size))
                    if part.name == DIGEST:
                        return content
        except ApplianceError as error:
            self.display.note(f"objects were not compared: {error.message}")
        return b""
