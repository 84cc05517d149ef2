"""The wrapper for :mod:`subprocess`: time limits, captured output, translated errors.

What belongs here: starting a program on this machine and reporting its result. What must not: the
purpose of the program; the table of programs has the package of a missing one. A time limit or an
interrupt ends the whole process group, so that no grandchild continues to write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TextIO, cast

from appliance.adapters.local.state_files import make_folder
from appliance.errors import CommandFailed
from appliance.model.programs import install_command, program_named

_LOGGER = logging.getLogger(__name__)
DEFAULT_TIMEOUT = 120.0
_GRACE_SECONDS = 5.0
_TAIL_LINES = 12
# Root's folders, which su omits, and the usual folder of Go.
_MORE_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/local/go/bin")
_running: set[subprocess.Popen[str]] = set()


@dataclass(frozen=True)
class CompletedProcess:
    """The result of a program: its exit status, its output as text, and its duration."""

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
    secret: bool = False,
) -> CompletedProcess:
    """Run a program to its end and return the result.

    Args:
        argv: the program and its arguments; never a shell line.
        stdin: text or bytes for its standard input; it inherits nothing.
        cwd: the folder to run in.
        env: variables added to (or, if empty, removed from) our environment.
        timeout: seconds after which the whole process group is ended; None for no limit.
        check: raise on a status other than 0.
        log: a file to which both outputs are appended.
        on_line: called with each line of output (from another thread).
        hint: the hint of the error if it fails.
        attended: let the program use our terminal and standard error; a timeout then ends only
            the program, without grandchildren.
        secret: no error quotes its standard output.

    Raises:
        CommandFailed: the program is missing, ran past its limit, or (with ``check``) failed.
    """
    words = tuple(os.fspath(word) for word in argv)
    began = time.monotonic()
    process = _start(words, cwd, env, hint, attended=attended)
    _running.add(process)
    sinks = _Sinks(process, log, on_line)

    def shown() -> str:
        return "" if secret else sinks.stdout

    try:
        _feed(process, stdin)
        process.wait(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        _end_group(process)
        sinks.close()
        raise CommandFailed(
            f"{words[0]} did not finish within {timeout:g} s",
            hint=hint,
            details=[f"command: {shlex.join(words)}", *_tail(sinks.stderr or shown())],
            log_path=log,
        ) from error
    except BaseException:
        _end_group(process)
        sinks.close()
        raise
    finally:
        _running.discard(process)
    sinks.close()
    done = CompletedProcess(
        words, process.returncode, sinks.stdout, sinks.stderr, time.monotonic() - began
    )
    _LOGGER.debug("exit %d in %.2f s: %s", done.returncode, done.seconds, shlex.join(words))
    if check and not done.ok:
        raise failure(replace(done, stdout=shown()), hint=hint, log=log)
    return done


def end_all() -> None:
    """End every running program, of all threads; for an interrupt."""
    for process in list(_running):
        _end_group(process)


def failure(
    done: CompletedProcess, *, hint: str | None = None, log: Path | None = None
) -> CommandFailed:
    """The error for a failed program, with its last lines of output."""
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
    """The search path for programs: PATH, and folders that it often lacks."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([*folders, *_MORE_FOLDERS]))


def find_program(name: str) -> Path | None:
    """The path of a program on this machine, or None."""
    path = shutil.which(name, path=search_path())
    return Path(path) if path else None


class _Sinks:
    """Two threads that read a program's outputs: a full pipe must not block it."""

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
        # A grandchild that keeps the pipe open must not block us for ever.
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
            # In its own session it could not ask for a passphrase on the terminal.
            start_new_session=not attended,
        )
    except OSError as error:
        raise CommandFailed(
            f"{socket.gethostname()}: {words[0]} could not be started: {error.strerror}",
            hint=hint or _install_hint(words[0]),
        ) from error


def _install_hint(program: str) -> str:
    row = program_named(program, on_node=False)
    return install_command([row]) if row else f"install {Path(program).name}"


def _feed(process: subprocess.Popen[str], stdin: str | bytes | None) -> None:
    pipe = process.stdin
    if pipe is None:
        return
    # A program may end without reading: its exit status counts, not our broken pipe.
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
            except ProcessLookupError:  # not a group leader, or already gone
                process.send_signal(number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_GRACE_SECONDS)
            return


def _tail(text: str) -> list[str]:
    return text.rstrip().splitlines()[-_TAIL_LINES:]
