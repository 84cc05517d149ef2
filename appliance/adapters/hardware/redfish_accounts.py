"""Accounts of BMCs by Redfish: found by the user's name, given a new password, tried.

A BMC whose first password has to be replaced lets nothing else in (DSP0266), so nothing is read
before the account. Each request logs in anew: what lets in is the question.
No password is in a message: what a BMC says is searched for those of the request.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.hardware.redfish_documents import read_machine
from appliance.adapters.hardware.redfish_session import (
    HTTPS,
    BmcFailed,
    authority_file,
    choose_system,
    quiet,
    takes_basic,
    translated,
)
from appliance.errors import ApplianceError, BmcRefused, NodeUnreachable, Refused
from appliance.model.node.bmc.password import Account, PasswordRules, read_rules
from appliance.model.node.bmc.report import Login

if TYPE_CHECKING:
    from appliance.adapters.hardware.redfish_limits import Limits
    from appliance.model.node.bmc.orders import BmcMachine
    from appliance.model.site.settings import Node

ROOT: Final = "/redfish/v1"
# For one act: at most some tens of small documents, from slow hardware.
SECONDS: Final = 60.0
MOST_BYTES: Final = 2 * 1024 * 1024
MOST_ACCOUNTS: Final = 64
_SESSIONS: Final = f"{ROOT}/SessionService/Sessions"
_PATH: Final = re.compile(r"/redfish/v1/[\x21-\x7e]{1,300}")
_MUST_CHANGE: Final = "PasswordChangeRequired"
_SHORTEST_SEARCHED: Final = 6


class RedfishAccounts:
    """The accounts of one site's BMCs.

    Args:
        secrets: the vault's secrets, for the CA of the BMCs.
        port: the port of the BMCs.
    """

    def __init__(self, secrets: Callable[[], Mapping[str, str]], port: int = HTTPS) -> None:
        self._secrets, self._port = secrets, port

    @contextmanager
    def open(self, node: Node) -> Iterator[BmcAccounts]:
        """The accounts of a node's BMC; nothing is asked yet.

        Raises:
            Refused: the inventory has no BMC for the node.
            NodeUnreachable: the vault does not open.
        """
        from appliance.adapters.hardware.redfish_limits import Limits

        if node.bmc_address is None:
            raise Refused(
                f"{node.name}: the inventory has no BMC for it",
                hint=f"write bmc_address into host_vars/{node.name}.yml",
            )
        quiet()
        try:
            secrets = self._secrets()
        except ApplianceError as error:
            raise NodeUnreachable(f"{node.name}: {error.message}", hint=error.hint) from error
        limits = Limits(f"https://{node.bmc_address}:{self._port}", SECONDS, MOST_BYTES)
        with authority_file(secrets) as authority:
            yield BmcAccounts(node, limits, authority)


class BmcAccounts:
    """The accounts of one BMC."""

    def __init__(self, node: Node, limits: Limits, authority: str) -> None:
        self._node, self._limits, self._authority = node, limits, authority

    def see(self, login: Login) -> Account:
        """The account of a user, and the rules for its password.

        Raises:
            NodeUnreachable: no answer; with ``answers`` where the login was refused.
            Refused: the BMC has no account service, or no such account.
        """
        with self._asking(login):
            by_session = not self._knows_basic()
            with self._logged_in(login, by_session=by_session) as ask:
                return self._see(login, ask, by_session=by_session)

    def replace(self, account: Account, login: Login, new: str) -> None:
        """Give an account a new password. Only a login proves that it was taken.

        Raises:
            BmcRefused: the BMC refused.
            NodeUnreachable: no answer, or a fault; nobody knows whether it was taken.
        """
        with self._asking(login, new):
            try:
                with self._logged_in(login, by_session=account.by_session) as ask:
                    self._patch(ask, account.path, {"Password": new})
            except BmcFailed as failed:
                # A fault of the server is no word about the request (RFC 9110, 15.6).
                if failed.status is None or failed.status >= 500:
                    raise
                raise BmcRefused(
                    f"{self._node.name}: its BMC refused the new password: "
                    f"{_without(failed.reason, (login.password, new))}",
                    hint="look at its rules for passwords on its web page",
                ) from None

    def lets_in(self, account: Account, login: Login) -> bool:
        """Whether a login works.

        Raises:
            NodeUnreachable: no answer that says so.
        """
        with self._asking(login):
            try:
                with self._logged_in(login, by_session=account.by_session) as ask:
                    ask("GET", account.path)
            except BmcFailed as failed:
                if failed.status == 401:
                    return False
                if failed.status == 403 and _is_must_change(failed):
                    return True
                # A refusal of an account, whatever the reason, is no login.
                if failed.status == 403 and account.by_session:
                    return False
                raise
            return True

    def _see(self, login: Login, ask: _Ask, *, by_session: bool) -> Account:
        try:
            found = self._listed(login, ask)
        except BmcFailed as failed:
            path = _must_change_at(failed)
            if path is None:
                raise
            account = ask("GET", path)
            if account.get("UserName") != login.user:
                raise self._no_account(login.user) from failed
            return Account(path, PasswordRules(), by_session, must_change=True)
        if found is None:
            raise self._no_account(login.user)
        path, rules = found
        try:
            machine = self._machine(ask)
        except BmcFailed as failed:
            if _must_change_at(failed) is None:
                raise
            return Account(path, rules, by_session, must_change=True)
        return Account(path, rules, by_session, machine=machine)

    def _listed(self, login: Login, ask: _Ask) -> tuple[str, PasswordRules] | None:
        service_path = _link(ask("GET", ROOT), "AccountService")
        if service_path is None:
            return None
        service = ask("GET", service_path)
        collection = _link(service, "Accounts")
        listed = ask("GET", collection).get("Members") if collection else None
        for member in (listed if isinstance(listed, list) else [])[:MOST_ACCOUNTS]:
            path = _link({"m": member}, "m")
            if path is not None and ask("GET", path).get("UserName") == login.user:
                return path, read_rules(service)
        return None

    def _no_account(self, user: str) -> Refused:
        return Refused(
            f"{self._node.name}: the BMC at {self._limits.url} lists no account of the user "
            f"{_shown(user)}",
            hint="replace its password on its web page, and write it into the vault",
        )

    def _machine(self, ask: _Ask) -> BmcMachine | None:
        systems = _link(ask("GET", ROOT), "Systems")
        listed = ask("GET", systems).get("Members") if systems else None
        paths = [_link({"m": one}, "m") for one in (listed if isinstance(listed, list) else [])]
        chosen, _ = choose_system(
            tuple(path for path in paths if path is not None), self._node.bmc_system
        )
        return None if chosen is None else read_machine(ask("GET", chosen))

    def _knows_basic(self) -> bool:
        """Whether it says that it takes basic authentication; no password is sent to learn that."""
        with translated(self._node, self._limits.url, self._limits):
            return takes_basic(self._limits, self._authority, self._node.bmc_fingerprint)

    @contextmanager
    def _logged_in(self, login: Login, *, by_session: bool) -> Iterator[_Ask]:
        from appliance.adapters.hardware.redfish_limits import limited_connector

        connector = limited_connector(self._limits, self._authority, self._node.bmc_fingerprint)
        ask = _Ask(self._node, self._limits, connector)
        try:
            if not by_session:
                connector._session.auth = (login.user.encode(), login.password.encode())
                yield ask
                return
            place = _link(ask("GET", ROOT).get("Links", {}), "Sessions") or _SESSIONS
            session = ask.begin(place, login)
            try:
                yield ask
            finally:
                with suppress(BmcFailed):
                    if session is not None:
                        ask("DELETE", session)
        finally:
            connector.close()

    @staticmethod
    def _patch(ask: _Ask, path: str, body: Mapping[str, Any]) -> None:
        ask("GET", path)
        tag = ask.etag
        try:
            ask("PATCH", path, body, {"If-Match": tag} if tag else {})
        except BmcFailed as failed:
            # Some BMCs hand out a weak tag and compare it with its strong form.
            if failed.status != 412 or tag is None or not tag.startswith("W/"):
                raise
            ask("PATCH", path, body, {"If-Match": tag.removeprefix("W/")})

    @contextmanager
    def _asking(self, login: Login, *more: str) -> Iterator[None]:
        self._limits.renew()
        try:
            yield
        except BmcFailed as failed:
            reason = _without(failed.reason, (login.password, *more))
            refused = failed.status in (401, 403)
            raise NodeUnreachable(
                f"{self._node.name}: {reason}",
                hint="check the BMC's address, network and login",
                answers=refused,
            ) from None


class _Ask:
    """Sends requests of one login.

    Attributes:
        etag: of the last answer.
    """

    def __init__(self, node: Node, limits: Limits, connector: Any) -> None:
        self._node, self._limits, self._connector = node, limits, connector
        self.etag: str | None = None

    def __call__(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """The answer's document; empty for an answer without one."""
        with translated(self._node, self._limits.url, self._limits):
            answer = self._send(method, path, body, headers)
            tag = answer.headers.get("ETag")
            self.etag = tag if isinstance(tag, str) and 0 < len(tag) < 200 else None
            if method != "GET":
                return {}
            found = answer.json()
            if not isinstance(found, dict):
                raise TypeError("its answer is no JSON object")
            return found

    def begin(self, place: str, login: Login) -> str | None:
        """Begin a session; its path, to end it."""
        with translated(self._node, self._limits.url, self._limits):
            body = {"UserName": login.user, "Password": login.password}
            answer = self._send("POST", place, body, None)
            token = answer.headers.get("X-Auth-Token")
            if not token:
                raise TypeError("it began a session without a token")
            self._connector._session.headers["X-Auth-Token"] = token
            location = str(answer.headers.get("Location") or "")
            path = location.removeprefix(self._limits.url)
            return path if _PATH.fullmatch(path) and ".." not in path else None

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        headers: Mapping[str, str] | None,
    ) -> Any:
        data = None if body is None else dict(body)
        return self._connector._op(method, path, data=data, headers=dict(headers or {}))


