"""What this machine knows of a cluster that is reset: its kubeconfig and the CA in it."""

from __future__ import annotations

import base64
import hashlib
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from appliance.adapters.kubernetes.connection.client import NotReadable, credentials_of
from appliance.adapters.local.plain_files import read_plain

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

FILE: Final = "kubeconfig"
_MOST_BYTES: Final = 1 << 20
_PEM: Final = re.compile(
    rb"-----BEGIN CERTIFICATE-----\s*(.*?)\s*-----END CERTIFICATE-----", re.DOTALL
)


def cluster_ca(site: Site) -> str | None:
    """The sha256 of the CA in the kubeconfig that an install left here; None without one."""
    with suppress(OSError, ValueError, NotReadable):
        text = read_plain(site.state_directory / FILE, most_bytes=_MOST_BYTES).decode()
        found = _PEM.search(credentials_of(text).authority)
        if found:
            return hashlib.sha256(base64.b64decode(found[1])).hexdigest()
    return None


def forget_cluster(site: Site) -> None:
    """Remove that kubeconfig; none is no error."""
    with suppress(FileNotFoundError):
        (site.state_directory / FILE).unlink()


def digest_of(certificate: str) -> str:
    """The digest of a PEM text as ``bare_survey.py`` makes it: blanks do not count."""
    return hashlib.sha256("".join(certificate.split()).encode()).hexdigest()
