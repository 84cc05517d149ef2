"""Renew kubeadm's certificates on this control-plane node, and restart what uses them, in turn.

Runs as a transient unit of its own (see C(kubeadm_certificates)), so that it completes even if its
caller is killed. Nothing is deleted: what kubeadm replaces is copied to C(FOLDER) first. What is
left to do follows from the files and the processes, so a second run resumes a killed one.

Python 3.8, standard library and openssl, self-contained: only this file runs.
What must not be here: which nodes are renewed, and in which order.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

ETC = Path("/etc/kubernetes")
FOLDER = ETC / "appliance" / "certificates"
# Exists from the first change to the last: the probe reports a renewal that was killed.
MARK = FOLDER / "renewal.json"
PROC = Path("/proc")
KUBEADM = "/usr/local/bin/kubeadm"
DAY = 86400
SURE_LOOKS = 3
GAP_SECONDS = 3
# Program -> the files that it reads when it starts; in the order of their restart.
PROGRAMS = {
    "etcd": ("pki/etcd/server.crt", "pki/etcd/peer.crt", "pki/etcd/healthcheck-client.crt"),
    "kube-apiserver": (
        "pki/apiserver.crt",
        "pki/apiserver-etcd-client.crt",
        "pki/apiserver-kubelet-client.crt",
        "pki/front-proxy-client.crt",
    ),
    "kube-controller-manager": ("controller-manager.conf",),
    "kube-scheduler": ("scheduler.conf",),
}
FILES = (*(file for files in PROGRAMS.values() for file in files), "admin.conf")
FLAG = re.compile(r'^\s*- "?(--[^"]+?)"?\s*$', re.MULTILINE)
EMBEDDED = re.compile(r"^\s*client-certificate-data: (\S+)\s*$", re.MULTILINE)


class RenewalError(Exception):
    """Nothing was renewed, or a program does not run with the new files."""


# -- certificates ----------------------------------------------------------------------------


def certificate_of(path):
    """Return the certificate's text: of the file, or of the kubeconfig that holds it."""
    text = path.read_text()
    if path.suffix != ".conf":
        return text
    found = EMBEDDED.search(text)
    if found is None:
        raise RenewalError("%s holds no certificate: kubeadm did not write it" % path)
    return base64.b64decode(found.group(1)).decode("ascii", "replace")


