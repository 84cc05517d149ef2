"""A cluster of a backup on machines that are all new: claimed, installed, restored, told apart.

It is a composition: the install makes a cluster with the backup's own CAs, and the restore puts
etcd's content over it. How far it came is read from the machines, so the same command goes on
after a kill. What must not be here: what these commands do.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Final, Protocol

from appliance.errors import ClusterError, NodeUnreachable, NotHealthy, Refused, StepNotVerified
from appliance.model.backup.names import DIGEST, IMAGE_RECORD, id_moment
from appliance.model.backup.new_machines import (
    CLAIM,
    KNOWN,
    MADE,
    MOST_AUTHORITY_BYTES,
    OWN_OBJECTS,
    Machine,
    NewMachinesPlan,
    claim_of,
    plan_new_machines,
)
from appliance.model.backup.not_carried import (
    MOST_BYTES,
    Comparison,
    VolumeData,
    compare,
    read_digest,
)
from appliance.model.backup.restore import recovery_words
from appliance.model.state.cluster.cluster import SERIAL_ANNOTATION, Cluster, ClusterNode
from appliance.model.state.facts.identity import (
    BOARD_ANNOTATION,
    CHASSIS_ANNOTATION,
    MACS_ANNOTATION,
    UUID_ANNOTATION,
    MachineIdentity,
    identity_of,
)
from appliance.workflows.cluster.backup import known_backups
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import AGAIN, Recorder, begun
from appliance.workflows.session.survey import refuse

if TYPE_CHECKING:
    from appliance.model.backup.restoring.restore_release import KnownRelease
    from appliance.model.site.settings import Node
    from appliance.model.state.journal import Run
    from appliance.model.state.plan import Plan
    from appliance.workflows.cluster.restore import RestoreRequest, RestoreResult
    from appliance.workflows.cluster.restoring.images import ImagesResult
    from appliance.workflows.cluster.restoring.ports import NewMachines, OpenedBackup
    from appliance.workflows.session.session import Session

COMMAND: Final = "cluster restore"
CLAIMED, GIVEN = f"{COMMAND}: claim", f"{COMMAND}: authorities"
RENEWED, REHEARSED = f"{COMMAND}: lab's own objects", f"{COMMAND}: rehearsed"
FORGOTTEN, TOLD = f"{COMMAND}: pod ranges", f"{COMMAND}: identities"
# Before the cluster is made, machines have to be as far as kubeadm finds them in an install.
BEFORE, UNTIL = "registry", "workers"
_ONLY_IMAGES: Final = "appliance cluster restore FILE --identity KEY --only images"
_OWN: Final = (
    SERIAL_ANNOTATION,
    UUID_ANNOTATION,
    BOARD_ANNOTATION,
    CHASSIS_ANNOTATION,
    MACS_ANNOTATION,
)


class Stages(Protocol):
    """The commands of which a restore onto new machines is made; each looks at the site anew."""

    def begin(self) -> tuple[Run, Session]:
        """A run of its own in the journal, and its ports, which begin to look now."""

    def forecast(self) -> Plan:
        """What an install up to the workers would do."""

    def install(self, until: str) -> None:
        """Install up to a step, as ``appliance install`` does.

        Raises:
            what :func:`appliance.workflows.install.install` raises.
        """

    def images(self) -> ImagesResult:
        """Bring the backup's images back into the registry, only those that it lacks.

        Raises:
            what :func:`appliance.workflows.cluster.restoring.images.restore_images` raises.
        """

    def restore(self, claim: str, *, only_resumed: bool) -> RestoreResult | None:
        """Restore etcd over what was made on claimed machines, as for the same machines.

        Args:
            claim: the word of the claim.
            only_resumed: do nothing, and return None, unless a restore was begun and not ended.

        Raises:
            what :func:`appliance.workflows.cluster.restore.cluster_restore` raises.
        """

    def keep_own(self) -> None:
        """Keep what a lab has of its own in its cluster, before a site's comes over it.

        Raises:
            LabError: it could not be read, or not be kept.
        """

    def renew_own(self) -> None:
        """Write what was kept, and let the nodes use it; a second time changes nothing.

        Raises:
            LabError: an object was not written, or its program does not come back.
        """

    def volumes(self) -> Sequence[VolumeData]:
        """Every volume that the restored cluster knows, and where its data has to be."""

    def digest(self) -> bytes:
        """The digest over the objects of the cluster, as a backup has it; empty: not to be had."""


@dataclass(frozen=True)
class NewMachinesSources:
    """What a restore onto new machines needs.

    Attributes:
        machines: all members of the site.
        backup: the one that is restored.
        stages: the commands of which it is made.
        host_keys: a sentence for each host key that was accepted for it, for the journal.
        releases: gives the releases that this tool has, by their names.
    """

    machines: NewMachines
    backup: OpenedBackup
    stages: Stages
    host_keys: tuple[str, ...] = ()
    releases: Callable[[], Mapping[str, KnownRelease]] = dict


@dataclass(frozen=True)
class NewMachinesResult:
    """How it ended.

    Attributes:
        plan: what was planned.
        restored: how the restore of etcd ended; None: an earlier run did it.
        compared: the objects of the backup and of the cluster; None: not to be had.
        volumes: whose data is not there.
        images: what became of the backup's images, in a sentence; empty: it has none, or an
            earlier run brought them back.
        took_seconds: of this run.
    """

    plan: NewMachinesPlan
    restored: RestoreResult | None = None
    compared: Comparison | None = None
    volumes: Sequence[VolumeData] = field(default_factory=tuple)
    images: str = ""
    took_seconds: float = 0.0
    done: bool = False


def restore_new_machines(
    request: RestoreRequest, ports: NewMachinesSources, confirm: Callable[[NewMachinesPlan], bool]
) -> NewMachinesResult:
    """Refuse, or make the cluster of the backup on new machines.

    Raises:
        PreflightFailed: a machine is not new, the file does not fit, or the install is refused;
            nothing was changed.
        Refused: not confirmed, or another command is at work; nothing was changed.
        NodeUnreachable: a machine does not answer; nothing was changed.
        what an install and a restore of etcd raise; the same command goes on.
    """
    _, session = ports.stages.begin()
    plan = _planned(request, session, ports)
    if request.dry_run:
        return NewMachinesResult(plan)
    refuse(plan.refusals)
    require_confirmed(confirm(plan))
    return _Run(request, ports, plan).carry_out()


def _planned(
    request: RestoreRequest, session: Session, ports: NewMachinesSources
) -> NewMachinesPlan:
    site, manifest = request.site, ports.backup.manifest
    about = manifest.about
    machines = ports.machines.look(site.cluster_members, claim_of(about.id))
    now = session.clock.now()
    plan = plan_new_machines(
        site,
        manifest,
        machines,
        ports.stages.forecast(),
        tool_version=request.run.tool_version,
        recovery=recovery_words(about.created, now - (id_moment(about.id) or now)),
        releases=ports.releases(),
        rehearses=request.options.rehearses,
    )
    return replace(plan, known=ports.backup.sha256 in known_backups(session.journal))


class _Run:
    """One run, after everything that could refuse it."""

    def __init__(
        self, request: RestoreRequest, ports: NewMachinesSources, plan: NewMachinesPlan
    ) -> None:
        self._request, self._ports, self._plan = request, ports, plan
        self._members = request.site.cluster_members
        self._why = (f"the backup {ports.backup.manifest.about.id}: {plan.recovery}",)

    def carry_out(self) -> NewMachinesResult:
        plan, stages, images = self._plan, self._ports.stages, ""
        clock = stages.begin()[1].clock
        began = clock.monotonic()
        if plan.stage in ("bare", "claimed"):
            self._claim()
            with begun():
                images = self._make()
        elif self._has_images():
            images = f"images: an earlier run was at them; see {_ONLY_IMAGES} --dry-run"
        with begun():
            over = self._claim_is_over()
            restored = stages.restore(plan.key, only_resumed=over)
            # Before the last mark: after it, no second run would tell them.
            compared, volumes = self._compared(), stages.volumes()
            if plan.rehearses:
                self._renew_own()
            took = clock.monotonic() - began
            self._tell_identities()
            if plan.rehearses:
                self._tell_rehearsed(compared, took)
        return NewMachinesResult(plan, restored, compared, volumes, images, took, done=True)

    def _has_images(self) -> bool:
        return self._ports.backup.manifest.part(IMAGE_RECORD) is not None

    def _renew_own(self) -> None:
        run, session = self._ports.stages.begin()
        recorder = Recorder(run, session)
        with session.lock, recorder.run_step(RENEWED, self._plan.members, OWN_OBJECTS):
            self._ports.stages.renew_own()

    def _tell_rehearsed(self, compared: Comparison | None, took: float) -> None:
        """Keep in the lab's journal how long it took, and what was not the same."""
        told = [f"the restore of {self._plan.rehearses} took {took:.0f} s in this lab"]
        if compared is None:
            told.append("the objects were not compared")
        else:
            differ = ", ".join(compared.differ) or "none"
            told.append(f"{len(compared.same)} kinds of objects are the same; others: {differ}")
        run, session = self._ports.stages.begin()
        recorder = Recorder(run, session)
        with session.lock, recorder.run_step(REHEARSED, self._plan.members, told):
            session.observer.note(told[0])

    def _claim(self) -> None:
        """Claim every machine under the lock, if all is as it was shown."""
        run, session = self._ports.stages.begin()
        with session.lock:
            now = _planned(self._request, session, self._ports)
            refuse(now.refusals)
            shown = replace(self._plan, recovery=""), replace(now, recovery="")
            require_as_shown(*shown, "the machines have changed since this was shown")
            recorder = Recorder(run, session)
            why = (*self._why, *self._ports.host_keys)
            with recorder.run_step(CLAIMED, self._plan.members, why):
                self._ports.machines.act(self._members, self._plan.key, CLAIM)

    def _make(self) -> str:
        """Make a cluster with the authorities of the backup; what became of its images."""
        stages, plan, machines = self._ports.stages, self._plan, self._ports.machines
        leader = self._request.site.node(plan.leader)
        stages.install(BEFORE)
        images = self._images()
        run, session = stages.begin()
        with session.lock:
            recorder = Recorder(run, session)
            with recorder.run_step(GIVEN, (leader.name,), self._why):
                machines.give_authorities(leader, plan.key, self._contents())
        stages.install(UNTIL)
        run, session = stages.begin()
        with session.lock:
            recorder = Recorder(run, session)
            why = ("the backup has other ranges of pods",)
            with recorder.run_step(FORGOTTEN, plan.members, why):
                self._require_authorities(leader)
                if plan.rehearses:
                    stages.keep_own()
                machines.act(self._members, plan.key, MADE)
        return images

    def _images(self) -> str:
        """Bring images back before pods want them; a cluster without them is better than none."""
        if not self._has_images():
            return ""
        try:
            done = self._ports.stages.images()
        except (ClusterError, NodeUnreachable, NotHealthy, Refused) as error:
            return f"images were not brought back: {error.message}; then {_ONLY_IMAGES}"
        others = f", {len(done.plan.others)} names are other images" if done.plan.others else ""
        broken = f", {len(done.plan.broken)} are not whole" if done.plan.broken else ""
        return f"images brought back: {len(done.pushed)} of the backup{others}{broken}"

    def _contents(self) -> dict[str, bytes]:
        wanted = {part: name for name, part in self._plan.authorities.items()}
        return {name: self._read(part, MOST_AUTHORITY_BYTES) for part, name in wanted.items()}

    def _read(self, part: str, most_bytes: int) -> bytes:
        found = io.BytesIO()

        def take(stream: IO[bytes]) -> None:
            while (piece := stream.read(1 << 16)) and found.tell() <= most_bytes:
                found.write(piece)

        self._ports.backup.read(part, take)
        return found.getvalue()

    def _require_authorities(self, leader: Node) -> None:
        """What kubeadm used are the authorities of the backup, and none that it made itself."""
        manifest = self._ports.backup.manifest
        seen = self._ports.machines.look([leader], self._plan.key)[leader.name]
        for name, part_name in self._plan.authorities.items():
            part = manifest.part(part_name)
            has = seen.authorities.get(name) if isinstance(seen, Machine) else None
            if part is None or has != part.sha256:
                raise StepNotVerified(
                    f"{leader.name} has another /etc/kubernetes/pki/{name} than the backup",
                    hint=f"wipe the machines, then {AGAIN}",
                )

    def _claim_is_over(self) -> bool:
        """Whether a restore of etcd ended on every control-plane node: it ends their claims."""
        nodes = self._request.site.control_plane
        seen = self._ports.machines.look(nodes, self._plan.key)
        return all(isinstance(one, Machine) and "end" in one.acts for one in seen.values())

    def _tell_identities(self) -> None:
        """Write into each Node object which machine it is now; etcd brought the lost ones back."""
        run, session = self._ports.stages.begin()
        with session.lock:
            recorder = Recorder(run, session)
            with recorder.run_step(TOLD, self._plan.members, self._why):
                look = session.nodes.look(self._members)
                cluster = session.cluster.read(look.node_facts)
                if not isinstance(cluster, Cluster):
                    raise StepNotVerified(
                        "etcd was restored, but no API server answers",
                        hint=f"see what is wrong: appliance status; then {AGAIN}",
                    )
                for name, facts in look.node_facts.items():
                    if (member := cluster.nodes.get(name)) is not None:
                        for key, value in changes(member, identity_of(facts)).items():
                            session.members.annotate([name], key, value)
                there = [node for node in self._members if node.name in look.node_facts]
                self._ports.machines.act(there, self._plan.key, KNOWN)

    def _compared(self) -> Comparison | None:
        if self._ports.backup.manifest.part(DIGEST) is None:
            return None
        try:
            before = self._read(DIGEST, MOST_BYTES)
        except NotHealthy:
            return None
        return compare(read_digest(before), read_digest(self._ports.stages.digest()))


def changes(member: ClusterNode, machine: MachineIdentity) -> Mapping[str, str | None]:
    """The annotations of a Node object that have to be written for a machine; None: removed."""
    wanted: dict[str, str] = machine.annotations()
    if machine.serial:
        wanted[SERIAL_ANNOTATION] = machine.serial
    return {key: wanted.get(key) for key in _OWN if member.annotations.get(key) != wanted.get(key)}
