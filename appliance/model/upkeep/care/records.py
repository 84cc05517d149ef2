"""What stays of a site's state on this machine, and for how long.

The journal stays whole: ``history`` and other laptops read it, and it shows that the site had a
cluster. The folders of runs are what grows: inventories and logs, which one record names by the
run's id. What must not be here: reading the disk.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from appliance.model.state.journal import Record
from appliance.model.upkeep.care.items import Item

HERE: Final = "this machine"
# The newest so many stay, however old; younger ones stay, however many.
KEPT_RUNS: Final = 50
KEPT_DAYS: Final = 90
DAY: Final = 86400.0


@dataclass(frozen=True)
class KeptRun:
    """The folder of one run.

    Attributes:
        id: a UUIDv7, which names the folder.
        begun: UTC epoch seconds, as the id has it.
        size_bytes: of everything in it.
        steps: that began, by their folders.
    """

    id: str
    begun: float
    size_bytes: int
    steps: tuple[str, ...] = ()


@dataclass(frozen=True)
class StateSizes:
    """What is beside the runs.

    Attributes:
        journal: how many records, and their bytes.
        facts: node -> bytes of what is kept of it.
        reports: how many files, and their bytes.
    """

    journal: tuple[int, int] = (0, 0)
    facts: Mapping[str, int] | None = None
    reports: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Known:
    """What decides on it.

    Attributes:
        records: of the journal.
        marks: what Node objects say, as text: a run that one names goes on; None: unknown.
        nodes: the names of the site's nodes.
        moment: of now, UTC epoch seconds.
    """

    records: Sequence[Record]
    marks: Collection[str] | None
    nodes: Collection[str]
    moment: float


def record_items(runs: Sequence[KeptRun], sizes: StateSizes, known: Known) -> Iterator[Item]:
    """Everything of the site's state here, with its fate."""
    outcomes: dict[str, list[Record]] = {}
    for record in known.records:
        outcomes.setdefault(record.run, []).append(record)
    newest = {one.id for one in sorted(runs, key=lambda one: one.id)[-KEPT_RUNS:]}
    staying = []
    for one in sorted(runs, key=lambda one: one.id):
        if _stays(one, newest, outcomes.get(one.id, []), known):
            staying.append(one)
        else:
            day = datetime.fromtimestamp(one.begun, UTC).date().isoformat()
            what = f"run {one.id}: {outcomes[one.id][0].command} of {day}"
            why = f"all of it was verified, and it is older than {KEPT_DAYS} days"
            yield Item("records", HERE, what, one.size_bytes, True, why)
    if staying:
        count = sum(one.size_bytes for one in staying)
        why = (
            f"the newest {KEPT_RUNS}, those of {KEPT_DAYS} days, and those that did not end well"
            if known.marks is not None
            else "the Kubernetes API does not answer: which of them go on is unknown"
        )
        yield Item("records", HERE, f"{len(staying)} folders of runs", count, False, why)
    for name, count in sorted((sizes.facts or {}).items()):
        if name not in known.nodes:
            why = "the site has no node of this name"
            yield Item("records", HERE, f"facts of {name}", count, True, why)
    number, count = sizes.journal
    why = "history and other laptops read them; they are on the control-plane nodes as well"
    yield Item("records", HERE, f"{number} records of the journal", count, False, why)
    number, count = sizes.reports
    if number:
        yield Item("records", HERE, f"{number} reports", count, False, "they were asked for")


def _stays(one: KeptRun, newest: Collection[str], records: Sequence[Record], known: Known) -> bool:
    """Whether a run's folder is kept: whatever is not surely over is."""
    if known.marks is None or one.id in newest or known.moment - one.begun < KEPT_DAYS * DAY:
        return True
    verified = [record.step for record in records if record.outcome == "verified"]
    # A step that was killed has a folder, and no record.
    told = all(any(name.startswith(step) for name in verified) for step in one.steps)
    over = bool(records) and len(verified) == len(records) and told
    return not over or any(one.id in text for text in known.marks)
