"""A folder of an SSH server as a place for backups, by SFTP (library paramiko).

The server's host key has to be in the site's ``known_hosts``: there is no trust on first use. A
file is written as ``NAME.partial`` and gets its name once the server holds all of it. Every call is
limited in time, and every answer in size.
"""

from __future__ import annotations

import io
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, cast

from appliance.adapters.backup.age import Sink
from appliance.adapters.backup.places import read_to_end
from appliance.adapters.ssh.call import ended_after
from appliance.adapters.ssh.login_failure import told_of_login
from appliance.adapters.ssh.trust.keys import check_private_key
from appliance.adapters.ssh.trust.known_hosts import entry_name, load
from appliance.adapters.ssh.tunnel import without_delay
from appliance.errors import ApplianceError, CommandFailed, NodeUnreachable, Refused
from appliance.model.backup.names import LONGEST_FILE, PARTIAL_SUFFIX
from appliance.model.site.ssh import CONNECT_SECONDS

if TYPE_CHECKING:
    import paramiko

    from appliance.model.site.recovery.backup_targets import SftpTarget

LOGIN_SECONDS: Final = 30.0
# For one answer, and for one piece of a file.
STEP_SECONDS: Final = 60.0
LIST_SECONDS: Final = 120.0
# For a whole file.
FILE_SECONDS: Final = 6 * 3600.0
MOST_ENTRIES: Final = 100_000
PIECE: Final = 1 << 20
_KEEPALIVE_SECONDS: Final = 15
_UNKNOWN: Final = "not found in known_hosts"
_PRIVATE: Final = 0o600


