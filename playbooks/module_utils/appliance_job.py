"""Run one command on a node as a named transient systemd unit, and wait for its result.

The unit outlives its caller: killing the control process, or losing SSH, neither stops
the command nor lets a second copy race it. A caller that returns attaches to the unit.

The files of a job in the jobs folder (root only):

- ``<job>.spec.json``   the current or last run (argv, environment, digest, run id)
- ``<job>.<run id>.spec.json``   a request that has not started: the run itself renames it
- ``<job>.out/.err``    the whole output
- ``<job>.json``        the result: rc, started, ended, output tails, command, digest, run id

Python 3.8, standard library. What must not be here: anything that knows what a command means.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
import uuid
from pathlib import Path

from ansible.module_utils.appliance_files import write

JOBS_DIR = "/var/lib/appliance/jobs"
UNIT_PREFIX = "appliance-"
TAIL_CHARACTERS = 16000
SILENCE_SECONDS = 30
_NAME = re.compile(r"^[a-z0-9][a-z0-9-]{0,60}$")

# Runs inside the unit. It ignores signals until its command ends, so it always writes a result,
# except after a power cut or SIGKILL of the whole unit.
RUNNER = r"""
import json, os, signal, subprocess, sys, time

TAIL = 16000

def tail(path):
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        stream.seek(max(0, size - TAIL))
        return stream.read().decode("utf-8", "replace")

def boot_id():
    try:
        with open("/proc/sys/kernel/random/boot_id") as stream:
            return stream.read().strip()
    except OSError:
        return None

with open(sys.argv[1]) as stream:
    spec = json.load(stream)
base = os.path.join(os.path.dirname(sys.argv[1]), spec["job"])
os.replace(sys.argv[1], base + ".spec.json")
started = time.time()
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)

def defaults():
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

with open(base + ".out", "wb") as out, open(base + ".err", "wb") as err:
    try:
        rc = subprocess.call(
            spec["command"], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            env=dict(os.environ, **spec["environment"]), cwd=spec["directory"], preexec_fn=defaults,
        )
    except OSError as error:
        err.write(str(error).encode())
        rc = 127
result = {
    "schema": 1, "job": spec["job"], "run_id": spec["run_id"], "command": spec["command"],
    "command_digest": spec["command_digest"], "rc": rc, "started": started, "ended": time.time(),
    "boot_id": boot_id(), "stdout": tail(base + ".out"), "stderr": tail(base + ".err"),
}
with open(base + ".json.new", "w") as stream:
    json.dump(result, stream, sort_keys=True)
    stream.flush()
    os.fsync(stream.fileno())
os.replace(base + ".json.new", base + ".json")
"""


class JobError(Exception):
    """A job could not be started, did not end in time, or ended without a result."""


def command_digest(command, environment, directory):
    """Return the digest that identifies a request."""
    text = json.dumps([list(command), dict(environment), directory], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_json(path):
    """Return a JSON document, or None when it is absent or incomplete."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


