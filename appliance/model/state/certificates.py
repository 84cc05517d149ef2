"""The remaining validity of certificates, and digests of certificates and settings."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from appliance.model.state.desired import Desired
from appliance.model.state.facts.facts import NodeFacts

FOLDER = "/etc/appliance/tls"
# Only on the services node; role node_reset removes them from a former one.
SERVICES = ("artifacts", "registry")

_PEM: Final = re.compile(
    r"-----BEGIN CERTIFICATE-----\s*(.*?)\s*-----END CERTIFICATE-----", re.DOTALL
)

# Same as site_certificate_renew_days, below which the role renews.
RENEW_DAYS = 30

DAY = 86_400.0


def fingerprint(pem: str) -> str | None:
    """Return the sha256 of the first certificate in a PEM text, as the probe does for a file."""
    body = _PEM.search(pem)
    if body is None:
        return None
    try:
        return hashlib.sha256(base64.b64decode(body.group(1))).hexdigest()
    except ValueError:
        return None


def values_digest(values: Mapping[str, Any]) -> str:
    """Return the sha256 of values, as ``playbooks/library/helm_release.py`` computes it."""
    # Once through JSON, as for the module: number keys become text and are sorted as text.
    text = json.dumps(json.loads(json.dumps(values)), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def days_left(facts: NodeFacts, not_after: object) -> float | None:
    """Return the days until a date, by the node's clock; None if one of the two is unknown."""
    if not not_after or facts.epoch is None:
        return None
    return (datetime.fromisoformat(str(not_after)).timestamp() - facts.epoch) / DAY


def ends_soon(
    what: str, desired: Desired, facts: NodeFacts, seen: Mapping[str, Any]
) -> Iterator[str]:
    """Yield a certificate that must be renewed; nothing where the expiry is unknown.

    It is not renewed when its CA expires at the same time: a new one would expire with it.
    """
    end = seen.get("not_after")
    left = days_left(facts, end)
    instead = desired.override("site_certificate", "renew_days")
    wanted = instead if isinstance(instead, int) else RENEW_DAYS
    if left is None or left >= wanted or end == facts.at("trust.site_ca_not_after"):
        return
    end = f"expires in {left:.0f} days" if left >= 0 else f"expired {-left:.0f} days ago"
    yield f"{what} {end}"


def service_ends_soon(what: str, name: str, desired: Desired, facts: NodeFacts) -> Iterator[str]:
    """The same for a service's certificate in its folder."""
    path = f"{FOLDER}/{name}.crt"
    for seen in facts.items("certificates"):
        if seen.get("path") == path:
            yield from ends_soon(what, desired, facts, seen)
