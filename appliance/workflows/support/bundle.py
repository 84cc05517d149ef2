"""Gather a support bundle: one look, then logs of nodes, of the cluster and of this machine.

What does not answer is a line of the bundle, never an error: half of the nodes may be away. What
must not be here: what is asked, cut and taken out (:mod:`appliance.model.support`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from appliance.model.checks.health.stages import health as judge
from appliance.model.state.cluster.cluster import Cluster
from appliance.model.support.items import Contents, Found, Unanswered
from appliance.model.support.pseudonyms import Pseudonyms, kept_ranges, names_of
from appliance.model.support.record import OBSERVED, SITE, observed_document, site_document
from appliance.model.support.requests import Asking, node_requests
from appliance.workflows.health import HealthResult, stage_of
from appliance.workflows.session.checks import inputs_without_pods
from appliance.workflows.session.doubts import recorded_maintenance
from appliance.workflows.status import StatusRequest, StatusResult, status

if TYPE_CHECKING:
    from appliance.model.site.settings import Node
    from appliance.model.state.journal import Record
    from appliance.workflows.session.session import Session

CLUSTER_SECONDS: Final = 60.0
# Records of the journal where none is of the time asked for.
_FEW: Final = 20
# Renders what was judged: file -> its text, or plain data.
Render = Callable[[StatusResult, HealthResult], Mapping[str, object]]


@dataclass(frozen=True)
class BundleRequest:
    """What is gathered.

    Attributes:
        looked_at: the site, and what is asked for.
        since_seconds: how old logs and records may be.
        tool_version: of this product.
        records: of the journal, oldest first.
        key: names are replaced by this secret of the site; None: names stay.
    """

    looked_at: StatusRequest
    since_seconds: int
    tool_version: str
    records: Sequence[Record] = ()
    key: bytes | None = None


@dataclass(frozen=True)
class BundleResult:
    """What was gathered.

    Attributes:
        contents: of the bundle.
        found: the look that was judged.
    """

    contents: Contents
    found: StatusResult


def gather_bundle(
    request: BundleRequest, session: Session, contents: Contents, render: Render
) -> BundleResult:
    """Look at everything once, judge it, and collect logs; writes nothing but the bundle."""
    site = request.looked_at.site
    session.observer.note(f"inspecting {len(site.nodes)} nodes")
    found = status(request.looked_at, session)
    _replace_names(request, found, contents)
    _put_look(request, session, contents, found, render)
    answering = [node for node in site.nodes if node.name in found.observed.node_facts]
    for fault in found.look.faults:
        contents.missing(fault.node, "facts and logs", fault.reason)
    for name, facts in found.observed.node_facts.items():
        for one in facts.items("unreadable"):
            contents.missing(name, f"facts: {one.get('section')}", str(one.get("reason")))
    _gather_nodes(request, session, contents, answering, found)
    if isinstance(found.observed.cluster, Cluster):
        session.observer.note("asking the Kubernetes API: events, Helm, pods")
        _put(contents, session.evidence.of_cluster(request.since_seconds, CLUSTER_SECONDS))
    else:
        contents.missing("cluster", "events, Helm history, pods", _state(found))
    session.observer.note("reading the logs of runs on this machine")
    _put(contents, session.evidence.of_machine(session.clock.now() - request.since_seconds))
    contents.finish(
        {
            "site": site.name,
            "created": datetime.fromtimestamp(session.clock.now(), UTC).isoformat("T", "seconds"),
            "since_seconds": request.since_seconds,
            "tool_version": request.tool_version,
        }
    )
    return BundleResult(contents, found)


def _replace_names(request: BundleRequest, found: StatusResult, contents: Contents) -> None:
    if request.key is None:
        return
    site, facts = request.looked_at.site, found.observed.node_facts
    people = {name for record in request.records for name in (record.operator, record.host)}
    names = names_of(site, [one.document for one in facts.values()], people, request.key)
    contents.pseudonyms = Pseudonyms(request.key, names, kept_ranges(site))


def _put_look(
    request: BundleRequest,
    session: Session,
    contents: Contents,
    found: StatusResult,
    render: Render,
) -> None:
    site, observed = request.looked_at.site, found.observed
    contents.document(SITE, site_document(site))
    contents.document(OBSERVED, observed_document(site, found.desired, observed))
    for name, facts in observed.node_facts.items():
        contents.document(f"facts/{name}.json", facts.document)
    for name, shown in render(found, _health(found, session)).items():
        if isinstance(shown, str):
            contents.text(name, shown)
        else:
            contents.document(name, shown)
    contents.document("versions.json", session.evidence.versions())
    oldest = datetime.fromtimestamp(session.clock.now() - request.since_seconds, UTC)
    records = [one for one in request.records if _is_since(one, oldest)]
    # What came last before that time is told too: it may be the cause.
    kept = records or list(request.records[-_FEW:])
    contents.document("journal.json", [record.as_json() for record in kept])


def _is_since(record: Record, oldest: datetime) -> bool:
    try:
        return datetime.fromisoformat(record.started) >= oldest
    except (ValueError, TypeError):
        return True


def _health(found: StatusResult, session: Session) -> HealthResult:
    """The checks of a running cluster, by the same look; no test pods are started."""
    desired, site = found.desired, found.desired.site
    inputs = inputs_without_pods(desired, found.observed, session.control_host)
    recorded = recorded_maintenance(session.archive, found.observed, [])
    inputs = replace(inputs, recorded=recorded)
    stage = stage_of(site, None)
    return HealthResult(site, stage, judge(inputs, stage), found.look)


def _gather_nodes(
    request: BundleRequest,
    session: Session,
    contents: Contents,
    answering: Sequence[Node],
    found: StatusResult,
) -> None:
    """The logs of all nodes that answer, at the same time."""
    asking = Asking(
        node_requests(request.since_seconds),
        request.since_seconds,
        contents.limits.node_seconds,
        with_pods=not isinstance(found.observed.cluster, Cluster),
    )
    counts = {node.name: [0, 0] for node in answering}
    answers = session.evidence.of_nodes(answering, asking)
    for name, answer in answers:
        if answer is None:
            told, silent = counts[name]
            more = f", {silent} without an answer" if silent else ""
            session.observer.note(f"{name}: {told} answers{more}")
            continue
        counts[name][isinstance(answer, Unanswered)] += 1
        _put(contents, [answer])


def _put(contents: Contents, answers: Iterable[Found | Unanswered]) -> None:
    for answer in answers:
        if isinstance(answer, Unanswered):
            contents.missing(answer.where, answer.what, answer.cause)
        else:
            contents.text(answer.name, answer.text)


def _state(found: StatusResult) -> str:
    reason = getattr(found.observed.cluster, "reason", "")
    return f"no API server answers: {reason}" if reason else "there is no cluster"
