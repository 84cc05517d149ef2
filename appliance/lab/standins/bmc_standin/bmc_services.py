"""STANDIN: a BMC's accounts and its machine's BIOS settings, and what they do unlike the standard.

Redfish's ManagerAccount, AccountService, Bios and AttributeRegistry (DMTF DSP0266, DSP0268). What
goes wrong is data: quirks of ``bmc_machine``. A quirk of a password was described by administrators
of BMCs, or follows from IPMI 2.0 (a password has at most 20 bytes, one of IPMI 1.5 at most 16).
"""

from __future__ import annotations

import hmac
from typing import Any

ACCOUNT = "#ManagerAccount."
BIOS = "#Bios."
# In a tree: the account that the configuration names.
USER = "STANDIN-USER"


class Accounts:
    """Who is let in.

    Attributes:
        password: the one that lets in now.
        earlier: those that did before.
    """

    def __init__(self, user: str, password: str) -> None:
        self.user, self.password = user, password
        self.earlier: list[str] = []
        self.failures = 0
        self.is_new = False

    def lets_in(self, user: str, password: str, quirks: Any) -> bool:
        """Whether a login is right."""
        known = [self.password, *(self.earlier if quirks.password_old_works else [])]
        if quirks.password_cut_at_login:
            cut = quirks.password_cut_at_login
            password, known = password[:cut], [one[:cut] for one in known]
        given = f"{user}\n{password}".encode()
        right = any(hmac.compare_digest(given, f"{self.user}\n{one}".encode()) for one in known)
        self.failures = 0 if right else self.failures + 1
        return right

    def must_change(self, quirks: Any) -> bool:
        """Whether nothing but a change of the password is let in."""
        return bool(quirks.password_must_change) and not self.is_new

    def change(self, new: str, rules: dict[str, Any], quirks: Any) -> str:
        """Take a new password; why not, as a MessageId, or empty."""
        least, most = rules.get("MinPasswordLength"), rules.get("MaxPasswordLength")
        if (least is not None and len(new) < least) or (most is not None and len(new) > most):
            return "PropertyValueFormatError"
        if quirks.password_ignored:
            return ""
        self.earlier.append(self.password)
        self.password = new[: quirks.password_cut] if quirks.password_cut else new
        self.is_new = True
        return ""


def with_user(resources: dict[str, Any], user: str) -> dict[str, Any]:
    """The resources, with the configuration's user in the account of the tree."""
    return {
        path: {**one, "UserName": user} if one.get("UserName") == USER else one
        for path, one in resources.items()
    }


class Bios:
    """BIOS settings of one machine, current and pending."""

    def __init__(self, resources: dict[str, dict[str, Any]]) -> None:
        self._resources = resources
        self._taken_at: tuple[float, dict[str, Any]] = (0.0, {})

    def settings_of(self, path: str) -> str | None:
        """The path of the Bios whose pending settings these are."""
        for of, one in self._resources.items():
            link = one.get("@Redfish.Settings", {}).get("SettingsObject", {}).get("@odata.id")
            if link == path and str(one.get("@odata.type", "")).startswith(BIOS):
                return of
        return None

    def order(self, path: str, body: dict[str, Any], quirks: Any) -> str:
        """Keep settings for the next start; why not, as a MessageId, or empty."""
        wanted = body.get("Attributes")
        if not isinstance(wanted, dict):
            return "PropertyMissing"
        current = self._resources[str(self.settings_of(path))]["Attributes"]
        if any(name not in current for name in wanted):
            return "PropertyUnknown"
        if not quirks.bios_forgotten:
            self._resources[path].setdefault("Attributes", {}).update(wanted)
        return ""

    def start(self, quirks: Any, now: float) -> None:
        """The machine starts: it takes its settings, after a while."""
        for path, one in self._resources.items():
            of = self.settings_of(path)
            if of is None:
                continue
            pending, one["Attributes"] = one.get("Attributes", {}), {}
            if not quirks.bios_ignored:
                self._taken_at = (now + quirks.bios_seconds, {of: pending})

    def settle(self, now: float) -> None:
        """What was due to be taken is taken."""
        at, pending = self._taken_at
        if pending and now >= at:
            for path, values in pending.items():
                self._resources[path]["Attributes"].update(values)
            self._taken_at = (0.0, {})
