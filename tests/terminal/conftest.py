"""A terminal at README's folder, one for the story that a file tells."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.terminal.desk import desk, environment
from tests.terminal.tmux import Terminal, terminal


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """README's folder with its venv."""
    with desk() as found:
        yield found


@pytest.fixture(scope="module")
def shell(folder: Path) -> Iterator[Terminal]:
    """A fresh shell of 80 x 24 in that folder."""
    with terminal(folder, environment(folder)) as found:
        yield found
