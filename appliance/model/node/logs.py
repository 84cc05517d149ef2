"""Which command on a node prints a log, and which containers belong to a pod.

Logs of pods are read on the pod's own node: that needs no API server, so the log of an API server
that does not start can be read, too. Docker is asked for them. Under containerd they are files
that the kubelet names (k8s.io/kubernetes, pkg/kubelet/kuberuntime: BuildPodLogsDirectory), each
line with its time, stream and a tag before it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from appliance.model.site.files.diagnostics import did_you_mean

KUBELET: Final = ("kubelet",)
RUNTIME: Final = ("docker", "containerd")
MOST_LINES: Final = 10_000
# Of one answer, its newest part, below what a call over SSH accepts.
MOST_BYTES: Final = 8_000_000
# How long a node may take, and how long it is followed at most.
READ_SECONDS: Final = 50
FOLLOW_SECONDS: Final = 3600
# What ``timeout`` of coreutils exits with when the time is over.
TIMED_OUT: Final = 124
UNIT: Final = re.compile(r"[A-Za-z0-9@._:*-]{1,200}")
_DURATION: Final = re.compile(r"([0-9]{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_ID: Final = re.compile(r"[0-9a-f]{12,64}")
# Where the kubelet's file of flags says that Docker does not run the pods.
_FLAGS: Final = "/var/lib/kubelet/kubeadm-flags.env"
_PODS: Final = "/var/log/pods"
_LOG: Final = re.compile(
    r"/var/log/pods/([a-z0-9.-]{1,253})_([a-z0-9.-]{1,253})_[0-9a-f-]{8,64}/([a-z0-9.-]{1,253})"
    r"/([0-9]{1,9})\.log"
)
# The kubelet's labels on a container; those of pause containers have another type.
_LABELS: Final = ("pod.namespace", "pod.name", "container.name", "docker.type")


@dataclass(frozen=True)
class Window:
    """Which part of a log is read.

    Attributes:
        lines: how many at most, the newest.
        since_seconds: how old they may be; None: as old as they are.
        follow: whether new lines are read as they come.
    """

    lines: int
    since_seconds: int | None = None
    follow: bool = False


@dataclass(frozen=True)
class Container:
    """One container of a pod, as its runtime lists it.

    Attributes:
        id: Docker's; empty under containerd.
        path: of its log under containerd; else empty.
    """

    id: str
    namespace: str
    pod: str
    name: str
    status: str
    path: str = ""

    @property
    def full_pod(self) -> str:
        """NAMESPACE/NAME."""
        return f"{self.namespace}/{self.pod}"


class NoSuchPod(Exception):
    """No container on the node belongs to the pod; the text says what is there."""


def seconds_of(duration: str) -> int | None:
    """The seconds of ``90s``, ``15m``, ``1h`` or ``2d``; None for another text."""
    found = _DURATION.fullmatch(duration)
    return int(found[1]) * _SECONDS[found[2]] if found else None


def journal_script(units: Sequence[str], window: Window) -> str:
    """The script that prints the journal of units; without units, of the kernel since its boot."""
    words = ["journalctl", "--quiet", "--no-pager", "--output=short-iso"]
    words += [f"--unit={unit}" for unit in units] or ["--dmesg"]
    words += [f"--lines={window.lines}"]
    words += [f"--since=-{window.since_seconds}s"] if window.since_seconds is not None else []
    words += ["--follow"] if window.follow else []
    return _limited(words, window)


def containers_script() -> str:
    """The script that lists the containers of all pods."""
    labels = "\\t".join(f'{{{{.Label "io.kubernetes.{name}"}}}}' for name in _LABELS)
    form = f"{{{{.ID}}}}\\t{labels}\\t{{{{.Status}}}}"
    words = ["docker", "ps", "--all", "--no-trunc", f"--format={form}"]
    of_docker = shlex.join(["timeout", str(READ_SECONDS), *words])
    # A container that started again has its next log beside the one before.
    words = ["find", _PODS, "-mindepth", "3", "-maxdepth", "3", "-name", "*.log"]
    words += ["-printf", "%T@\\t%TY-%Tm-%Td %TH:%TM\\t%p\\n"]
    of_files = shlex.join(["timeout", str(READ_SECONDS), *words])
    remote = shlex.join(["grep", "-q", "-e", "container-runtime-endpoint=", _FLAGS])
    return f"if {remote}; then {of_files} | sort --reverse --numeric-sort; else {of_docker}; fi"


def container_script(container: Container, window: Window) -> str:
    """The script that prints the log of one container."""
    if container.path:
        return _file_script(container.path, window)
    words = ["docker", "logs", "--timestamps", f"--tail={window.lines}"]
    words += [f"--since={window.since_seconds}s"] if window.since_seconds is not None else []
    words += ["--follow"] if window.follow else []
    return _limited([*words, container.id], window)


def _file_script(path: str, window: Window) -> str:
    """The script that prints a log in a file; its lines begin with the node's own time."""
    words = ["tail", f"--lines={window.lines}"]
    words += ["--follow=name"] if window.follow else []
    words += ["--", path]
    if window.since_seconds is None:
        return _limited(words, window)
    first = f"$(date --date='-{window.since_seconds} seconds' +%Y-%m-%dT%H:%M:%S)"
    only = f"awk -v first=\"{first}\" '$1 >= first {{ print; fflush() }}'"
    return _limited(words, window, only)