def _must_change_at(failed: BmcFailed) -> str | None:
    """The account whose password has to be replaced first; None where that is not the reason."""
    for one in _messages(failed):
        arguments = one.get("MessageArgs")
        path = arguments[0] if isinstance(arguments, list) and arguments else None
        if _MUST_CHANGE in str(one.get("MessageId")) and _is_path(path):
            return str(path)
    return None


def _is_must_change(failed: BmcFailed) -> bool:
    return any(_MUST_CHANGE in str(one.get("MessageId")) for one in _messages(failed))


def _messages(failed: BmcFailed) -> list[Mapping[str, Any]]:
    listed = getattr(failed.__cause__, "extended_info", None)
    return [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []


def _link(document: object, key: str) -> str | None:
    found = document.get(key) if isinstance(document, dict) else None
    path = found.get("@odata.id") if isinstance(found, dict) else None
    return path if _is_path(path) else None


def _is_path(value: object) -> bool:
    return isinstance(value, str) and bool(_PATH.fullmatch(value)) and ".." not in value


def _without(text: str, secrets: tuple[str, ...]) -> str:
    """A text without these passwords, nor a part of them that a BMC might quote."""
    for secret in secrets:
        for size in range(len(secret), _SHORTEST_SEARCHED - 1, -1):
            for part in {secret[:size], secret[-size:]}:
                text = text.replace(part, "***")
        if 0 < len(secret) < _SHORTEST_SEARCHED:
            text = text.replace(secret, "***")
    return text


def _shown(user: str) -> str:
    return "".join(one if " " <= one <= "~" else "?" for one in user[:40])
