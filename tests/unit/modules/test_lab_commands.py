"""A lab node is removed whatever state it was left in, against a fake podman."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.modules.loading import ROOT, from_file


class FakePodman:
    """Knows one container, whose removal fails so many times before it works."""

    def __init__(self, engine: Any, failures: int) -> None:
        self.engine = engine
        self.failures = failures
        self.attempts = 0
        self.there = True

    def __call__(self, argv: list[str], **_options: object) -> str:
        if argv[1:3] == ["container", "exists"]:
            if self.there:
                return ""
            raise self.engine.CommandFailed(argv, 1, "")
        self.attempts += 1
        if self.attempts <= self.failures:
            raise self.engine.CommandFailed(argv, 125, "timed out waiting for file /run/libpod")
        self.there = False
        return ""


@pytest.fixture
def engine() -> Any:
    return from_file(
        "lab_commands", ROOT / "roles" / "lab_node" / "module_utils" / "lab_commands.py"
    )


@pytest.mark.parametrize("failures", [0, 1, 3])
def test_a_container_with_an_unknown_exit_is_removed(engine: Any, failures: int) -> None:
    podman = FakePodman(engine, failures)
    engine.run = podman
    waits: list[float] = []
    engine.remove_container("lab-w1", wait=waits.append)
    assert (podman.there, podman.attempts, len(waits)) == (False, failures + 1, failures)


def test_a_container_that_cannot_be_removed_is_said(engine: Any) -> None:
    engine.run = FakePodman(engine, 100)
    with pytest.raises(engine.CommandFailed, match="timed out waiting"):
        engine.remove_container("lab-w1", wait=lambda _seconds: None)


def test_a_container_that_is_gone_needs_nothing(engine: Any) -> None:
    podman = FakePodman(engine, 0)
    podman.there = False
    engine.run = podman
    engine.remove_container("lab-w1", wait=lambda _seconds: None)
    assert podman.attempts == 0
