"""README.md's first command, to the installed lab, on a machine with nothing on it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import this_run
from tests.pristine.root import pristine_machine
from tests.pristine.typed import command_of, down, end

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_the_first_command_ends_with_an_installed_lab(tmp_path: Path) -> None:
    with pristine_machine(this_run.lab_name("whole1")) as whole:
        with whole.typed(command_of("Try it"), tmp_path / "output") as typed:
            said = end(typed, tmp_path / "output", 5400)
        assert len(re.findall(r"\bReady\b", said)) >= 3, said[-3000:]
        print(said)  # noqa: T201 - shown by the row of a release
        down(whole)
