"""What a burn-in was ordered to do, and its files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, NamedTuple, Optional

FOLDER = "/var/lib/appliance/burn-in"
UNIT = "appliance-burn-in.service"
ORDER, STATE, SAMPLES, PROGRAM = "order.json", "state.json", "samples.jsonl", "probe.pyz"
SCHEMA = 1
KIND = "burn-in"
MOST_SECONDS = 72 * 3600
# One line a minute over 72 hours, of some 900 bytes.
MOST_SAMPLE_BYTES = 4 << 20
MOST_STATE_BYTES = 256 << 10


class Order(NamedTuple):
    """What is to be done.

    Attributes:
        id: of the run that ordered it.
        by: operator@host.
        seconds: how long.
        own: this node's address.
        serves: the address of the node that connects to this one; None: the network rests.
        connects: the address of the node that this one connects to; None: likewise.
        word: what partners say first.
        maintained: the node is a member of a cluster, in maintenance: its daemons stay.
        most_memory: bytes, beside the share of the free memory.
        most_disk: bytes of the file.
        sample_seconds: between samples.
    """

    id: str
    by: str
    seconds: float
    own: str = ""
    serves: Optional[str] = None
    connects: Optional[str] = None
    port: int = 0
    word: str = ""
    maintained: bool = False
    most_memory: int = 1 << 50
    most_disk: int = 2 << 30
    sample_seconds: float = 60.0


def order_of(told: Dict[str, Any]) -> Order:
    """Read an order; what it has besides is left out.

    Raises:
        ValueError: it has no length, or too large a one.
    """
    order = Order(**{key: told[key] for key in Order._fields if key in told})
    if not 0 < order.seconds <= MOST_SECONDS:
        raise ValueError("a burn-in takes at most %d hours" % (MOST_SECONDS // 3600))
    return order


def read(folder: Path) -> Order:
    """Read the order of a folder.

    Raises:
        OSError: there is none.
        ValueError: it is not valid.
    """
    return order_of(json.loads((folder / ORDER).read_text(encoding="utf-8")))


def write(path: Path, document: Dict[str, Any]) -> None:
    """Replace a document; a reader sees the old one or the new one."""
    new = path.with_name(path.name + ".new")
    with new.open("w", encoding="utf-8") as stream:
        json.dump(document, stream, sort_keys=True)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(str(new), str(path))  # noqa: PTH105


def bounded(path: Path, most: int) -> Optional[str]:
    """The text of a regular file of ours; None where there is none, or it is too large."""
    try:
        descriptor = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as stream:
        content = stream.read(most + 1)
    return content.decode("utf-8", "replace") if len(content) <= most else None
