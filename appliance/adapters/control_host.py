"""What this machine itself can tell: its programs, and the addresses of a name by its resolver."""

from __future__ import annotations

import platform
import socket
from collections.abc import Collection, Iterator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Final

from appliance.adapters.processes import find_program
from appliance.errors import Refused
from appliance.model.preflight.programs import bringing
from appliance.model.programs import (
    Family,
    Program,
    Use,
    family,
    install_command,
    missing_programs,
    used_by,
)

if TYPE_CHECKING:
    from appliance.model.desired import Desired
    from appliance.model.postconditions import Observed
    from appliance.model.preflight import Finding

RESOLVE_SECONDS: Final = 2.0


def present(names: Collection[str]) -> frozenset[str]:
    """Which of these programs are there."""
    return frozenset(name for name in names if find_program(name))


def family_here() -> Family:
    """Whose names packages have on this machine."""
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        return Family.DEBIAN
    return family((release["ID"], *release.get("ID_LIKE", "").split()))


def missing_here(*uses: Use) -> tuple[Program, ...]:
    """What is missing on this machine for these uses."""
    return missing_programs(present([row.name for row in used_by(uses)]), uses)


def require(*uses: Use, also: Collection[Use] = ()) -> None:
    """Have what these uses need here, before anything is changed or long work begins.

    Args:
        uses: what the command will do for certain.
        also: what it may come to; told in the same refusal, and no reason for one.

    Raises:
        Refused: names this machine, and every program with its package.
    """
    if missing_here(*uses):
        raise refusal(missing_here(*uses, *also))


def refusal(missing: Sequence[Program]) -> Refused:
    """The error that names this machine, the programs that it lacks, and their packages."""
    of = family_here()
    rows = [f"{row.name}, of {' and '.join(row.packages_of(of))}: {row.purpose}" for row in missing]
    what = "a program is" if len(rows) == 1 else f"{len(rows)} programs are"
    return Refused(
        f"{socket.gethostname()} (this machine): {what} missing: {rows[0]}",
        hint=install_command(missing, of),
        details=rows[1:],
    )


def cannot_bring(desired: Desired, observed: Observed) -> Iterator[Finding]:
    """What this machine lacks to bring the bundles, for the steps that do."""
    missing = missing_here(Use.BRING)
    hint = install_command(missing, family_here())
    return bringing(desired, observed, missing, socket.gethostname(), hint)


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
