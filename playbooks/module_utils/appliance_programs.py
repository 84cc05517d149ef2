"""Run a program on a node with a time limit: the only way in which our modules start programs.

A program that hangs (Docker without its storage, umount of a lost server) is stopped with its
whole process group, and named. It runs under coreutils' timeout, so that the limit also
applies after its module was killed.

Anything that takes minutes is a systemd job instead, see :mod:`appliance_job`.

Python 3.8, standard library. What must not be here: anything that knows what a program means.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time

SECONDS = 60
# After the limit: the wait between SIGTERM and SIGKILL, and the wait after SIGKILL.
KILL_SECONDS = 5
LATE, ABSENT = 124, 127
# The limit for each output; a program with more is broken or hostile.
LONGEST_OUTPUT = 32 << 20
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProgramError(Exception):
    """A program failed.

    Attributes:
        rc: the value used as its return code.
    """

    rc = 1


class LateError(ProgramError):
    """It did not end within its limit; the text names it."""

    rc = LATE


class AbsentError(ProgramError):
    """It could not be started."""

    rc = ABSENT


class EndlessError(ProgramError):
    """It wrote more than the limit."""


def _words(argv):
    """Return the program and its arguments in readable form."""
    text = " ".join(" ".join(map(str, argv)).split())
    return text if len(text) <= 160 else text[:157] + "..."


class Output:
    """One output of a program, read continuously up to a limit."""

    def __init__(self, stream):
        self._stream = stream
        self._parts = []
        self.size = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        with self._stream:
            for part in iter(lambda: self._stream.read(1 << 16), b""):
                if self.size <= LONGEST_OUTPUT:
                    self._parts.append(part)
                self.size += len(part)

    def content(self):
        """Return the output, waiting only while more arrives.

        A service that the program started may keep the output open forever.
        """
        size = -1
        while self._thread.is_alive() and size != self.size:
            size = self.size
            self._thread.join(1)
        return b"".join(self._parts)[:LONGEST_OUTPUT]


def _feed(stream, data):
    """Send the data; ignore a program that does not read it."""
    with contextlib.suppress(OSError):
        stream.write(data)
    with contextlib.suppress(OSError):
        stream.close()


def _end(process):
    """Kill the rest of the process group; return whether the program has ended."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        return False
    return True


def _environment():
    here = dict(os.environ, LC_ALL="C.UTF-8", LANGUAGE="C")
    here["PATH"] = "%s:%s" % (os.environ.get("PATH", ""), SEARCH_PATH)
    return here


def output(argv, seconds=SECONDS, data=None, directory=None, environment=None):
    """Run a program and return (rc, stdout, stderr), both as bytes.

    Args:
        argv: the program and its arguments; never a secret.
        seconds: how long it may take.
        data: its standard input (bytes); default: empty.
        directory: its working directory.
        environment: its whole environment; default: ours, with English messages.

    Raises:
        LateError: it was stopped because it took too long.
        AbsentError: it cannot be started.
        EndlessError: it wrote too much.
    """
    limited = ["timeout", "--kill-after=%d" % KILL_SECONDS, "%g" % seconds]
    began = time.monotonic()
    try:
        process = subprocess.Popen(  # noqa: S603  (no shell; arguments are our modules' own)
            [*limited, *map(str, argv)],
            stdin=subprocess.DEVNULL if data is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            env=_environment() if environment is None else environment,
            bufsize=0,
            start_new_session=True,
        )
    except OSError as error:
        raise AbsentError("%s cannot be started: %s" % (_words(argv), error)) from error
    said, complained = Output(process.stdout), Output(process.stderr)
    if data is not None:
        threading.Thread(target=_feed, args=(process.stdin, data), daemon=True).start()
    late, gone = False, True
    try:
        rc = process.wait(seconds + 2 * KILL_SECONDS)
        late = time.monotonic() - began >= seconds and rc in (LATE, -signal.SIGKILL, 137)
        if late:
            _end(process)
    except subprocess.TimeoutExpired:
        late, gone = True, _end(process)
    out, err = said.content(), complained.content()
    if late:
        last = (err or out).decode("utf-8", "replace").strip()[-200:]
        raise LateError(
            "%s did not end within %g s and was %s%s"
            % (
                _words(argv),
                seconds,
                "ended" if gone else "left running: not even SIGKILL ends it",
                "; its last output: %s" % last if last else "",
            )
        )
    if max(said.size, complained.size) > LONGEST_OUTPUT:
        raise EndlessError("%s wrote more than %d bytes" % (_words(argv), LONGEST_OUTPUT))
    if rc == ABSENT and err.startswith(b"timeout: "):
        raise AbsentError("%s: %s" % (_words(argv), err.decode("utf-8", "replace").strip()))
    return rc, out, err


def run(argv, seconds=SECONDS, data=None, **more):
    """Run a program and return (rc, stdout, stderr) as text, without raising.

    A program that timed out has the return code 124 and a message in its stderr: for callers that
    check return codes and do not treat a failure as a fact about the node.
    """
    try:
        rc, out, err = output(argv, seconds, None if data is None else data.encode(), **more)
    except ProgramError as error:
        return error.rc, "", str(error)
    return rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def runner(module, seconds=SECONDS):
    """Return callable(argv, data=None) -> (rc, stdout, stderr) for a module.

    A program that times out or is missing fails the module and is named: for callers that treat a
    return code as a fact.
    """

    def ran(argv, data=None):
        encoded = None if data is None else data.encode()
        try:
            rc, out, err = output(argv, seconds, encoded)
        except ProgramError as error:
            module.fail_json(msg=str(error), rc=error.rc)
        return rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    return ran
