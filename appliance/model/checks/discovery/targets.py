"""The addresses that a discovery asks, from the words of an operator."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Final, Literal

from appliance.errors import ConfigError

MOST_TARGETS: Final = 4096
_BMC: Final = "bmc:"
_SHOWN: Final = 60
_HINT: Final = (
    "write ADDRESS, FIRST-LAST or NETWORK/PREFIX, with bmc: before it for BMCs; "
    "for example 198.51.100.11-40 or bmc:203.0.113.0/26"
)

Kind = Literal["ssh", "bmc"]


@dataclass(frozen=True, order=True)
class Target:
    """One address: of a server that is asked by SSH, or of a BMC that is asked by Redfish."""

    kind: Kind
    address: IPv4Address

    def __str__(self) -> str:
        return f"{_BMC if self.kind == 'bmc' else ''}{self.address}"


def targets(words: Iterable[str]) -> tuple[Target, ...]:
    """Every address that the words name, once, in the order of kind and address.

    Raises:
        ConfigError: a word is no range, or there are more than :data:`MOST_TARGETS` addresses.
    """
    found: set[Target] = set()
    for word in words:
        kind: Kind = "bmc" if word.startswith(_BMC) else "ssh"
        for address in _range(word.removeprefix(_BMC), word):
            found.add(Target(kind, address))
            if len(found) > MOST_TARGETS:
                raise ConfigError(
                    f"the ranges name more than {MOST_TARGETS} addresses",
                    hint="discover one rack at a time",
                )
    return tuple(sorted(found, key=lambda one: (one.kind != "ssh", one.address)))


def listed(named: Iterable[Target]) -> str:
    """The targets as ranges, for a message."""
    runs: list[list[Target]] = []
    for one in sorted(named, key=lambda one: (one.kind != "ssh", one.address)):
        last = runs[-1][-1] if runs else None
        if last and last.kind == one.kind and int(last.address) + 1 == int(one.address):
            runs[-1].append(one)
        else:
            runs.append([one])
    return ", ".join(
        str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1].address}" for run in runs
    )


def words_of_file(text: str) -> tuple[str, ...]:
    """The words of a file of ranges: one or more a line; # begins a comment."""
    return tuple(word for line in text.splitlines() for word in line.partition("#")[0].split())


def _range(text: str, word: str) -> Iterator[IPv4Address]:
    first, dash, last = text.partition("-")
    try:
        if "/" in text:
            yield from IPv4Network(text).hosts()
            return
        begin = IPv4Address(first)
        if dash and re.fullmatch(r"[0-9]{1,3}", last):
            last = f"{first.rpartition('.')[0]}.{last}"
        end = IPv4Address(last) if dash else begin
    except ValueError as error:
        raise ConfigError(f"{word[:_SHOWN]!r} is no range of addresses", hint=_HINT) from error
    if end < begin:
        raise ConfigError(f"{word[:_SHOWN]!r} ends before it begins", hint=_HINT)
    yield from (IPv4Address(number) for number in range(int(begin), int(end) + 1))