def _limited(words: Sequence[str], window: Window, only: str = "") -> str:
    """Run a program up to the limits; ``only`` is what its output goes through first."""
    filtered = f" | {only}" if only else ""
    if window.follow:
        limit = ["timeout", str(FOLLOW_SECONDS)]
        if not only:
            return shlex.join(["exec", *limit, *words]) + " 2>&1"
        return shlex.join(["exec", *limit, "bash", "-c", shlex.join(words) + filtered]) + " 2>&1"
    command = shlex.join(["timeout", str(READ_SECONDS), *words])
    # Of a pipe, sh has the exit status of tail alone: a log that was not read would be one of
    # a few words.
    piped = f"set -o pipefail; {command} 2>&1{filtered} | tail --bytes={MOST_BYTES}"
    return shlex.join(["exec", "bash", "-c", piped])


def containers_of(listed: str) -> tuple[Container, ...]:
    """The containers of a listing, the oldest first; a line that is no such is left out."""
    found = []
    for line in listed.splitlines():
        parts = line.split("\t")
        log = _LOG.fullmatch(parts[2]) if len(parts) == 3 else None
        if log is not None:
            status = f"start {int(log[4]) + 1}, last line at {parts[1]}"
            found.append(Container("", log[1], log[2], log[3], status, log[0]))
        elif len(parts) == 6 and _ID.fullmatch(parts[0]) and parts[4] == "container":
            found.append(Container(parts[0], parts[1], parts[2], parts[3], parts[5]))
    return tuple(reversed(found))


def choose(
    containers: Sequence[Container], pod: str, container: str | None, *, node: str
) -> tuple[Container, ...]:
    """The containers of one pod.

    Args:
        containers: all of the node.
        pod: NAMESPACE/NAME; the beginning of a name will do where only one pod has it.
        container: one container's name, or None for all.
        node: its name, for the message.

    Raises:
        NoSuchPod: none is there.
    """
    names = sorted({one.full_pod for one in containers})
    exact = [name for name in names if name == pod] or [n for n in names if n.startswith(pod)]
    if len(exact) != 1:
        if exact:
            raise NoSuchPod(f"{node} has {len(exact)} pods {pod}...: {', '.join(exact[:10])}")
        beside = [name for name in names if name.partition("/")[0] == pod.partition("/")[0]]
        near = did_you_mean(pod, beside or names) if names else "no pod runs there"
        raise NoSuchPod(f"{node} has no container of a pod {pod}; {near}")
    own = [one for one in containers if one.full_pod == exact[0]]
    chosen = [one for one in own if container in (None, one.name)]
    if not chosen:
        there = sorted({one.name for one in own})
        raise NoSuchPod(
            f"{exact[0]} has no container {container}; {did_you_mean(str(container), there)}"
        )
    return tuple(chosen)
