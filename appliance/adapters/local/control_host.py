"""Facts about this machine: its programs, and addresses of names by its resolver."""

from __future__ import annotations

import platform
import socket
from collections.abc import Collection, Sequence
from threading import Thread
from typing import Final

from appliance.adapters.local.processes import find_program
from appliance.errors import Refused
from appliance.model.programs import (
    Family,
    Program,
    Use,
    family,
    install_command,
    missing_programs,
    used_by,
)

RESOLVE_SECONDS: Final = 2.0


def present(names: Collection[str]) -> frozenset[str]:
    """The installed ones of these programs."""
    return frozenset(name for name in names if find_program(name))


def family_here() -> Family:
    """The distribution family whose package names apply to this machine."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return Family.DEBIAN
    return family((release["ID"], *release.get("ID_LIKE", "").split()))


def missing_here(*uses: Use) -> tuple[Program, ...]:
    """The programs that this machine lacks for these uses."""
    return missing_programs(present([row.name for row in used_by(uses)]), uses)


def require(*uses: Use, also: Collection[Use] = ()) -> None:
    """Refuse if this machine lacks programs for these uses, before any change or long work.

    Args:
        uses: the certain uses of the command.
        also: its possible uses; their programs are listed, but are no reason to refuse.

    Raises:
        Refused: names this machine, and every missing program with its package.
    """
    if missing_here(*uses):
        raise refusal(missing_here(*uses, *also))


def refusal(missing: Sequence[Program]) -> Refused:
    """The error that names this machine, its missing programs and their packages."""
    of = family_here()
    rows = [f"{row.name}, of {' and '.join(row.packages_of(of))}: {row.purpose}" for row in missing]
    what = "a program is" if len(rows) == 1 else f"{len(rows)} programs are"
    return Refused(
        f"{socket.gethostname()} (this machine): {what} missing: {rows[0]}",
        hint=install_command(missing, of),
        details=rows[1:],
    )


def resolve(names: Sequence[str], seconds: float = RESOLVE_SECONDS) -> dict[str, tuple[str, ...]]:
    """Name -> its IPv4 addresses; none if there is no answer within ``seconds``."""
    addresses: dict[str, tuple[str, ...]] = {}

    def ask(name: str) -> None:
        try:
            answers = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
        except OSError:
            return
        addresses[name] = tuple(sorted({str(answer[4][0]) for answer in answers}))

    # Daemon threads: a resolver that hangs must not delay the exit.
    threads = [Thread(target=ask, args=(name,), daemon=True) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(seconds)
    return {name: addresses.get(name, ()) for name in names}
