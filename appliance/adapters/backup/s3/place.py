"""A bucket of an S3-compatible server as a place for backups (library minio).

An upload is no object before its last part came: what is interrupted is never seen. An upload that
fails is given up; what a process that was killed left is given up by the next run.
"""

from __future__ import annotations

import io
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any, Final, TypeVar, cast

from appliance.adapters.backup.age import Sink
from appliance.adapters.backup.places import read_to_end
from appliance.adapters.backup.s3.faults import fault_of, plain, see_what_answers
from appliance.adapters.backup.s3.http import LimitedPool, in_time
from appliance.errors import ApplianceError, CommandFailed, ConfigError, Refused
from appliance.model.backup.names import LONGEST_FILE

if TYPE_CHECKING:
    from collections.abc import Callable

    from minio import Minio

    from appliance.model.site.recovery.backup_s3 import S3
    from appliance.model.site.recovery.backup_targets import S3Target

ACCESS_KEY: Final = "vault_backup_s3_access_key"
SECRET_KEY: Final = "vault_backup_s3_secret_key"  # noqa: S105 - a name, no secret
_T = TypeVar("_T")
PART_BYTES: Final = 32 << 20
# For one answer, and for one piece of a file.
STEP_SECONDS: Final = 60.0
LIST_SECONDS: Final = 120.0
CLOSE_SECONDS: Final = 1.0
# For a whole file.
FILE_SECONDS: Final = 6 * 3600.0
MOST_ENTRIES: Final = 100_000
PIECE: Final = 1 << 20


class S3Place:
    """A bucket, which exists. Nothing is connected to before it is used.

    Args:
        target: the bucket, and what the objects' names begin with.
        server: what the site says of the server.
        secret: reads a secret of the vault by its name; None if it has none.
    """

    def __init__(self, target: S3Target, server: S3, secret: Callable[[str], str | None]) -> None:
        self._target = target
        self._server = server
        self._secret = secret
        self._made: Minio | None = None

    @property
    def told(self) -> str:
        """The bucket and the prefix."""
        return self._target.told

    def sizes(self) -> dict[str, int]:
        """The objects directly below the prefix.

        Raises:
            NodeUnreachable: the server does not answer.
            CommandFailed: the bucket cannot be listed.
        """

        def look() -> dict[str, int]:
            found: dict[str, int] = {}
            begin = self._name("")
            listed = self._client.list_objects(self._target.bucket, prefix=begin)
            for count, one in enumerate(listed):
                if count >= MOST_ENTRIES:
                    raise OSError(f"it lists more than {MOST_ENTRIES} objects")
                name = (one.object_name or "").removeprefix(begin)
                is_file = name and "/" not in name and len(name) <= LONGEST_FILE
                if is_file and isinstance(one.size, int):
                    found[name] = one.size
            return found

        try:
            return self._in_time(LIST_SECONDS, look)
        except OSError as error:
            raise CommandFailed(
                f"{self.told} cannot be read: {_words(error)}", hint=see_what_answers(self._server)
            ) from error

    def read(self, name: str, *, most_bytes: int) -> bytes:
        """The content of an object.

        Raises:
            OSError: it cannot be read, or is larger.
        """
        with self.open(name) as stream:
            return read_to_end(stream, most_bytes)

    @contextmanager
    def open(self, name: str, start: int = 0) -> Iterator[IO[bytes]]:
        """An object as a stream.

        Raises:
            OSError: it cannot be read.
        """
        bucket, key = self._target.bucket, self._name(name)
        answer = self._in_time(
            STEP_SECONDS, lambda: self._client.get_object(bucket, key, offset=start)
        )
        try:
            yield cast("IO[bytes]", _Reading(answer, self._in_time))
        finally:
            # A thread that waits for a server that drips holds the answer: it is left to it.
            with suppress(Exception):
                in_time(CLOSE_SECONDS, answer.close)

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        """A new object; it is there when the block ends without an error.

        Raises:
            Refused: there is one of that name.
            CommandFailed: it could not be written.
        """
        try:
            self._require_free(name)
            upload = _Upload(self, name)
            try:
                yield upload
                upload.finish()
            except BaseException:
                upload.give_up()
                raise
        except OSError as error:
            raise CommandFailed(
                f"{self.told}/{name} was not written: {_words(error)}",
                hint="older backups are untouched; see the quota there, or name another place: "
                "--to PLACE; then run the same command again",
            ) from error

    def remove(self, name: str) -> None:
        """Remove an object.

        Raises:
            OSError: it is there still.
        """
        bucket, key = self._target.bucket, self._name(name)
        self._in_time(STEP_SECONDS, lambda: self._client.remove_object(bucket, key))

    def give_up(self, name: str) -> bool:
        """Give up the uploads of one exact name that never ended; whether there were any."""
        bucket, key = self._target.bucket, self._name(name)

        def act() -> bool:
            # The library has no public call for it; a test holds that these two are there.
            found = self._client._list_multipart_uploads(bucket, prefix=key)
            ours = [one for one in found.uploads if one.object_name == key]
            for one in ours:
                self._client._abort_multipart_upload(bucket, key, one.upload_id or "")
            return bool(ours)

        return self._in_time(STEP_SECONDS, act)

    def _name(self, name: str) -> str:
        if "/" in name:
            raise OSError("no name of an object here")
        prefix = self._target.prefix
        return f"{prefix}/{name}" if prefix else name

    def _require_free(self, name: str) -> None:
        bucket, key = self._target.bucket, self._name(name)
        with suppress(FileNotFoundError):
            self._in_time(STEP_SECONDS, lambda: self._client.stat_object(bucket, key))
            raise _taken(self.told, name)

    @property
    def _client(self) -> Minio:
        if self._made is None:
            from minio import Minio

            server = self._server
            access, secret = self._secret(ACCESS_KEY), self._secret(SECRET_KEY)
            if not (access and secret):
                raise ConfigError(
                    f"{self.told}: the vault has no {SECRET_KEY if access else ACCESS_KEY}",
                    hint="write both into the vault: appliance docs back-up-the-appliance",
                )
            self._made = Minio(
                server.address,
                access_key=access,
                secret_key=secret,
                secure=server.is_secure,
                region=server.region,
                http_client=LimitedPool(server.ca),
            )
        return self._made

    def put(self, name: str, source: IO[bytes]) -> None:
        """Write an object from a stream of unknown size, to its end."""
        bucket, key = self._target.bucket, self._name(name)
        self._client.put_object(
            bucket, key, cast("Any", source), -1, part_size=PART_BYTES, num_parallel_uploads=1
        )

    def _in_time(self, seconds: float, act: Callable[[], _T]) -> _T:
        """What an act returns.

        Raises:
            FileNotFoundError: there is no such object.
            OSError: it failed, in the server's words or ours.
            NodeUnreachable: there is no connection.
            Refused: the server does not let us.
        """
        # The vault may ask for its password: not in the thread.
        _ = self._client
        try:
            return in_time(seconds, act)
        except (ApplianceError, OSError):
            raise
        except Exception as error:
            raise self.fault(error) from error

    def fault(self, error: Exception) -> Exception:
        """An error of the libraries as one of ours."""
        return fault_of(error, self.told, self._server)


