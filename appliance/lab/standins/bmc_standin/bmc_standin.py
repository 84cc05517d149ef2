#!/usr/bin/python3
"""STANDIN for the BMCs of servers: Redfish over TLS, with trees, quirks and faults as data.

Each BMC serves one tree of ``trees/``, or one that ``appliance hardware record`` wrote. Basic
authentication and sessions, ETags, power, virtual media, one-time boot. Standard library. A tree
whose ``origin`` is ``made`` was written from the standard (DMTF DSP0266, DSP0268), not recorded
from a BMC: it proves nothing about a vendor's firmware.

    bmc_standin.py CONFIG

CONFIG is a JSON file; its paths are relative to its folder, except ``tree``: relative to
``trees/``. ::

    {"certificate": "bmc.crt", "key": "bmc.key", "bmcs": [
      {"address": "127.0.0.1", "port": 0, "user": "...", "password": "...",
       "tree": "generic.json",
       "changes": {"/redfish/v1/Systems/Self": {"SerialNumber": "SN-w1"}},
       "power": "podman container inspect ...", "on": ["qemu-system-x86_64", "..."],
       "quirks": {"power_seconds": 60},
       "faults": [{"method": "GET", "path": "/redfish/v1/Systems/.*", "times": 2, "status": 503,
                   "headers": {"Retry-After": "1"}}]}]}

A fault's ``path`` is a regular expression for the whole path. Besides ``status``, ``headers``,
``body`` and ``type`` a fault may ``hang`` for seconds, ``drop`` the connection, or send ``endless``
words. Certificate and key of one BMC go before those of all. The ports are the first lines of the
output, in order: port 0 chooses a free one.

``"needed": {"command": ["podman", "ps", "..."], "seconds": 60}`` ends the program once the command
succeeded and printed nothing for so long. ``"end": [["ip", "..."]]``: commands that it runs last.
"""

from __future__ import annotations

import base64
import json
import re
import signal
import ssl
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from bmc_machine import SESSIONS, Hooks, Machine, Quirks, error, missing
from bmc_services import Accounts, with_user

ROOT = "/redfish/v1"
TREES = Path(__file__).parent / "trees"
MOST_BODY = 1024 * 1024


@dataclass
class Fault:
    """One thing that goes wrong, for the requests it fits and as often as it says."""

    path: str = ".*"
    method: str = ".*"
    times: int = 1_000_000
    after: int = 0
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    type: str = "application/json"
    hang: float = 0.0
    drop: bool = False
    endless: bool = False

    def fits(self, method: str, path: str) -> bool:
        """Whether it is this request's turn; counts it."""
        if not (re.fullmatch(self.method, method) and re.fullmatch(self.path, path)):
            return False
        if self.after > 0:
            self.after -= 1
            return False
        self.times -= 1
        return self.times >= 0


@dataclass
class Bmc:
    """What one server of this program needs."""

    machine: Machine
    faults: list[Fault]


class Server(ThreadingHTTPServer):
    """One BMC. TLS begins in the thread of the request: a client that hangs holds up nobody."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, place: tuple[str, int], bmc: Bmc, context: ssl.SSLContext) -> None:
        self.bmc, self._context = bmc, context
        super().__init__(place, Answer)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Begin TLS, then answer."""
        if self.bmc.machine.quirks.tls_seconds:
            time.sleep(self.bmc.machine.quirks.tls_seconds)
        try:
            request.settimeout(30)
            wrapped = self._context.wrap_socket(request, server_side=True)
        except (OSError, ValueError):
            request.close()
            return
        super().process_request_thread(wrapped, client_address)

    def handle_error(self, *_: object) -> None:
        """Say nothing: clients of tests leave when they like."""


