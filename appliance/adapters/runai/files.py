"""Run:ai's files on the control host: the organisation's CA, and files written for people."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.state_files import make_folder
from appliance.errors import ConfigError, Refused

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_LARGEST_CHAIN: Final = 1_000_000
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
        return Path(brought).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the organisation's CA {brought} is not readable: {error}",
            hint="copy the file there, or correct certificates.organisation_ca in site.yml",
        ) from error


def backend_certificate(site: Site) -> str | None:
    """The certificates in the backend's certificate file; None without any.

    Nothing else of the file is read: a private key belongs in the vault. The check of the
    certificate reports faults of the file.
    """
    runai = site.settings.runai
    if runai is None or runai.certificate is None:
        return None
    try:
        path = site.directory / Path(runai.certificate).expanduser()
        if not path.is_file():
            return None
        with path.open(encoding="ascii") as stream:
            text = stream.read(_LARGEST_CHAIN)
    except (OSError, UnicodeDecodeError):
        return None
    return "".join(f"{pem}\n" for pem in _CERTIFICATE.findall(text)) or None


def cluster_values_sha256(site: Site) -> str | None:
    """The digest of the cluster's values file in site.yml; None if site.yml names none.

    Raises:
        ConfigError: the file is not readable.
    """
    named = site.settings.runai.cluster_values_file if site.settings.runai else None
    if named is None:
        return None
    try:
        return hashlib.sha256(Path(named).read_bytes()).hexdigest()
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