def _taken(told: str, name: str) -> Refused:
    return Refused(f"{told}/{name} exists already", hint="run the same command again")


def _words(error: OSError) -> str:
    return plain(error.strerror or str(error)) or type(error).__name__


class _Upload:
    """A sink; what it takes goes to the server from a thread, which the library pulls from."""

    def __init__(self, place: S3Place, name: str) -> None:
        self._place = place
        self._name = name
        self._fault: BaseException | None = None
        self._until = time.monotonic() + FILE_SECONDS
        reading, writing = os.pipe()
        self._source, self._sink = os.fdopen(reading, "rb"), os.fdopen(writing, "wb")
        self._whole = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def write(self, content: bytes, /) -> int:
        """Take all of it."""
        if time.monotonic() > self._until:
            raise TimeoutError(f"it took longer than {FILE_SECONDS / 3600:.0f} hours")
        try:
            return self._sink.write(content)
        except BrokenPipeError:
            self._require()
            raise

    def finish(self) -> None:
        """Let the object appear.

        Raises:
            OSError: it did not.
        """
        self._whole = True
        with suppress(BrokenPipeError):
            self._sink.close()
        self._thread.join()
        self._require()

    def give_up(self) -> None:
        """No object appears."""
        with suppress(OSError):
            self._sink.close()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._place.put(self._name, cast("IO[bytes]", _Pulled(self._source, self)))
        except Exception as error:
            self._fault = error
        finally:
            self._source.close()

    @property
    def is_whole(self) -> bool:
        """Whether the end of the stream is the end of the object."""
        return self._whole

    def _require(self) -> None:
        self._thread.join()
        if isinstance(self._fault, ApplianceError | OSError):
            raise self._fault
        if isinstance(self._fault, Exception):
            raise self._place.fault(self._fault) from self._fault


class _GivenUp(OSError):
    """The source broke off."""


class _Pulled:
    """A stream as the library reads it; an end that is none is an error, so that no object is."""

    def __init__(self, source: IO[bytes], upload: _Upload) -> None:
        self._source = source
        self._upload = upload

    def read(self, size: int = -1) -> bytes:
        """So many bytes."""
        piece = self._source.read(size)
        if not piece and not self._upload.is_whole:
            raise _GivenUp("the upload was given up")
        return piece


class _Reading(io.RawIOBase):
    """An object of the server; each piece comes within its time."""

    def __init__(self, answer: Any, in_time: Callable[[float, Callable[[], Any]], Any]) -> None:
        self._answer = answer
        self._in_time = in_time
        self._until = time.monotonic() + FILE_SECONDS

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, fewer at the end."""
        if time.monotonic() > self._until:
            raise TimeoutError(f"it took longer than {FILE_SECONDS / 3600:.0f} hours")
        wanted = PIECE if size < 0 else min(size, PIECE)
        return bytes(self._in_time(STEP_SECONDS, lambda: self._answer.read(wanted)))
