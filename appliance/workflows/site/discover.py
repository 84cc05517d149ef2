"""First contact with machines of no site yet: pin their keys, read them, let the site's key in.

In this order: no password goes to a machine whose key nobody confirmed, and nothing is changed
before a person saw the machines. The pins are kept from the first question on. So a second run
compares them, finds the site's key where it is already, and does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from appliance.errors import ApplianceError, NodeUnreachable, Refused
from appliance.model.checks.discovery.draft import Drafted, DraftNode, Profiles, Wishes, draft
from appliance.model.checks.discovery.found import Failed, Found
from appliance.model.checks.discovery.pins import Pins, changed
from appliance.model.checks.discovery.targets import Kind, Target, listed

MOST_REASONS: Final = 20


class Servers(Protocol):
    """Servers by SSH."""

    def keys(self, targets: Sequence[Target]) -> Mapping[Target, str | Failed]:
        """The host key of each target; no login."""

    def read(
        self, targets: Sequence[Target], pins: Pins, password: str | None
    ) -> Mapping[Target, Found | Failed]:
        """Log in with the site's key, or with the password, and look; changes nothing."""

    def read_as_root(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Found | Failed]:
        """Log in with the site's key, and look as root: sudo gets the password."""

    def let_in(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Failed | None]:
        """Add the site's key to the login user's authorized_keys, and log in with it."""


class Bmcs(Protocol):
    """BMCs by Redfish."""

    def keys(self, targets: Sequence[Target]) -> Mapping[Target, str | Failed]:
        """The SHA-256 fingerprint of each target's certificate; no login."""

    def read(
        self, targets: Sequence[Target], pins: Pins, password: str
    ) -> Mapping[Target, Found | Failed]:
        """Log in and look; changes nothing."""


class KeptPins(Protocol):
    """The pins of an earlier run for this site."""

    def read(self) -> Pins:
        """All of them; empty if there was none.

        Raises:
            ConfigError: they cannot be read.
        """

    def write(self, pins: Pins) -> None:
        """Keep these instead."""

    def where(self) -> str:
        """Their file, for messages."""


class Person(Protocol):
    """Who is asked."""

    def confirm_keys(self, keys: Pins) -> None:
        """Ask whether these keys are right.

        Raises:
            Refused: they are not, or nobody can be asked.
        """

    def password(self, kind: Kind) -> str:
        """The password of the servers' login user, or of the BMCs'."""

    def confirm_change(self, drafted: Drafted, to_let_in: Sequence[DraftNode]) -> None:
        """Show the draft, and ask whether these servers get the site's key.

        Raises:
            Refused: they do not, or nobody can be asked.
        """

    def note(self, sentence: str) -> None:
        """Say what was left out."""


@dataclass(frozen=True)
class Discovery:
    """What came of it.

    Attributes:
        pins: of every target that showed a key.
        added: names of the nodes that got the site's key now.
        bmc_password: what let us into the BMCs; None without BMCs.
        sudo_password: what sudo asks for on servers; None where it asks for nothing.
    """

    drafted: Drafted
    pins: Pins
    added: tuple[str, ...]
    bmc_password: str | None = None
    sudo_password: str | None = None


@dataclass(frozen=True)
class Contacts:
    """The ports of a discovery."""

    servers: Servers
    bmcs: Bmcs
    kept: KeptPins
    person: Person


def discover(
    targets: Sequence[Target],
    profiles: Profiles,
    wishes: Wishes,
    contacts: Contacts,
    *,
    dry_run: bool,
) -> Discovery:
    """Meet the machines; a dry run keeps no pin and lets no key in.

    Raises:
        NodeUnreachable: none of the targets could be read.
        Refused: a key changed since the first run, or a question was not answered with yes.
        ConfigError: no site can be drafted from the machines.
        ApplianceError: a server did not take the site's key.
    """
    pins = _pinned(targets, contacts, dry_run=dry_run)
    found, passwords = _read(pins, contacts)
    drafted = draft(found, profiles, wishes, {one.address for one in pins})
    for notice in drafted.notices:
        contacts.person.note(notice)
    to_let_in = [one for one in drafted.nodes if one.ssh and not one.machine.has_key]
    contacts.person.confirm_change(drafted, to_let_in)
    if not dry_run:
        _let_in(to_let_in, pins, passwords.get("ssh", ""), contacts)
    return Discovery(
        drafted,
        pins,
        tuple(one.name for one in to_let_in),
        passwords.get("bmc"),
        passwords.get("ssh") if any(one.sudo_asks for one in found) else None,
    )


