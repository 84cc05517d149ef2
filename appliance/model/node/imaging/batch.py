"""What is done to each server of one command, by what is seen of it and what a stopped run left.

What must not be here: looking at a server, and doing it.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import Field

from appliance.model.documents.typed_json import Line, read_typed
from appliance.model.node.imaging.wipe import Evidence, differences, never_refusals, wipe_refusals

if TYPE_CHECKING:
    from appliance.model.node.baseline import Passport
    from appliance.model.node.imaging.image import NodeImage
    from appliance.model.state.facts.identity import MachineIdentity
    from appliance.model.state.plan import Refusal

Kind = Literal["done", "qualify", "boot", "install", "refused"]
MOST_NODES: Final = 500
MOST_LABELS: Final = 16
_MOST_BYTES: Final = 10_000
Label = Annotated[str, Field(pattern=r"^app-[0-9a-f]{12}$")]


@dataclass(frozen=True)
class Note:
    """What a run keeps about a server that it has not finished; gone once it is qualified.

    Attributes:
        machine: its serial, as its BMC has it.
        disk: serial of the disk that it writes.
        writing: its installer reported that it took the disk, so what is on it is ours.
        host_key: of the installed system, once it was reported.
        accepted: when the node had last been accepted as the run began; empty for never.
        installed: its system was met and read, and its hardware has not passed yet. Such a note
            tells nothing of the disk any more.
        labels: of the systems that installers of ours may finish while nobody hears them; the last
            is the latest run's.
        media: URLs of the discs that runs of ours inserted; the last is the latest run's.
    """

    machine: Line
    disk: Line
    writing: bool = False
    host_key: Annotated[Line, Field(max_length=200)] = ""
    accepted: Annotated[Line, Field(max_length=100)] = ""
    installed: bool = False
    labels: Annotated[tuple[Label, ...], Field(max_length=MOST_LABELS)] = ()
    media: Annotated[tuple[Line, ...], Field(max_length=MOST_LABELS)] = ()

    def once_installed(self) -> Note:
        """The note once the system is in use: what was written, and by which key, is over."""
        return replace(self, writing=False, host_key="", installed=True, labels=(), media=())

    def text(self) -> str:
        """The note as JSON."""
        return json.dumps(asdict(self), sort_keys=True) + "\n"

    def is_of(self, evidence: Evidence, image: NodeImage) -> bool:
        """Whether it is about this machine and this disk, and nobody accepted the node since.

        A node that was accepted after the run is in use: whatever the run left is over.
        """
        return (
            self.machine == name_of(evidence.machine) != ""
            and self.disk == image.disk_serial
            and not evidence.unread
            and self.accepted == accepted_at(evidence.passports, evidence.name)
        )


def name_of(machine: MachineIdentity) -> str:
    """What a machine is known by: its serial, else its UUID; empty where it tells neither."""
    return machine.serial or machine.uuid or ""


def accepted_at(passports: Mapping[str, Passport] | None, name: str) -> str:
    """When a node was last accepted; empty for never."""
    passport = (passports or {}).get(name)
    return passport.accepted_at if passport else ""


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
        kind: done: it is as asked; qualify: likewise, and its hardware has not passed yet; boot:
            its system is installed and was not met yet.
        why: in one sentence, for the plan and the journal.
        refusals: only with ``refused``.
        wipe: whether the installer may take a disk that is not empty.
        host_key: that is expected; only with ``boot``.
        ours: what is on the disk was written by a run of ours.
        labels: a system on the disk that has one of them is ours, and was never met.
        media: URLs of the discs that earlier runs of ours inserted.
    """

    name: str
    kind: Kind
    why: str = ""
    refusals: tuple[Refusal, ...] = ()
    wipe: bool = False
    host_key: str = ""
    ours: bool = False
    labels: tuple[str, ...] = ()
    media: tuple[str, ...] = ()


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
    if never := never_refusals(evidence):
        return Course(name, "refused", never[0].seen, never)
    if serial is not None and serial in rules.wipe:
        return Course(name, "install", f"--wipe names its serial {serial}", wipe=True)
    return _without_wipe(evidence, image, note, rules)


def _without_wipe(evidence: Evidence, image: NodeImage, note: Note | None, rules: Rules) -> Course:
    name = evidence.name
    note = note if note and note.is_of(evidence, image) and not note.installed else None
    known = image.machine_serial is not None or note is not None
    unfinished = note is not None and note.writing
    # A run of ours that stopped may have left its medium.
    inserted, medium = evidence.medium, evidence.medium if note is None else ""
    evidence = replace(evidence, unfinished=unfinished, known=known, medium=medium)
    # What answers may be the installed system: its host key is compared before anything is done.
    if note is not None and note.host_key and evidence.facts is None:
        why = "it was installed by a run that stopped"
        return Course(name, "boot", why, host_key=note.host_key)
    if _is_done(evidence, image, rules):
        return Course(name, "done", "it answers, and is as asked")
    labels, media = (note.labels, note.media) if note is not None else ((), ())
    at_work = evidence.facts is None and _is_installer(evidence, inserted, media)
    if at_work:
        evidence = replace(evidence, alive="")
    if refusals := wipe_refusals(evidence, rules.wipe, rules.api_hosts):
        return Course(name, "refused", refusals[0].seen, refusals)
    if at_work:
        # Neither the note's word nor its labels count: what answers may be a finished system that
        # somebody took into use, and once its power is cut no later run sees it answer.
        why = "the installer that an earlier run started is still at work"
        return Course(name, "install", why, media=media)
    if unfinished:
        why = "an earlier run stopped while it wrote the disk"
        return Course(name, "install", why, wipe=True, ours=True, labels=labels, media=media)
    why = "nothing answers at its address, and nobody uses it"
    return Course(name, "install", why, labels=labels, media=media)


def _is_installer(evidence: Evidence, inserted: str, media: Collection[str]) -> bool:
    """Whether an installer of ours may answer: all discs are ours, its host key is unconfirmed."""
    discs = inserted.split(", ") if inserted else []
    return bool(
        evidence.alive
        and not evidence.host_key_known
        and discs
        and all(any(url in disc for url in media if url) for disc in discs)
    )


def _is_done(evidence: Evidence, image: NodeImage, rules: Rules) -> bool:
    """Whether this very machine answers, as it was asked for, or as a node that it became since."""
    if evidence.facts is None or differences(image, evidence.facts, rules.operating_system):
        return False
    found = wipe_refusals(replace(evidence, passports=None), (), rules.api_hosts)
    return not any(one.check in ("address", "site") for one in found)
