"""A connection to one BMC by Redfish (sushy), for as long as a block lasts.

The certificate is checked, by its fingerprint or by a CA, before the credentials are sent; they are
never sent to another host, wherever links point; time and bytes of the answers are limited.
A password is sent in one way alone: a second one would be a second failed login where it is wrong,
and BMCs lock accounts. The BMC is asked first, without a login, whether it takes HTTP's basic
authentication, which leaves no session behind; else it gets a session, which is ended at the end of
the block.
"""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from appliance.errors import ApplianceError
from appliance.model.node.bmc.report import CA_NAME, Login, chosen_names, login_of, next_name
from appliance.model.site.vault_ref import CA_CERTIFICATE

if TYPE_CHECKING:
    from appliance.adapters.hardware.redfish_limits import Limits
    from appliance.model.site.settings import Node

HTTPS: Final = 443
# A small document that only a login shows (DSP0266: all but the root and its schemas).
PROTECTED: Final = "/redfish/v1/Managers"
# To fetch a certificate that was not trusted, so that its fingerprint can be shown.
_FETCH_SECONDS: Final = 5.0
# Errors of sushy for a document of an unexpected type.
_OF_A_STRANGE_DOCUMENT: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError),
)
_SYSTEM_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_SHOWN: Final = 8
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e]")


class BmcFailed(Exception):
    """A BMC was not reached, refused, or answered something else than Redfish.

    Attributes:
        reason: in words, with the BMC's address.
        status: of the HTTP answer that refused; None where there was none.
    """

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


