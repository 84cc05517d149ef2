"""BMCs by Redfish (sushy): the machine's identity, and whether it is powered off.

A BMC is only read, with HTTP basic authentication, which leaves no session behind. Its certificate
is checked, by its fingerprint or by a CA, before the credentials are sent; they are never sent to
another host, wherever its links point; time and bytes of its answers are limited.
"""

from __future__ import annotations

import hashlib
import logging
import re
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance.errors import ApplianceError
from appliance.model.node.bmc import CA_NAME, PASSWORD_NAME, USER_NAME, BmcReport, login_names
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.model.state.facts.placeholders import told_serial, told_uuid

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

HTTPS: Final = 443
# For all answers of one BMC: three documents of some tens of kilobytes, from slow hardware.
BMC_SECONDS: Final = 60.0
MOST_BYTES: Final = 2 * 1024 * 1024
# To fetch a certificate that was not trusted, so that its fingerprint can be shown.
_FETCH_SECONDS: Final = 5.0
# Errors of sushy for a document of an unexpected type.
_OF_A_STRANGE_DOCUMENT: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError),
)
_SYSTEM_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_MOST_SHOWN: Final = 8
_SERIAL: Final = re.compile(r"[\x20-\x7e]{1,64}")


class RedfishBmcs:
    """The BMCs of one site.

    Args:
        secrets: the vault's secrets, read with the first request.
        port: the port of the BMCs.
    """

    def __init__(self, secrets: Callable[[], Mapping[str, str]], port: int = HTTPS) -> None:
        self._secrets = secrets
        self._port = port

    def report(self, node: Node) -> BmcReport | None:
        """The report of the node's BMC; None without a BMC in the inventory. Never raises."""
        if node.bmc_address is None:
            return None
        try:
            secrets = self._secrets()
        except ApplianceError as error:
            return BmcReport(reason=error.message)
        login = _login(node.name, secrets)
        if isinstance(login, BmcReport):
            return login
        with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
            authority = Path(folder) / "ca.crt"
            authority.write_text(secrets.get(CA_NAME) or secrets.get(CA_CERTIFICATE.name, ""))
            return self._ask(node, f"https://{node.bmc_address}:{self._port}", login, authority)

    def _ask(self, node: Node, url: str, login: tuple[str, str], authority: Path) -> BmcReport:
        import sushy
        from requests import RequestException
        from sushy.auth import BasicAuth
        from sushy.exceptions import SushyError

        from appliance.adapters.hardware.redfish_limits import Limits, limited_connector

        # sushy would print warnings to stderr about errors that are reported below.
        logging.getLogger("sushy").addHandler(logging.NullHandler())
        limits = Limits(url, BMC_SECONDS, MOST_BYTES)
        try:
            root = sushy.Sushy(
                url,
                auth=BasicAuth(*login),
                connector=limited_connector(limits, str(authority), node.bmc_fingerprint),
            )
            systems = root.get_system_collection()
            path = _choose(tuple(systems.members_identities), node.bmc_system)
            if isinstance(path, BmcReport):
                return replace(path, reason=f"the BMC at {url} {path.reason}")
            system = systems.get_member(path)
        except (SushyError, RequestException, OSError, *_OF_A_STRANGE_DOCUMENT) as error:
            reason = limits.broken or self._distrust(node, error)
            reason = reason or _first_line(str(error) or type(error).__name__)
            return BmcReport(reason=f"the BMC at {url}: {reason}")
        return judged(system, sushy.PowerState.OFF)

    def _distrust(self, node: Node, error: BaseException) -> str:
        """What to compare, where the BMC's certificate was not trusted; empty otherwise."""
        if not _is_of_the_certificate(error):
            return ""
        try:
            pem = ssl.get_server_certificate(
                (str(node.bmc_address), self._port), timeout=_FETCH_SECONDS
            )
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


def _login(node: str, secrets: Mapping[str, str]) -> tuple[str, str] | BmcReport:
    """User and password of the node's own BMC, or else those of every BMC."""
    own = login_names(node)
    common = (USER_NAME, PASSWORD_NAME)
    names = own if any(secrets.get(name) for name in own) else common
    missing = [name for name in names if not secrets.get(name)]
    if missing:
        return BmcReport(reason=f"group_vars/all/vault.yml has no {' and no '.join(missing)}")
    return secrets[names[0]], secrets[names[1]]


def _choose(paths: tuple[str, ...], wanted: str | None) -> str | BmcReport:
    """The path of the node's system.

    DSP0266 lets a BMC list several. The serial or UUID has to be the node's in any case, so a wrong
    choice proves nothing about another machine. Which ones the HGX servers of a vendor list was
    not seen: the operator names it.
    """
    by_id = {_last_part(path): path for path in paths}
    if wanted is not None:
        if wanted in by_id:
            return by_id[wanted]
        return BmcReport(reason=f"lists {_listed(by_id)}, not the bmc_system {wanted}")
    if len(paths) == 1:
        return paths[0]
    return BmcReport(
        reason=f"lists {_listed(by_id)}, expected one; name this node's in host_vars: bmc_system"
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


def judged(system: Any, off: Any) -> BmcReport:
    """The report of a BMC's system; a placeholder serial or UUID counts as missing."""
    return BmcReport(
        serial=told_serial(_one_line(system.serial_number)),
        powered_off=system.power_state == off,
        uuid=told_uuid(_one_line(system.uuid)),
    )


def _one_line(value: object) -> str | None:
    """A short text without control characters, or None."""
    text = value.strip() if isinstance(value, str) else ""
    return text if _SERIAL.fullmatch(text) else None


def _first_line(text: str) -> str:
    return (text.splitlines() or [""])[0][:300]
