"""What a bundle says is wrong: the checks run again on its facts, and symptoms in its logs.

Pure: the documents of a bundle go in as they were read. Findings that rest on what stayed with the
site (its certificates, its vault, its own resolver) are taken as the bundle has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from appliance.errors import ApplianceError
from appliance.model.checks.health.inputs import HealthInputs
from appliance.model.checks.health.stages import Stage, health
from appliance.model.documents.strict_json import Unreadable
from appliance.model.plan.planner import plan
from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts
from appliance.model.state.facts.reader import NotFacts, check_facts
from appliance.model.state.findings import Finding
from appliance.model.state.observed import Observed
from appliance.model.support.causes import (
    OTHERWISE,
    PAGES,
    STEP_PAGES,
    SYMPTOMS,
    UNREACHABLE,
    Symptom,
)
from appliance.model.support.record import Recorded, desired_of, read_recorded

# Checks and steps whose inputs do not travel.
OF_THE_SITE: Final = frozenset(
    {
        *("certificate", "login", "dns_control_host", "dns_pods", "node_connectivity"),
        *("registry", "ca_trust", "cluster_version", "maintenance"),
    }
)
STEPS_OF_THE_SITE: Final = frozenset({"preflight", "registry", "runai", "access"})
_LONGEST: Final = 300
_PLAN: Final = "appliance plan"


@dataclass(frozen=True)
class Cause:
    """One likely cause.

    Attributes:
        name: of the check, the step or the symptom.
        where: a node, or ``cluster``.
        said: what is wrong, one sentence.
        evidence: what shows it: a line of a log, or what a check saw.
        page: the page of operations about it.
        certain: it was judged from facts; else a log hints at it.
        count: of lines of logs.
        hint: the next command, or empty.
    """

    name: str
    where: str
    said: str
    evidence: str
    page: str
    certain: bool = True
    count: int = 1
    hint: str = ""


@dataclass
class Symptoms:
    """What was found in logs, line by line; holds one line of each kind."""

    _found: dict[tuple[str, str], tuple[Symptom, str, int]] = field(default_factory=dict)
    _searched: dict[str, tuple[Symptom, ...]] = field(default_factory=dict)

    def line(self, name: str, line: str) -> None:
        """Take one line of a text of the bundle into account."""
        if name not in self._searched:
            self._searched[name] = tuple(one for one in SYMPTOMS if one.is_searched(name))
        for symptom in self._searched[name]:
            if symptom.search(line):
                key = (symptom.name, _where(name))
                count = self._found[key][2] if key in self._found else 0
                # The newest line says most.
                self._found[key] = (symptom, f"{name}: {line.strip()[:_LONGEST]}", count + 1)

    def causes(self) -> tuple[Cause, ...]:
        """Those that were found often enough, the most frequent first."""
        found = [
            Cause(one.name, where, one.cause, line, one.page, certain=False, count=count)
            for (_, where), (one, line, count) in self._found.items()
            if count >= one.needs
        ]
        return tuple(sorted(found, key=lambda one: (-one.count, one.name, one.where)))


@dataclass(frozen=True)
class Explanation:
    """What a bundle says.

    Attributes:
        about: its manifest.
        causes: from facts first, then from logs.
        unanswered: what was asked at the site and did not answer.
        doubts: documents that could not be read or judged, one sentence each.
    """

    about: Mapping[str, Any]
    causes: tuple[Cause, ...]
    unanswered: tuple[Mapping[str, str], ...] = ()
    doubts: tuple[str, ...] = ()


def explain(
    documents: Mapping[str, Any],
    symptoms: Symptoms,
    desired: Callable[[Recorded], Desired],
) -> Explanation:
    """Name likely causes.

    Args:
        documents: name in the bundle -> its JSON, read within limits.
        symptoms: what was found in its logs.
        desired: the release that a look names, as a desired state; raises an ApplianceError where
            this version does not know it.
    """
    doubts: list[str] = []
    causes: list[Cause] = []
    try:
        recorded = read_recorded(documents.get("site.json"), documents.get("observed.json"))
        facts = _facts(documents, recorded, doubts)
        wish = desired_of(recorded, desired(recorded))
        causes += _judged(recorded, wish, facts)
        causes += _recorded(documents, OF_THE_SITE, STEPS_OF_THE_SITE)
    except (Unreadable, ApplianceError, ValueError, KeyError, StopIteration) as error:
        doubts.append(f"its facts were not judged again, so its own results are shown: {error}")
        causes = list(_recorded(documents, None, None))
    found = tuple(dict.fromkeys((*causes, *symptoms.causes())))
    return Explanation(
        about=_mapping(documents.get("bundle.json")),
        causes=found,
        unanswered=tuple(_texts(one) for one in _list(documents.get("unanswered.json"))),
        doubts=tuple(doubts),
    )


def _facts(
    documents: Mapping[str, Any], recorded: Recorded, doubts: list[str]
) -> dict[str, NodeFacts]:
    found = {}
    for node in recorded.site.nodes:
        document = documents.get(f"facts/{node.name}.json")
        if document is None:
            continue
        try:
            found[node.name] = check_facts(document)
        except NotFacts as error:
            doubts.append(f"facts/{node.name}.json: {error}")
    return found


def _judged(
    recorded: Recorded,
    desired: Desired,
    facts: Mapping[str, NodeFacts],
) -> Iterator[Cause]:
    """The checks and the plan of this version, on the facts of the bundle."""
    observed = Observed(facts, recorded.cluster, recorded.faults)
    for fault in recorded.faults:
        yield Cause(
            "unreachable", fault.node, fault.reason, "no facts", UNREACHABLE, hint=fault.hint
        )
    stage: Stage = "runai" if desired.site.settings.runai is not None else "cluster"
    for result in health(HealthInputs(desired, observed), stage):
        if result.check.name not in OF_THE_SITE:
            yield from (_of(finding) for finding in result.findings)
    for step in plan(desired, observed, ()).steps:
        if step.name not in STEPS_OF_THE_SITE:
            page = STEP_PAGES.get(step.name, OTHERWISE)
            for reason in step.reasons:
                yield Cause(step.name, reason.node, reason.text, "plan", page, hint=_PLAN)


def _of(finding: Finding) -> Cause:
    page = PAGES.get(finding.check, OTHERWISE)
    return Cause(
        finding.check, finding.node, finding.sentence(), finding.seen, page, hint=finding.hint
    )


def _recorded(
    documents: Mapping[str, Any], checks: frozenset[str] | None, steps: frozenset[str] | None
) -> Iterator[Cause]:
    """What the site's own version found; None: of every check and step."""
    for check in _list(_mapping(documents.get("health.json")).get("checks")):
        name = str(_mapping(check).get("check"))
        if checks is None or name in checks:
            findings = _list(_mapping(check).get("findings"))
            yield from (_of_recorded(name, _texts(one), OTHERWISE) for one in findings)
    made = _mapping(documents.get("plan.json"))
    for one in _list(made.get("refusals")):
        refusal = _texts(one)
        yield _of_recorded(refusal.get("check", "preflight"), refusal, "requirements")
    for step in _list(made.get("steps")):
        name = str(_mapping(step).get("name"))
        if name != "preflight" and (steps is None or name in steps):
            yield from _of_step(name, _list(_mapping(step).get("reasons")))


def _of_recorded(name: str, finding: Mapping[str, str], otherwise: str) -> Cause:
    where, seen = finding.get("node", "site"), finding.get("seen", "")
    said = f"{where}: {name}: found {seen}, expected {finding.get('expected')}"
    return Cause(name, where, said, seen, PAGES.get(name, otherwise), hint=finding.get("hint", ""))


def _of_step(name: str, reasons: list[Any]) -> Iterator[Cause]:
    for one in reasons:
        reason, page = _texts(one), STEP_PAGES.get(name, OTHERWISE)
        yield Cause(
            name, reason.get("node", "site"), reason.get("text", ""), "plan", page, hint=_PLAN
        )


def _where(name: str) -> str:
    parts = name.split("/")
    return parts[1] if parts[0] == "nodes" and len(parts) > 1 else "cluster"


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _texts(value: Any) -> Mapping[str, str]:
    return {str(key): str(inner)[:1000] for key, inner in _mapping(value).items()}
