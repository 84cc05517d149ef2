"""Placeholders in firmware instead of a serial number or a UUID.

Many boards have the same placeholder, so it is no evidence for or against the same machine. It
counts as unknown.
"""

from __future__ import annotations

import re
from typing import Final

# Lower case. Collected from boards in the field; vendors do not document them.
SERIALS: Final = frozenset(
    {
        # American Megatrends and vendors that use it.
        *("default string", "to be filled by o.e.m.", "to be filled by o.e.m", "o.e.m."),
        *("system serial number", "chassis serial number", "base board serial number"),
        *("baseboard serial number", "serial number", "oem", "invalid", "undefined"),
        # Quanta, Supermicro, Tyan and Gigabyte boards in factory state.
        *("0123456789", "01234567890123456789ab", "0123456789abcdef", "1234567890", "123456789"),
        *("12345678", "1234567", "123456", "012345678", "0123456789012345"),
        # Printed by dmidecode and the kernel where the table has no string.
        *("", "none", "not specified", "not available", "not applicable", "n/a", "na", "unknown"),
        *("not present", "empty", "null", "no asset information", "not settable"),
    }
)
UUIDS: Final = frozenset(
    {"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc"}
)


def told_serial(value: str | None) -> str | None:
    """Return the serial, or None for a placeholder."""
    text = (value or "").strip()
    return None if text.lower() in SERIALS or _is_one_letter(text) else value


def told_uuid(value: str | None) -> str | None:
    """Return the UUID, or None for a placeholder."""
    text = (told_serial(value) or "").lower()
    return None if text in UUIDS or _is_one_letter(text.replace("-", "")) else value


def _is_one_letter(text: str) -> bool:
    """Whether it is ``0000``, ``XXXX``, ``....`` or similar."""
    return re.fullmatch(r"(.)\1*", text) is not None or not text