def ends_within(path, seconds):
    """Return whether the certificate ends within so many seconds."""
    done = subprocess.run(
        ["timeout", "--kill-after=5", "10", "openssl", "x509", "-noout", "-checkend", str(seconds)],
        input=certificate_of(path).encode(),
        timeout=20,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    out = done.stdout.decode("utf-8", "replace").strip()
    if done.returncode not in (0, 1) or "will" not in out:
        raise RenewalError("%s is not a certificate: %s" % (path, out[-200:]))
    return done.returncode == 1


def due(seconds):
    """Return the files of kubeadm that end within so many seconds."""
    return [name for name in FILES if (ETC / name).exists() and ends_within(ETC / name, seconds)]


def keep(stamp):
    """Copy what kubeadm will replace, keys included; return the folder."""
    folder = FOLDER / ("before-%s" % stamp)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in FILES:
        for path in (ETC / name, (ETC / name).with_suffix(".key")):
            if path.exists():
                copy = folder / path.relative_to(ETC)
                copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                shutil.copy2(str(path), str(copy))
    return folder


def renew():
    """Let kubeadm renew all of its certificates."""
    done = subprocess.run(
        ["timeout", "--kill-after=5", "120", KUBEADM, "certs", "renew", "all"],
        stdin=subprocess.DEVNULL,
        timeout=130,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if done.returncode != 0:
        out = done.stdout.decode("utf-8", "replace").strip()
        raise RenewalError(
            "kubeadm certs renew all ended with %d: %s" % (done.returncode, out[-500:])
        )


# -- programs --------------------------------------------------------------------------------


def processes(name):
    """Return {pid: when it started (epoch)} of a program of kubeadm.

    Only with the flags of its manifest: a pod may run an etcd of its own on this node.
    """
    manifest = ETC / "manifests" / (name + ".yaml")
    flags = sorted(FLAG.findall(manifest.read_text())) if manifest.exists() else None
    return {pid: started for pid, (started, given) in named(name).items() if given == flags}


def named(name):
    """Return {pid: (when it started, its flags in order)} of every process of that name."""
    found = {}
    for folder in PROC.glob("[0-9]*"):
        try:
            text = (folder / "cmdline").read_bytes().decode("utf-8", "replace")
            words = text.rstrip("\0").split("\0")
            if words[0].rpartition("/")[2] != name:
                continue
            ticks = int((folder / "stat").read_text().rpartition(")")[2].split()[19])
        except (OSError, ValueError, IndexError):
            continue  # it ended meanwhile
        started = _boot_time() + ticks / os.sysconf("SC_CLK_TCK")
        found[int(folder.name)] = (started, sorted(words[1:]))
    return found


def _boot_time():
    match = re.search(r"^btime (\d+)$", (PROC / "stat").read_text(), re.MULTILINE)
    return int(match.group(1)) if match else 0


def newest(name):
    """Return when the newest of a program's files was written; 0 if there is none."""
    paths = [ETC / file for file in PROGRAMS[name]]
    return max((path.stat().st_mtime for path in paths if path.exists()), default=0)


def old_ones(name):
    """Return the processes that may have read older files; boot times are whole seconds."""
    return [pid for pid, started in processes(name).items() if started < newest(name) + 1]


def is_healthy(name, api_port):
    """Return whether a program of this node reports itself healthy."""
    port = {
        "etcd": 2381,
        "kube-apiserver": api_port,
        "kube-controller-manager": 10257,
        "kube-scheduler": 10259,
    }[name]
    if name == "etcd":
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    else:
        # These answer with certificates of their own making; nothing secret is asked or told.
        context = ssl._create_unverified_context()  # noqa: S323
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=5, context=context)
    paths = {"etcd": "/health", "kube-apiserver": "/readyz"}
    try:
        connection.request("GET", paths.get(name, "/healthz"))
        answer = connection.getresponse()
        return answer.status == 200 and b"false" not in answer.read(4096)
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


class Renewal:
    """One request: from certificates that end soon to programs that run with new ones."""

    clock = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)

    def __init__(self, request):
        self._within = int(request["within_days"]) * DAY
        self._await_ready = request["await_ready"]
        self._port = request["api_port"]
        self._seconds = request["deadline_seconds"]

    def is_due(self):
        """Return whether there is anything to do."""
        return bool(MARK.exists() or due(self._within) or any(map(old_ones, PROGRAMS)))

    def run(self):
        """Renew and restart; return what was done.

        Raises:
            RenewalError: kubeadm failed, or a program does not run with the new files.
        """
        if not (ETC / "manifests").is_dir():
            raise RenewalError("%s has no static pods: this is no control-plane node" % ETC)
        names, kept = due(self._within), ""
        if names:
            FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
            MARK.write_text(json.dumps({"renews": names}))
            kept = str(keep(time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())))
            renew()
            # Whole seconds tell a program that read the new files from one that read the old ones.
            self.sleep(GAP_SECONDS)
            left = due(self._within)
            if left:
                raise RenewalError("kubeadm did not renew %s" % ", ".join(left))
        restarted = [name for name in PROGRAMS if old_ones(name)]
        for name in restarted:
            self._restart(name, kept)
        # Of these nothing is known: they may still use the files before.
        other = [name for name in PROGRAMS if named(name) and not processes(name)]
        if other and self._await_ready:
            raise RenewalError("%s: it runs with other flags than its manifest has" % other[0])
        changed = bool(names or restarted or MARK.exists())
        if MARK.exists():
            MARK.unlink()
        return {"changed": changed, "renewed": names, "restarted": restarted, "kept": kept}

    def _restart(self, name, kept):
        ended = old_ones(name)
        for pid in ended:
            os.kill(pid, signal.SIGTERM)
        until, steady = self.clock() + self._seconds, 0
        while steady < SURE_LOOKS:
            up = bool(set(processes(name)) - set(ended))
            healthy = up and (not self._await_ready or is_healthy(name, self._port))
            steady = steady + 1 if healthy else 0
            if self.clock() >= until:
                state = "it runs but is not healthy" if up else "it does not run again"
                back = "; the files before are in %s" % kept if kept else ""
                raise RenewalError("%s: after %d s %s%s" % (name, self._seconds, state, back))
            if not self._await_ready and not processes(name):
                return  # without etcd's majority it ends at once, and the kubelet tries again
            self.sleep(1)


def main():
    """Carry out the request in the given file; print the result, or the reason for none."""
    try:
        result = Renewal(json.loads(Path(sys.argv[1]).read_text())).run()
    except (RenewalError, OSError, ValueError, subprocess.SubprocessError) as error:
        sys.stderr.write("%s\n" % error)
        return 1
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