class NodeJob:
    """One named job on this node.

    Args:
        name: lower-case name; the unit is ``appliance-<name>.service``.
        run: callable(argv) -> (rc, stdout, stderr), for systemctl and systemd-run.
        python: the interpreter that runs the runner.
        jobs_dir: the folder of specs and results.
    """

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, name, run, python="/usr/bin/python3", jobs_dir=JOBS_DIR):
        if not _NAME.match(name):
            raise JobError("job name %r: lower-case letters, digits and '-' only" % name)
        self.name = name
        self.unit = "%s%s.service" % (UNIT_PREFIX, name)
        self._run = run
        self._python = python
        self._dir = Path(jobs_dir)
        self._silence = ""

    def _file(self, suffix):
        return self._dir / (self.name + suffix)

    def spec(self):
        """Return the current or last run, or None."""
        return _read_json(self._file(".spec.json"))

    def result(self):
        """Return the last result, or None."""
        return _read_json(self._file(".json"))

    def is_running(self, until=None):
        """Return whether the unit runs, or may run.

        A systemd that does not answer is asked again until the deadline, or for a while. A unit
        that it does not know is inactive; without an answer, the unit may run.
        """
        until = self.clock() + SILENCE_SECONDS if until is None else until
        while True:
            rc, out, err = self._run(["systemctl", "show", "-p", "ActiveState", self.unit])
            state = out.strip().partition("=")[2]
            self._silence = "" if rc == 0 and state else (err or out).strip() or "no answer"
            if not self._silence:
                return state in ("active", "activating", "deactivating", "reloading")
            if self.clock() >= until:
                return True
            self.sleep(1)

    def run(self, command, environment=None, directory="/", deadline_seconds=600):
        """Run the command, or attach to the unit that already runs it; wait for the result.

        Returns:
            (result, attached). It first waits for a unit of this name with another command.
        """
        environment = dict({"HOME": "/root", "LC_ALL": "C.UTF-8"}, **(environment or {}))
        wanted = command_digest(command, environment, directory)
        until = self.clock() + deadline_seconds
        if self.is_running(until):
            running = self.spec() or {}
            over = self._finished(running.get("run_id"))
            if running.get("command_digest") == wanted and not over:
                return self._wait(running["run_id"], until, deadline_seconds), True
            self._wait_until_gone(until, deadline_seconds)
        run_id = self._start(command, environment, directory, wanted)
        return self._wait(run_id, until, deadline_seconds), False

    def attach(self, deadline_seconds=600):
        """Wait for the running unit, whatever its command, and return its result."""
        until = self.clock() + deadline_seconds
        return self._wait((self.spec() or {}).get("run_id"), until, deadline_seconds)

    def wait_until_idle(self, deadline_seconds=600):
        """Wait until no unit of this name runs, whatever its result."""
        self._wait_until_gone(self.clock() + deadline_seconds, deadline_seconds)

    def _start(self, command, environment, directory, digest):
        self._dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        runner = self._dir / "runner.py"
        write(runner, RUNNER, 0o600)
        run_id = uuid.uuid4().hex
        spec = {
            "job": self.name,
            "run_id": run_id,
            "command": list(command),
            "command_digest": digest,
            "environment": environment,
            "directory": directory,
        }
        # Under its own name: another run may have started when systemd refuses this one.
        asked = self._file(".%s.spec.json" % run_id)
        text = json.dumps(spec, sort_keys=True)
        write(asked, text, 0o600)
        self._run(["systemctl", "reset-failed", self.unit])
        rc, out, err = self._run(
            [
                "systemd-run",
                "--unit=" + self.unit,
                "--description=appliance: " + " ".join(" ".join(command).split())[:120],
                "--collect",
                "--no-block",
                "--quiet",
                self._python,
                "-I",
                str(runner),
                str(asked),
            ]
        )
        if rc == 0:
            if asked.exists():  # Another caller must find it, even while the runner is loading.
                write(self._file(".spec.json"), text, 0o600)
            return run_id
        try:
            asked.unlink()
        except FileNotFoundError:
            return run_id  # It has started: only systemd's answer was lost.
        raise JobError("%s could not be started: %s" % (self.unit, (err or out).strip()))

    def _finished(self, run_id):
        result = self.result()
        return result if result and result.get("run_id") == run_id else None

    def _wait(self, run_id, until, seconds):
        """Wait for the result of one run: poll the file often, systemd rarely."""
        pause, ask_at = 0.02, self.clock() + 2
        while True:
            result = self._finished(run_id)
            if result:
                return result
            now = self.clock()
            if now >= ask_at:
                ask_at = now + 2
                if not self.is_running(now):
                    return self._lost(run_id)
            if now >= until:
                raise JobError(self._late(seconds))
            self.sleep(pause)
            pause = min(pause * 1.5, 0.3)

    def _lost(self, run_id):
        """Handle a unit that has ended: return its late result, or fail without one."""
        result = self._finished(run_id)
        if result:
            return result
        raise JobError(
            "%s ended without a result (killed, or the node went down); "
            "journalctl -u %s has details, and the same command may be run again"
            % (self.unit, self.unit)
        )

    def _wait_until_gone(self, until, seconds):
        while self.is_running(until):
            if self.clock() >= until:
                raise JobError(self._late(seconds))
            self.sleep(0.05)

    def _late(self, seconds):
        if self._silence:
            return (
                "%s may still run: systemd did not answer for %d s (%s); nothing was stopped: see "
                "systemctl status %s on this node, and run again when it answers"
                % (self.unit, seconds, self._silence, self.unit)
            )
        running = (self.spec() or {}).get("command", [])
        return "%s still runs %r after %d s; it keeps running: wait for it, then run again" % (
            self.unit,
            " ".join(running)[:200],
            seconds,
        )


def explain(result):
    """Return how a job failed, with its last lines of output."""
    text = result.get("stderr", "").strip() or result.get("stdout", "").strip()
    lines = [line for line in text.splitlines() if line.strip()]
    return "%s%s ended with %s: %s; full output: %s/%s.{out,err} on this node" % (
        UNIT_PREFIX,
        result["job"],
        result["rc"],
        " | ".join(lines[-4:]) or "no output",
        JOBS_DIR,
        result["job"],
    )
