"""When the certificates end that the organisation brings: read on this machine, and verified not.

Whether the registry's certificate is good is a check of the nodes; here its date alone counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from appliance.adapters.site.authority_files import authority
from appliance.adapters.support.served import shown_end
from appliance.errors import ConfigError
from appliance.model.backup.names import plain_words
from appliance.model.upkeep.horizon.brought import (
    ORGANISATION_CA,
    REGISTRY,
    REGISTRY_CA,
    Brought,
)

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_HTTPS_PORT: Final = 443
# Of one file: a chain has a few.
_MOST: Final = 20


def read_brought(site: Site) -> Iterator[Brought]:
    """What the organisation brings for this site; nothing where it brings nothing."""
    external = site.settings.external_registry
    if external is not None:
        yield _registry(site.settings.registry, str(external.address or ""))
        yield from _file(REGISTRY_CA, external.ca, "external_registry.ca")
    own = site.settings.certificates.organisation_ca
    if own is not None:
        yield from _file(ORGANISATION_CA, own, "certificates.organisation_ca")


def _registry(registry: str, address: str) -> Brought:
    name, _, port = registry.partition(":")
    ends, why = shown_end(address or name, int(port or _HTTPS_PORT), name)
    told = f"{registry} showed this machine no certificate: {why}" if why else ""
    return Brought("certificate", f"{REGISTRY}, as served: {registry}", ends, told)


def _file(what: str, path: str, key: str) -> Iterator[Brought]:
    from cryptography.x509 import InvalidVersion, load_pem_x509_certificates

    try:
        found = load_pem_x509_certificates(authority(path, what, key).encode())
        ends = [
            (plain_words(one.subject.rfc4514_string(), 200), one.not_valid_after_utc)
            for one in found
        ]
    except ConfigError as error:
        yield Brought("authority", f"{what}: {path}", unknown=error.message)
    except (ValueError, InvalidVersion) as error:
        why = f"{path} holds no certificate that can be read: {plain_words(str(error), 100)}"
        yield Brought("authority", f"{what}: {path}", unknown=why)
    else:
        for subject, moment in ends[:_MOST]:
            yield Brought("authority", f"{what}: {subject}", moment.isoformat())
