"""Change flags of this node's API server, and restore the old ones when it fails with them.

Runs as a transient unit of its own (see C(api_server_flags)), so that it completes even if its
caller is killed, with an API server that answers. Its files in C(FOLDER) (root only):

- ``change.json``                 an unfinished change; the next run completes it
- ``kube-apiserver.before.yaml``  the manifest before the change
- ``request-<digest>.json``       the last request

The kubelet reads every file in the manifests folder, so a file only gets there complete, by a
rename. Python 3.8, standard library, self-contained: only this file runs.
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
    """The change cannot be made, or was reverted; the text has the reason."""


# -- the manifest ----------------------------------------------------------------------------


def flags_of(text):
    """Return {flag: value} of a static pod's manifest."""
    return {m.group(3): m.group(4) or "" for m in map(FLAG.match, text.splitlines()) if m}


def with_flags(text, flags, prefix):
    """Return the manifest with exactly these flags of the prefix, in kubeadm's order.

    Raises:
        ApiServerError: this is not a manifest of kubeadm.
    """
    ours = re.compile(r'^\s*- "?--%s' % re.escape(prefix))
    lines = [line for line in text.splitlines() if not ours.match(line)]
    starts = [i for i, line in enumerate(lines) if line.strip() == "- " + PROGRAM]
    if len(starts) != 1:
        raise ApiServerError("%s is not a manifest of kubeadm" % MANIFEST)
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
    """Return a flag as YAML: plain where that is safe, else in double quotes."""
    plain = ": " not in word and " #" not in word and '"' not in word and "\\" not in word
    return word if plain and word == word.strip() and not word.endswith(":") else json.dumps(word)


# -- files -----------------------------------------------------------------------------------


def write(path, text, mode=0o600):
    """Write a file under another name and rename it, so that no reader sees half of it."""
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


# -- running API servers, for any container runtime --------------------------------------------


def servers():
    """Return the running API servers: pid, flags, started."""
    found = []
    for folder in PROC.glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
            if words[0].rpartition("/")[2] != PROGRAM:
                continue
            ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
        pairs = (word[2:].partition("=") for word in words if word.startswith("--"))
        flags = {name: value for name, _, value in pairs}
        started = _boot_time() + ticks / os.sysconf("SC_CLK_TCK")
        found.append({"pid": int(folder.name), "flags": flags, "started": started})
    return found


def _boot_time():
    match = re.search(r"^btime (\d+)$", (PROC / "stat").read_text(), re.MULTILINE)
    return int(match.group(1)) if match else 0


def attempts():
    """Return {pod: number of its container's newest attempt}, from the names of the logs."""
    newest = {}
    for log in LOGS.glob("kube-system_kube-apiserver-*_*/%s/*.log" % PROGRAM):
        if log.stem.isdigit():
            pod = log.parent.parent.name
            newest[pod] = max(newest.get(pod, -1), int(log.stem))
    return newest


def ends(before, now, down):
    """Return how often a container has ended since ``before``; ``down``: none runs now.

    The change itself causes one new attempt of an existing pod. A lower number than before means
    that the pod's logs were deleted meanwhile.
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
    """Return the last error of the newest container, as the end of a sentence."""
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
    """Return a log line without Docker's JSON or the prefix of other runtimes."""
    try:
        return str(json.loads(line)["log"]).strip()
    except (ValueError, KeyError, TypeError):
        return re.sub(r"^\S+ (?:stdout|stderr) [FP] ", "", line).strip()


def is_ready(port):
    """Return whether the API server of this node reports ready."""
    context = ssl.create_default_context(cafile=str(PKI / "ca.crt"))
    # Its certificate does not name 127.0.0.1; it only has to be signed by the cluster's CA.
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
    """Watch until the API server runs stably with its manifest's flags, or fails to.

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
        """Return None when it is healthy, else the fault."""
        port = int(self._wanted.get("secure-port") or 6443)
        until = self.clock() + self._seconds
        steady = missing = 0
        while True:
            here = [s for s in self.servers() if s["flags"] == self._wanted]
            up = any(s["started"] >= self._since for s in here)
            missing = 0 if here else missing + 1
            steady = steady + 1 if up and self.is_ready(port) else 0
            # Between its first log and its process, a healthy one is briefly invisible.
            ended = ends(self._before or {}, self.attempts(), missing >= SURE_LOOKS)
            if self._before is not None and ended >= MOST_ENDS:
                return "its container ended %d times with the new flags%s" % (ended, self._said())
            if steady >= SURE_LOOKS:
                return None
            if self.clock() >= until:
                state = "it runs but is not ready" if up else "none of its containers runs"
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
            ApiServerError: it was not started, or was reverted.
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
        """Return whether there is anything to change."""
        return content(self._mark) is not None or self._differs()

    def _texts(self):
        """Return the current and the desired manifest."""
        text = content(MANIFEST)
        if text is None:
            raise ApiServerError("%s does not exist: kubeadm did not complete here" % MANIFEST)
        return text, with_flags(text, self._flags, self._prefix)

    def _differs(self):
        text, wanted = self._texts()
        return wanted != text or content(self._ca[0]) != self._ca[1] or self._is_stale(text)

    def _is_stale(self, text):
        """Whether the server runs with an older CA, or its flags differ from the manifest."""
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
        """Complete an interrupted change; return whether there was one."""
        mark = json.loads(content(self._mark) or "null")
        if mark is None:
            return False
        if content(MANIFEST) != content(self._before):
            self._end()
            return True
        # The manifest was not changed; the CA may have been, and the server may have read it.
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
        """Watch; revert the change when the API server fails with it.

        The mark is removed last: the next run completes a run that is killed here.
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
        ending = "; its old flags are restored, and it answers again"
        if back is not None:
            ending = "; its old flags are restored, but it does not answer yet: %s" % back
        raise ApiServerError("the API server failed after the change: %s%s" % (fault, ending))

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
    """Carry out the request in the given file; print the result, or the reason for none."""
    try:
        result = Change(json.loads(Path(sys.argv[1]).read_text())).run()
    except (ApiServerError, OSError, subprocess.SubprocessError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
