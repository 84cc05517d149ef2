"""Where backups may be kept: a folder, a server that speaks SFTP, or a bucket, as they are written.

What must not be here: reading or writing them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from appliance.model.site import addresses

SFTP_SCHEME: Final = "sftp://"
S3_SCHEME: Final = "s3://"
_USER: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]{0,127}")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_STEP: Final = re.compile(r"[A-Za-z0-9._+=,@ -]{1,200}")
_DEEPEST: Final = 30
_MOST_PORT: Final = 65535
SSH_PORT: Final = 22


class NoTarget(ValueError):
    """The text names no place for backups; its message says what is wrong and what would be right.

    Attributes:
        problem: what is wrong.
        remedy: what would be right.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


@dataclass(frozen=True)
class FolderTarget:
    """A folder of the control host."""

    path: str


@dataclass(frozen=True)
class SftpTarget:
    """A folder of an SSH server.

    Attributes:
        user: who logs in.
        host: a name or an IPv4 address.
        port: of the server.
        path: of the folder, from the root on.
    """

    user: str
    host: str
    port: int
    path: str

    @property
    def told(self) -> str:
        """As it is written; no secret."""
        port = "" if self.port == SSH_PORT else f":{self.port}"
        return f"{SFTP_SCHEME}{self.user}@{self.host}{port}{self.path}"


@dataclass(frozen=True)
class S3Target:
    """A bucket of an S3-compatible server, and what its objects' names begin with.

    Attributes:
        bucket: its name.
        prefix: without a slash at either end; empty: the whole bucket.
    """

    bucket: str
    prefix: str

    @property
    def told(self) -> str:
        """As it is written; no secret."""
        return f"{S3_SCHEME}{self.bucket}/{self.prefix}".rstrip("/")


BackupTarget = FolderTarget | SftpTarget | S3Target


def backup_target(text: str) -> BackupTarget:
    """The place that a text names: a folder, ``sftp://USER@HOST[:PORT]/PATH``, ``s3://BUCKET/...``.

    Raises:
        NoTarget: it names none.
    """
    if not text.isprintable() or len(text) > 1000:
        raise NoTarget("a place for backups is one line of printable characters", TARGET_EXAMPLES)
    if text.startswith(SFTP_SCHEME):
        return _sftp(text)
    if text.startswith(S3_SCHEME):
        return _s3(text)
    if "://" in text:
        raise NoTarget(
            f"{text.partition('://')[0]!r} is not a kind of place for backups", TARGET_EXAMPLES
        )
    return FolderTarget(text)


TARGET_EXAMPLES: Final = (
    "write a folder of the control host (/mnt/backups), sftp://USER@HOST/PATH or s3://BUCKET/PREFIX"
)
_SFTP_EXAMPLE: Final = "write it like sftp://backup@198.51.100.20/srv/backups"
_S3_EXAMPLE: Final = "write it like s3://backups/rack7"


def _sftp(text: str) -> SftpTarget:
    where, slash, path = text.removeprefix(SFTP_SCHEME).partition("/")
    user, at, rest = where.rpartition("@")
    host, colon, port = rest.partition(":")
    if not at or not _USER.fullmatch(user):
        # What stands before the @ may be a password: it is not repeated.
        raise NoTarget(
            "the part before the @ of this sftp:// is no user name, or has a password",
            f"{_SFTP_EXAMPLE}; the login is by the site's SSH key",
        )
    if not (addresses.is_address(host) or addresses.is_dns_name(host)):
        raise NoTarget(f"{host[:100]!r} is neither an IPv4 address nor a name", _SFTP_EXAMPLE)
    number = int(port) if port.isascii() and port.isdigit() and len(port) < 6 else 0
    if colon and not 1 <= number <= _MOST_PORT:
        raise NoTarget(f"{port[:20]!r} is no port", _SFTP_EXAMPLE)
    steps = path.strip("/").split("/")
    if not slash or not all(_is_step(step) for step in steps) or len(steps) > _DEEPEST:
        raise NoTarget(f"{('/' + path)[:100]!r} is not a folder of a server", _SFTP_EXAMPLE)
    return SftpTarget(user, host, number or SSH_PORT, "/" + "/".join(steps))


def _s3(text: str) -> S3Target:
    bucket, _, prefix = text.removeprefix(S3_SCHEME).partition("/")
    if not _BUCKET.fullmatch(bucket) or ".." in bucket or addresses.is_address(bucket):
        raise NoTarget(f"{bucket[:100]!r} is no name of a bucket", _S3_EXAMPLE)
    steps = prefix.strip("/").split("/") if prefix.strip("/") else []
    if not all(_is_step(step) for step in steps) or len(steps) > _DEEPEST:
        raise NoTarget(f"{prefix[:100]!r} cannot begin the names of objects", _S3_EXAMPLE)
    return S3Target(bucket, "/".join(steps))


def _is_step(step: str) -> bool:
    return _STEP.fullmatch(step) is not None and step not in (".", "..")
