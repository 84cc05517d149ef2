"""Each test of the command line keeps what its commands say as a golden section."""

from __future__ import annotations

import getpass
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click.testing
import pytest

from appliance.cli import exits
from tests import golden

# What these say depends on threads or on the size of a terminal; they assert it themselves.
NOT_KEPT = {
    *("test_interrupts", "test_terminal", "test_progress", "test_hostile_text"),
    # Nodes print what steers a terminal.
    "test_node_logs",
    # The port of its server.
    "test_backup_elsewhere",
    # Lines of code and seconds.
    "test_debug",
    "test_status_verdict",
    *("test_options_can_come_from_the_environment",),
    # Sizes.
    *("test_the_contents_are_told_as_json", "test_what_is_written_can_be_explained"),
    # The versions of this installation.
    "test_main_exits_with_the_code_of_the_command",
}
Recorded = list[tuple[list[str], object, str, str]]


class _Tee:
    """A stream, and a copy of what is written to it."""

    def __init__(self, stream: Any) -> None:
        self._stream, self.copy = stream, ""

    def write(self, text: str) -> Any:
        self.copy += text
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _recording(into: Recorded, original: Callable[..., int]) -> Callable[..., int]:
    def recorded(arguments: list[str]) -> int:
        out, err = _Tee(sys.stdout), _Tee(sys.stderr)
        before = sys.stdout, sys.stderr
        sys.stdout, sys.stderr = out, err
        code: object = "raised"
        try:
            code = original(arguments)
        finally:
            sys.stdout, sys.stderr = before
            into.append((arguments, code, out.copy, err.copy))
        return code

    return recorded


@pytest.fixture(autouse=True)
def kept_as_golden(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[None]:
    """Record what commands say, and compare it once the test has passed."""
    module = request.node.path.stem
    if {module, request.node.name} & NOT_KEPT:
        yield
        return
    # Tables are as wide as their longest word, so the words must not be those of this machine.
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr(getpass, "getuser", lambda: "USER")
    monkeypatch.setattr(socket, "gethostname", lambda: "HOST")
    said: Recorded = []
    monkeypatch.setattr(exits, "_run", _recording(said, exits._run))
    invoke = click.testing.CliRunner.invoke

    def invoked(self: Any, cli: Any, args: Any = None, **more: Any) -> Any:
        result = invoke(self, cli, args, **more)
        said.append((list(args), result.exit_code, result.stdout, result.stderr))
        return result

    monkeypatch.setattr(click.testing.CliRunner, "invoke", invoked)
    yield
    if said:
        section = request.node.name.replace(str(tmp_path), "FOLDER").replace("\n", " ")
        places = ((tmp_path, "FOLDER"), (golden.ROOT, "REPOSITORY"))
        golden.agree(f"cli/{module}", section, golden.steady(_told(said), *places))


def _told(said: Recorded) -> str:
    found = []
    for arguments, code, out, err in said:
        found.append(f"$ appliance {' '.join(arguments)}  -> {code}\n")
        for name, text in (("out", out), ("err", err)):
            found += [f"{name}| {line}\n" for line in text.splitlines()]
    return "".join(found)