class SftpPlace:
    """A folder of a server, which exists. Nothing is connected to before it is used.

    Args:
        target: the server and the folder.
        known_hosts: the host keys that the operator confirmed.
        private_key: path of the site's private key; None: the SSH agent's.
    """

    def __init__(self, target: SftpTarget, known_hosts: Path, private_key: str | None) -> None:
        self._target = target
        self._known_hosts = known_hosts
        self._private_key = private_key
        self._client: paramiko.SSHClient | None = None
        self._sftp: paramiko.SFTPClient | None = None
        self._lock = threading.Lock()

    @property
    def told(self) -> str:
        """The server and the folder."""
        return self._target.told

    def close(self) -> None:
        """End the connection; the next use makes another one."""
        client, self._client, self._sftp = self._client, None, None
        if client is not None:
            client.close()

    def sizes(self) -> dict[str, int]:
        """The regular files directly in the folder.

        Raises:
            NodeUnreachable: the server does not answer, or does not let us in.
            CommandFailed: the folder cannot be read.
        """
        found: dict[str, int] = {}
        try:
            with self._within(LIST_SECONDS) as sftp:
                for count, entry in enumerate(sftp.listdir_iter(self._target.path)):
                    if count >= MOST_ENTRIES:
                        raise OSError(f"it lists more than {MOST_ENTRIES} files")
                    is_file = stat.S_ISREG(entry.st_mode or 0)
                    if is_file and len(entry.filename) <= LONGEST_FILE:
                        found[entry.filename] = entry.st_size or 0
        except FileNotFoundError as error:
            user, host = self._target.user, self._target.host
            raise Refused(
                f"{self.told}: there is no such folder",
                hint=f"make it on {host}, for {user} to write; or name another: --to PLACE",
            ) from error
        except OSError as error:
            # Answers that nobody read would be taken for those of the next question.
            self.close()
            raise CommandFailed(
                f"{self.told} cannot be read: {_words(error)}", hint=self._hint()
            ) from error
        return found

    def read(self, name: str, *, most_bytes: int) -> bytes:
        """The content of a file; a link is none.

        Raises:
            OSError: it cannot be read, or is larger.
        """
        with self.open(name) as stream:
            return read_to_end(stream, most_bytes)

    @contextmanager
    def open(self, name: str, start: int = 0) -> Iterator[IO[bytes]]:
        """A file as a stream; a link is none.

        Raises:
            OSError: it cannot be read.
        """
        path = self._path(name)
        with self._within(STEP_SECONDS) as sftp:
            if not stat.S_ISREG(sftp.lstat(path).st_mode or 0):
                raise OSError("not a regular file")
            file = sftp.open(path, "rb")
            file.seek(start)
        try:
            yield cast("IO[bytes]", _Reading(file, self._within))
        finally:
            self._quietly(file.close)

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        """A new file, 0600; it gets its name when the block ends without an error.

        Raises:
            Refused: there is one of that name.
            CommandFailed: it could not be written.
        """
        path, partial = self._path(name), self._path(name + PARTIAL_SUFFIX)
        try:
            with self._within(STEP_SECONDS) as sftp:
                self._require_free(sftp, path)
                self._require_free(sftp, partial)
                file = sftp.open(partial, "wxb")
            try:
                with suppress(OSError), self._within(STEP_SECONDS):
                    file.chmod(_PRIVATE)
                sink = _Writing(file, self._within)
                yield sink
                sink.flush()
                with self._within(STEP_SECONDS) as sftp:
                    file.close()
                    self._require_whole(sftp, partial, sink.size)
                    self._require_free(sftp, path)
                    sftp.rename(partial, path)
            except BaseException:
                self._quietly(file.close)
                self._quietly(lambda: self.remove(name + PARTIAL_SUFFIX))
                raise
        except OSError as error:
            raise CommandFailed(
                f"{self.told}/{name} was not written: {_words(error)}",
                hint="older backups are untouched; see the space there (df), or name another "
                "place: --to PLACE; then run the same command again",
            ) from error

    def give_up(self, name: str) -> bool:
        """Nothing is hidden in a folder."""
        del name
        return False

    def remove(self, name: str) -> None:
        """Remove a regular file; never a folder or what a link names.

        Raises:
            OSError: it is there still.
        """
        path = self._path(name)
        with self._within(STEP_SECONDS) as sftp:
            if not stat.S_ISREG(sftp.lstat(path).st_mode or 0):
                raise OSError("not a regular file")
            sftp.remove(path)

    def _path(self, name: str) -> str:
        if "/" in name or name in ("", ".", ".."):
            raise OSError("no name of a file")
        return f"{self._target.path.rstrip('/')}/{name}"

    def _require_free(self, sftp: paramiko.SFTPClient, path: str) -> None:
        with suppress(FileNotFoundError):
            sftp.lstat(path)
            raise Refused(
                f"{path} on {self._target.host} exists already", hint="run the same command again"
            )

    def _require_whole(self, sftp: paramiko.SFTPClient, path: str, size: int) -> None:
        held = sftp.lstat(path).st_size
        if held != size:
            raise OSError(f"the server holds {held} of {size} bytes: its disk may be full")

    def _quietly(self, act: Callable[[], object]) -> None:
        """Tidy up on a connection that may be gone; what is left, the next run removes."""
        with suppress(OSError, ApplianceError), self._within(STEP_SECONDS):
            act()

    @contextmanager
    def _within(self, seconds: float) -> Iterator[paramiko.SFTPClient]:
        """The connection for one step; a server that takes longer is hung up on.

        Raises:
            OSError: the step failed, in the server's words or ours.
        """
        import paramiko

        sftp = self._connected()
        with ended_after(seconds, self.close) as expired:
            try:
                yield sftp
            except (EOFError, paramiko.SSHException, UnicodeError, OSError) as error:
                if expired.is_set() or isinstance(error, TimeoutError):
                    self.close()
                    raise TimeoutError(f"no answer within {seconds:.0f} s") from error
                if isinstance(error, OSError):
                    raise
                self.close()
                raise OSError(_words(error)) from error

    def _connected(self) -> paramiko.SFTPClient:
        import paramiko

        with self._lock:
            if self._sftp is not None:
                if not _is_over(self._sftp):
                    return self._sftp
                self.close()
            check_private_key(self._private_key)
            client = paramiko.SSHClient()
            client.set_missing_host_key_policy(paramiko.RejectPolicy())
            load(self._known_hosts, client.get_host_keys())
            with ended_after(LOGIN_SECONDS, client.close) as expired:
                try:
                    self._sftp = self._log_in(client)
                except (OSError, EOFError, paramiko.SSHException) as error:
                    transport = client.get_transport()
                    told = self._refused(error, transport, late=expired.is_set())
                    client.close()
                    raise told from error
            self._client = client
            return self._sftp

    def _log_in(self, client: paramiko.SSHClient) -> paramiko.SFTPClient:
        target, key = self._target, self._private_key
        client.connect(
            target.host,
            port=target.port,
            username=target.user,
            key_filename=str(Path(key).expanduser()) if key else None,
            timeout=CONNECT_SECONDS,
            banner_timeout=CONNECT_SECONDS,
            auth_timeout=CONNECT_SECONDS,
        )
        transport = client.get_transport()
        if transport is None:
            raise EOFError
        transport.set_keepalive(_KEEPALIVE_SECONDS)
        without_delay(transport.sock)
        sftp = client.open_sftp()
        sftp.get_channel().settimeout(STEP_SECONDS)  # type: ignore[union-attr]
        return sftp

    def _refused(
        self, error: Exception, transport: paramiko.Transport | None, *, late: bool
    ) -> ApplianceError:
        """Why there is no connection, with the next step."""
        import paramiko

        error = told_of_login(error, transport)
        target, known = self._target, self._known_hosts
        name = entry_name(target.host, target.port)
        if isinstance(error, paramiko.BadHostKeyException):
            return NodeUnreachable(
                f"{self.told}: wrong host key: found {error.key.get_name()} "
                f"{error.key.fingerprint}, expected {error.expected_key.fingerprint} of {known}",
                hint="ask who runs the server; if it was reinstalled: "
                f"ssh-keygen -R '{name}' -f {known}, and confirm its new key",
                answers=True,
            )
        if _UNKNOWN in str(error) and transport is not None:
            key = transport.get_remote_server_key()
            return NodeUnreachable(
                f"{self.told}: its host key is not in {known}: it shows {key.get_name()} "
                f"{key.fingerprint}",
                hint="compare that with what the server's own keys are (ssh-keygen -lf FILE there);"
                f" then: echo '{name} {key.get_name()} {key.get_base64()}' >> {known}",
                answers=True,
            )
        if isinstance(error, paramiko.AuthenticationException):
            return NodeUnreachable(
                f"{self.told}: the login was refused for {target.user} with "
                f"{self._private_key or 'the keys of the SSH agent'}",
                hint=f"add the public key to ~/.ssh/authorized_keys of {target.user} there",
                answers=True,
            )
        why = f"no answer within {LOGIN_SECONDS:.0f} s" if late else _words(error)
        return NodeUnreachable(f"{self.told}: no SFTP: {why}", hint=self._hint())

    def _hint(self) -> str:
        target = self._target
        return f"test it: sftp -P {target.port} {target.user}@{target.host}"


