"""A step is recorded as proven only when it came to its end."""

from __future__ import annotations

import errno

import pytest

from appliance.errors import ApplianceError, ClusterError, LeaseLost, NodeUnreachable
from appliance.workflows.session.recording import Recorder
from appliance.workflows.session.session import Session
from tests.fakes import FakeClock, FakeJournal, FakeObserver, run


class MarkupError(Exception):
    """As a display raises it."""


def recorder(
    journal: FakeJournal, clock: FakeClock | None = None, observer: FakeObserver | None = None
) -> Recorder:
    journal.entered += 1
    clock, observer = clock or FakeClock(), observer or FakeObserver()
    return Recorder(run(), Session(journal=journal, lock=journal, clock=clock, observer=observer))


@pytest.mark.parametrize(
    ("raised", "error"),
    [
        (OSError(errno.ENOSPC, "No space left"), "OSError: [Errno 28] No space left"),
        (BrokenPipeError(), "BrokenPipeError"),
        (MarkupError("closing tag"), "MarkupError: closing tag"),
        (SystemExit(0), "SystemExit: 0"),
        (GeneratorExit(), "GeneratorExit"),
        (MemoryError(), "MemoryError"),
    ],
    ids=repr,
)
def test_an_unexpected_error_is_recorded_as_failed_and_raised_again(
    raised: BaseException, error: str
) -> None:
    journal = FakeJournal()
    with pytest.raises(type(raised)) as caught, recorder(journal).step("runtime", ["w1"], ["x"]):
        raise raised
    assert caught.value is raised
    assert [(r.outcome, r.error) for r in journal.records] == [("failed", error)]


def test_a_step_that_did_not_begin_is_not_drawn_as_verified() -> None:
    class Lost(FakeJournal):
        def require(self) -> tuple[str, ...]:
            super().require()
            if self.begun > 1:
                raise LeaseLost("taken over")
            return ()

    journal, observer = Lost(), FakeObserver()
    with (
        pytest.raises(LeaseLost),
        recorder(journal, observer=observer).run_step("runtime", ["w1"], ["x"]),
    ):
        pytest.fail("the step began")
    assert [said[0] for said in observer.said] == ["started", "ended"]
    assert isinstance(observer.said[-1][3], LeaseLost)
    assert journal.records == []


def test_a_step_whose_record_could_not_be_written_is_not_drawn_as_verified() -> None:
    class Full(FakeJournal):
        def append(self, _record: object) -> None:
            raise OSError(errno.ENOSPC, "No space left")

    observer = FakeObserver()
    with (
        pytest.raises(OSError, match="No space"),
        recorder(Full(), observer=observer).run_step("runtime", ["w1"], ["x"]),
    ):
        pass
    assert isinstance(observer.said[-1][3], ApplianceError)


@pytest.mark.parametrize("raised", [ClusterError("w1: kubeadm failed"), RuntimeError("x")])
def test_a_journal_that_is_full_does_not_hide_why_a_step_failed(raised: Exception) -> None:
    class Full(FakeJournal):
        def append(self, _record: object) -> None:
            raise OSError(errno.ENOSPC, "No space left")

    observer = FakeObserver()
    with (
        pytest.raises(type(raised)) as caught,
        recorder(Full(), observer=observer).run_step("runtime", ["w1"], ["x"]),
    ):
        raise raised
    assert caught.value is raised
    assert any("not written into the journal" in str(said) for said in observer.said)


def test_an_error_is_drawn_as_it_is_recorded() -> None:
    journal, observer = FakeJournal(), FakeObserver()
    with (
        pytest.raises(ClusterError) as caught,
        recorder(journal, observer=observer).run_step("runtime", ["w1"], ["x"]),
    ):
        raise NodeUnreachable("w1: no answer")
    assert observer.said[-1][3] is caught.value
    assert journal.records[0].outcome == "failed"


def test_how_long_a_step_took_does_not_follow_a_clock_that_is_set() -> None:
    class Set(FakeClock):
        ahead = 0.0

        def now(self) -> float:
            return super().now() + self.ahead

    clock, journal = Set(), FakeJournal()
    with recorder(journal, clock).step("runtime", ["w1"], ["x"]):
        clock.sleep(2.0)
        clock.ahead = 3600.0
    assert journal.records[0].took_seconds == 2.0
