"""What is done to each server of one command, by what is seen of it and what a stopped run left.

What must not be here: looking at a server, and doing it.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.node.imaging.wipe import Evidence, differences, wipe_refusals

if TYPE_CHECKING:
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.state.plan import Refusal

Kind = Literal["done", "boot", "install", "refused"]
MOST_NODES: Final = 500
_MOST_BYTES: Final = 10_000


@dataclass(frozen=True)
class Note:
    """What a run keeps about a server that it has not finished; gone once it is.

    Attributes:
        machine: its serial, as its BMC has it.
        disk: serial of the disk that it writes.
        writing: its installer reported that it took the disk, so what is on it is ours.
        host_key: of the installed system, once it was reported.
    """

    machine: Line
    disk: Line
    writing: bool = False
    host_key: Annotated[Line, Field(max_length=200)] = ""

    def text(self) -> str:
        """The note as JSON."""
        return json.dumps(asdict(self), sort_keys=True) + "\n"

    def is_of(self, evidence: Evidence, image: NodeImage) -> bool:
        """Whether it is about this machine and this disk."""
        return self.machine == evidence.machine.serial and self.disk == image.disk_serial


def read_note(text: str) -> Note:
    """A note that a run kept.

    Raises:
        Unreadable: it is none.
    """
    if len(text) > _MOST_BYTES:
        text = ""
    return read_typed(text, Note)


@dataclass(frozen=True)
class Course:
    """What is done to one server.

    Attributes:
        kind: done: it is as asked; boot: its system is installed and was not met yet.
        why: in one sentence, for the plan and the journal.
        refusals: only with ``refused``.
        wipe: whether the installer may take a disk that is not empty.
        host_key: that is expected; only with ``boot``.
    """

    name: str
    kind: Kind
    why: str = ""
    refusals: tuple[Refusal, ...] = ()
    wipe: bool = False
    host_key: str = ""


@dataclass(frozen=True)
class Rules:
    """What holds for every server of one command.

    Attributes:
        wipe: serials of the machines that may be wiped.
        operating_system: of the site, as a release names it.
        api_hosts: names and addresses of the site's API.
    """

    wipe: Collection[str]
    operating_system: str
    api_hosts: Collection[str]


def course_of(evidence: Evidence, image: NodeImage, note: Note | None, rules: Rules) -> Course:
    """Decide what is done to a server.

    Args:
        evidence: what is seen of it.
        image: what it is to become.
        note: what a stopped run kept; None without one.
        rules: of the command.
    """
    name, serial = evidence.name, evidence.machine.serial
    if serial is not None and serial in rules.wipe:
        return Course(name, "install", f"--wipe names its serial {serial}", wipe=True)
    note = note if note is not None and note.is_of(evidence, image) else None
    evidence = replace(evidence, unfinished=note is not None)
    if note is not None and note.host_key and evidence.facts is None and not evidence.alive:
        why = "it was installed by a run that stopped"
        return Course(name, "boot", why, host_key=note.host_key)
    if _is_done(evidence, image, rules):
        return Course(name, "done", "it answers, and is as asked")
    if refusals := wipe_refusals(evidence, rules.wipe, rules.api_hosts):
        return Course(name, "refused", refusals[0].seen, refusals)
    if note is not None and note.writing:
        why = "a run of ours stopped while its disk was written"
        return Course(name, "install", why, wipe=True)
    return Course(name, "install", "nothing answers at its address, and it is nobody's")


def _is_done(evidence: Evidence, image: NodeImage, rules: Rules) -> bool:
    """Whether this very machine answers, as it was asked for, or as a node that it became since."""
    if evidence.facts is None or differences(image, evidence.facts, rules.operating_system):
        return False
    found = wipe_refusals(replace(evidence, passports=None), (), rules.api_hosts)
    return not any(one.check in ("address", "site") for one in found)