@dataclass(frozen=True)
class OpenBmc:
    """A BMC that let us in.

    Attributes:
        url: scheme, address and port.
        root: sushy's service root.
        limits: time and bytes that are left.
        system: path of the node's system; None where it cannot be chosen.
        no_system: why not; empty where it is.
    """

    node: Node
    url: str
    root: Any
    limits: Limits
    system: str | None
    no_system: str

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Translate what goes wrong with the BMC.

        Raises:
            BmcFailed: it was not reached, refused, or answered something else than Redfish.
        """
        with translated(self.node, self.url, self.limits):
            yield

    def get(self, path: str) -> dict[str, Any]:
        """One resource as it is.

        Raises:
            BmcFailed: see :meth:`asking`.
        """
        with self.asking():
            found = self.root._conn.get(path).json()
            if not isinstance(found, dict):
                raise TypeError("its answer is no JSON object")
            return found

    def own_system(self) -> Any:
        """Sushy's object of the node's system, read now.

        Raises:
            BmcFailed: see :meth:`asking`; or the system cannot be chosen.
        """
        path = self.require_system()
        with self.asking():
            return self.root.get_system(path)

    def require_system(self) -> str:
        """The path of the node's system.

        Raises:
            BmcFailed: it cannot be chosen.
        """
        if self.system is None:
            raise BmcFailed(f"the BMC at {self.url} {self.no_system}")
        return self.system


class RedfishSessions:
    """Opens the BMCs of one site.

    Args:
        secrets: the vault's secrets, read with the first request.
        port: the port of the BMCs.
    """

    def __init__(self, secrets: Callable[[], Mapping[str, str]], port: int = HTTPS) -> None:
        self._secrets = secrets
        self._port = port
        self._refused: dict[tuple[str, str, str], str] = {}
        self._basic: dict[str, bool] = {}

    @contextmanager
    def open(self, node: Node, seconds: float, most_bytes: int) -> Iterator[OpenBmc]:
        """Open the node's BMC within its limits of seconds and bytes.

        Raises:
            BmcFailed: the vault has no login, or see :meth:`OpenBmc.asking`.
        """
        from appliance.adapters.hardware.redfish_limits import Limits

        quiet()
        try:
            secrets = self._secrets()
        except ApplianceError as error:
            raise BmcFailed(error.message) from error
        login = _login(node.name, secrets)
        url = f"https://{node.bmc_address}:{self._port}"
        limits = Limits(url, seconds, most_bytes)
        with authority_file(secrets) as authority:
            with _hinted(node.name, secrets):
                self._require_not_refused(node, login)
                try:
                    with translated(node, url, limits):
                        trusted = (limits, authority, node.bmc_fingerprint)
                        if url not in self._basic:
                            self._basic[url] = takes_basic(*trusted)
                        root, paths = _log_in(login, *trusted, basic=self._basic[url])
                except BmcFailed as failed:
                    raise self._remembered(failed, node, login, secrets) from failed
            chosen, why = choose_system(paths, node.bmc_system)
            try:
                yield OpenBmc(node, url, root, limits, chosen, why)
            finally:
                _log_out(root)

    def _require_not_refused(self, node: Node, login: Login) -> None:
        """Refuse to try a password again that this BMC refused: BMCs count, and lock accounts."""
        said = self._refused.get((str(node.bmc_address), login.user, login.password))
        if said is not None:
            raise BmcFailed(f"{said}; it is not tried again in this run", 401)

    def _remembered(
        self, failed: BmcFailed, node: Node, login: Login, secrets: Mapping[str, str]
    ) -> BmcFailed:
        """The failure; where it is of the login, it names that and is kept for this run."""
        if failed.status != 401:
            return failed
        said = f"{failed.reason}; it refused {' with '.join(chosen_names(node.name, secrets))}"
        self._refused[(str(node.bmc_address), login.user, login.password)] = said
        return BmcFailed(said, failed.status)


@contextmanager
def authority_file(secrets: Mapping[str, str]) -> Iterator[str]:
    """A file with the CA of the BMCs, else that of the site, for as long as a block lasts."""
    with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
        authority = Path(folder) / "ca.crt"
        authority.write_text(secrets.get(CA_NAME) or secrets.get(CA_CERTIFICATE.name, ""))
        yield str(authority)


@cache
def quiet() -> None:
    """Sushy would print warnings to stderr about errors that are reported in our words."""
    logging.getLogger("sushy").addHandler(logging.NullHandler())


class _NoInternet:
    """In place of requests: sushy would fetch message registries from the Internet."""

    def get(self, *_: object, **__: object) -> NoReturn:
        raise OSError("no registry is fetched from the Internet")


def takes_basic(limits: Limits, authority: str, fingerprint: str | None) -> bool:
    """Whether a BMC says, to a request without a login, that it takes basic authentication.

    One that switched it off says so no more (AccountService HTTPBasicAuth, DSP0268). Some take it
    and do not say so: those get a session, which every service has (DSP0266, 13.3.4).
    """
    from appliance.adapters.hardware.redfish_limits import anonymous

    limits.offers_basic = False
    anonymous(limits, authority, fingerprint, PROTECTED)
    return limits.offers_basic


def _log_in(
    login: Login, limits: Limits, authority: str, fingerprint: str | None, *, basic: bool
) -> tuple[Any, tuple[str, ...]]:
    """Sushy's root and the paths of the systems."""
    import sushy
    from sushy.auth import BasicAuth, SessionAuth

    from appliance.adapters.hardware.redfish_limits import limited_connector

    def begin(auth: Any) -> Any:
        connector = limited_connector(limits, authority, fingerprint)
        return sushy.Sushy(
            limits.url, auth=auth, connector=connector, public_connector=_NoInternet()
        )

    # Sushy reads the root first, without a login; basic authentication sends nothing of its own.
    root = begin(BasicAuth(login.user, login.password))
    if not basic and root.json.get("Links", {}).get("Sessions"):
        root = begin(SessionAuth(login.user, login.password))
    return root, tuple(root.get_system_collection().members_identities)


def _log_out(root: Any) -> None:
    """End the session, if there is one; sushy tries again, when the root is forgotten."""
    auth, root._auth = root._auth, None
    with suppress(Exception):
        auth.close()
    root._conn.close()


@contextmanager
def _hinted(node: str, secrets: Mapping[str, str]) -> Iterator[None]:
    """Name the command that ends a change of the password, where one began."""
    try:
        yield
    except BmcFailed as failed:
        if failed.status not in (401, 403) or not secrets.get(next_name(node)):
            raise
        ends = f"a change of its password began: appliance hardware bmc-password {node}"
        raise BmcFailed(f"{failed.reason}; {ends}", failed.status) from failed


