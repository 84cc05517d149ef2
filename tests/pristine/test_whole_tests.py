"""README.md's test command, all of it, on a machine with nothing on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import this_run
from tests.pristine.root import pristine_machine
from tests.pristine.typed import command_of, end

pytestmark = [pytest.mark.lab, pytest.mark.slow]


def test_the_second_command_passes_everything(tmp_path: Path) -> None:
    output = tmp_path / "output"
    with (
        pristine_machine(this_run.lab_name("whole2")) as whole,
        whole.typed(command_of("Test it"), output) as typed,
    ):
        said = end(typed, output, 4 * 3600)
    print(said)  # noqa: T201 - shown by the row of a release
