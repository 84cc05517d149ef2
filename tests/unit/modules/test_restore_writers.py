"""What writes into Run:ai's databases stops and starts as it was, whatever ends the process."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.modules.database_course import DyingJob, Killed
from tests.unit.modules.fake_backend import Backend

from ansible.module_utils import appliance_restore_writers as writers  # isort: skip

STOPPED = {"web": 0, "metrics": 0, "cleaner": 0, "postgresql": 1}
AS_BEFORE = {"web": 2, "metrics": 1, "cleaner": 1, "postgresql": 1}


def test_everything_but_the_database_stops_and_starts_again() -> None:
    backend: Any = Backend()
    assert sorted(writers.stop(backend)) == ["cleaner", "metrics", "web"]
    assert backend.counts() == STOPPED
    assert sorted(writers.start(backend)) == ["cleaner", "metrics", "web"]
    assert backend.counts() == AS_BEFORE
    assert backend.marks() == []


def _stop_and_start(backend: Any) -> None:
    writers.stop(backend)
    writers.start(backend)


@pytest.mark.parametrize("at", range(1, 7))
def test_a_process_that_ends_anywhere_leaves_what_the_next_one_needs(at: int) -> None:
    backend: Any = Backend()
    backend.dies = DyingJob(at)
    with pytest.raises(Killed):
        _stop_and_start(backend)
    backend.dies = None
    writers.stop(backend)
    assert backend.counts() == STOPPED
    writers.start(backend)
    assert backend.counts() == AS_BEFORE


def test_what_was_stopped_before_stays_stopped() -> None:
    backend: Any = Backend()
    backend.workloads["deployments.apps", "web"]["spec"]["replicas"] = 0
    writers.stop(backend)
    writers.start(backend)
    assert backend.counts() == {**AS_BEFORE, "web": 0}


def test_what_was_stopped_starts_although_the_database_has_no_pod() -> None:
    """Its pod may be lost while the databases are exchanged; nothing else would start the rest."""
    backend: Any = Backend()
    writers.stop(backend)
    backend.pod = False
    writers.start(backend)
    assert backend.counts() == AS_BEFORE


def test_one_that_does_not_start_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    backend: Any = Backend()
    writers.stop(backend)
    real = backend.call

    def call(arguments: list[str], *more: Any) -> Any:
        if "web" in arguments:
            raise writers.KubectlError("a webhook refuses it")
        return real(arguments, *more)

    monkeypatch.setattr(backend, "call", call)
    with pytest.raises(writers.WriterError, match="web: a webhook refuses it"):
        writers.start(backend)
    assert backend.counts() == {**AS_BEFORE, "web": 0}
    monkeypatch.undo()
    writers.start(backend)
    assert backend.counts() == AS_BEFORE


@pytest.mark.parametrize("mark", ["99999; rm", "99999", "\u00b2", "", "-1"])
def test_a_number_that_a_person_wrote_on_it_is_judged(mark: str) -> None:
    backend: Any = Backend()
    writers.stop(backend)
    web = backend.workloads["deployments.apps", "web"]
    web["metadata"]["annotations"][writers.ANNOTATION] = mark
    writers.start(backend)
    assert backend.counts()["web"] == 1


def test_a_pod_that_does_not_end_is_named() -> None:
    backend: Any = Backend()
    backend.stays = ["web-old"]
    with pytest.raises(writers.WriterError, match="web-old"):
        writers.stop(backend)


@pytest.mark.parametrize(
    ("broken", "words"),
    [("namespace", "Run:ai is not installed"), ("pod", "does not run"), ("ready", "not Ready")],
)
def test_a_server_that_cannot_be_asked_is_told(broken: str, words: str) -> None:
    backend: Any = Backend()
    assert writers.fault_of_database(backend) == ""
    setattr(backend, broken, False)
    assert words in writers.fault_of_database(backend)
