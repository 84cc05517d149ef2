"""STANDIN: one machine behind a BMC: its Redfish tree, its power, its media and its next boot.

A tree is data (``trees/``). What a BMC does unlike the standard is data too (:class:`Quirks`): a
quirk was seen in the field or in the source of a Redfish client, see decision 197.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bmc_services import ACCOUNT, Accounts, Bios

RESET = "#ComputerSystem.Reset"
INSERT = "#VirtualMedia.InsertMedia"
EJECT = "#VirtualMedia.EjectMedia"
SESSIONS = "/redfish/v1/SessionService/Sessions"
OFF = {"ForceOff", "GracefulShutdown"}
# A command of a machine that runs without this program.
HOOK_SECONDS = 60
RESTART = {"ForceRestart", "GracefulRestart", "PowerCycle"}
Answer = tuple[int, dict[str, Any]]


@dataclass(frozen=True)
class Quirks:
    """What this BMC does unlike the standard.

    Attributes:
        power_seconds: how long the reported power stays as it was after an order.
        power_says: what it reports, whatever the machine does.
        ignores_reset: it accepts an order, and does nothing.
        ignores_shutdown: the same of a clean shutdown only: no system listens to ACPI.
        media_refused: an order to insert a medium is refused with this HTTP status.
        media_ignored: an order to insert is accepted, and nothing is inserted.
        media_unnamed: an inserted medium is reported without its image.
        media_protocol: an order to insert must name TransferProtocolType.
        media_eject_first: a second medium is refused while one is inserted.
        boot_stays: an order for one boot is kept, and reported, as Continuous.
        boot_always: an override is always reported, and never removed.
        boot_ignored: an order for one boot is accepted and forgotten.
        hidden: paths that are answered with 404.
        basic: whether HTTP's basic authentication is accepted.
        basic_unsaid: it is accepted, and no answer says so.
        session_requests: after so many requests a session is over.
        etag_needed: a PATCH without If-Match is refused.
        tls_seconds: the handshake begins so late.
        bios_ignored: settings are kept for the next start, and not taken then.
        bios_forgotten: an order of settings is accepted and forgotten.
        bios_hidden: pending settings are not shown.
        bios_seconds: settings are taken so long after the start.
        bios_refused: an order of settings is refused with this HTTP status.
        password_ignored: a new password is accepted, and the old one stays.
        password_cut: only so many characters of a new password are kept.
        password_cut_at_login: only so many characters of a password are compared.
        password_old_works: earlier passwords let in as well.
        password_must_change: nothing else is let in before the first password is replaced.
        password_refused: a new password is refused, with it in the message.
    """

    power_seconds: float = 0.0
    power_says: str | None = None
    ignores_reset: bool = False
    ignores_shutdown: bool = False
    media_refused: int = 0
    media_ignored: bool = False
    media_unnamed: bool = False
    media_protocol: bool = False
    media_eject_first: bool = False
    boot_stays: bool = False
    boot_always: bool = False
    boot_ignored: bool = False
    hidden: tuple[str, ...] = ()
    basic: bool = True
    basic_unsaid: bool = False
    session_requests: int = 0
    etag_needed: bool = False
    tls_seconds: float = 0.0
    bios_ignored: bool = False
    bios_forgotten: bool = False
    bios_hidden: bool = False
    bios_seconds: float = 0.0
    bios_refused: int = 0
    password_ignored: bool = False
    password_cut: int = 0
    password_cut_at_login: int = 0
    password_old_works: bool = False
    password_must_change: bool = False
    password_refused: bool = False


@dataclass
class Hooks:
    """What really happens: programs that are the machine.

    Attributes:
        power: a command that prints ``true`` while the machine is on; while it fails, nothing is
            answered; empty: the stand-in knows.
        on: the program that is the machine; it is started with BMC_BOOT and BMC_IMAGE in its
            environment, and the machine is on as long as it runs.
        off: a command that takes the machine's power. With it the machine runs without this
            program: ``on`` starts the machine and ends, and ``power`` alone says whether it runs.
        shutdown: then, a command that asks the machine's system to stop, and ends.
    """

    power: str = ""
    on: list[str] = field(default_factory=list)
    off: list[str] = field(default_factory=list)
    shutdown: list[str] = field(default_factory=list)


class Machine:
    """One BMC's resources, as they change. Safe for several threads.

    Attributes:
        boots: (path of the system, boot source, image of the medium) of every start.
        asked: (method, path) of every request that was let in.
    """

    def __init__(
        self,
        resources: dict[str, dict[str, Any]],
        quirks: Quirks | None = None,
        hooks: Hooks | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.quirks = quirks or Quirks()
        self.boots: list[tuple[str, str, str | None]] = []
        self.asked: list[tuple[str, str]] = []
        self._resources = copy.deepcopy(resources)
        self._hooks, self._clock = hooks or Hooks(), clock
        self._reported: dict[str, tuple[str, float]] = {}
        self._sessions: dict[str, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()
        self._bios = Bios(self._resources)
        self.accounts = Accounts("", "")

    def get(self, path: str) -> dict[str, Any] | None:
        """A resource as the BMC shows it now; None where it has none."""
        with self._lock:
            if path in self.quirks.hidden or path not in self._resources:
                return None
            self._bios.settle(self._clock())
            found = copy.deepcopy(self._resources[path])
            if self.quirks.bios_hidden and self._bios.settings_of(path):
                found["Attributes"] = {}
            if RESET in found.get("Actions", {}):
                found["PowerState"] = self._shown_power(path)
            if INSERT in found.get("Actions", {}) and self.quirks.media_unnamed:
                found["Image"] = found["ImageName"] = None
            return found

    def etag(self, path: str) -> str:
        """The entity tag of a resource as it is now, its power left out."""
        found = {**(self.get(path) or {}), "PowerState": None}
        digest = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()
        return f'"{digest[:12]}"'

    def patch(self, path: str, body: dict[str, Any], if_match: str | None) -> Answer:
        """Change settings of a system (its next boot) or a medium."""
        with self._lock:
            if path not in self._resources:
                return missing(path)
            if if_match is None and self.quirks.etag_needed:
                return error(428, "PreconditionRequired")
            if if_match is not None and if_match != self.etag(path):
                return error(412, "PreconditionFailed")
            refused = self._services(path, body)
            if refused is not None:
                return refused
            boot = body.get("Boot")
            if isinstance(boot, dict) and not self.quirks.boot_ignored:
                self._override(path, boot)
            if "Image" in body:
                return self._insert(path, body) if body["Image"] else self._eject(path)
            return 200, self.get(path) or {}

    def _override(self, path: str, boot: dict[str, Any]) -> None:
        """Keep an order for the next boot."""
        kept = self._resources[path].setdefault("Boot", {})
        kept.update(boot)
        once = kept.get("BootSourceOverrideEnabled") == "Once"
        if self.quirks.boot_always or (self.quirks.boot_stays and once):
            kept["BootSourceOverrideEnabled"] = "Continuous"

    def _services(self, path: str, body: dict[str, Any]) -> Answer | None:
        """A change of BIOS settings or of a password: how it was refused; None: go on."""
        quirks, resource = self.quirks, self._resources[path]
        if self._bios.settings_of(path):
            if quirks.bios_refused:
                return error(quirks.bios_refused, "GeneralError")
            wrong = self._bios.order(path, body, quirks)
            return error(400, wrong) if wrong else None
        if str(resource.get("@odata.type", "")).startswith(ACCOUNT) and "Password" in body:
            if quirks.password_refused:
                return error(400, f"PropertyValueError: {body['Password']}")
            if resource.get("UserName") != self.accounts.user:
                return error(403, "InsufficientPrivilege")
            rules = self._resources.get("/redfish/v1/AccountService", {})
            wrong = self.accounts.change(str(body["Password"]), rules, quirks)
            return error(400, wrong) if wrong else (204, {})
        return None

    def act(self, path: str, body: dict[str, Any]) -> Answer:
        """Carry out the action whose target this is."""
        with self._lock:
            for owner, resource in self._resources.items():
                for name, action in resource.get("Actions", {}).items():
                    if isinstance(action, dict) and action.get("target") == path:
                        return self._carry_out(owner, name, action, body)
            return missing(path)

    def _carry_out(
        self, owner: str, name: str, action: dict[str, Any], body: dict[str, Any]
    ) -> Answer:
        if name == INSERT:
            return self._insert(owner, body)
        if name == EJECT:
            return self._eject(owner)
        if name != RESET:
            return error(501, "ActionNotSupported")
        order = body.get("ResetType")
        if order not in action.get("ResetType@Redfish.AllowableValues", [order]):
            return error(400, "ActionParameterNotSupported")
        return self._reset(owner, str(order))

    def _reset(self, system: str, order: str) -> Answer:
        quirks = self.quirks
        if quirks.ignores_reset or (quirks.ignores_shutdown and order.startswith("Graceful")):
            return 204, {}
        before, was_on = self._shown_power(system), self._power(system) == "On"
        if order in OFF or order in RESTART:
            if self._hooks.off:
                _command(self._hooks.shutdown if order.startswith("Graceful") else self._hooks.off)
            self._stop()
            self._resources[system]["PowerState"] = "Off"
        if (order == "On" and not was_on) or (order in RESTART and was_on):
            self._start(system)
        if self._power(system) != before or order in RESTART:
            self._reported.setdefault(system, (before, self._clock() + quirks.power_seconds))
        return 204, {}

    def _start(self, system: str) -> None:
        resource = self._resources[system]
        boot = resource.get("Boot", {})
        source = "Hdd"
        if boot.get("BootSourceOverrideEnabled") in ("Once", "Continuous"):
            source = boot.get("BootSourceOverrideTarget", "Hdd")
        if boot.get("BootSourceOverrideEnabled") == "Once":
            boot.update(BootSourceOverrideEnabled="Disabled", BootSourceOverrideTarget="None")
        images = [one["Image"] for one in self._resources.values() if one.get("Inserted")]
        image = images[0] if images and source in ("Cd", "UsbCd") else None
        self.boots.append((system, source, image))
        self._bios.start(self.quirks, self._clock())
        resource["PowerState"] = "On"
        if self._hooks.off:
            _command(self._hooks.on)
        elif self._hooks.on:
            more = {"BMC_BOOT": source, "BMC_IMAGE": image or ""}
            self._process = subprocess.Popen(self._hooks.on, env={**os.environ, **more})

    def _stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(10)
            self._process = None

    def close(self) -> None:
        """End the program that is the machine; one that runs without this program goes on."""
        with self._lock:
            self._stop()

    def _power(self, system: str) -> str:
        """Whether the machine is on, whatever is reported."""
        if self._hooks.power:
            words = shlex.split(self._hooks.power)
            # One that fails does not know: no answer is better than "Off".
            done = subprocess.run(words, stdout=subprocess.PIPE, timeout=30, check=True)
            return "On" if done.stdout.decode().strip() == "true" else "Off"
        if self._hooks.on:
            return "On" if self._process and self._process.poll() is None else "Off"
        return str(self._resources[system].get("PowerState", "Off"))

    def _shown_power(self, system: str) -> str:
        if self.quirks.power_says is not None:
            return self.quirks.power_says
        before, until = self._reported.get(system, ("", 0.0))
        if before and self._clock() < until:
            return before
        self._reported.pop(system, None)
        return self._power(system)

    def _insert(self, path: str, body: dict[str, Any]) -> Answer:
        quirks, medium = self.quirks, self._resources[path]
        image = body.get("Image")
        if quirks.media_refused:
            return error(quirks.media_refused, "GeneralError")
        if not isinstance(image, str) or not image.startswith(("http://", "https://")):
            return error(400, "ActionParameterValueFormatError", "Image")
        if quirks.media_protocol and "TransferProtocolType" not in body:
            return error(400, "ActionParameterMissing", "TransferProtocolType")
        if quirks.media_eject_first and medium.get("Inserted"):
            return error(409, "ResourceInUse")
        if not quirks.media_ignored:
            name = image.rsplit("/", 1)[-1]
            medium.update(Image=image, ImageName=name, Inserted=True, ConnectedVia="URI")
        return 204, {}

    def _eject(self, path: str) -> Answer:
        gone = {"Image": None, "ImageName": None, "Inserted": False}
        self._resources[path].update(gone, ConnectedVia="NotConnected")
        return 204, {}

    def account(self) -> str:
        """The path of the account that lets in."""
        of = (p for p, one in self._resources.items() if one.get("UserName") == self.accounts.user)
        return next(of, "")

    def begin_session(self) -> str:
        """The token of a new session."""
        with self._lock:
            token = hashlib.sha256(os.urandom(16)).hexdigest()[:32]
            self._sessions[token] = self.quirks.session_requests or 1_000_000
            return token

    def is_session(self, token: str) -> bool:
        """Whether a token still lets a request in; counts the request."""
        with self._lock:
            left = self._sessions.get(token, 0)
            self._sessions[token] = left - 1
            return left > 0

    def end_session(self, token: str) -> None:
        """Forget a token."""
        with self._lock:
            self._sessions.pop(token, None)

    @property
    def sessions(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)


def _command(words: list[str]) -> None:
    """Run a command; what it did not do is seen by the power."""
    with suppress(OSError, subprocess.TimeoutExpired):
        subprocess.run(words, stdout=subprocess.DEVNULL, timeout=HOOK_SECONDS, check=False)


def error(status: int, name: str, parameter: str | None = None) -> Answer:
    """An error as DSP0266 shapes it."""
    message: dict[str, Any] = {"MessageId": f"Base.1.8.{name}", "Message": f"STANDIN: {name}"}
    if parameter:
        message["MessageArgs"] = [parameter]
        message["RelatedProperties"] = [f"#/{parameter}"]
    code = f"Base.1.8.{name}"
    found = {"code": code, "message": f"STANDIN: {name}", "@Message.ExtendedInfo": [message]}
    return status, {"error": found}


def missing(path: str) -> Answer:
    """There is no such resource."""
    return error(404, "ResourceMissingAtURI", path)
