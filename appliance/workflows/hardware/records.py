"""Records of qualifications beside the passports, on the control-plane nodes.

Before there is a cluster a record is kept on the laptop alone; with the node's passport it follows.
A record of another machine than the accepted one stays where it is.
What must not be here: judging hardware.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

from appliance.errors import NodeUnreachable
from appliance.model.checks.hardware.record import FOLDER, MOST_BYTES, document_of, kept_of
from appliance.model.checks.hardware.trials import burn_in
from appliance.model.checks.hardware.trials.burn_in import FOLDER as BURN_INS
from appliance.model.state.facts.identity import likeness
from appliance.workflows.node.baselines import read_passports

if TYPE_CHECKING:
    from appliance.model.checks.hardware.trials.burn_in import BurnInRecord
    from appliance.model.node.baseline import Passport
    from appliance.workflows.session.local_ports import Documents
    from appliance.workflows.session.ports import Archive


def keep_with_passports(records: Mapping[str, str], archive: Archive) -> tuple[str, ...]:
    """Keep records of nodes that have a passport beside it; without passports nothing is written.

    Args:
        records: node -> the text of its record.
        archive: the documents on the control-plane nodes.

    Returns:
        One sentence for each record that is not on every control-plane node. Never raises.
    """
    if not records:
        return ()
    try:
        passports = read_passports(archive)
    except NodeUnreachable as error:
        return (f"the records are kept on this machine alone: {error.message}",)
    return tuple(
        missed
        for node, text in records.items()
        if node in passports
        for missed in _put(archive, passports[node], text)
    )


def keep_burn_ins(records: Mapping[str, BurnInRecord], archive: Archive) -> tuple[str, ...]:
    """The same of burn-ins: a record whose machine the passport shows is kept beside it.

    Args:
        records: node -> its record.
        archive: the documents on the control-plane nodes.
    """
    if not records:
        return ()
    try:
        passports = read_passports(archive)
    except NodeUnreachable as error:
        return (f"records of burn-ins are kept on this machine alone: {error.message}",)
    found: list[str] = []
    for node, record in records.items():
        if node in passports:
            found += _put_burn_in(archive, passports[node], record)
    return tuple(found)


def carry_over(
    nodes: Collection[str],
    documents: Documents,
    archive: Archive,
    renewed: Collection[str] = (),
) -> tuple[str, ...]:
    """Give the control-plane nodes the records of this machine that they lack. Never raises.

    Args:
        nodes: whose records.
        documents: of this machine.
        archive: the documents on the control-plane nodes.
        renewed: nodes whose passport is of a new machine: the record there is the old one's.

    Returns:
        As :func:`keep_with_passports`; a record of another machine is left out silently.
    """
    here = {node: text for node in nodes if (text := documents.read(document_of(node)))}
    burnt_in = _burn_ins(here, documents)
    if not here:
        return ()
    try:
        there, passports = set(archive.names(FOLDER)), read_passports(archive)
        known = set(archive.names(BURN_INS)) if burnt_in else set()
    except NodeUnreachable as error:
        return (f"records of qualifications were not copied: {error.message}",)
    burn_ins = tuple(
        missed
        for node, (document, record) in burnt_in.items()
        if document not in known and node in passports
        for missed in _put_burn_in(archive, passports[node], record)
    )
    return burn_ins + tuple(
        missed
        for node, text in here.items()
        if (node in renewed or document_of(node) not in there)
        and node in passports
        and _is_of(passports[node], text)
        for missed in _put(archive, passports[node], text)
    )


def _burn_ins(
    qualified: Mapping[str, str], documents: Documents
) -> Mapping[str, tuple[str, BurnInRecord]]:
    """Node -> the name and the record of the burn-in of the machine that was qualified there."""
    names = {
        node: burn_in.document_of(kept.machine, node)
        for node, text in qualified.items()
        if (kept := kept_of(text, node)) is not None
    }
    return {
        node: (name, record)
        for node, name in names.items()
        if (record := burn_in.record_of(documents.read(name))) is not None
    }


def is_older_burn_in(documents: Documents, name: str, text: str) -> bool:
    """Whether this machine has a later record of the machine than ``text``."""
    mine, theirs = burn_in.record_of(documents.read(name)), burn_in.record_of(text)
    return mine is not None and (theirs is None or theirs.at < mine.at)


def is_older(documents: Documents, name: str, text: str) -> bool:
    """Whether this machine has a later record of the node than ``text``."""
    node = name.removeprefix(f"{FOLDER}/").removesuffix(".json")
    mine, theirs = kept_of(documents.read(name), node), kept_of(text, node)
    return mine is not None and (theirs is None or theirs.at < mine.at)


def _is_of(passport: Passport, text: str) -> bool:
    kept = kept_of(text, passport.node)
    return kept is not None and likeness(passport.machine, kept.machine) == "same"


def _put_burn_in(archive: Archive, passport: Passport, record: BurnInRecord) -> Iterator[str]:
    alone, machine = f"{passport.node}: its burn-in is kept on this machine alone", record.burn_in
    if likeness(passport.machine, machine.machine) != "same":
        yield f"{alone}: it was not of the machine of the passport ({passport.machine.words()})"
        return
    name = burn_in.document_of(machine.machine, passport.node)
    try:
        # A look at what has not changed writes nothing.
        if archive.get(name) != record.text():
            yield from (f"{alone}: {one}" for one in archive.put(name, record.text()))
    except NodeUnreachable as error:
        yield f"{alone}: {error.message}"


def _put(archive: Archive, passport: Passport, text: str) -> Iterator[str]:
    node = passport.node
    alone = f"{node}: its record is kept on this machine alone"
    if len(text.encode()) > MOST_BYTES:
        yield f"{alone}: it is larger than {MOST_BYTES // 1024} KiB"
    elif not _is_of(passport, text):
        yield (
            f"{alone}: it does not show the machine of the passport "
            f"({passport.machine.words()}); if it was replaced: appliance node passport {node} "
            "--acknowledge, then qualify it again"
        )
    else:
        try:
            yield from (
                f"{node}: its record: {one}" for one in archive.put(document_of(node), text)
            )
        except NodeUnreachable as error:
            yield f"{alone}: {error.message}"
