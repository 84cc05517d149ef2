"""``rack up``: switch a rack on in order, wait for etcd and the API, and return its nodes.

It goes by what is observed: without any mark, after a power cut, it does the same and uncordons
nothing. A node is returned by the tests of ``node return``, and only where ``rack down`` took it
out. It ends in a rack in service, or in the names of what does not come.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ApplianceError,
    Interrupted,
    LeaseLost,
    NodeUnreachable,
    StepNotVerified,
)
from appliance.model.plan.judging import judge
from appliance.model.plan.rack.mark import ANNOTATION, is_ours, parse_mark
from appliance.model.plan.rack.order import Stage, enough, has_quorum, return_order, up_stages
from appliance.model.plan.steps import BY_NAME, INSTALL
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.nodes.maintenance import away
from appliance.model.state.observed import Observed
from appliance.workflows.cluster.one_run import OneRun
from appliance.workflows.cluster.patient_drain import PatientDrain
from appliance.workflows.cluster.patient_members import PatientMembers
from appliance.workflows.node.power import Unlocked
from appliance.workflows.node.return_ import ReturnRequest, node_return
from appliance.workflows.rack.power_on import NodePower, look_at_power, switch_on, wait_for
from appliance.workflows.rack.sound import unsound
from appliance.workflows.session.confirmation import require_confirmed
from appliance.workflows.session.patience import Patience, api_silence, observe_until
from appliance.workflows.session.recording import AGAIN, Recorder
from appliance.workflows.session.survey import observe

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.desired import Desired
    from appliance.model.state.facts.facts import NodeFacts
    from appliance.model.state.journal import Run
    from appliance.workflows.session.session import Session

STEP: Final = "rack up"
NODE_SECONDS: Final = 900.0
ETCD_SECONDS: Final = 600.0
READY_SECONDS: Final = 600.0
POLL_SECONDS: Final = 5.0


@dataclass(frozen=True)
class UpRequest:
    """What was asked for.

    Attributes:
        site: every node of the inventory.
        load: the desired state, without the nodes that were removed on purpose; the control planes
            keep which, so it is called once they are on.
        wait_seconds: how long the nodes of each stage may take to answer.
        acknowledged: names of facts that may differ when a node returns.
    """

    site: Site
    load: Callable[[], Desired]
    run: Run
    wait_seconds: float = NODE_SECONDS
    acknowledged: frozenset[str] = frozenset()
    dry_run: bool = False


@dataclass(frozen=True)
class UpResult:
    """How it ended.

    Attributes:
        planned: what was to be done, in words.
        returned: the nodes that take pods again by this run.
        left: sentences of nodes that others keep out of service.
    """

    planned: tuple[str, ...]
    returned: tuple[str, ...] = ()
    left: tuple[str, ...] = ()


def rack_up(
    request: UpRequest, session: Session, confirm: Callable[[Sequence[str]], bool]
) -> UpResult:
    """Bring the rack up.

    Raises:
        Refused: not confirmed; nothing was changed.
        LeaseLost: another command took the site over; the nodes are left as they are.
        StepNotVerified: something does not come, or is not healthy; names each, and why.
        ClusterError: the API refused; the same command goes on.
    """
    if not request.dry_run:
        session = replace(
            session,
            drain=PatientDrain(session.drain, session.clock),
            members=PatientMembers(session.members, session.clock),
            journal=OneRun(session.journal),
        )
    site, mark = request.site, session.rack_record.read()
    machines = mark.machines if mark else {}
    seen = {node.name: look_at_power(node, session, machines) for node in site.nodes}
    lines = (
        *((mark.sentence(),) if mark else ()),
        *(
            seen[name].words
            for stage in up_stages(site)
            for name in stage.nodes
            if not seen[name].answers
        ),
        "return the nodes that rack down took out of service; test each first",
    )
    if request.dry_run:
        return UpResult(lines)
    require_confirmed(confirm(lines))
    return _Run(request, session, seen, lines).carry_out()


class _Run:
    """One run, after its question."""

    def __init__(
        self,
        request: UpRequest,
        session: Session,
        seen: Mapping[str, NodePower],
        lines: tuple[str, ...],
    ) -> None:
        self._request, self._session, self._seen, self._lines = request, session, seen, lines
        self._site = request.site
        # Until etcd has its quorum the lock, which is on the control planes, cannot be taken.
        self._unlocked = Recorder(request.run, replace(session, lock=Unlocked()))
        self._facts: dict[str, NodeFacts] = {}
        self._missing: dict[str, str] = {}
        self._returned: list[str] = []
        self._loaded: Desired | None = None

    def carry_out(self) -> UpResult:
        for stage in up_stages(self._site):
            self._power_on(stage)
            if stage.tier == "control plane":
                self._wait_for_api()
                self._loaded = self._request.load()
        with self._session.lock:
            left = self._bring_back()
            self._finish()
            self._require_sound()
        return UpResult(self._lines, tuple(self._returned), left)

    @property
    def _known(self) -> Site:
        """The site: without the nodes that were removed, as soon as that can be read."""
        return self._loaded.site if self._loaded else self._site

    @property
    def _desired(self) -> Desired:
        assert self._loaded is not None  # noqa: S101  (what asks for it comes after the API)
        return self._loaded

    def _power_on(self, stage: Stage) -> None:
        step = f"{STEP}: power on, {stage.tier}"
        removed = {n.name for n in self._site.nodes} - {n.name for n in self._known.nodes}
        nodes = [self._site.node(name) for name in stage.nodes if name not in removed]
        why = [self._seen[node.name].words for node in nodes]
        with self._unlocked.run_step(step, [node.name for node in nodes], why):
            dark = [node for node in nodes if not self._seen[node.name].answers]
            switch_on(dark, self._seen, self._session)
            seconds = self._request.wait_seconds
            came, missing = wait_for(nodes, self._session, step, seconds)
            self._facts |= came
            self._missing |= missing
            self._require_stage(stage, missing)

    def _require_stage(self, stage: Stage, missing: Mapping[str, str]) -> None:
        """Stop where nothing that follows could work: no registry, or too few control planes."""
        services = self._site.services_node.name
        short = stage.tier == "control plane" and not enough(self._site, self._facts)
        if services in missing or short:
            first = services if services in missing else next(iter(missing))
            rest = {name: why for name, why in missing.items() if name != first}
            raise StepNotVerified(
                f"{first} does not come: {missing[first]}",
                hint=f"look at its console; {self._seen[first].words}; then {AGAIN}",
                details=[f"{name} does not come: {why}" for name, why in rest.items()],
            )

    def _wait_for_api(self) -> None:
        """Until more than half of etcd's members are healthy, and then the API answers."""
        names = [n for n in self._site.control_plane if n.name in self._facts]
        step = f"{STEP}: etcd and the API"
        with self._unlocked.run_step(step, [n.name for n in names], ["control planes are on"]):
            patience = Patience(self._session.clock, ETCD_SECONDS)
            while why := self._unready():
                if patience.is_over():
                    raise StepNotVerified(
                        why, hint=f"see: appliance status; repair it, then {AGAIN}"
                    )
                self._session.observer.verifying(step, why)
                self._session.clock.sleep(POLL_SECONDS)

    def _unready(self) -> str:
        """Why etcd or the API is not ready yet; empty if both are."""
        silent = "etcd answers on no control plane"
        for node in self._site.control_plane:
            if node.name not in self._facts:
                continue
            try:
                members = self._session.etcd.members(node)
            except NodeUnreachable as error:
                silent = error.message
                continue
            if has_quorum(members):
                break
            healthy = [one.name for one in members if one.healthy]
            silent = f"etcd has no quorum: {len(healthy)} of {len(members)} members are healthy"
        else:
            return silent
        return api_silence(Observed(self._facts, self._session.cluster.read(self._facts)))

    def _read_patiently(self) -> Cluster:
        """The cluster, once its API answers: who does not see it knows of no node that is out.

        Raises:
            StepNotVerified: it did not answer in time.
        """
        observed = observe_until(self._look, api_silence, self._session, READY_SECONDS)
        if isinstance(observed.cluster, Cluster):
            return observed.cluster
        raise StepNotVerified(
            api_silence(observed),
            hint=f"see: appliance status; repair it, then {AGAIN}",
            details=self._lacks(),
        )

    def _lacks(self) -> list[str]:
        """One sentence for each node that did not come or was not returned."""
        return [f"{name} does not come: {why}" for name, why in self._missing.items()]

    def _look(self) -> Observed:
        observed, _ = observe(self._known, self._session.nodes, self._session.cluster)
        return observed

    def _bring_back(self) -> tuple[str, ...]:
        """Return what rack down took out; the sentences of what others keep out of service."""
        recorder = Recorder(self._request.run, self._session)
        recorder.begin()
        cluster = self._read_patiently()
        nodes, marks, left = cluster.nodes, away(cluster), []
        for name in return_order(self._known):
            mark = marks.get(name)
            if mark is not None and not is_ours(mark):
                left.append(f"{name} stays {mark.sentence()}")
            elif mark is not None and name not in self._missing:
                self._return(name)
            elif name in nodes and mark is None and nodes[name].unschedulable:
                left.append(f"{name} stays cordoned by others: kubectl uncordon {name}")
        for sentence in left:
            self._session.observer.note(sentence)
        return tuple(left)

    def _return(self, name: str) -> None:
        request = ReturnRequest(
            self._desired,
            self._site.node(name),
            self._request.run,
            self._request.acknowledged,
        )
        try:
            node_return(request, self._session, lambda *_: True)
        except (LeaseLost, Interrupted):
            raise
        except ApplianceError as error:
            self._missing[name] = error.message
            # Where the API is away for long, no other node could return either.
            self._read_patiently()
        else:
            self._returned.append(name)

    def _finish(self) -> None:
        """Verify every member that nobody keeps out, then take the mark of the rack away."""
        step = f"{STEP}: verify"
        names = [n for n in return_order(self._known) if n not in self._missing]
        recorder = Recorder(self._request.run, self._session)
        with recorder.run_step(step, names, ["the rack is up"]):
            points = self._open_points(step, names)
            if lacks := (*self._lacks(), *points):
                first, *others = lacks
                raise StepNotVerified(
                    first,
                    hint=f"see: appliance status; repair it, then {AGAIN}; for a node that is "
                    "lost: appliance node maintain NODE --lost",
                    details=others,
                )
            self._clear()

    def _require_sound(self) -> None:
        """Name what does not come although every node is in service: the GPU stack, Run:ai.

        Raises:
            StepNotVerified: something is not well. The mark of the rack is gone: no node is out.
        """
        step = f"{STEP}: health"
        names = return_order(self._known)
        recorder = Recorder(self._request.run, self._session)
        with recorder.run_step(step, names, ["every node is in service"]):
            found = unsound(self._desired, self._session, step)
            if found:
                first, *others = found
                raise StepNotVerified(
                    f"every node is in service, but {first.sentence}",
                    hint=f"{first.hint}; all checks: appliance health; then {AGAIN}",
                    details=[f"{one.sentence}  hint: {one.hint}" for one in others],
                )

    def _open_points(self, step: str, names: Sequence[str]) -> tuple[str, ...]:
        patience = Patience(self._session.clock, READY_SECONDS)
        while True:
            observed = self._look()
            kept = away(observed.cluster)
            asked = frozenset(name for name in names if name not in kept)
            points = self._judged(observed, asked)
            if not points or patience.is_over():
                return points
            self._session.observer.verifying(step, points[0])
            self._session.clock.sleep(POLL_SECONDS)

    def _judged(self, observed: Observed, names: frozenset[str]) -> tuple[str, ...]:
        """The unmet post-conditions of members in service; the bundle is not asked for."""
        if silence := api_silence(observed):
            return (silence,)
        desired = replace(self._desired, manifest=None)
        return tuple(
            sentence
            for step in INSTALL
            if step.in_service
            for sentence in judge(BY_NAME[step.name], desired, observed, names).sentences()
        )

    def _clear(self) -> None:
        """The annotation first: a record without it does no harm."""
        session, nodes = self._session, self._read_patiently().nodes
        marked = [
            node.name
            for node in self._site.control_plane
            if node.name in nodes and parse_mark(nodes[node.name].annotations.get(ANNOTATION))
        ]
        if marked:
            session.members.annotate(marked, ANNOTATION, None)
        session.rack_record.drop()
