"""A session of fakes, as workflows are given one."""

from __future__ import annotations

from typing import Any

from appliance.workflows.session.session import Session
from tests import samples
from tests.fake_documents import FakeDocuments
from tests.fakes import (
    FakeArchive,
    FakeBundle,
    FakeClock,
    FakeJournal,
    FakeObserver,
    FakeRack,
)


def fake_session(rack: FakeRack, journal: FakeJournal | None = None, **ports: Any) -> Session:
    """A session in which the rack is nodes, cluster, Ansible and members in one."""
    journal = journal or FakeJournal()
    given: dict[str, Any] = {
        **{"clock": FakeClock(), "observer": FakeObserver(), "archive": FakeArchive()},
        **{"documents": FakeDocuments()},
        **{"bundle": FakeBundle(samples.manifest()), "preflight": lambda *_: ()},
        **ports,
    }
    return Session(
        nodes=rack,
        cluster=rack,
        playbooks=rack,
        members=rack,
        journal=journal,
        lock=journal,
        **given,
    )
