"""One journal record for each step of a run, however the step ends."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from appliance.errors import (
    ApplianceError,
    ClusterError,
    Interrupted,
    NodeUnreachable,
    Refused,
    StepNotVerified,
)
from appliance.model.state.facts.facts import NodeFacts, facts_digest
from appliance.model.state.journal import Outcome, Record, Run

if TYPE_CHECKING:
    from appliance.workflows.session.session import Session

AGAIN: Final = "run the same command again: it resumes here"


@contextmanager
def begun() -> Iterator[None]:
    """Once something was changed, no error says that nothing was.

    Raises:
        ClusterError: in place of what refuses, or could not be reached, before a change.
    """
    try:
        yield
    except (Refused, NodeUnreachable) as error:
        raise ClusterError(
            error.message, hint=error.hint or AGAIN, details=(*error.details, AGAIN)
        ) from error


@dataclass
class Evidence:
    """What a step is judged by; the step fills in ``after``.

    Attributes:
        before: node -> digest of its facts' stable fields before the step.
        after: the same, after it.
        took_seconds: set when the step has ended.
        error: why it failed, or None.
    """

    before: Mapping[str, str] = field(default_factory=dict)
    after: Mapping[str, str] = field(default_factory=dict)
    took_seconds: float = 0.0
    error: ApplianceError | None = None


def digests(node_facts: Mapping[str, NodeFacts], nodes: Iterable[str]) -> dict[str, str]:
    """Node -> digest of its facts' stable fields, of those nodes that were seen."""
    return {name: facts_digest(node_facts[name]) for name in nodes if name in node_facts}


class Recorder:
    """Numbers the steps of one run, and writes each into the journal when it ends."""

    def __init__(self, run: Run, session: Session) -> None:
        self._run = run
        self._session = session
        self._sequence = 0
        self._noted: tuple[str, ...] = ()

    def begin(self) -> None:
        """Make sure that the site is ours; for a caller that shows a step before it records it.

        Raises:
            Refused, NodeUnreachable: it is not, and nothing was changed.
            LeaseLost: it is no longer.
        """
        self._noted += self._session.lock.require()

    @contextmanager
    def step(self, name: str, nodes: Sequence[str], why: Sequence[str]) -> Iterator[Evidence]:
        """Time a step and record its outcome; errors are re-raised.

        Raises:
            Refused, NodeUnreachable, LeaseLost: the site is not ours; the step did not begin.
            ClusterError: a node or the API could not be reached after it began.
            Interrupted: the operator pressed Ctrl-C, or the process was told to end.
        """
        self.begin()
        why, self._noted = (*why, *self._noted), ()
        evidence, clock = Evidence(), self._session.clock
        started, began = clock.now(), clock.monotonic()
        try:
            yield evidence
        except NodeUnreachable as error:
            # Exit 4 says that nothing was changed: once a step began, nobody can promise that.
            hint = error.hint or AGAIN
            evidence.error = ClusterError(error.message, hint=hint, details=error.details)
            raise evidence.error from error
        except ApplianceError as error:
            evidence.error = error
            raise
        except KeyboardInterrupt:
            evidence.error = Interrupted(
                f"interrupted during the verification of {name}",
                hint=AGAIN,
            )
            raise evidence.error from None
        except BaseException as error:
            evidence.error = _unforeseen(error)
            raise
        finally:
            evidence.took_seconds = clock.monotonic() - began
            self._sequence += 1
            self._append(self._record(name, nodes, why, started, evidence))

    def _append(self, record: Record) -> None:
        """Write the record; where the step failed, no fault of the journal hides why.

        Raises:
            OSError: the record of a verified step could not be written.
        """
        try:
            self._session.journal.append(record)
        except OSError as fault:
            if record.outcome == "verified":
                raise
            self._session.observer.note(f"{record.step}: not written into the journal: {fault}")

    @contextmanager
    def run_step(self, name: str, nodes: Sequence[str], why: Sequence[str]) -> Iterator[Evidence]:
        """The same, and the session's observer draws it: it starts once the site is ours.

        Raises:
            Refused, NodeUnreachable, LeaseLost, ClusterError, Interrupted: as ``step`` does.
        """
        self.begin()
        observer = self._session.observer
        observer.step_started(name, nodes)
        evidence = Evidence()
        try:
            with self.step(name, nodes, why) as evidence:
                yield evidence
        except BaseException as error:
            evidence.error = evidence.error or _unforeseen(error)
            raise
        finally:
            observer.step_ended(name, evidence.took_seconds, evidence.error)

    @contextmanager
    def on_node(self, name: str, node: str, why: str) -> Iterator[Evidence]:
        """The same for a step of one node, with one reason.

        Raises:
            Refused, NodeUnreachable, LeaseLost, ClusterError, Interrupted: as ``step`` does.
        """
        with self.run_step(name, (node,), (f"{node}: {why}",)) as evidence:
            yield evidence

    def _record(
        self,
        name: str,
        nodes: Sequence[str],
        why: Sequence[str],
        started: float,
        evidence: Evidence,
    ) -> Record:
        return Record(
            run=self._run.id,
            sequence=self._sequence,
            command=self._run.command,
            step=name,
            nodes=tuple(nodes),
            why=tuple(why),
            started=datetime.fromtimestamp(started, UTC).isoformat(timespec="seconds"),
            took_seconds=round(evidence.took_seconds, 3),
            outcome=_outcome(evidence.error),
            operator=self._run.operator,
            tool_version=self._run.tool_version,
            bundle_digest=self._run.bundle_digest,
            before=evidence.before,
            after=evidence.after,
            error=evidence.error.message if evidence.error else None,
            host=self._run.host,
            arguments=self._run.arguments,
        )


def _unforeseen(error: BaseException) -> ApplianceError:
    """What no step foresees, as the sentence of a record: its class and what it says."""
    if isinstance(error, ApplianceError):
        return error
    return ApplianceError(f"{error.__class__.__name__}: {error}".removesuffix(": "))


def _outcome(error: ApplianceError | None) -> Outcome:
    if error is None:
        return "verified"
    if isinstance(error, Interrupted):
        return "interrupted"
    return "not verified" if isinstance(error, StepNotVerified) else "failed"