def _pinned(targets: Sequence[Target], contacts: Contacts, *, dry_run: bool) -> dict[Target, str]:
    """The keys of those that show one, all of them confirmed."""
    kept = contacts.kept.read()
    answers = {
        **contacts.servers.keys([one for one in targets if one.kind == "ssh"]),
        **contacts.bmcs.keys([one for one in targets if one.kind == "bmc"]),
    }
    shown = {one: key for one, key in answers.items() if isinstance(key, str)}
    _note_failed(answers, contacts.person)
    if not shown:
        raise NodeUnreachable(
            f"none of {len(targets)} addresses answers: nothing was changed",
            hint="check the range, the cables, the power and --ssh-port; then run the same command "
            "again",
        )
    other = changed(kept, shown)
    if other:
        where = contacts.kept.where()
        raise Refused(
            f"{other[0]} shows another key than at first contact: no password was sent",
            details=[f"{one} shows another key, too" for one in other[1:]],
            hint="compare it on its console; if the machine was reinstalled, remove "
            f"{where}: then the same command asks for every key again",
        )
    new = {one: key for one, key in shown.items() if one not in kept}
    if new:
        contacts.person.confirm_keys(new)
        if not dry_run:
            contacts.kept.write({**kept, **new})
    return shown


def _read(pins: Pins, contacts: Contacts) -> tuple[list[Found], dict[Kind, str]]:
    """What the machines told, and the passwords that were needed for it."""
    person, passwords = contacts.person, dict[Kind, str]()
    servers = [one for one in pins if one.kind == "ssh"]
    bmcs = [one for one in pins if one.kind == "bmc"]
    read: dict[Target, Found | Failed] = {}
    if servers:
        read.update(contacts.servers.read(servers, pins, None))
        closed = [one for one in servers if _refuses_key(read[one])]
        if closed:
            passwords["ssh"] = person.password("ssh")
            read.update(contacts.servers.read(closed, pins, passwords["ssh"]))
        asking = [one for one in servers if _sudo_asks(read[one])]
        if asking:
            # Asked once: the same user logs in everywhere.
            passwords["ssh"] = passwords.get("ssh") or person.password("ssh")
            with_key = [one for one in asking if one not in closed]
            if with_key:
                as_root = contacts.servers.read_as_root(with_key, pins, passwords["ssh"])
                read.update(as_root)
            person.note(f"sudo asks for the login user's password: {listed(asking)}")
    if bmcs:
        passwords["bmc"] = person.password("bmc")
        read.update(contacts.bmcs.read(bmcs, pins, passwords["bmc"]))
    _note_failed(read, person)
    found = [one for one in read.values() if isinstance(one, Found)]
    if not found:
        raise NodeUnreachable(
            f"none of {len(pins)} machines could be read: nothing was changed on them",
            hint="check user and password, then run the same command again",
        )
    return found, passwords


def _refuses_key(answer: Found | Failed) -> bool:
    return isinstance(answer, Failed) and answer.refuses_key


def _sudo_asks(answer: Found | Failed) -> bool:
    return isinstance(answer, Found) and answer.sudo_asks


def _let_in(nodes: Sequence[DraftNode], pins: Pins, password: str, contacts: Contacts) -> None:
    names = {one.machine.target: one.name for one in nodes}
    if not names:
        return
    answers = contacts.servers.let_in(list(names), pins, password)
    failed = [
        f"{names[one]} ({one}): {answer.reason}"
        for one, answer in answers.items()
        if answer is not None
    ]
    if failed:
        raise ApplianceError(
            f"{failed[0]}: no site was written",
            details=failed[1:],
            hint="correct it there, then run the same command again: who has the key is not "
            "asked for it again",
        )


def _note_failed(answers: Mapping[Target, object], person: Person) -> None:
    failed = {one: answer for one, answer in answers.items() if isinstance(answer, Failed)}
    if len(failed) > MOST_REASONS:
        person.note(f"{len(failed)} addresses gave nothing and are left out: {listed(failed)}")
    for target, answer in list(failed.items())[:MOST_REASONS]:
        person.note(f"{target} is left out: {answer.reason}")
