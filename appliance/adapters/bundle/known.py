"""The site's ``known_bundle``: the digest of the last bundle given with ``--bundle``.

It is beside ``known_hosts`` for the same reason: it is committed with the site. Another laptop
reads it from there, and not from the nodes that it verifies with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.state_files import COMMITTABLE, replace_file
from appliance.model.bundle.manifest import MANIFEST
from appliance.model.bundle.mirror import KnownBundle

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

_MOST_BYTES: Final = 1000
# The format of sha256sum.
_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  {re.escape(MANIFEST)}\n?")


def read_known(site: Site) -> KnownBundle:
    """The recorded digest; empty if there is no such file."""
    path = site.known_bundle
    try:
        text = read_plain(path, most_bytes=_MOST_BYTES).decode("ascii")
    except FileNotFoundError:
        return KnownBundle()
    except OSError as error:
        return KnownBundle(fault=f"{path} that cannot be read: {error.strerror or error}")
    except UnicodeDecodeError:
        text = ""
    match = _LINE.fullmatch(text)
    if match is None:
        return KnownBundle(fault=f"{path} that does not hold one line 'SHA256  {MANIFEST}'")
    return KnownBundle(match[1])


def keeper(site: Site, say: Callable[[str], None]) -> Callable[[str], None]:
    """A function that records a changed digest; if it cannot, it warns and continues."""

    def keep(digest: str) -> None:
        if read_known(site).digest == digest:
            return
        try:
            replace_file(site.known_bundle, f"{digest}  {MANIFEST}\n", mode=COMMITTABLE)
        except OSError as error:
            say(
                f"{site.known_bundle} could not be written ({error.strerror or error}): a later "
                "command cannot detect that the services node has another bundle"
            )

    return keep