def _is_over(sftp: paramiko.SFTPClient) -> bool:
    """Whether the server closed it, maybe long after the last step."""
    channel = sftp.get_channel()
    return channel is None or channel.closed


def _words(error: BaseException) -> str:
    if isinstance(error, UnicodeError):
        return "the server names a file that is not UTF-8: move it elsewhere"
    text = (error.strerror if isinstance(error, OSError) else "") or str(error)
    return "".join(one for one in text if one.isprintable())[:200] or "the connection was closed"


_Within = Callable[[float], AbstractContextManager[object]]


class _Writing:
    """A sink that sends whole pieces, each within its time."""

    def __init__(self, file: paramiko.SFTPFile, within: _Within) -> None:
        self._file = file
        self._within = within
        self._held = bytearray()
        self._until = time.monotonic() + FILE_SECONDS
        self.size = 0

    def write(self, content: bytes, /) -> int:
        """Take all of it."""
        self._held += content
        self.size += len(content)
        while len(self._held) >= PIECE:
            self._send(bytes(self._held[:PIECE]))
            del self._held[:PIECE]
        return len(content)

    def flush(self) -> None:
        """Send what is left."""
        if self._held:
            self._send(bytes(self._held))
            self._held.clear()

    def _send(self, piece: bytes) -> None:
        if time.monotonic() > self._until:
            raise TimeoutError(f"it took longer than {FILE_SECONDS / 3600:.0f} hours")
        with self._within(STEP_SECONDS):
            # One answer is waited for, not one for each packet; it brings the faults of all: those
            # that come with the end of a pipelined file are lost by the library.
            self._file.set_pipelined(True)
            self._file.write(piece[:-1])
            self._file.set_pipelined(False)
            self._file.write(piece[-1:])


class _Reading(io.RawIOBase):
    """A file of the server; each piece comes within its time."""

    def __init__(self, file: paramiko.SFTPFile, within: _Within) -> None:
        self._file = file
        self._within = within
        self._until = time.monotonic() + FILE_SECONDS

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end."""
        if time.monotonic() > self._until:
            raise TimeoutError(f"it took longer than {FILE_SECONDS / 3600:.0f} hours")
        with self._within(STEP_SECONDS):
            return self._file.read(PIECE if size < 0 else min(size, PIECE))
