"""Change flags of this node's API server, and take them back when it does not live with them.

Runs as a transient unit of its own (see C(api_server_flags)), so that whoever asked may die: what
was begun ends with an API server that answers. What it leaves in C(FOLDER) (root only):

- ``change.json``                 a change that is not finished; the next run takes it up
- ``kube-apiserver.before.yaml``  the manifest as it was
- ``request-<digest>.json``       what was asked for last

The kubelet reads every file in the manifests folder, so nothing is ever written there but by a
rename of a whole file. Python 3.8, standard library, self-contained: this file is what runs.
What must not be here: which flags are right.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path("/etc/kubernetes/appliance/api-server")
MANIFEST = Path("/etc/kubernetes/manifests/kube-apiserver.yaml")
PKI = Path("/etc/kubernetes/pki")
LOGS = Path("/var/log/pods")
PROC = Path("/proc")
MOST_ENDS = 2
SURE_LOOKS = 3
PROGRAM = "kube-apiserver"
FLAG = re.compile(r'^(\s*)- (")?--([a-z0-9-]+)(?:=(.*?))?(")?\s*$')


class ApiServerError(Exception):
    """The change cannot be made, or was taken back; the text says why."""


# -- the manifest ----------------------------------------------------------------------------


def flags_of(text):
    """Return {flag: value} of a static pod's manifest."""
    return {m.group(3): m.group(4) or "" for m in map(FLAG.match, text.splitlines()) if m}


def with_flags(text, flags, prefix):
    """Return the manifest with exactly these flags of the prefix, in kubeadm's order.

    Raises:
        ApiServerError: this is no manifest as kubeadm writes it.
    """
    ours = re.compile(r'^\s*- "?--%s' % re.escape(prefix))
    lines = [line for line in text.splitlines() if not ours.match(line)]
    starts = [i for i, line in enumerate(lines) if line.strip() == "- " + PROGRAM]
    if len(starts) != 1:
        raise ApiServerError("%s is no manifest as kubeadm writes it" % MANIFEST)
    start = starts[0]
    indent = lines[start][: lines[start].index("-")]
    end = start + 1
    while end < len(lines) and FLAG.match(lines[end]):
        end += 1
    own = lines[start + 1 : end] + [
        "%s- %s" % (indent, _scalar("--%s=%s" % pair)) for pair in flags.items()
    ]
    own.sort(key=lambda line: FLAG.match(line).group(3))
    return "\n".join(lines[: start + 1] + own + lines[end:]) + "\n"


def _scalar(word):
    """A flag as YAML: plain where that is safe, else in double quotes."""
    plain = ": " not in word and " #" not in word and '"' not in word and "\\" not in word
    return word if plain and word == word.strip() and not word.endswith(":") else json.dumps(word)


# -- files -----------------------------------------------------------------------------------


