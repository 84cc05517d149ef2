"""Certificates of the site's authority on the nodes: when would the role make another?

A step is due exactly when role ``site_certificate`` would do something: one that is due for what
the role leaves alone would never be proved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from appliance.model.backend_certificate import DAY

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.photograph import Photograph

# As site_certificate_renew_days, below which the role makes another.
RENEW_DAYS = 30
FOLDER = "/etc/appliance/tls"
# Of the services node alone; role node_reset takes them from a node that was it.
SERVICES = ("artifacts", "registry")


def days_left(photo: Photograph, not_after: object) -> float | None:
    """How many days remain until a date, by the node's clock; None: one of the two is not told."""
    if not not_after or photo.epoch is None:
        return None
    return (datetime.fromisoformat(str(not_after)).timestamp() - photo.epoch) / DAY


def ends_soon(
    what: str, desired: Desired, photo: Photograph, seen: Mapping[str, Any]
) -> Iterator[str]:
    """That a certificate is to be made anew; nothing of one whose end was not seen.

    None outlives the authority: where both end together, another one would be no gain.
    """
    end = seen.get("not_after")
    left = days_left(photo, end)
    instead = desired.override("site_certificate", "renew_days")
    wanted = instead if isinstance(instead, int) else RENEW_DAYS
    if left is None or left >= wanted or end == photo.at("trust.site_ca_not_after"):
        return
    yield f"{what} " + (f"ends in {left:.0f} days" if left >= 0 else f"ended {-left:.0f} days ago")


def service_ends_soon(what: str, name: str, desired: Desired, photo: Photograph) -> Iterator[str]:
    """The same of a service's certificate in its folder."""
    path = f"{FOLDER}/{name}.crt"
    for seen in photo.items("certificates"):
        if seen.get("path") == path:
            yield from ends_soon(what, desired, photo, seen)
