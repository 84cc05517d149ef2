"""What a failed play is told as, however much its node said."""

from pathlib import Path

import pytest

from appliance.adapters.ansible.playbooks import PlayEvents
from appliance.model.plan.play import Play

PLAY = Play(playbook="access", run="r1", limit=("cp1",), inventory={})


@pytest.mark.parametrize("event", ["runner_on_failed", "runner_on_unreachable"])
def test_a_long_answer_keeps_its_beginning_and_its_end(event: str) -> None:
    events = PlayEvents(lambda *_: None)
    said = "No data was sent: " + "@" * 100_000 + "Host key verification failed."
    events({"event": event, "event_data": {"host": "cp1", "task": "t", "res": {"msg": said}}})
    told = str(events.failure(PLAY, Path("ansible.log"), "failed"))
    assert told.startswith("cp1: No data was sent: ")
    assert told.endswith("Host key verification failed.")
    assert len(told) < 1100
