"""The site's ``known_bundle``: the digest of the bundle that was handed over last.

It lies beside ``known_hosts``, for the same reason: what was seen first is committed with the site,
so another laptop has it from there, and not from the nodes that it is to judge.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from appliance.adapters.plain_files import read_plain
from appliance.adapters.state_files import COMMITTABLE, replace_file
from appliance.model.bundle import MANIFEST
from appliance.model.custody import KnownBundle

if TYPE_CHECKING:
    from appliance.model.site import Site

_MOST_BYTES: Final = 1000
# As sha256sum writes it.
_LINE: Final = re.compile(rf"([0-9a-f]{{64}})  {re.escape(MANIFEST)}\n?")


def read_known(site: Site) -> KnownBundle:
    """What is written down; nothing where there is no such file."""
    path = site.known_bundle
    try:
        text = read_plain(path, most_bytes=_MOST_BYTES).decode("ascii")
    except FileNotFoundError:
        return KnownBundle()
    except OSError as error:
        return KnownBundle(fault=f"{path} that cannot be read: {error.strerror or error}")
    except UnicodeDecodeError:
        text = ""
    found = _LINE.fullmatch(text)
    if found is None:
        return KnownBundle(fault=f"{path} that does not hold one line 'SHA256  {MANIFEST}'")
    return KnownBundle(found[1])


def keeper(site: Site, say: Callable[[str], None]) -> Callable[[str], None]:
    """What writes a digest down, once it is another; where it cannot, it says so and goes on."""

    def keep(digest: str) -> None:
        if read_known(site).digest == digest:
            return
        try:
            replace_file(site.known_bundle, f"{digest}  {MANIFEST}\n", mode=COMMITTABLE)
        except OSError as error:
            say(
                f"{site.known_bundle} could not be written ({error.strerror or error}): nothing "
                "will tell this bundle from another that somebody puts on the services node"
            )

    return keep
