"""The one wrapper over :mod:`subprocess`: time limits, captured output, translated errors.

What belongs here: starting a program on this machine and saying what came of it. What must not:
knowing what the program is for; the table of programs has the package of one that is missing. A
time limit ends the whole process group, so that no grandchild goes on writing; so does an
interrupt.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO, cast

from appliance.adapters.state_files import make_folder
from appliance.errors import CommandFailed
from appliance.model.programs import install_command, program_named

DEFAULT_TIMEOUT = 120.0
_GRACE_SECONDS = 5.0
_TAIL_LINES = 12
# Those of root, which su leaves out, and where people unpack Go.
_MORE_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")
_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class Completed:
    """What a program did: its exit status, its output as text, and how long it took."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the program ended with status 0."""
        return self.returncode == 0

    @property
    def output(self) -> str:
        """Standard output and standard error, for a message or a log."""
        return "\n".join(part.rstrip() for part in (self.stdout, self.stderr) if part.strip())


def run(  # noqa: PLR0913 - every option is a keyword with a default
    argv: Sequence[str | os.PathLike[str]],
    *,
    stdin: str | bytes | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float | None = DEFAULT_TIMEOUT,
    check: bool = True,
    log: Path | None = None,
    on_line: Callable[[str], None] | None = None,
    hint: str | None = None,
    attended: bool = False,
) -> Completed:
    """Run a program to its end and return what it did.

    Args:
        argv: the program and its arguments; never a shell line.
        stdin: text or bytes for its standard input; nothing is inherited from ours.
        cwd: the folder to run in.
        env: variables added to (or, when empty, removed from) our own environment.
        timeout: seconds after which the whole process group is ended; None waits for ever.
        check: raise on a status other than 0.
        log: a file to which both outputs are appended as well.
        on_line: called with each line of either output as it comes (from another thread).
        hint: what the operator should do when this fails.
        attended: let it talk with the person itself, on our terminal and our standard error;
            it is then ended alone, without grandchildren.

    Raises:
        CommandFailed: the program is missing, ran past its limit, or (with ``check``) failed.
    """
    words = tuple(os.fspath(word) for word in argv)
    began = time.monotonic()
    process = _start(words, cwd, env, hint, attended=attended)
    _running.add(process)
    sinks = _Sinks(process, log, on_line)
    try:
        _feed(process, stdin)
        process.wait(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _end_group(process)
        sinks.close()
        raise CommandFailed(
            f"{words[0]} did not finish within {timeout:g} s",
            hint=hint,
            details=[f"command: {shlex.join(words)}", *_tail(sinks.stderr or sinks.stdout)],
            log_path=log,
        ) from error
    except BaseException:
        _end_group(process)
        sinks.close()
        raise
    finally:
        _running.discard(process)
    sinks.close()
    done = Completed(
        words, process.returncode, sinks.stdout, sinks.stderr, time.monotonic() - began
    )
    if check and not done.ok:
        raise failure(done, hint=hint, log=log)
    return done


def end_all() -> None:
    """End every program that is still running for us, in whatever thread; for an interrupt."""
    for process in list(_running):
        _end_group(process)


def failure(done: Completed, *, hint: str | None = None, log: Path | None = None) -> CommandFailed:
    """The error that tells of a program's bad ending, with the last lines that it wrote."""
    how = (
        f"was ended by signal {-done.returncode}"
        if done.returncode < 0
        else f"failed with exit status {done.returncode}"
    )
    return CommandFailed(
        f"{Path(done.argv[0]).name} {how}",
        hint=hint,
        details=[f"command: {shlex.join(done.argv)}", *_tail(done.stderr or done.stdout)],
        log_path=log,
    )


def search_path() -> str:
    """Where programs are looked for and started from: the path, and what it often leaves out."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*folders, *_MORE_FOLDERS]))


def find_program(name: str) -> Path | None:
    """Where a program is on this machine, or None."""
    found = shutil.which(name, path=search_path())
    return Path(found) if found else None


class _Sinks:
    """Two threads that read a program's outputs, so that a full pipe never stops it."""

    def __init__(
        self,
        process: subprocess.Popen[str],
        log: Path | None,
        on_line: Callable[[str], None] | None,
    ) -> None:
        self._parts: tuple[list[str], list[str]] = ([], [])
        self._lock = threading.Lock()
        self._on_line = on_line
        self._log: IO[str] | None = None
        if log is not None:
            make_folder(log.parent)
            self._log = log.open("a", encoding="utf-8")
        streams = (process.stdout, process.stderr)
        self._threads = [
            threading.Thread(target=self._read, args=(stream, part), daemon=True)
            for stream, part in zip(streams, self._parts, strict=True)
            if stream is not None
        ]
        for thread in self._threads:
            thread.start()

    def _read(self, stream: IO[str], part: list[str]) -> None:
        with stream:
            for line in stream:
                part.append(line)
                with self._lock:
                    if self._log is not None:
                        self._log.write(line)
                        self._log.flush()
                    if self._on_line is not None:
                        self._on_line(line.rstrip("\n"))

    @property
    def stdout(self) -> str:
        return "".join(self._parts[0])

    @property
    def stderr(self) -> str:
        return "".join(self._parts[1])

    def close(self) -> None:
        # A grandchild that keeps the pipe open must not hold us for ever.
        for thread in self._threads:
            thread.join(timeout=_GRACE_SECONDS)
        with self._lock:
            if self._log is not None:
                self._log.close()
                self._log = None


def _start(
    words: tuple[str, ...],
    cwd: Path | None,
    env: Mapping[str, str] | None,
    hint: str | None,
    *,
    attended: bool,
) -> subprocess.Popen[str]:
    merged = {**os.environ, "PATH": search_path(), **(env or {})}
    try:
        return subprocess.Popen(  # noqa: S603 - a word list, never a shell
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if attended else subprocess.PIPE,
            cwd=cwd,
            env={key: value for key, value in merged.items() if value},
            text=True,
            errors="replace",
            # A session of its own would have no terminal to ask for a passphrase.
            start_new_session=not attended,
        )
    except OSError as error:
        raise CommandFailed(
            f"{socket.gethostname()}: {words[0]} could not be started: {error.strerror}",
            hint=hint or _install_hint(words[0]),
        ) from error


def _install_hint(program: str) -> str:
    row = program_named(program, on_node=False)
    return install_command([row]) if row else f"install what brings {Path(program).name}"


def _feed(process: subprocess.Popen[str], stdin: str | bytes | None) -> None:
    pipe = process.stdin
    if pipe is None:
        return
    # A program that ends without reading is judged by its exit status, not by our broken pipe.
    with contextlib.suppress(BrokenPipeError):
        if isinstance(stdin, bytes):
            cast("TextIO", pipe).buffer.write(stdin)
        elif stdin is not None:
            pipe.write(stdin)
        pipe.close()


def _end_group(process: subprocess.Popen[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(PermissionError):
            try:
                os.killpg(process.pid, number)
            except ProcessLookupError:  # no group of its own, or gone already
                process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_SECONDS)
            return


def _tail(text: str) -> list[str]:
    return text.rstrip().splitlines()[-_TAIL_LINES:]
