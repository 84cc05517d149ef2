"""What is kept of a command line, so that somebody else can go on with it."""

from __future__ import annotations

import pytest

from appliance.cli.screen.retype import typed


@pytest.mark.parametrize(
    ("command", "line", "kept"),
    [
        ("install", "install --site rack --yes", ""),
        ("install", "install -s rack -y --bundle /media/b --until network", "--until network"),
        ("install", "install --only runtime --again -y", "--only runtime --again"),
        ("node maintain", "node maintain w1 --site=rack --lost --window 4h -y", "w1 --lost "
         "--window 4h"),
        ("node add", "node add w3 --replace w2 --output json", "w3 --replace w2"),
        ("node role set", "node role set w2 --role system --yes", "w2 --role system"),
        ("node rejoin", "-q tests/unit", ""),
        ("node rejoin", "node remove w2", ""),
    ],
)  # fmt: skip
def test_rerun_arguments_leave_out_options_of_this_machine(
    command: str, line: str, kept: str
) -> None:
    assert " ".join(typed(command, line.split())) == kept
