"""Encryption of backups to public keys by age (https://age-encryption.org/v1, library pyrage).

A recipient is ``age1...`` or an OpenSSH key ``ssh-ed25519 ...``; what opens a backup is read from a
file of the operator. The library reads and writes by turns of its own, so it runs in a thread at
the other end of a pipe. What must not be here: what is encrypted.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final, Protocol

from appliance.adapters.local.plain_files import read_plain
from appliance.errors import ConfigError, NotHealthy, Refused
from appliance.model.backup.names import ANOTHER_BACKUP, ANOTHER_KEY
from appliance.model.site.recovery.backup_settings import normal_recipient

_MOST_KEY_BYTES: Final = 64 << 10
_KEY_LINE: Final = "AGE-SECRET-KEY-1"
_OPENSSH: Final = b"-----BEGIN OPENSSH PRIVATE KEY-----"


class Sink(Protocol):
    """Takes bytes."""

    def write(self, content: bytes, /) -> Any:
        """Take all of them."""


def fingerprint(recipient: str) -> str:
    """A recipient's fingerprint: SHA-256 over the key without its comment."""
    return "SHA256:" + hashlib.sha256(normal_recipient(recipient).encode()).hexdigest()


def require_recipients(recipients: Sequence[str]) -> list[Any]:
    """The library's form of recipients.

    Raises:
        ConfigError: there is none, or one is no public key.
    """
    import pyrage

    if not recipients:
        raise ConfigError(
            "a backup has no recipient, so nobody could open it",
            hint="make a key: appliance cluster backup key FILE; then backup: recipients",
        )
    found, faults = [], []
    for text in dict.fromkeys(normal_recipient(one) for one in recipients):
        kind = pyrage.ssh.Recipient if text.startswith("ssh-") else pyrage.x25519.Recipient
        try:
            found.append(kind.from_str(text))
        except pyrage.RecipientError:
            faults.append(f"{text[:80]!r} is no public key of age or ssh-ed25519")
    if faults:
        raise ConfigError(faults[0], details=faults[1:], hint="see backup: recipients in site.yml")
    return found


def read_identities(path: Path) -> list[Any]:
    """What opens backups, from a file of age's identities or an OpenSSH private key.

    Raises:
        Refused: the file cannot be read, or has no such key.
    """
    import pyrage

    try:
        content = read_plain(path, most_bytes=_MOST_KEY_BYTES, follow=True)
    except OSError as error:
        raise Refused(f"{path}: the key cannot be read: {error.strerror or error}") from error
    try:
        if content.lstrip().startswith(_OPENSSH):
            return [pyrage.ssh.Identity.from_buffer(content)]
        lines = [line.strip() for line in content.decode("utf-8-sig", "replace").splitlines()]
        keys = [line for line in lines if line.startswith(_KEY_LINE)]
        found = [pyrage.x25519.Identity.from_str(key) for key in keys]
    except pyrage.IdentityError as error:
        raise Refused(
            f"{path}: it holds no key of age that can be read",
            hint="a key with a passphrase cannot be used: take it off a copy: "
            "ssh-keygen -p -N '' -f COPY",
        ) from error
    if not found:
        raise Refused(
            f"{path}: it holds neither a key of age nor an OpenSSH private key",
            hint="name the file that this made: appliance cluster backup key FILE",
        )
    return found


def new_identity() -> tuple[str, str]:
    """A new key of age and its public key."""
    import pyrage

    identity = pyrage.x25519.Identity.generate()
    return str(identity), str(identity.to_public())


@contextmanager
def encrypted(sink: Sink, recipients: Sequence[str]) -> Iterator[IO[bytes]]:
    """A stream to write into; what comes out of it encrypted goes to ``sink``.

    Everything has arrived there when the block ends without an error.

    Raises:
        ConfigError: a recipient is no public key.
        OSError: the sink did not take it.
    """
    import pyrage

    keys = require_recipients(recipients)
    watched = _Watched(sink)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source:
        worker = _Worker(lambda: pyrage.encrypt_io(source, watched, keys), source)
        stream = os.fdopen(writing, "wb")
        try:
            yield stream
            stream.close()
        except BrokenPipeError:
            worker.join()
            if worker.fault is None:
                raise
        finally:
            with suppress(OSError):
                stream.close()
            worker.join()
    if watched.fault is not None:
        raise watched.fault
    worker.require()


@contextmanager
def decrypted(source: IO[bytes], identities: Sequence[Any]) -> Iterator[IO[bytes]]:
    """A stream of what is in an encrypted one; its end is authentic only after the block.

    Raises:
        NotHealthy: no key opens it, or it was changed or cut; also at the end of the block.
    """
    import pyrage

    reading, writing = os.pipe()
    sink = os.fdopen(writing, "wb", buffering=0)
    given = _Watched(_All(sink))
    worker = _Worker(lambda: pyrage.decrypt_io(source, given, list(identities)), sink)
    stream = os.fdopen(reading, "rb")
    try:
        yield stream
        # What comes after the end of what was wanted is part of the file, too.
        while stream.read(1 << 20):
            pass
    finally:
        stream.close()
        worker.join()
        # A fault of the file is the cause of what the block stumbled over; that it takes no more
        # is none.
        if worker.fault is not None and given.fault is None:
            raise _unopened(worker.fault) from worker.fault


def _unopened(fault: BaseException) -> NotHealthy:
    if "No matching keys" in str(fault):
        return NotHealthy(
            "this key does not open the backup",
            hint=ANOTHER_KEY,
        )
    return NotHealthy(
        f"the backup was changed, cut or damaged: {fault}",
        hint=ANOTHER_BACKUP,
    )


class _Watched:
    """A sink whose own fault is kept: the library tells it as text only."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.fault: BaseException | None = None

    def write(self, content: bytes) -> int:
        try:
            self._sink.write(content)
        except BaseException as error:
            self.fault = error
            raise
        return len(content)

    def flush(self) -> None:
        """Nothing is held back."""


class _All:
    """A raw stream that takes everything that is written."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, content: bytes) -> None:
        left = memoryview(content)
        while left:
            left = left[self._stream.write(left) :]


class _Worker:
    """A thread that does one thing, and closes its end of the pipe."""

    def __init__(self, work: Callable[[], object], ends: IO[bytes]) -> None:
        self.fault: BaseException | None = None
        self._work = work
        self._ends = ends
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._work()
        except BaseException as error:
            self.fault = error
        finally:
            with suppress(OSError):
                self._ends.close()

    def join(self) -> None:
        """Wait for its end."""
        self._thread.join()

    def require(self) -> None:
        """Raise what it failed by."""
        if self.fault is not None:
            raise self.fault
