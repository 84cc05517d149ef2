"""The CA certificates that a site brings as files of the control host.

A site may name any file of this machine, so only PEM certificates are read from it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.errors import ConfigError

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_LARGEST_CHAIN: Final = 1_000_000
_CERTIFICATE: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----[\sA-Za-z0-9+/=]+-----END CERTIFICATE-----"
)


def certificates_in(path: Path) -> str:
    """The certificates in a file, and nothing else of it.

    Raises:
        OSError: it is not a regular file, or is too large or unreadable.
    """
    text = read_plain(path, most_bytes=_LARGEST_CHAIN, follow=True).decode("ascii", "replace")
    return "".join(f"{pem}\n" for pem in _CERTIFICATE.findall(text))


def authority(path: str, whose: str, key: str) -> str:
    """The PEM of a CA that the site brings.

    Args:
        path: of the file on this machine.
        whose: the CA in words, for the message.
        key: of site.yml.

    Raises:
        ConfigError: the file is not readable, or holds no certificate.
    """
    try:
        found = certificates_in(Path(path))
    except OSError as error:
        raise ConfigError(
            f"{whose} {path} is not readable: {error.strerror or error}",
            hint=f"copy the file there, or correct {key} in site.yml",
        ) from error
    if not found:
        raise ConfigError(
            f"{whose} {path} holds no PEM certificate",
            hint=f"copy the CA certificate as PEM there, or correct {key} in site.yml",
        )
    return found


def registry_ca(site: Site) -> str | None:
    """The PEM of the CA of the organisation's registry; None: the appliance runs its own.

    Raises:
        ConfigError: the CA's file is not readable, or holds no certificate.
    """
    external = site.settings.external_registry
    if external is None:
        return None
    return authority(external.ca, "the registry's CA", "external_registry.ca")
