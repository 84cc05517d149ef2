"""The keys that machines showed at first contact, kept until the site is written.

A host key is written as in ``known_hosts``, a BMC's certificate as its SHA-256 fingerprint.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from appliance.errors import ConfigError
from appliance.model.checks.discovery.targets import Target, targets
from appliance.model.documents.strict_json import Unreadable, read_json
from appliance.model.site.imaging_settings import is_public_key

SCHEMA: Final = 1
MOST_BYTES: Final = 8 << 20
_FINGERPRINT: Final = re.compile(r"[0-9a-f]{64}")

Pins = Mapping[Target, str]


def pins_text(pins: Pins) -> str:
    """The document of the pins."""
    keys = {str(target): key for target, key in pins.items()}
    return json.dumps({"schema": SCHEMA, "keys": keys}, indent=1, sort_keys=True) + "\n"


def read_pins(content: bytes) -> dict[Target, str]:
    """Read the document, strictly.

    Raises:
        Unreadable: it is not such a document.
    """
    document = read_json(content, most_bytes=MOST_BYTES)
    keys = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(keys, dict) or document.get("schema") != SCHEMA:
        raise Unreadable(f"it is no document of pins of schema {SCHEMA}")
    pins: dict[Target, str] = {}
    for word, key in keys.items():
        try:
            named = targets([word])
        except ConfigError as error:
            raise Unreadable("it names something that is no address") from error
        if len(named) != 1 or not isinstance(key, str) or not is_pin(named[0], key):
            raise Unreadable("it has something that is no key")
        pins[named[0]] = key
    return pins


def is_pin(target: Target, key: str) -> bool:
    """Whether this can be the key of such a target."""
    if target.kind == "bmc":
        return _FINGERPRINT.fullmatch(key) is not None
    return is_public_key(key)


def changed(pins: Pins, shown: Pins) -> tuple[Target, ...]:
    """The targets that show another key than before."""
    return tuple(one for one, key in shown.items() if pins.get(one, key) != key)
