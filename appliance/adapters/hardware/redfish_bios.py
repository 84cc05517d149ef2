"""BIOS settings by Redfish: those in force, those that wait for the next start, and their rules.

Settings are ordered at the settings object of the Bios resource (DSP0266, ``@Redfish.Settings``),
with its ETag: settings that somebody else ordered meanwhile are not replaced unseen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from appliance.adapters.hardware.redfish_documents import one_line
from appliance.adapters.hardware.redfish_driver import DrivenBmc, RedfishDriver, unreachable
from appliance.adapters.hardware.redfish_session import BmcFailed, OpenBmc
from appliance.model.node.bmc.bios import BiosState, same
from appliance.model.node.bmc.bios_registry import (
    AttributeRule,
    BiosValue,
    attributes_of,
    is_registry,
    read_registry,
)

if TYPE_CHECKING:
    from appliance.model.site.settings import Node

# A registry of a server has some 2 MB, from slow hardware; once for each command and machine.
SECONDS: Final = 120.0
MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_REGISTRIES: Final = 64
_MOST_READ: Final = 6
_MOST_MESSAGES: Final = 5
_PATH: Final = re.compile(r"/redfish/v1/[\x21-\x7e]{1,300}")
_ON_RESET: Final = "OnReset"
# BootProgress.LastState of a machine whose firmware has handed over (DSP0268, ComputerSystem).
_STARTED: Final = frozenset({"OSBootStarted", "OSRunning"})


class BiosDriver(RedfishDriver):
    """Drives BMCs, and the BIOS settings of their machines."""

    @contextmanager
    def open(self, node: Node) -> Iterator[BiosBmc]:
        """Open the node's BMC.

        Raises:
            Refused: the inventory has no BMC for the node.
            NodeUnreachable: the BMC was not reached, or did not let us in.
        """
        self.require_address(node)
        with unreachable(node.name), self.sessions.open(node, SECONDS, MOST_BYTES) as bmc:
            bmc.require_system()
            yield BiosBmc(bmc, self._clock)


class BiosBmc(DrivenBmc):
    """One BMC that let us in."""

    def bios(self) -> BiosState:
        """The settings, and the rules of its registry.

        Raises:
            NodeUnreachable: the BMC did not answer, or not with Redfish.
        """
        with unreachable(self._name):
            self._bmc.limits.renew()
            found = _read(self._bmc)
            if found.cannot and not found.attributes:
                return found
            rules, why = _rules(self._bmc, self._bios_of(_system(self._bmc)))
            return BiosState(**{**vars(found), "rules": rules, "no_rules": why})

    def bios_now(self) -> BiosState:
        """The settings without the registry, which takes the longest to read.

        Raises:
            NodeUnreachable: the BMC did not answer, or not with Redfish.
        """
        with unreachable(self._name):
            self._bmc.limits.renew()
            return _read(self._bmc)

    def order_bios(self, values: Mapping[str, BiosValue], shown: BiosState) -> None:
        """Order settings for the next start.

        Args:
            values: name -> value.
            shown: what was seen before; where the BMC now tells something else, nothing is sent.

        Raises:
            BmcRefused: the BMC has no settings object, refused, or its settings have changed.
        """
        with self._ordering("set its BIOS"):
            bios = self._bios_of(_system(self._bmc))
            path = _settings_path(bios)
            if path is None:
                raise BmcFailed(f"the BMC at {self._bmc.url} has no BIOS settings to change")
            pending, etag = _with_etag(self._bmc, path)
            if _waiting(bios, pending) != dict(shown.pending):
                raise BmcFailed("somebody else ordered BIOS settings meanwhile; nothing was sent")
            self._patch(path, _body(bios, values), etag)

    def _patch(self, path: str, body: Mapping[str, Any], etag: str | None) -> None:
        try:
            _send(self._bmc, path, body, etag)
        except BmcFailed as failed:
            # Some BMCs hand out a weak tag and compare it with its strong form.
            weak = etag is not None and etag.startswith("W/")
            if failed.status != 412 or not weak or _with_etag(self._bmc, path)[1] != etag:
                raise
            _send(self._bmc, path, body, str(etag).removeprefix("W/"))

    def _bios_of(self, system: Mapping[str, Any]) -> dict[str, Any]:
        path = _link(system, "Bios")
        return {} if path is None else self._bmc.get(path)


def _read(bmc: OpenBmc) -> BiosState:
    system = _system(bmc)
    path = _link(system, "Bios")
    if path is None:
        return BiosState(cannot="a BMC that tells no BIOS settings")
    bios = bmc.get(path)
    place = _settings_path(bios)
    pending = _waiting(bios, bmc.get(place)) if place is not None else {}
    progress = system.get("BootProgress")
    last = progress.get("LastState") if isinstance(progress, dict) else None
    return BiosState(
        attributes_of(bios),
        pending,
        cannot="" if place is not None else "a BMC that only shows BIOS settings",
        messages=_messages(bios),
        started=last in _STARTED if isinstance(last, str) and last != "None" else None,
    )


def _system(bmc: OpenBmc) -> dict[str, Any]:
    return bmc.get(bmc.require_system())


def _settings_path(bios: Mapping[str, Any]) -> str | None:
    about = bios.get("@Redfish.Settings")
    return _link(about, "SettingsObject") if isinstance(about, dict) else None


def _waiting(bios: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, BiosValue]:
    """What the next start changes. Some BMCs show all settings there, those in force included."""
    now = attributes_of(bios)
    return {
        name: value
        for name, value in attributes_of(settings).items()
        if value is not None and not (name in now and same(now[name], value))
    }


def _messages(bios: Mapping[str, Any]) -> tuple[str, ...]:
    about = bios.get("@Redfish.Settings")
    listed = about.get("Messages") if isinstance(about, dict) else None
    found = [one.get("Message") for one in listed or () if isinstance(one, dict)]
    texts = ["".join(c if " " <= c <= "~" else "?" for c in one[:200]) for one in _texts(found)]
    return tuple(texts[:_MOST_MESSAGES])


def _texts(found: list[Any]) -> list[str]:
    return [one for one in found if isinstance(one, str) and one.strip()]


def _body(bios: Mapping[str, Any], values: Mapping[str, BiosValue]) -> dict[str, Any]:
    """The order; its apply time only where the BMC offers a choice of them."""
    about = bios.get("@Redfish.Settings")
    times = about.get("SupportedApplyTimes") if isinstance(about, dict) else None
    body: dict[str, Any] = {"Attributes": dict(values)}
    if isinstance(times, list) and _ON_RESET in times:
        kind = "#Settings.v1_3_0.PreferredApplyTime"
        body["@Redfish.SettingsApplyTime"] = {"@odata.type": kind, "ApplyTime": _ON_RESET}
    return body


def _with_etag(bmc: OpenBmc, path: str) -> tuple[dict[str, Any], str | None]:
    with bmc.asking():
        answer = bmc.root._conn.get(path)
        found, etag = answer.json(), answer.headers.get("ETag")
        if not isinstance(found, dict):
            raise TypeError("its answer is no JSON object")
        return found, etag if isinstance(etag, str) and len(etag) < 200 else None


def _send(bmc: OpenBmc, path: str, body: Mapping[str, Any], etag: str | None) -> None:
    """Sushy's own patch repeats a refused request without the tag: this one does not."""
    headers = {"If-Match": etag} if etag else {}
    with bmc.asking():
        bmc.root._conn._op("PATCH", path, data=dict(body), headers=headers)


