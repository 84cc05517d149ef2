"""An NVMe disk's health log, read by the kernel's ioctl: nvme-cli need not be installed.

The log is page 02h (NVM Express Base Specification, "SMART / Health Information"); the command is
``struct nvme_passthru_cmd`` of linux/nvme_ioctl.h. It reads, and changes nothing.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Any, Dict

from ..source import Source

ADMIN_COMMAND = 0xC0484E41
GET_LOG_PAGE, HEALTH_PAGE, ALL_NAMESPACES = 0x02, 0x02, 0xFFFFFFFF
LOG_BYTES = 512
TIMEOUT_MS = 2000
# Bits of "critical warning" that say that the disk itself fails: spare, reliability, read-only.
FAILING = 0b00001101
FIELDS = ("healthy", "wear_percent", "media_errors", "power_on_hours")
LARGEST = (1 << 62) - 1


def health_log(source: Source, controller: str, path: str) -> Dict[str, Any]:
    """Return health, wear, media errors and hours; without the log they are unknown."""
    try:
        log = _read(source, controller)
    except (OSError, ValueError) as error:
        source.unseen("/dev/%s: %s" % (controller, error), *["%s.%s" % (path, f) for f in FIELDS])
        return {}
    return parse(log)


def _read(source: Source, controller: str) -> bytes:
    if not source.live:
        recorded = source.recorded("nvme-health-" + controller)
        if recorded is None:
            raise OSError("its health log is not recorded")
        log = bytes.fromhex("".join(recorded.split()))
    else:
        log = _command("/dev/" + controller)
    if len(log) < LOG_BYTES:
        raise ValueError("its health log has %d bytes" % len(log))
    return log


def _command(device: str) -> bytes:
    import fcntl

    buffer = ctypes.create_string_buffer(LOG_BYTES)
    # The number of double words, counted from zero, is in the upper half.
    which = HEALTH_PAGE | ((LOG_BYTES // 4 - 1) << 16)
    command = struct.pack(
        "<BBHIIIQQIIIIIIIIII",
        *(GET_LOG_PAGE, 0, 0, ALL_NAMESPACES, 0, 0, 0, ctypes.addressof(buffer), 0, LOG_BYTES),
        *(which, 0, 0, 0, 0, 0, TIMEOUT_MS, 0),
    )
    descriptor = os.open(device, os.O_RDONLY)
    try:
        if fcntl.ioctl(descriptor, ADMIN_COMMAND, bytearray(command)) != 0:
            raise OSError("it refused the command")
    finally:
        os.close(descriptor)
    return buffer.raw


def parse(log: bytes) -> Dict[str, Any]:
    """Return the facts of one log; its counters have 128 bits, the lower of which are kept."""
    return {
        "healthy": log[0] & FAILING == 0,
        "wear_percent": log[5],
        "media_errors": _counter(log, 160),
        "power_on_hours": _counter(log, 128),
    }


def _counter(log: bytes, start: int) -> int:
    return min(int.from_bytes(log[start : start + 16], "little"), LARGEST)
