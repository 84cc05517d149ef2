"""The source of facts: the node itself, or a recorded root folder and recorded outputs.

No other module of the probe opens files or starts processes. So every section can be tested on a
recorded machine, and everything that could not be read is listed with its reason.
"""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Set, TypeVar

from .unseen import fed_by

T = TypeVar("T")

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# These depend only on their input, so they also run for a recorded machine.
PURE_COMMANDS = ("openssl",)
# GOGC: a Go program that only prints its version need not collect its garbage.
ENVIRONMENT = {"PATH": SEARCH_PATH, "LC_ALL": "C", "HOME": "/nonexistent", "GOGC": "off"}
# Of an exit code that also speaks of what was looked at: the bits that mean a failure.
FAILING_BITS = {"smartctl": 0b11}
COMMAND_SECONDS = 5.0
DEADLINE_SECONDS = 20.0


class Request(NamedTuple):
    """The probe's options: what to check beyond the facts of every node."""

    peers: Sequence[str] = ()
    virtual: Sequence[str] = ()
    resolve: Sequence[str] = ()
    registry: Optional[str] = None
    registry_ca: Optional[str] = None
    registry_address: Optional[str] = None
    registry_prefix: Optional[str] = None
    artifacts: Optional[str] = None
    nfs: Optional[str] = None
    nfs_folders: Sequence[str] = ()
    nfs_ports: Sequence[int] = (2049,)
    issuer: Optional[str] = None
    issuer_ca: Optional[str] = None
    programs: Sequence[str] = ()


class Machine:
    """The input that all sections of one run share."""

    def __init__(self, root: Path, outputs: Optional[Path], request: Request) -> None:
        self.root = root
        self.outputs = outputs
        self.request = request
        self.live = str(root) == "/" and outputs is None
        self.deadline = time.monotonic() + DEADLINE_SECONDS
        self.unreadable: List[Dict[str, str]] = []
        self.unseen: Dict[str, str] = {}
        self.silent: Set[str] = set()


