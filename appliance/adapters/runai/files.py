"""Run:ai's files on the control host: the organisation's CA, and files written for people."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import make_folder
from appliance.errors import ConfigError, Refused

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_LARGEST_CHAIN: Final = 1_000_000
_LARGEST_VALUES: Final = 1_000_000
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[\sA-Za-z0-9+/=]+-----END CERTIFICATE-----"
)


def issuer_ca(site: Site) -> str | None:
    """The PEM of the organisation's CA if it signs the backend's certificate; None: the site's CA.

    Raises:
        ConfigError: the CA's file is not readable.
    """
    runai, brought = site.settings.runai, site.settings.certificates.organisation_ca
    if runai is None or runai.certificate is None or brought is None:
        return None
    try:
        found = _certificates(Path(brought))
    except OSError as error:
        raise ConfigError(
            f"the organisation's CA {brought} is not readable: {error.strerror or error}",
            hint="copy the file there, or correct certificates.organisation_ca in site.yml",
        ) from error
    if not found:
        raise ConfigError(
            f"the organisation's CA {brought} holds no PEM certificate",
            hint="copy the CA certificate as PEM there, or correct certificates.organisation_ca "
            "in site.yml",
        )
    return found


def backend_certificate(site: Site) -> str | None:
    """The certificates in the backend's certificate file; None without any.

    Nothing else of the file is read: a private key belongs in the vault. The check of the
    certificate reports faults of the file.
    """
    runai = site.settings.runai
    if runai is None or runai.certificate is None:
        return None
    try:
        return _certificates(site.directory / Path(runai.certificate).expanduser()) or None
    except OSError:
        return None


def _certificates(path: Path) -> str:
    """The certificates in a file, and nothing else of it: a site may name any file of this machine.

    Raises:
        OSError: it is not a regular file, or is too large or unreadable.
    """
    text = read_plain(path, most_bytes=_LARGEST_CHAIN, follow=True).decode("ascii", "replace")
    return "".join(f"{pem}\n" for pem in _CERTIFICATE.findall(text))


def cluster_values_sha256(site: Site) -> str | None:
    """The digest of the cluster's values file in site.yml; None if site.yml names none.

    Raises:
        ConfigError: the file is not readable.
    """
    named = site.settings.runai.cluster_values_file if site.settings.runai else None
    if named is None:
        return None
    try:
        content = read_plain(Path(named), most_bytes=_LARGEST_VALUES)
        return hashlib.sha256(content).hexdigest()
    except OSError as error:
        raise ConfigError(
            f"the cluster's values {named} are not readable: {error}",
            hint="copy the values file of the backend's page there, or correct "
            "runai.cluster_values_file in site.yml",
        ) from error


def write_new(path: Path, text: str, *, mode: int = 0o600) -> None:
    """Write a new file; never replace one.

    Raises:
        Refused: the file exists, or cannot be written.
    """
    if path.exists():
        raise Refused(
            f"{path} exists already and was not changed",
            hint="name another file, or move that one away",
        )
    try:
        # A new folder for a private file is private, too.
        make_folder(path.parent, mode=mode | (mode & 0o444) >> 2)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise Refused(
            f"{path} cannot be written: {error.strerror}", hint="name another file"
        ) from error
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        os.fchmod(stream.fileno(), mode)
        stream.write(text)
