"""Where documents are kept on control-plane nodes."""

from __future__ import annotations

from typing import Final

ARCHIVE: Final = "/var/lib/appliance/archive"