class Source:
    """One section's view of the machine."""

    def __init__(self, machine: Machine, section: str) -> None:
        self.machine = machine
        self.section = section
        self.root = machine.root
        self.request = machine.request
        self.live = machine.live

    def of(self, section: str) -> Source:
        """Return the same machine for another section."""
        return Source(self.machine, section)

    @property
    def privileged(self) -> bool:
        """Whether everything can be read (recorded machines were read as root)."""
        return not self.live or os.geteuid() == 0

    def note(self, reason: str) -> None:
        """Record something that could not be read."""
        entry = {"section": self.section, "reason": reason}
        if entry not in self.machine.unreadable:
            self.machine.unreadable.append(entry)

    def unseen(self, reason: str, *paths: str) -> None:
        """Record facts as unknown, because their source did not answer."""
        self.note(reason)
        for path in paths:
            self.machine.unseen.setdefault(path, reason)

    def unanswered(self, key: str, reason: str) -> None:
        """The same for all facts that come from one answer."""
        self.machine.silent.add(key)
        self.unseen(reason, *fed_by(key, self.section))

    def is_silent(self, key: str) -> bool:
        """Whether an answer is missing, so that no fact counts as absent."""
        return key in self.machine.silent

    def seconds_left(self, wanted: float) -> float:
        """Return how long something may take within the deadline of the whole probe."""
        return max(0.05, min(wanted, self.machine.deadline - time.monotonic()))

    # -- files -------------------------------------------------------------------------------

    def path(self, name: str) -> Path:
        """Return the path of a node's file under the root; absolute links stay inside."""
        path = self.root / name.lstrip("/")
        if str(self.root) == "/":
            return path
        for _ in range(8):
            if not path.is_symlink():
                break
            target = os.readlink(str(path))  # noqa: PTH115  (Path.readlink is 3.9)
            path = self.root / target.lstrip("/") if target[0] == "/" else path.parent / target
        return path

    def text(self, name: str) -> Optional[str]:
        """Return a file's text, or None when it is absent or not readable (then noted)."""
        data = self.data(name)
        return None if data is None else data.decode("utf-8", "replace")

    def data(self, name: str) -> Optional[bytes]:
        """Return a file's bytes, or None when it is absent or not readable (then noted)."""
        try:
            return self.path(name).read_bytes()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return None
        except PermissionError:
            self.note(name + ": permission denied")
        except OSError as error:
            # Kernel files answer EINVAL, ENODEV and the like for "there is no such value".
            if not name.startswith(("/sys/", "/proc/")):
                self.note("%s: %s" % (name, error.strerror))
        return None

    def word(self, name: str) -> Optional[str]:
        """Return a one-value file, stripped; None when absent or empty."""
        text = self.text(name)
        return (text.strip() or None) if text is not None else None

    def lines(self, name: str) -> List[str]:
        """Return the lines of a file that are neither empty nor a comment."""
        kept = []
        for line in (self.text(name) or "").splitlines():
            stripped = line.strip()
            if stripped and not stripped.startswith("#"):
                kept.append(stripped)
        return kept

    def document(self, name: str) -> Any:
        """Return a JSON file's value; None when absent or invalid (then noted)."""
        text = self.text(name)
        if text is None:
            return None
        try:
            return json.loads(text)
        except ValueError as error:
            self.note("%s: not JSON: %s" % (name, error))
            return None

    def others_document(self, name: str, limit: int = 4096) -> Optional[Dict[str, Any]]:
        """Return the JSON object in a small, untrusted file; {} if it has none, None if absent.

        It follows no link, waits for no pipe and reads no large file.
        """
        try:
            place = str(self.path(os.path.dirname(name)) / os.path.basename(name))  # noqa: PTH119, PTH120
            descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        except OSError:
            return {}
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return {}
            found = json.loads(os.read(descriptor, limit).decode())
        except (OSError, ValueError, RecursionError):
            return {}
        finally:
            os.close(descriptor)
        return found if isinstance(found, dict) else {}

    def exists(self, name: str) -> bool:
        """Whether a path exists (below an inaccessible folder it counts as absent and is noted)."""
        try:
            return self.path(name).exists()
        except PermissionError:
            self.note(name + ": permission denied")
            return False

    def names(self, name: str) -> List[str]:
        """Return the sorted names in a folder; empty when it is absent or not readable (noted)."""
        return self.listed(name) or []

    def listed(self, name: str) -> Optional[List[str]]:
        """Return the same, but None for a folder that this user may not read (noted)."""
        try:
            return sorted(os.listdir(str(self.path(name))))  # noqa: PTH208  (names, no paths)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except PermissionError:
            self.note(name + ": permission denied")
            return None

    def link(self, name: str) -> Optional[str]:
        """Return the last component of a link's target, or None."""
        target = self.target(name)
        return None if target is None else target.rsplit("/", 1)[-1]

    def target(self, name: str) -> Optional[str]:
        """Return a link's target as it is written, or None."""
        try:
            return os.readlink(str(self.root / name.lstrip("/")))  # noqa: PTH115  (3.9)
        except OSError:
            return None

    # -- commands ----------------------------------------------------------------------------

    def recorded(self, key: str) -> Optional[str]:
        """The recorded output of a command; None when it was not installed."""
        if self.machine.outputs is None:
            return None
        try:
            return (self.machine.outputs / key).read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    def command(
        self,
        key: str,
        argv: Sequence[str],
        *,
        feed: Optional[str] = None,
        seconds: float = COMMAND_SECONDS,
        quiet: bool = False,
    ) -> Optional[str]:
        """Return a command's output, or None when it is missing, fails or times out (noted)."""
        if not self.live:
            known = self.recorded(key)
            if known is not None or argv[0] not in PURE_COMMANDS:
                return self._noted(known, argv, quiet)
        program = _found(argv[0])
        if program is None:
            return self._noted(None, argv, quiet)
        try:
            done = _run([program, *argv[1:]], feed, self.seconds_left(seconds))
        except (subprocess.TimeoutExpired, OSError) as error:
            said = getattr(error, "strerror", None) or "no answer in time"
            self.unanswered(key, "%s: %s" % (" ".join(argv[:3]), said))
            return None
        if done.returncode < 0:
            said = "ended by signal %d" % -done.returncode
            self.unanswered(key, "%s: %s" % (" ".join(argv[:3]), said))
            return None
        if not done.returncode & FAILING_BITS.get(argv[0], 0xFF):
            return done.stdout.decode("utf-8", "replace")
        if not quiet:
            words = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
            self.note("%s: exit %d: %s" % (" ".join(argv[:3]), done.returncode, words[-1]))
        return None

    def _noted(self, text: Optional[str], argv: Sequence[str], quiet: bool) -> Optional[str]:
        if text is None and not quiet:
            self.note("%s: %s" % (argv[0], "not installed" if self.live else "not recorded"))
        return text

    def root_command(self, key: str, argv: Sequence[str]) -> Optional[str]:
        """Return the output of a command that needs root; a missing command is no fault."""
        if not self.privileged:
            self.note("%s: needs root" % argv[0])
            return None
        return self.command(key, argv, quiet=True)

    def json_command(self, key: str, argv: Sequence[str], **options: Any) -> Any:
        """Return the JSON that a command prints, or None."""
        text = self.command(key, argv, **options)
        if text is None:
            return None
        try:
            return json.loads(text or "null")
        except (ValueError, RecursionError) as error:
            self.unanswered(key, "%s: not JSON: %s" % (key, error))
            return None

    def unix_http(self, key: str, socket_path: str, request_path: str) -> Any:
        """GET a JSON answer from a daemon's unix socket (quicker than starting its client)."""
        if not self.live:
            text = self.recorded(key)
            return None if text is None else json.loads(text)
        try:
            body = _unix_get(socket_path, request_path, self.seconds_left(COMMAND_SECONDS))
            return json.loads(body)
        except socket.timeout as error:
            self.unanswered(key, "%s%s: %s" % (socket_path, request_path, error))
            return None
        except (OSError, ValueError, RecursionError) as error:
            self.note("%s%s: %s" % (socket_path, request_path, error))
            return None

    # -- several things at once --------------------------------------------------------------

    def together(
        self,
        calls: Sequence[Callable[[], T]],
        seconds: float = DEADLINE_SECONDS,
        feeds: Optional[Sequence[str]] = None,
    ) -> List[Optional[T]]:
        """Run calls in parallel; None where one raised (noted) or timed out.

        A timeout makes ``feeds`` unknown, or else the whole section.
        """
        results: List[Optional[T]] = [None] * len(calls)
        unknown = (self.section,) if feeds is None else tuple(feeds)

        def one(index: int) -> None:
            try:
                results[index] = calls[index]()
            except Exception as error:  # a failing part must not lose the document
                self.unseen("%s: %s" % (type(error).__name__, error), *unknown)

        threads = [threading.Thread(target=one, args=(i,), daemon=True) for i in range(len(calls))]
        for thread in threads:
            thread.start()
        limit = time.monotonic() + self.seconds_left(seconds)
        for thread in threads:
            thread.join(max(0.0, limit - time.monotonic()))
        if unknown and any(thread.is_alive() for thread in threads):
            self.unseen("no answer before the deadline", *unknown)
        return results

    def all_together(self, calls: Sequence[Callable[[], T]]) -> List[T]:
        """Run calls in parallel and return all of their answers.

        Raises:
            TimeoutError: a call timed out, so that no fact counts as absent.
        """
        results = [item for item in self.together(calls) if item is not None]
        if len(results) < len(calls):
            raise TimeoutError("no answer before the deadline")
        return results


def _found(name: str) -> Optional[str]:
    """The path of a program, as shutil.which finds it; that module takes long to import."""
    paths = (folder + "/" + name for folder in SEARCH_PATH.split(":"))
    return next((p for p in paths if os.access(p, os.X_OK) and not os.path.isdir(p)), None)  # noqa: PTH112


def _run(
    argv: Sequence[str], feed: Optional[str], seconds: float
) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        argv,
        input=(feed or "").encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=seconds,
        env=ENVIRONMENT,
        check=False,
    )


def _unix_get(socket_path: str, request_path: str, seconds: float) -> bytes:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(seconds)
        connection.connect(socket_path)
        head = "GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n" % request_path
        connection.sendall(head.encode())
        chunks = []
        while True:
            chunk = connection.recv(65536)
            if not chunk:
                break
            chunks.append(chunk)
    finally:
        connection.close()
    head_bytes, _, body = b"".join(chunks).partition(b"\r\n\r\n")
    status = head_bytes.split(b" ", 2)[1:2]
    if status != [b"200"]:
        raise OSError("answered %s" % b" ".join(head_bytes.split(b"\r\n")[:1]).decode())
    return body
