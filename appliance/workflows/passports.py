"""Passports of members."""


def accept_members(*_: object) -> None:
    """Stub."""