def write(path, text, mode=0o600):
    """Write a whole file under another name and rename it, so that nobody sees half of it."""
    new = FOLDER / (path.name + ".new")
    handle = os.open(str(new), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    new.chmod(mode)
    new.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def content(path):
    """Return a file's text, or None."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


# -- what runs, whatever runs the containers ---------------------------------------------------


def servers():
    """Return the API servers that run here: pid, flags, started."""
    found = []
    for folder in PROC.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            if words[0].rpartition("/")[2] != PROGRAM:
                continue
            ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            continue  # it ended while we looked
        pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
        flags = {name: value for name, _, value in pairs}
        started = _boot_time() + ticks / os.sysconf("SC_CLK_TCK")
        found.append({"pid": int(folder.name), "flags": flags, "started": started})
    return found


def _boot_time():
    match = re.search(r"^btime (\d+)$", (PROC / "stat").read_text(), re.MULTILINE)
    return int(match.group(1)) if match else 0


def attempts():
    """Return {pod: number of its container's newest attempt}, as the kubelet names their logs."""
    newest = {}
    for log in LOGS.glob("kube-system_kube-apiserver-*_*/%s/*.log" % PROGRAM):
        if log.stem.isdigit():
            pod = log.parent.parent.name
            newest[pod] = max(newest.get(pod, -1), int(log.stem))
    return newest


def ends(before, now, down):
    """Return how often a container has ended since ``before``; ``down``: none runs now.

    The next attempt of a pod that was there follows from the change itself. A lower number than
    before is a pod whose logs were cleared away in between.
    """
    count = 0
    for pod, newest in now.items():
        had = before.get(pod)
        if had is None or newest < had:
            count += newest + (1 if down else 0)
        elif newest > had:
            count += newest - had - 1 + (1 if down else 0)
    return count


def said(before):
    """Return the last error of the newest container, to be added to a sentence."""
    changed = {pod: n for pod, n in attempts().items() if before.get(pod) != n}
    logs = [LOGS / pod / PROGRAM / ("%d.log" % number) for pod, number in changed.items()]
    try:
        newest = max(logs, key=lambda path: path.stat().st_mtime)
        lines = [_words(line) for line in newest.read_text(errors="replace").splitlines()[-8:]]
    except (OSError, ValueError):
        return ""
    errors = [line for line in lines if re.match(r"E\d{4} |.*[Ee]rror", line)] or lines
    return ": %s" % errors[-1][-300:] if errors else ""


def _words(line):
    """A log line without its envelope: Docker's JSON, or what other runtimes put before it."""
    try:
        return str(json.loads(line)["log"]).strip()
    except (ValueError, KeyError, TypeError):
        return re.sub(r"^\S+ (?:stdout|stderr) [FP] ", "", line).strip()


def is_ready(port):
    """Return whether the API server of this node says that it is ready."""
    context = ssl.create_default_context(cafile=str(PKI / "ca.crt"))
    # Its certificate does not name 127.0.0.1; that the cluster's own CA signed it is what counts.
    context.check_hostname = False
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Watch:
    """Watch until the API server runs with its manifest's flags, steadily, or will not.

    Args:
        wanted: all of its flags.
        since: it must have started then or later (epoch).
        before: the kubelet's attempts when the change began; None counts no ends.
        seconds: how long to watch.
    """

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    servers = staticmethod(servers)
    attempts = staticmethod(attempts)
    is_ready = staticmethod(is_ready)

    def __init__(self, wanted, since, before, seconds):
        self._wanted = wanted
        self._since = since
        self._before = before
        self._seconds = seconds

    def fault(self):
        """Return None when all is well, else why it will not be."""
        port = int(self._wanted.get("secure-port") or 6443)
        until = self.clock() + self._seconds
        steady = missing = 0
        while True:
            here = [s for s in self.servers() if s["flags"] == self._wanted]
            up = any(s["started"] >= self._since for s in here)
            missing = 0 if here else missing + 1
            steady = steady + 1 if up and self.is_ready(port) else 0
            # Between its log and its process a healthy one is not seen, but not for long.
            ended = ends(self._before or {}, self.attempts(), missing >= SURE_LOOKS)
            if self._before is not None and ended >= MOST_ENDS:
                return "its container ended %d times with the new flags%s" % (ended, self._said())
            if steady >= SURE_LOOKS:
                return None
            if self.clock() >= until:
                state = "it runs and is not ready" if up else "no container of it runs"
                return "after %d s %s%s" % (self._seconds, state, self._said())
            self.sleep(1)

    def _said(self):
        return said(self._before or {})


# -- the change ------------------------------------------------------------------------------


class Change:
    """One request, from a healthy API server to a healthy API server."""

    watch = Watch
    servers = staticmethod(servers)
    attempts = staticmethod(attempts)
    now = staticmethod(time.time)

    def __init__(self, request):
        self._flags = request["flags"]
        self._prefix = request["prefix"]
        self._ca = (Path(request["ca_path"]), request["ca"])
        self._seconds = request["deadline_seconds"]
        self._snapshot = request["snapshot_command"]
        self._mark = FOLDER / "change.json"
        self._before = FOLDER / "kube-apiserver.before.yaml"

    def run(self):
        """Make the change; return what was done.

        Raises:
            ApiServerError: it was not begun, or taken back.
        """
        FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
        taken_up = self._take_up()
        text, wanted = self._texts()
        if not self._differs():
            return {"changed": taken_up, "snapshot": "", "taken_up": taken_up}
        path = self.snapshot()
        self._begin(text)
        if content(self._ca[0]) != self._ca[1]:
            write(self._ca[0], self._ca[1], 0o644)
        if wanted != text:
            write(MANIFEST, wanted)
        else:
            self._restart()
        self._end()
        return {"changed": True, "snapshot": path, "taken_up": taken_up}

    def is_due(self):
        """Return whether running would change anything."""
        return content(self._mark) is not None or self._differs()

    def _texts(self):
        """Return the manifest, and as it should be."""
        text = content(MANIFEST)
        if text is None:
            raise ApiServerError("%s does not exist: kubeadm did not finish here" % MANIFEST)
        return text, with_flags(text, self._flags, self._prefix)

    def _differs(self):
        text, wanted = self._texts()
        return wanted != text or content(self._ca[0]) != self._ca[1] or self._is_stale(text)

    def _is_stale(self, text):
        """Whether what runs is older than the CA, or has other flags than the manifest."""
        changed = int(self._ca[0].stat().st_mtime)
        return not any(
            s["flags"] == flags_of(text) and s["started"] >= changed for s in self.servers()
        )

    def snapshot(self):
        """Save a snapshot of etcd; return its path."""
        done = subprocess.run(  # noqa: S603  (our own program)
            self._snapshot,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=120,
            check=False,
        )
        out = done.stdout.decode("utf-8", "replace").strip()
        if done.returncode != 0:
            raise ApiServerError("nothing was changed: %s" % out)
        return out

    def _take_up(self):
        """Bring a change that was cut off to an end; return whether there was one."""
        mark = json.loads(content(self._mark) or "null")
        if mark is None:
            return False
        if content(MANIFEST) != content(self._before):
            self._end()
            return True
        # The manifest was not reached; at most the CA was, and whoever runs may have read it.
        self._undo(mark)
        fault = self.watch(flags_of(content(MANIFEST) or ""), 0, None, self._seconds).fault()
        if fault is not None:
            raise ApiServerError("the API server does not answer: %s" % fault)
        self._mark.unlink()
        return True

    def _begin(self, text):
        write(self._before, text)
        write(
            self._mark,
            json.dumps(
                {
                    "since": int(self.now()),
                    "attempts": self.attempts(),
                    "ca_path": str(self._ca[0]),
                    "ca_before": content(self._ca[0]),
                }
            ),
        )

    def _end(self):
        """Watch; take the change back when the API server does not live with it.

        The mark goes last: a run that is killed here is taken up by the next one.
        """
        mark = json.loads(content(self._mark) or "{}")
        wanted = flags_of(content(MANIFEST) or "")
        fault = self.watch(wanted, mark["since"], mark["attempts"], self._seconds).fault()
        if fault is None:
            self._mark.unlink()
            return
        self._undo(mark)
        restored = flags_of(content(self._before) or "")
        back = self.watch(restored, 0, None, self._seconds).fault()
        self._mark.unlink()
        ending = "; its flags were taken back, and it answers again"
        if back is not None:
            ending = "; its flags were taken back, and it does not answer yet: %s" % back
        raise ApiServerError("the API server did not live with the change: %s%s" % (fault, ending))

    def _undo(self, mark):
        path = Path(mark["ca_path"])
        if mark["ca_before"] is not None:
            write(path, mark["ca_before"], 0o644)
        before = content(self._before)
        if before and before != content(MANIFEST):
            write(MANIFEST, before)
        if mark["ca_before"] is None and path.exists():
            path.unlink()

    def _restart(self):
        for server in self.servers():
            os.kill(server["pid"], signal.SIGTERM)


def main():
    """Carry out the request whose file is named; print the result, or why there is none."""
    try:
        result = Change(json.loads(Path(sys.argv[1]).read_text())).run()
    except (ApiServerError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
