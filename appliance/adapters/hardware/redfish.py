"""BMCs by Redfish (sushy): the machine's identity, and whether it is powered off.

A BMC is only read, with HTTP basic authentication, which leaves no session behind. Its certificate
is checked; credentials are never sent to another host, wherever its links point; time and bytes of
its answers are limited.
"""

from __future__ import annotations

import logging
import re
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.site.vault import AnsibleVault, password_file
from appliance.errors import ApplianceError
from appliance.model.node.bmc import CA_NAME, PASSWORD_NAME, USER_NAME, BmcReport
from appliance.model.site.vault_ref import CA_CERTIFICATE
from appliance.model.state.facts.placeholders import told_serial, told_uuid

if TYPE_CHECKING:
    from appliance.model.site.settings import Node, Site

HTTPS: Final = 443
# For all answers of one BMC: three documents of some tens of kilobytes, from slow hardware.
BMC_SECONDS: Final = 60.0
MOST_BYTES: Final = 2 * 1024 * 1024
# Errors of sushy for a document of an unexpected type.
_OF_A_STRANGE_DOCUMENT: Final = (
    *(ValueError, TypeError, AttributeError, LookupError, RecursionError),
)
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
        missing = [name for name in (USER_NAME, PASSWORD_NAME) if not secrets.get(name)]
        if missing:
            return BmcReport(reason=f"group_vars/all/vault.yml has no {' and no '.join(missing)}")
        with tempfile.TemporaryDirectory(prefix="appliance-") as folder:
            authority = Path(folder) / "ca.crt"
            authority.write_text(secrets.get(CA_NAME) or secrets.get(CA_CERTIFICATE.name, ""))
            return self._ask(f"https://{node.bmc_address}:{self._port}", secrets, authority)

    def _ask(self, url: str, secrets: Mapping[str, str], authority: Path) -> BmcReport:
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
                auth=BasicAuth(secrets[USER_NAME], secrets[PASSWORD_NAME]),
                connector=limited_connector(limits, str(authority)),
            )
            systems = root.get_system_collection()
            count = len(systems.members_identities)
            if count != 1:
                return BmcReport(reason=f"the BMC at {url} has {count} systems, expected 1")
            system = systems.get_member(systems.members_identities[0])
        except (SushyError, RequestException, OSError, *_OF_A_STRANGE_DOCUMENT) as error:
            reason = limits.broken or str(error) or type(error).__name__
            return BmcReport(reason=f"the BMC at {url}: {_first_line(reason)}")
        return judged(system, sushy.PowerState.OFF)


def vault_of(site: Site) -> Callable[[], Mapping[str, str]]:
    """A function that reads a site's secrets; empty without a vault or its password."""

    def read() -> Mapping[str, str]:
        password = password_file(site)
        if password is None or not site.vault_file.is_file():
            return {}
        return AnsibleVault(password).read(site.vault_file)

    return read


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