class Answer(BaseHTTPRequestHandler):
    """Answers one request."""

    server: Server
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        bmc, path = self.server.bmc, self.path.partition("?")[0].rstrip("/")
        body = self._body()
        fault = next((one for one in bmc.faults if one.fits(self.command, path)), None)
        if fault is not None and self._fail(fault):
            return
        if not self._is_let_in(path):
            # What is switched off is not advertised (AccountService HTTPBasicAuth, DSP0268).
            quirks = bmc.machine.quirks
            said = quirks.basic and not quirks.basic_unsaid
            basic = {"WWW-Authenticate": 'Basic realm="bmc"'} if said else {}
            self._send(*error(401, "AccessDenied"), basic)
            return
        if self._must_change(path):
            return
        bmc.machine.asked.append((self.command, path))
        method = {"GET": self._get, "PATCH": self._patch, "POST": self._post}.get(self.command)
        if method is None:
            self._delete(path)
        else:
            method(path, body)

    do_GET = do_PATCH = do_POST = do_DELETE = _answer  # noqa: N815

    def _body(self) -> dict[str, Any]:
        with suppress(ValueError):
            length = min(int(self.headers.get("Content-Length") or 0), MOST_BODY)
            found = json.loads(self.rfile.read(length) or b"{}")
            return found if isinstance(found, dict) else {}
        return {}

    def _fail(self, fault: Fault) -> bool:
        """Do what a fault says; whether the request ends with it."""
        time.sleep(fault.hang)
        if fault.drop:
            self.close_connection = True
            return True
        if fault.endless:
            self.send_response(200)
            self.send_header("Content-Type", fault.type)
            self.end_headers()
            self.close_connection = True
            with suppress(OSError):
                while True:
                    self.wfile.write(b" " * 4096)
            return True
        if fault.status:
            document = fault.body if fault.body is not None else json.dumps(error(0, "Fault")[1])
            self._send_text(fault.status, document, fault.headers, fault.type)
            return True
        return False

    def _is_let_in(self, path: str) -> bool:
        bmc = self.server.bmc
        if path in ("/redfish", ROOT) or (path == SESSIONS and self.command == "POST"):
            return True
        token = self.headers.get("X-Auth-Token")
        if token is not None:
            return bmc.machine.is_session(token)
        given = self.headers.get("Authorization", "")
        if not bmc.machine.quirks.basic or not given.startswith("Basic "):
            return False
        with suppress(ValueError):
            words = base64.b64decode(given.removeprefix("Basic ")).decode()
            user, _, password = words.partition(":")
            return bmc.machine.accounts.lets_in(user, password, bmc.machine.quirks)
        return False

    def _must_change(self, path: str) -> bool:
        """Refuse, as DSP0266 says, whatever is no change of the password; whether it was."""
        machine = self.server.bmc.machine
        if not machine.accounts.must_change(machine.quirks) or path in ("/redfish", ROOT):
            return False
        own = machine.account()
        if path == own or path.startswith(SESSIONS):
            return False
        self._send(*error(403, "PasswordChangeRequired", own))
        return True

    def _get(self, path: str, _body: dict[str, Any]) -> None:
        found = self.server.bmc.machine.get(path)
        if found is None:
            self._send(*missing(path))
        else:
            self._send(200, found, {"ETag": self.server.bmc.machine.etag(path)})

    def _patch(self, path: str, body: dict[str, Any]) -> None:
        self._send(*self.server.bmc.machine.patch(path, body, self.headers.get("If-Match")))

    def _post(self, path: str, body: dict[str, Any]) -> None:
        if path == SESSIONS and self.server.bmc.machine.get(SESSIONS) is not None:
            self._begin_session(body)
        else:
            self._send(*self.server.bmc.machine.act(path, body))

    def _begin_session(self, body: dict[str, Any]) -> None:
        bmc = self.server.bmc
        given = str(body.get("UserName")), str(body.get("Password"))
        if not bmc.machine.accounts.lets_in(*given, bmc.machine.quirks):
            self._send(*error(401, "AccessDenied"))
            return
        token = bmc.machine.begin_session()
        place = f"{SESSIONS}/{token[:8]}"
        document = {"@odata.id": place, "Id": token[:8], "Name": "session"}
        self._send(201, document, {"X-Auth-Token": token, "Location": place})

    def _delete(self, path: str) -> None:
        if path.startswith(f"{SESSIONS}/"):
            self.server.bmc.machine.end_session(self.headers.get("X-Auth-Token", ""))
            self._send(204, {})
        else:
            self._send(*error(405, "OperationNotAllowed"))

    def _send(self, code: int, document: Any, headers: dict[str, str] | None = None) -> None:
        text = "" if code == 204 else json.dumps(document)
        self._send_text(code, text, headers or {}, "application/json")

    def _send_text(self, code: int, text: str, headers: dict[str, str], kind: str) -> None:
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("OData-Version", "4.0")
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: the requests carry credentials."""


def resources_of(document: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """A tree's resources, with changes; null takes a key, or a whole resource, away."""
    resources = {path: dict(resource) for path, resource in document["resources"].items()}
    for path, change in changes.items():
        if change is None:
            resources.pop(path, None)
        else:
            merged = {**resources.get(path, {"@odata.id": path}), **change}
            resources[path] = {key: value for key, value in merged.items() if value is not None}
    return resources


def bmc_of(config: dict[str, Any]) -> Bmc:
    """One BMC by its part of the configuration."""
    document = json.loads((TREES / config["tree"]).read_text(encoding="utf-8"))
    known = {one.name for one in fields(Quirks)}
    quirks = config.get("quirks", {})
    unknown = set(quirks) - known
    if unknown:
        raise ValueError(f"unknown quirks: {sorted(unknown)}")
    hidden = {"hidden": tuple(quirks["hidden"])} if "hidden" in quirks else {}
    machine = Machine(
        with_user(resources_of(document, config.get("changes", {})), config["user"]),
        Quirks(**{**quirks, **hidden}),
        Hooks(
            config.get("power", ""),
            *(list(config.get(name, [])) for name in ("on", "off", "shutdown")),
        ),
    )
    machine.accounts = Accounts(config["user"], config["password"])
    return Bmc(machine, [Fault(**one) for one in config.get("faults", [])])


def serve(config: dict[str, Any], folder: Path) -> list[Server]:
    """Start every BMC of a configuration, each in a thread of its own."""
    servers = []
    for one in config["bmcs"]:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        pair = {**config, **one}
        context.load_cert_chain(folder / pair["certificate"], folder / pair["key"])
        server = Server((one["address"], one.get("port", 443)), bmc_of(one), context)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
    return servers


def is_unused(command: list[str]) -> bool:
    """Whether the command says that nobody needs the BMCs; one that fails says nothing."""
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False)
        return done.returncode == 0 and not done.stdout.strip()
    return False


def wait(ended: threading.Event, needed: dict[str, Any] | None) -> None:
    """Wait until told to end, or until nobody needed the BMCs for so long."""
    if needed is None:
        ended.wait()
        return
    last = time.monotonic()
    while not ended.wait(needed["seconds"] / 3):
        if not is_unused(needed["command"]):
            last = time.monotonic()
        elif time.monotonic() - last >= needed["seconds"]:
            return


def main() -> None:
    """Serve until told to end; the programs that are machines end, too."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    path = Path(sys.argv[1])
    config = json.loads(path.read_text(encoding="utf-8"))
    servers = serve(config, path.parent)
    for server in servers:
        sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    try:
        wait(ended, config.get("needed"))
    finally:
        for server in servers:
            server.bmc.machine.close()
        for words in config.get("end", []):
            subprocess.run(words, stderr=subprocess.DEVNULL, timeout=60, check=False)


if __name__ == "__main__":
    main()
