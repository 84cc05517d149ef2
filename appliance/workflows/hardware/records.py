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
from appliance.model.state.facts.identity import likeness
from appliance.workflows.node.baselines import read_passports

if TYPE_CHECKING:
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
    if not here:
        return ()
    try:
        there, passports = set(archive.names(FOLDER)), read_passports(archive)
    except NodeUnreachable as error:
        return (f"records of qualifications were not copied: {error.message}",)
    return tuple(
        missed
        for node, text in here.items()
        if (node in renewed or document_of(node) not in there)
        and node in passports
        and _is_of(passports[node], text)
        for missed in _put(archive, passports[node], text)
    )


def is_older(documents: Documents, name: str, text: str) -> bool:
    """Whether this machine has a later record of the node than ``text``."""
    node = name.removeprefix(f"{FOLDER}/").removesuffix(".json")
    mine, theirs = kept_of(documents.read(name), node), kept_of(text, node)
    return mine is not None and (theirs is None or theirs.at < mine.at)


def _is_of(passport: Passport, text: str) -> bool:
    kept = kept_of(text, passport.node)
    return kept is not None and likeness(passport.machine, kept.machine) == "same"


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
