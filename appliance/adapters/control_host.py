"""What this machine itself can tell: the addresses of a name, by its own resolver."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from threading import Thread
from typing import Final

RESOLVE_SECONDS: Final = 2.0


def resolve(names: Sequence[str], seconds: float = RESOLVE_SECONDS) -> dict[str, tuple[str, ...]]:
    """Name -> its IPv4 addresses; none when there is no answer within ``seconds``."""
    found: dict[str, tuple[str, ...]] = {}

    def ask(name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return
        found[name] = tuple(sorted({str(answer[4][0]) for answer in answers}))

    # Daemons: a resolver that hangs must not keep the command.
    threads = [Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return {name: found.get(name, ()) for name in names}
