"""Read every part and build the report."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Sequence

from ..source import Source
from . import cards, disks, memory, settings, system, trials

SCHEMA = 1
KIND = "hardware"
# Of a path or a reason; a program's last line may have any length.
LONGEST = 250

Part = Callable[[Source], Any]
PARTS: Dict[str, Part] = {
    "identity": system.identity,
    "firmware": system.firmware,
    "cpus": system.cpus,
    "dimms": memory.dimms,
    "memory": memory.errors,
    "gpus": cards.gpus,
    "nics": cards.nics,
    "disks": disks.disks,
    "raid": disks.raid,
    "settings": settings.settings,
}
UNASKED = "not asked for: appliance hardware qualify measures it"


def inspect(source: Source, wanted_trials: Sequence[str] = ()) -> Dict[str, Any]:
    """Return the report of this machine; a part that fails is null, with a reason."""
    names = list(PARTS)
    views = [source.of(name) for name in names]
    calls = [_call(part, view) for part, view in zip(PARTS.values(), views)]  # noqa: B905  (3.8)
    found = dict(zip(names, source.together(calls, feeds=())))  # noqa: B905  (3.8)
    for name in names:
        if found[name] is None:
            source.of(name).unseen(reason_of(source.of(name)), name)
            found[name] = {} if name in ("identity", "firmware", "memory", "settings") else None
    found["trials"] = trials.run(source.of("trials"), wanted_trials)
    if not wanted_trials:
        source.of("trials").unseen(UNASKED, "trials")
    document: Dict[str, Any] = {"schema": SCHEMA, "kind": KIND, "source": "probe"}
    document.update(found)
    # A thread that is late may still add reasons.
    reasons = list(source.machine.unseen.items())
    document["unknown"] = {path[:LONGEST]: reason[:LONGEST] for path, reason in reasons}
    document["taken_at"] = round(time.time(), 3)
    return document


def _call(part: Part, view: Source) -> Callable[[], Any]:
    def read() -> Any:
        try:
            return part(view)
        except Exception as error:  # a failing part must not lose the report
            view.note("%s: %s" % (type(error).__name__, error))
            return None

    return read


def reason_of(view: Source) -> str:
    """The latest recorded reason of a part."""
    mine = [e["reason"] for e in view.machine.unreadable if e["section"] == view.section]
    return mine[-1] if mine else "no answer before the deadline"
