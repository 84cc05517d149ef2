"""What an error of an S3-compatible server means for the operator, with the next step."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Final

from appliance.errors import CommandFailed, NodeUnreachable, Refused

if TYPE_CHECKING:
    from minio.error import S3Error

    from appliance.model.site.recovery.backup_s3 import S3

_VAULT: Final = "correct vault_backup_s3_access_key and vault_backup_s3_secret_key in the vault"
_LATER: Final = "run the same command later"
_ABSENT: Final = ("NoSuchKey", "NoSuchObject", "ResourceNotFound", "NoSuchUpload")
# Code of the server -> what is wrong, and the next step.
_TOLD: Final = {
    "NoSuchBucket": ("there is no such bucket", "make it there, or name another: --to PLACE"),
    "AccessDenied": (
        "the server denies access",
        "the key needs to list, get, put and delete objects below the prefix",
    ),
    "InvalidAccessKeyId": ("the server does not know the access key", _VAULT),
    "SignatureDoesNotMatch": ("the secret key is not the access key's", _VAULT),
    "RequestTimeTooSkewed": (
        "the clock of this machine is not the server's",
        "see this machine's clock: timedatectl",
    ),
    "SlowDown": ("the server is busy", _LATER),
    "ServiceUnavailable": ("the server is not available", _LATER),
    "QuotaExceeded": ("the quota of the bucket is used up", "see who else uses it"),
    "XMinioStorageFull": ("the disks of the server are full", "see the space there"),
    "AuthorizationHeaderMalformed": (
        "the server is in another region",
        "correct backup: s3: region in site.yml",
    ),
}


def fault_of(error: Exception, told: str, server: S3) -> Exception:
    """An error of the libraries as one of ours; one that is none of theirs stays what it is.

    Args:
        error: what was raised.
        told: the place, for the message.
        server: as site.yml has it.
    """
    from minio.error import MinioException, S3Error, ServerError
    from urllib3.exceptions import HTTPError

    if isinstance(error, S3Error):
        return _answered(error, told)
    if isinstance(error, HTTPError):
        # The cause says it; the outer one names the request.
        reason = getattr(error, "reason", None) or error
        lost = _no_connection(reason, told, server)
        return lost or OSError(f"the connection broke off: {plain(str(reason))}")
    if isinstance(error, ServerError):
        return CommandFailed(f"{told}: {plain(str(error))}", hint=_LATER)
    if isinstance(error, MinioException | ValueError | SyntaxError | LookupError):
        return OSError(f"the server's answer is none of S3: {plain(str(error))}")
    return error


def _answered(error: S3Error, told: str) -> Exception:
    code = str(error.code)[:60]
    if code in _ABSENT:
        return FileNotFoundError(errno.ENOENT, "there is no such object")
    if code == "PreconditionFailed":
        return Refused(
            f"{told}: there is an object of that name already", hint="run the same command again"
        )
    what, hint = _TOLD.get(code, ("", ""))
    if what:
        return CommandFailed(f"{told}: {what}", hint=hint)
    return OSError(f"{plain(code)}: {plain(str(error.message))}")


def _no_connection(reason: Exception, told: str, server: S3) -> NodeUnreachable | None:
    from urllib3 import exceptions

    hint = see_what_answers(server)
    if isinstance(reason, exceptions.SSLError):
        hint = f"name the CA of its certificate: backup: s3: ca in site.yml; {hint}"
    elif not isinstance(reason, exceptions.NewConnectionError | exceptions.ConnectTimeoutError):
        return None
    words = plain(str(reason).rpartition(": ")[2] or str(reason))
    return NodeUnreachable(f"{told}: no S3 at {server.endpoint}: {words}", hint=hint)


def see_what_answers(server: S3) -> str:
    """The command that shows what answers there."""
    return f"see what answers there: curl -v {server.endpoint}"


def plain(text: str) -> str:
    """Text of a server for one line of a terminal."""
    return "".join(one for one in text if one.isprintable())[:200]
