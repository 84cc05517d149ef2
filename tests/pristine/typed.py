"""README.md's commands as a person types them, to their end."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.contract.tree import ROOT
from tests.pristine.root import PristineMachine

DOWN = ".venv/bin/appliance lab down"


def command_of(section: str) -> str:
    """The one line that a section of README.md gives to be typed first."""
    readme = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"^## {section}.*?^```\n([^\n]+)\n```$", readme, re.MULTILINE | re.DOTALL)
    assert found, f"README.md has no command under '{section}'"
    return found.group(1)


def down(machine: PristineMachine) -> None:
    """Take the lab down; nothing of it is left."""
    machine.run("bash", "-c", f"{DOWN} --yes")
    assert machine.run("podman", "ps", "--all", "--quiet").stdout == ""


def end(typed: subprocess.Popen[str], output: Path, seconds: int) -> str:
    """Wait for the end of what was typed; what it said."""
    code = typed.wait(seconds)
    said = output.read_text("utf-8", "replace")
    assert code == 0, said[-6000:]
    return said