@contextmanager
def translated(node: Node, url: str, limits: Limits) -> Iterator[None]:
    """Translate what goes wrong with a BMC.

    Raises:
        BmcFailed: it was not reached, refused, or answered something else than Redfish.
    """
    from requests import RequestException
    from sushy.exceptions import SushyError

    try:
        yield
    except (SushyError, RequestException, OSError, *_OF_A_STRANGE_DOCUMENT) as error:
        reason = limits.broken or _distrust(node, url, error)
        reason = reason or _first_line(str(error) or type(error).__name__)
        status = getattr(error, "status_code", None)
        raise BmcFailed(f"the BMC at {url}: {reason}", status) from error


def _distrust(node: Node, url: str, error: BaseException) -> str:
    """What to compare, where the BMC's certificate was not trusted; empty otherwise."""
    if not _is_of_the_certificate(error):
        return ""
    port = int(url.rsplit(":", 1)[1])
    try:
        pem = ssl.get_server_certificate((str(node.bmc_address), port), timeout=_FETCH_SECONDS)
    except (OSError, ValueError):
        return ""
    found = hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem)).hexdigest()
    file = f"host_vars/{node.name}.yml"
    if node.bmc_fingerprint is not None:
        return (
            f"its certificate has the SHA-256 fingerprint {found}, not the bmc_fingerprint in "
            f"{file}; write the new one only if the BMC's own web page shows it"
        )
    return (
        "no CA of the site signed its certificate for this address; compare the SHA-256 "
        f"fingerprint with the BMC's own web page, then add to {file}: "
        f"bmc_fingerprint: {found}"
    )


def _login(node: str, secrets: Mapping[str, str]) -> Login:
    """User and password of the node's own BMC, or else those of every BMC."""
    found = login_of(node, secrets)
    if not isinstance(found, Login):
        raise BmcFailed(f"group_vars/all/vault.yml has no {' and no '.join(found)}")
    return found


def choose_system(paths: tuple[str, ...], wanted: str | None) -> tuple[str | None, str]:
    """The path of the node's system; None and the reason where it cannot be chosen.

    DSP0266 lets a BMC list several. The serial or UUID has to be the node's in any case, so a wrong
    choice proves nothing about another machine. Which ones the HGX servers of a vendor list was
    not seen: the operator names it.
    """
    by_id = {_last_part(path): path for path in paths}
    if wanted is not None:
        if wanted in by_id:
            return by_id[wanted], ""
        return None, f"lists {_listed(by_id)}, not the bmc_system {wanted}"
    if len(paths) == 1:
        return paths[0], ""
    return (
        None,
        f"lists {_listed(by_id)}, expected one; name this node's in host_vars: bmc_system",
    )


def _last_part(path: str) -> str:
    return path.rstrip("/").rsplit("/", 1)[-1]


def _listed(ids: Mapping[str, str]) -> str:
    """The systems' Ids that can be shown, in a short line."""
    shown = len(ids) <= _MOST_SHOWN and all(map(_SYSTEM_ID.fullmatch, ids))
    return f"{len(ids)} systems" + (f" ({', '.join(ids)})" if shown else "")


def _is_of_the_certificate(error: BaseException) -> bool:
    """Whether TLS refused the certificate: sushy and requests pack the error of ssl in theirs."""
    seen: set[int] = set()
    waiting: list[object] = [error]
    while waiting:
        one = waiting.pop()
        if not isinstance(one, BaseException) or id(one) in seen:
            continue
        if isinstance(one, ssl.SSLCertVerificationError):
            return True
        if type(one).__module__.startswith("urllib3") and "ingerprint" in str(one):
            return True
        seen.add(id(one))
        waiting += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
    return False


def _first_line(text: str) -> str:
    return _UNPRINTABLE.sub("?", (text.splitlines() or [""])[0][:300])
