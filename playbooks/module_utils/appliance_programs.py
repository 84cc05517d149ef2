"""Run a program on a node under a limit: the one way in which our modules start one.

A program that hangs (Docker without a storage, umount of a server that is gone) is ended with its
whole process group, and named. coreutils' timeout is started in front of it, so that the limit
holds for a program too whose module was killed meanwhile.

What takes minutes is no program for this but a job of systemd, see :mod:`appliance_job`.

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
# After the limit: until SIGKILL follows SIGTERM, and until one that not even that ends is left.
KILL_SECONDS = 5
LATE, ABSENT = 124, 127
# What is read of each output; whatever says more is broken or hostile.
LONGEST_OUTPUT = 32 << 20
SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class ProgramError(Exception):
    """A program did not do its part.

    Attributes:
        rc: what stands for its return code.
    """

    rc = 1


class LateError(ProgramError):
    """It did not end within its limit; the sentence names it."""

    rc = LATE


class AbsentError(ProgramError):
    """It could not be started."""

    rc = ABSENT


class EndlessError(ProgramError):
    """It wrote more than anybody reads."""


def _words(argv):
    """Return the program and its arguments as people read them."""
    text = " ".join(" ".join(map(str, argv)).split())
    return text if len(text) <= 160 else text[:157] + "..."


class _Output:
    """One output of a program, read as it comes and up to a size."""

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
        """Return what came, waiting for the rest as long as it comes.

        A service that the program started may hold the output open for ever.
        """
        size = -1
        while self._thread.is_alive() and size != self.size:
            size = self.size
            self._thread.join(1)
        return b"".join(self._parts)[:LONGEST_OUTPUT]


def _feed(stream, data):
    """Hand the data over; a program that does not want them is none of our business."""
    with contextlib.suppress(OSError):
        stream.write(data)
    with contextlib.suppress(OSError):
        stream.close()


def _end(process):
    """End what is left of the process group; return whether the program is gone."""
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
        data: what it reads (bytes); otherwise it reads nothing.
        directory: where it runs.
        environment: its whole environment; otherwise ours, with plain English.

    Raises:
        LateError: it was ended because it took too long.
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
    said, complained = _Output(process.stdout), _Output(process.stderr)
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
                "ended" if gone else "left as it is: not even SIGKILL ends it",
                "; it said: %s" % last if last else "",
            )
        )
    if max(said.size, complained.size) > LONGEST_OUTPUT:
        raise EndlessError("%s wrote more than %d bytes" % (_words(argv), LONGEST_OUTPUT))
    if rc == ABSENT and err.startswith(b"timeout: "):
        raise AbsentError("%s: %s" % (_words(argv), err.decode("utf-8", "replace").strip()))
    return rc, out, err


def run(argv, seconds=SECONDS, data=None, **more):
    """Run a program and return (rc, stdout, stderr) as text, whatever became of it.

    A program that was late has the return code 124 and says so in its stderr: for those who look
    at return codes, and take none of them for a fact about the node.
    """
    try:
        rc, out, err = output(argv, seconds, None if data is None else data.encode(), **more)
    except ProgramError as error:
        return error.rc, "", str(error)
    return rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")


def runner(module, seconds=SECONDS):
    """Return callable(argv, data=None) -> (rc, stdout, stderr) for a module.

    A program that is late or absent fails the module, with the program named: for those who take a
    return code for a fact.
    """

    def ran(argv, data=None):
        encoded = None if data is None else data.encode()
        try:
            rc, out, err = output(argv, seconds, encoded)
        except ProgramError as error:
            module.fail_json(msg=str(error), rc=error.rc)
        return rc, out.decode("utf-8", "replace"), err.decode("utf-8", "replace")

    return ran
