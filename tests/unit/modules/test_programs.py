"""A program on a node runs under a limit, and what hangs is named."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.processes import is_running
from tests.unit.modules.loading import load_utils

programs = load_utils("appliance_programs")
IGNORES = "trap '' TERM; echo here; while :; do sleep 0.1; done"


@pytest.fixture(autouse=True)
def _soon_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "KILL_SECONDS", 1)


def test_what_a_program_says_and_returns_is_handed_back() -> None:
    assert programs.run(["sh", "-c", "cat; echo no >&2; exit 3"], data="ö") == (3, "ö", "no\n")


def test_a_program_that_hangs_is_ended_and_named() -> None:
    rc, out, err = programs.run(["sleep", "60"], seconds=0.2)
    assert (rc, out) == (programs.LATE, "")
    assert err == "sleep 60 did not end within 0.2 s and was ended"


def test_a_program_that_ignores_the_request_to_end_is_killed_with_all_it_started(
    tmp_path: Path,
) -> None:
    child = tmp_path / "child"
    script = f"(trap '' TERM; echo $BASHPID > {child}; exec sleep 60) & {IGNORES}"
    began = time.monotonic()
    rc, _, err = programs.run(["bash", "-c", script], seconds=5)
    assert rc == programs.LATE
    assert "its last output: here" in err
    assert time.monotonic() - began < 50
    assert not is_running(int(child.read_text()))


def test_a_program_that_ends_leaves_its_service_alone_and_is_not_waited_for(tmp_path: Path) -> None:
    child = tmp_path / "child"
    began = time.monotonic()
    rc, out, _ = programs.run(["bash", "-c", f"sleep 30 & echo $! > {child}; echo done"], 20)
    assert (rc, out) == (0, "done\n")
    assert time.monotonic() - began < 5
    pid = int(child.read_text())
    assert is_running(pid)
    os.kill(pid, 9)


def test_a_program_of_its_own_that_returns_124_is_not_late() -> None:
    assert programs.run(["sh", "-c", "exit 124"]) == (124, "", "")


def test_a_program_that_is_absent_is_named() -> None:
    rc, _, err = programs.run(["no-such-program", "x"])
    assert rc == programs.ABSENT
    assert err.startswith("no-such-program x: ")
    assert "No such file" in err
    assert programs.run(["true"], directory="/nonexistent")[0] == programs.ABSENT


def test_a_program_that_never_stops_talking_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "LONGEST_OUTPUT", 1000)
    rc, out, err = programs.run(["head", "-c", "5000", "/dev/zero"])
    assert (rc, out) == (1, "")
    assert err == "head -c 5000 /dev/zero wrote more than 1000 bytes"


def test_a_program_that_does_not_read_its_data_is_judged_by_its_return_code() -> None:
    assert programs.run(["true"], data="x" * (1 << 20)) == (0, "", "")


def test_the_words_of_a_program_do_not_follow_the_locale_of_the_node() -> None:
    assert programs.run(["sh", "-c", "echo $LC_ALL"])[1] == "C.UTF-8\n"
    assert programs.run(["env"], environment={"PATH": "/usr/bin:/bin"})[1] == "PATH=/usr/bin:/bin\n"


class Module:
    """What a module's end looks like."""

    def fail_json(self, **told: Any) -> NoReturn:
        raise SystemExit(repr(told))


def test_a_module_that_needs_the_answer_fails_with_the_name_of_what_hangs() -> None:
    run = programs.runner(Module(), seconds=0.2)
    assert run(["sh", "-c", "exit 5"]) == (5, "", "")
    with pytest.raises(SystemExit, match=r"sleep 60 did not end within 0\.2 s.*'rc': 124"):
        run(["sleep", "60"])
    with pytest.raises(SystemExit, match=r"no-such-program.*'rc': 127"):
        run(["no-such-program"])


def test_the_limit_holds_for_a_program_whose_module_was_killed(tmp_path: Path) -> None:
    child = tmp_path / "child"
    source = Path(str(programs.__file__)).read_text()
    code = f"{source}\nrun(['sh', '-c', 'echo $$ > {child}; exec sleep 60'], seconds=1)"
    module = subprocess.Popen([sys.executable, "-c", code])
    until = time.monotonic() + 10
    while not (child.exists() and child.read_text().strip()):
        assert time.monotonic() < until
        time.sleep(0.02)
    module.kill()
    module.wait()
    program = int(child.read_text())
    assert is_running(program)
    while is_running(program):
        assert time.monotonic() < until
        time.sleep(0.05)
