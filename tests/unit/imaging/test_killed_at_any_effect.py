"""``node image`` killed at every effect: the same command ends it, and wipes nothing twice."""

from __future__ import annotations

import json
from typing import Any

import pytest

from appliance.errors import StepNotVerified
from tests.unit.imaging.fake_rack import FakeRack
from tests.unit.imaging.killing import Killed, Process, goes_on_without, image

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")

# What one server of two takes; the second one's are alike.
EFFECTS = [
    *("keep", "power", "insert", "boot_once", "power", "keep", "keep"),
    *("power", "eject", "clear_boot", "power", "meet", "keep", "append"),
]


def effects_of_a_run(**more: Any) -> list[str]:
    process = Process()
    image(FakeRack(2), process, at_once=1, **more)
    return process.effects


def test_these_are_the_effects() -> None:
    found = effects_of_a_run()
    assert found == ["offer", *EFFECTS, *EFFECTS, "keep", "keep", "drop", "drop"]


def require_whole(rack: FakeRack, at: object) -> None:
    """Every server is installed, met, qualified, and nothing is left of the runs."""
    for name, box in rack.servers.items():
        assert (box.content, box.power, box.medium, box.boot) == ("system", "On", "", ""), at
        assert name in rack.known, at
        kept = json.loads(rack.hardware.kept[f"hardware/{name}.json"])
        assert kept["verdict"] == "pass", at
    assert rack.notes == {}, at


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(("via", "installers_end"), [("media", False), ("pxe", True)])
def test_the_same_command_ends_it_and_installs_nothing_twice(
    after: bool, via: str, installers_end: bool
) -> None:
    effects = effects_of_a_run(via=via)
    one = effects.index("append") + 2
    # The first server's, the first one of the second server, and what is done once both are there.
    for number in (*range(one + 1), *range(len(effects) - 4, len(effects))):
        rack = FakeRack(2)
        with pytest.raises(Killed):
            image(rack, Process(number, after=after), at_once=1, via=via)
        # Its installer reported the end, and this machine knows: it is not installed again.
        heard = {name for name, note in rack.notes.items() if note.host_key or note.installed}
        whole = heard | {name.split("/")[1].split(".")[0] for name in rack.hardware.kept}
        once = {name: box.installs for name, box in rack.servers.items()}
        goes_on_without(rack, installers_end=installers_end)
        image(rack, Process(), at_once=1, via=via)
        require_whole(rack, number)
        for name, box in rack.servers.items():
            assert box.installs == (once[name] if name in whole else once[name] + 1), number


@pytest.mark.parametrize("second", ["keep", "power"])
def test_a_second_kill_before_the_installer_was_heard_is_healed_too(second: str) -> None:
    rack = FakeRack(1)
    effects = effects_of_a_run(via="pxe")
    on = [number for number, one in enumerate(effects) if one == "power"][1]
    with pytest.raises(Killed):
        image(rack, Process(on, after=True), via="pxe")
    goes_on_without(rack, installers_end=True)
    with pytest.raises(Killed):
        image(rack, Process(effects.index(second), after=True), via="pxe")
    goes_on_without(rack, installers_end=True)
    image(rack, Process(), via="pxe")
    require_whole(rack, second)


def test_a_label_that_no_run_of_ours_gave_is_somebodys() -> None:
    rack = FakeRack(1)
    effects = effects_of_a_run(via="pxe")
    on = [number for number, one in enumerate(effects) if one == "power"][1]
    with pytest.raises(Killed):
        image(rack, Process(on, after=True), via="pxe")
    goes_on_without(rack, installers_end=True)
    rack.servers["w1"].label = "app-fedcba987654"
    with pytest.raises(StepNotVerified) as caught:
        image(rack, Process(), via="pxe")
    assert "is not empty" in caught.value.details[0]
