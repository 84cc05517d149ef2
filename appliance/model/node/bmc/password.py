"""Passwords of BMCs: the rules of an account, and how a new one is made.

The lengths are those of IPMI, which many BMCs keep below Redfish: a password has at most 16 bytes
in IPMI 1.5 and 20 in IPMI 2.0 (Set User Password). A BMC may cut a longer one without a word, so
the beginnings of a new password are tried as well. What must not be here: randomness, and logins.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from appliance.model.node.bmc.orders import BmcMachine

LONG, SHORT = 20, 16
CUTS: Final = (LONG, SHORT)
# Below this a password can be guessed.
FEWEST: Final = 8
_MARKS: Final = "-_"
_CLASSES: Final = (string.ascii_uppercase, string.ascii_lowercase, string.digits, _MARKS)
_MOST_TRIES: Final = 1000


@dataclass(frozen=True)
class PasswordRules:
    """What a BMC demands of passwords. What it does not tell is None.

    Attributes:
        least: MinPasswordLength, characters.
        most: MaxPasswordLength, characters.
        lockout: AccountLockoutThreshold: so many failed logins lock the account; 0: never.
    """

    least: int | None = None
    most: int | None = None
    lockout: int | None = None

    @property
    def length(self) -> int:
        """How long a new password is: what every way into a BMC takes, unless it demands more."""
        wanted = LONG if (self.most or 0) >= LONG else SHORT
        if self.most is not None:
            wanted = min(wanted, self.most)
        return max(wanted, self.least or 0)

    @property
    def trouble(self) -> str:
        """Why no password can be made; empty where one can."""
        if self.most is not None and self.length > self.most:
            return f"demands at least {self.least} and at most {self.most} characters"
        if self.length < FEWEST:
            return f"takes passwords of at most {self.most} characters"
        return "demands passwords of more than 64 characters" if self.length > 64 else ""

    @property
    def spares_failures(self) -> bool:
        """Whether two failed logins in a row lock nobody out."""
        return not self.lockout or self.lockout > 2


@dataclass(frozen=True)
class Account:
    """One account of a BMC, seen with a login.

    Attributes:
        path: of its resource.
        rules: for its password.
        by_session: whether the BMC refuses HTTP's basic authentication.
        must_change: the BMC lets nothing else in before the password is replaced.
        machine: the one of the BMC; None where it was not told.
    """

    path: str
    rules: PasswordRules = field(default_factory=PasswordRules)
    by_session: bool = False
    must_change: bool = False
    machine: BmcMachine | None = None


def read_rules(service: Mapping[str, Any]) -> PasswordRules:
    """The rules in an AccountService (DSP0268), whatever else it says."""
    return PasswordRules(
        _length(service.get("MinPasswordLength")),
        _length(service.get("MaxPasswordLength")),
        _length(service.get("AccountLockoutThreshold")),
    )


def _length(value: object) -> int | None:
    right = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 100_000
    return value if right and isinstance(value, int) else None


def make_password(rules: PasswordRules, choose: Callable[[str], str]) -> str:
    """A new password with letters of both cases, digits and marks; it begins with a letter.

    Args:
        rules: of the account; they have no :attr:`~PasswordRules.trouble`.
        choose: picks one of the characters, unpredictably.

    Raises:
        ValueError: ``choose`` is not random.
    """
    every = "".join(_CLASSES)
    for _ in range(_MOST_TRIES):
        more = "".join(choose(every) for _ in range(rules.length - 1))
        made = choose(string.ascii_letters) + more
        if fits(made, rules):
            return made
    raise ValueError("the source of randomness repeats itself")


def fits(password: str, rules: PasswordRules) -> bool:
    """Whether a password is one that would be made now."""
    classes = all(any(one in password for one in kind) for kind in _CLASSES)
    return classes and len(password) == rules.length


def beginnings(password: str) -> tuple[str, ...]:
    """What is left of a password that a BMC cuts, the longest first."""
    return tuple(password[:cut] for cut in CUTS if len(password) > cut)