def _rules(bmc: OpenBmc, bios: Mapping[str, Any]) -> tuple[dict[str, AttributeRule] | None, str]:
    """The rules of the registry that a Bios names, or why there are none."""
    wanted = one_line(bios.get("AttributeRegistry"))
    if wanted is None:
        return None, "its BIOS names none"
    try:
        for place in _places(bmc, wanted):
            found = bmc.get(place)
            if is_registry(found) and (rules := read_registry(found)):
                return rules, ""
    except BmcFailed as failed:
        return None, failed.reason
    return None, f"the BMC does not offer {wanted}"


def _places(bmc: OpenBmc, wanted: str) -> Iterator[str]:
    """Where a registry may be: that of the name first, then those that look like one of a BIOS."""
    collection = _link(bmc.root.json, "Registries")
    listed = bmc.get(collection).get("Members") if collection is not None else None
    members = [_link({"m": one}, "m") for one in (listed if isinstance(listed, list) else [])]
    paths = [one for one in members[:_MOST_REGISTRIES] if one is not None]
    ranked = sorted(paths, key=lambda path: _rank(path.rstrip("/").rsplit("/", 1)[-1], wanted))
    for path in ranked[:_MOST_READ]:
        if _rank(path.rstrip("/").rsplit("/", 1)[-1], wanted) < 2:
            yield from _locations(bmc.get(path))


def _rank(name: str, wanted: str) -> int:
    if name == wanted or wanted.startswith(name) or name.startswith(wanted):
        return 0
    return 1 if re.search("bios|attribute", name, re.IGNORECASE) else 2


def _locations(file: Mapping[str, Any]) -> Iterator[str]:
    listed = file.get("Location")
    found = [one for one in (listed if isinstance(listed, list) else []) if isinstance(one, dict)]
    for one in sorted(found, key=lambda one: one.get("Language") != "en"):
        place = one.get("Uri")
        place = place.get("@odata.id") if isinstance(place, dict) else place
        if _is_path(place) and not str(place).endswith(".gz"):
            yield str(place)
            return


def _link(document: Mapping[str, Any], key: str) -> str | None:
    """A link within the service; None where there is none, or it leads elsewhere."""
    found = document.get(key)
    path = found.get("@odata.id") if isinstance(found, dict) else None
    return path if _is_path(path) else None


def _is_path(value: object) -> bool:
    return isinstance(value, str) and bool(_PATH.fullmatch(value)) and ".." not in value
