"""Eight bare servers at once by the real command: one BMC hangs, one rejects media, SIGKILL.

STANDINs: the BMCs, which speak Redfish over TLS, and the servers. Real: ``appliance node image`` as
a process, its medium, HTTP, the judgement of the disks, SSH.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from appliance.model.node.imaging.medium import INSTALLERS
from tests.prerequisites import require
from tests.standins.bare_rack import NAMES, Rack, bare_rack
from tests.standins.simulated_bmcs import LOGIN

pytestmark = pytest.mark.slow

HANGS, REJECTS = "w3", "w5"
FAULTS: Mapping[str, Mapping[str, Any]] = {
    # Looks are answered: it hangs once it is told to do something.
    HANGS: {"faults": [{"method": "POST", "path": ".*VirtualMedia.*", "hang": 3600.0}]},
    REJECTS: {"quirks": {"media_refused": 400}},
}
KILLS = 5
# Of six servers that come to their end, and two with a note alone: see _stage.
STAGES = 6 * 4 + 2


@pytest.fixture(scope="module")
def iso(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A medium of the stand-in's layout, which boots nothing."""
    require("xorriso")
    folder = tmp_path_factory.mktemp("iso")
    for name in INSTALLERS["standin"].stays:
        path = folder / "tree" / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"boots nothing\n" * 1000)
    words = ["xorriso", "-as", "mkisofs", "-r", "-V", "STANDIN", "-o", "standin.iso", "tree"]
    subprocess.run(words, cwd=folder, check=True, capture_output=True, timeout=120)
    return folder / "standin.iso"


def six_are_done_and_two_are_named(rack: Rack) -> None:
    """Exit 1; the two that failed are named, each with its reason."""
    done = rack.image()
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"2 of 8 servers are not installed: {HANGS}, {REJECTS}" in done.stderr
    told = {one["node"]: one for one in json.loads(done.stdout)["nodes"]}
    failures = {name: one["failure"] for name, one in told.items() if one["failure"]}
    assert sorted(failures) == [HANGS, REJECTS], failures
    assert "the order to insert the image failed" in failures[HANGS], failures
    assert "400" in failures[REJECTS], failures
    assert rack.installs() == {name: int(name not in failures) for name in NAMES}
    assert LOGIN["password"] not in done.stdout + done.stderr


def all_are_done(rack: Rack, runs: int = 1) -> dict[str, str]:
    """Exit 0: all are installed and qualified, and no note is left; what was done to each.

    Args:
        rack: with BMCs that are repaired.
        runs: how often the command may be typed: on a busy machine a BMC is late, and is named.
    """
    done = rack.image()
    for _again in range(runs - 1):
        if done.returncode != 1:
            break
        print(done.stderr)  # noqa: T201 - why a run more was needed
        done = rack.image()
    assert done.returncode == 0, done.stdout + done.stderr
    assert rack.notes() == {}
    return {one["node"]: one["does"] for one in json.loads(done.stdout)["nodes"]}


def test_after_a_repair_the_same_command_does_only_the_two_that_failed(
    tmp_path: Path, iso: Path
) -> None:
    with bare_rack(tmp_path, iso, FAULTS) as rack:
        began = time.monotonic()
        six_are_done_and_two_are_named(rack)
        took = time.monotonic() - began
        print(f"eight servers at once, two with faults: {took:.0f} s")  # noqa: T201 - a figure
        rack.repair(HANGS, REJECTS)
        does = all_are_done(rack)
        assert {name for name, what in does.items() if what != "done"} == {HANGS, REJECTS}
        assert set(all_are_done(rack).values()) == {"done"}
        assert rack.installs() == dict.fromkeys(NAMES, 1)


def _stage(rack: Rack) -> int:
    """How far all servers together are, by what a run that is killed leaves of each."""
    marks = ("writing", "host_key", "installed")
    # A note of an installed server tells nothing of before.
    return sum(
        1 + (3 if note["installed"] else sum(bool(note[mark]) for mark in marks))
        for note in rack.notes().values()
    )


@pytest.mark.parametrize("number", range(KILLS))
def test_killed_at_any_moment_the_same_command_ends_it(
    number: int, tmp_path: Path, iso: Path
) -> None:
    seed = os.environ.get("APPLIANCE_SEED") or str(random.randrange(10**9))  # noqa: S311
    chance = random.Random(f"{seed} {number}")  # noqa: S311 - no secret
    # Each of them in a part of the work of its own, however slow this machine is.
    part = STAGES / KILLS
    stage = int(number * part + chance.random() * part)
    seconds = chance.uniform(0.0, 30.0 if stage == 0 else 3.0)
    print(f"seed {seed}: killed {seconds:.1f} s after stage {stage}")  # noqa: T201
    with bare_rack(tmp_path, iso, FAULTS) as rack:
        rack.kill_image(lambda: _stage(rack) >= stage, seconds)
        notes, once = rack.notes(), rack.installs()
        print(f"notes: {notes}, installed: {once}")  # noqa: T201
        heard = {n for n, note in notes.items() if note["host_key"] or note["installed"]}
        rack.repair(HANGS, REJECTS)
        all_are_done(rack, runs=3)
        for name, installs in rack.installs().items():
            if name in heard:
                assert installs == once[name], (name, notes, once)
            elif name in notes:
                # It was under way, and nobody heard of its end (decision 264).
                assert once[name] <= installs <= 2, (name, notes, once)
            else:
                assert installs == 1, (name, notes, once)
