"""Others write to Node objects as well: after a conflict, the object is read and written again.

What must not be here: what is written (the caller decides).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from appliance.errors import ClusterError

ATTEMPTS: Final = 4
CONFLICT: Final = 409
HINT: Final = "run the same command again: it resumes here"


class Conflict(ClusterError):
    """Somebody else changed the object since it was read."""


def retry_on_conflict(
    node: str, read_and_write: Callable[[], None], what: str = "its taints"
) -> None:
    """Read a Node and write ``what`` of it; read again after each conflict.

    Raises:
        ClusterError: others change the node all the time; or what the function raises.
    """
    for _ in range(ATTEMPTS):
        try:
            return read_and_write()
        except Conflict:
            continue
    raise ClusterError(f"{node}: {what} keep changing while they are written", hint=HINT)
