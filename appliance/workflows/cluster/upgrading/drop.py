"""Drop an upgrade that has changed nothing yet: ``cluster upgrade --abandon``.

The release of before is written into ``site.yml`` first and the marks go last: until then every
command names the upgrade, and a run that was killed is repeated. What must not be here: when that
is allowed (:mod:`appliance.model.upgrade.moves.drop`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from appliance.errors import NodeUnreachable, StepNotVerified
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.state.upgrade import ANNOTATION, mark_of
from appliance.model.upgrade.evidence import Silence
from appliance.model.upgrade.moves.drop import Drop, DropEvidence, left_out_before, plan_drop
from appliance.workflows.cluster.upgrading.revive import keep_record
from appliance.workflows.session.confirmation import require_as_shown, require_confirmed
from appliance.workflows.session.recording import AGAIN, Recorder, begun
from appliance.workflows.session.survey import observe, refuse, require_all

if TYPE_CHECKING:
    from appliance.model.site.settings import Site
    from appliance.model.state.journal import Run
    from appliance.model.upgrade.path import Hop
    from appliance.workflows.session.session import Session

DROP: Final = "upgrade: drop"


@dataclass(frozen=True)
class DropRequest:
    """What was asked for.

    Attributes:
        hops: release -> what it runs, of every release that this tool knows.
    """

    site: Site
    hops: Mapping[str, Hop]
    run: Run
    dry_run: bool = False


@dataclass(frozen=True)
class DropResult:
    """How it ended.

    Attributes:
        drop: what was, or would be, dropped; None: no upgrade is under way.
    """

    drop: Drop | None
    done: bool = False


def drop_upgrade(
    request: DropRequest, session: Session, confirm: Callable[[Drop], bool]
) -> DropResult:
    """Observe, refuse or drop the upgrade, and verify that.

    Args:
        request: what was asked for.
        session: with ``choose_release`` and ``upgrade_evidence``.
        confirm: asks the operator.

    Raises:
        NodeUnreachable: a node or the API does not answer; nothing was changed.
        PreflightFailed: the upgrade began, or may have; nothing was changed.
        Refused: not confirmed, ``site.yml`` cannot be written, or another command is at work;
            nothing was changed.
        ClusterError: the API refused, or a node could not be reached; the same command goes on.
        StepNotVerified: a node has the mark still.
    """
    drop = _planned(request, session)
    if drop is None or request.dry_run:
        return DropResult(drop)
    require_confirmed(confirm(drop))
    with session.lock:
        recorder = Recorder(request.run, session)
        recorder.begin()
        now = _planned(request, session)
        require_as_shown(drop, now, "the upgrade has changed since it was shown")
        why = (f"{drop.mark.sentence()}; {drop.who} runs {drop.before}",)
        with recorder.run_step(DROP, drop.nodes, why):
            session.choose_release(drop.before)
            with begun():
                _carry_out(request, session, drop)
    return DropResult(drop, done=True)


def _planned(request: DropRequest, session: Session) -> Drop | None:
    site, evidence = request.site, session.upgrade_evidence
    observed, look = observe(site, session.nodes, session.cluster)
    cluster = observed.cluster
    if not isinstance(cluster, Cluster):
        require_all(look)
        raise NodeUnreachable(
            "no Kubernetes API server answers: nobody can say whether an upgrade began",
            hint="see what is wrong: appliance status",
        )
    mark = mark_of(cluster)
    if mark is None:
        return None
    require_all(look, left_out_before(site, mark))
    kept = {
        node.name: evidence.began(node, mark.id) if evidence else Silence("it was not asked")
        for node in site.control_plane
    }
    found = DropEvidence(kept, session.journal.read(), request.hops)
    plan = plan_drop(site, observed, cluster, mark, found)
    if isinstance(plan, Drop):
        return plan
    refuse(plan)
    raise AssertionError("a refusal ends the command")


def _carry_out(request: DropRequest, session: Session, drop: Drop) -> None:
    """Take the marks away, or give back that of before, and look whether they are gone."""
    former = drop.former
    # First where it is read without an API: no command revives an upgrade that is over.
    keep_record(session, former or replace(drop.mark, over=True))
    session.members.annotate(drop.nodes, ANNOTATION, former.as_text() if former else None)
    left, _ = observe(request.site, session.nodes, session.cluster)
    if not isinstance(left.cluster, Cluster) or mark_of(left.cluster) != former:
        raise StepNotVerified(
            f"{', '.join(drop.nodes)}: the mark of the upgrade was taken away, but it is not seen "
            "to be gone",
            hint=AGAIN,
        )
