"""README.md's two commands, typed on a machine with nothing on it but what README.md asks for."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.model.programs.control_host import PROGRAMS
from appliance.model.programs.program import Use
from tests import this_run
from tests.contract.started_programs import on_control_host
from tests.contract.tree import ROOT
from tests.pristine.root import PristineMachine, pristine_machine
from tests.pristine.typed import DOWN, command_of, down, end

pytestmark = pytest.mark.lab
NODE = "lab-cp1"
OF_IMAGING = {row.name for row in PROGRAMS if row.uses <= {Use.IMAGE, Use.PXE, Use.MEDIUM}}


def test_readme_asks_for_what_the_pristine_machine_has() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for word in ("Python 3.11", "venv", "git", "Debian 12", DOWN):
        assert word in text


@pytest.fixture(scope="module")
def machine() -> Iterator[PristineMachine]:
    with pristine_machine(this_run.lab_name("pristine")) as made:
        yield made


def _is_booted(machine: PristineMachine) -> bool:
    asked = machine.run("podman", "exec", NODE, "systemctl", "is-system-running", check=False)
    return asked.stdout.strip() == "running"


def test_the_first_command_brings_what_it_starts_and_boots_a_node(
    machine: PristineMachine, tmp_path: Path
) -> None:
    assert {"rsync", "go", "ssh", "podman"} <= machine.lacks(on_control_host())
    output = tmp_path / "output"
    with machine.typed(command_of("Try it"), output) as typed:
        deadline = time.monotonic() + 900
        while not _is_booted(machine):
            said = output.read_text("utf-8", "replace")
            assert typed.poll() is None, said
            assert "nodes: FAILED" not in said, said
            assert time.monotonic() < deadline, said
            time.sleep(2)
        assert machine.lacks(on_control_host() - OF_IMAGING) == set()
        machine.interrupt()
        assert typed.wait(60) == 130
    down(machine)


def test_the_second_command_passes_its_unit_and_contract_tests(
    machine: PristineMachine, tmp_path: Path
) -> None:
    output = tmp_path / "output"
    only = {"PYTEST_ADDOPTS": "tests/unit tests/contract"}
    with machine.typed(command_of("Test it"), output, only) as typed:
        said = end(typed, output, 1800)
    assert re.search(r"^=* ?\d{3,} passed", said, re.MULTILINE), said[-2000:]
