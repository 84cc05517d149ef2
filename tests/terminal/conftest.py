"""A terminal at README's folder, one for the story that a file tells."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.terminal.desk import desk, environment
from tests.terminal.story import Story, readme
from tests.terminal.tmux import terminal


@pytest.fixture(scope="module")
def story(request: pytest.FixtureRequest) -> Iterator[Story]:
    """A fresh shell of 80 x 24 in README's folder, whose venv is on its path."""
    name = request.path.stem.removeprefix("test_")
    with desk() as folder, terminal(folder, environment(folder)) as shell:
        found = Story(name, shell, folder)
        found.prepare(readme("PATH="))
        yield found
