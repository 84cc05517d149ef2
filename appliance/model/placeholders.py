"""What firmware says in the place of a serial number or a UUID that nobody filled in.

Such a value proves nothing: many boards carry it, so it makes no two machines the same, and no
machine another one. It reads as if the machine could not tell.
"""

from __future__ import annotations

import re
from typing import Final

# Lower case. Which vendor leaves which was seen on boards in the field; no document of theirs says.
SERIALS: Final = frozenset(
    {
        # American Megatrends and who builds on it.
        *("default string", "to be filled by o.e.m.", "to be filled by o.e.m", "o.e.m."),
        *("system serial number", "chassis serial number", "base board serial number"),
        *("baseboard serial number", "serial number", "oem", "invalid", "undefined"),
        # Quanta, Supermicro, Tyan and Gigabyte boards as they leave the factory.
        *("0123456789", "01234567890123456789ab", "0123456789abcdef", "1234567890", "123456789"),
        *("12345678", "1234567", "123456", "012345678", "0123456789012345"),
        # What dmidecode and the kernel print where the table has no string.
        *("", "none", "not specified", "not available", "not applicable", "n/a", "na", "unknown"),
        *("not present", "empty", "null", "no asset information", "not settable"),
    }
)
UUIDS: Final = frozenset(
    {"03000200-0400-0500-0006-000700080009", "12345678-1234-5678-90ab-cddeefaabbcc"}
)


def told_serial(value: str | None) -> str | None:
    """The serial, or None where it is one that nobody filled in."""
    text = (value or "").strip()
    return None if text.lower() in SERIALS or _is_one_letter(text) else value


def told_uuid(value: str | None) -> str | None:
    """The UUID, or None where it is one that nobody filled in."""
    text = (told_serial(value) or "").lower()
    return None if text in UUIDS or _is_one_letter(text.replace("-", "")) else value


def _is_one_letter(text: str) -> bool:
    """``0000``, ``XXXX``, ``....`` and the like."""
    return re.fullmatch(r"(.)\1*", text) is not None or not text
