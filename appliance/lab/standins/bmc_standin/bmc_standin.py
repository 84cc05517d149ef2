#!/usr/bin/python3
"""STANDIN for a server's BMC: the part of Redfish that says which machine it is and if it is on.

Plays the service root, the collection of systems and one system, over TLS and HTTP's basic
authentication; nothing can be changed through it. Standard library. The tree is written from the
standard (DMTF DSP0266), not recorded from a BMC: it proves nothing about a vendor's firmware.

    bmc_standin.py --address 198.18.0.1 --port 443 --certificate bmc.crt --key bmc.key
        --login login.json --serial STANDIN-w1 --power 'podman container inspect ...'

``login.json``: {"user": "...", "password": "..."}. The machine is on while the command after
``--power`` prints "true". ``--baseboard ID`` adds a second system without a serial, which is always
on, as a board of GPUs may be listed. Its port is the first line of the output: port 0 chooses a
free one.
"""

from __future__ import annotations

import argparse
import base64
import hmac
import json
import shlex
import ssl
import subprocess
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = "/redfish/v1"
SYSTEMS = f"{ROOT}/Systems"
SYSTEM = f"{SYSTEMS}/Self"


def tree(serial: str, power: str, baseboard: str | None) -> dict[str, dict[str, Any]]:
    """Every resource by its path."""
    board = f"{SYSTEMS}/{baseboard}"
    members = [board, SYSTEM] if baseboard else [SYSTEM]
    second = {
        board: {
            "@odata.id": board,
            "@odata.type": "#ComputerSystem.v1_5_0.ComputerSystem",
            "Id": baseboard,
            "Name": "STANDIN baseboard",
            "PowerState": "On",
        }
    }
    return {
        ROOT: {
            "@odata.id": ROOT,
            "@odata.type": "#ServiceRoot.v1_5_0.ServiceRoot",
            "Id": "RootService",
            "Name": "STANDIN BMC",
            "RedfishVersion": "1.8.0",
            "Systems": {"@odata.id": SYSTEMS},
            "Links": {"Sessions": {"@odata.id": f"{ROOT}/SessionService/Sessions"}},
        },
        SYSTEMS: {
            "@odata.id": SYSTEMS,
            "@odata.type": "#ComputerSystemCollection.ComputerSystemCollection",
            "Name": "Systems",
            "Members@odata.count": len(members),
            "Members": [{"@odata.id": path} for path in members],
        },
        SYSTEM: {
            "@odata.id": SYSTEM,
            "@odata.type": "#ComputerSystem.v1_5_0.ComputerSystem",
            "Id": "Self",
            "Name": "STANDIN system",
            "SerialNumber": serial,
            "PowerState": power,
        },
        **(second if baseboard else {}),
    }


def handler(
    login: dict[str, str], serial: str, power: Callable[[], str], baseboard: str | None
) -> type:
    """The class that answers one request."""
    words = base64.b64encode(f"{login['user']}:{login['password']}".encode()).decode()
    expected = f"Basic {words}"

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.rstrip("/")
            given = self.headers.get("Authorization", "")
            if path != ROOT and not hmac.compare_digest(given, expected):
                self._send(401, {"error": {"code": "Base.1.8.AccessDenied"}})
                return
            found = tree(serial, power(), baseboard).get(path)
            if found is None:
                self._send(404, {"error": {"code": "Base.1.8.ResourceMissingAtURI"}})
            else:
                self._send(200, found)

        def _send(self, code: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing: the requests carry credentials."""

    return Answer


def asked(command: str) -> Callable[[], str]:
    """Redfish's word for what a command says of the machine."""

    def state() -> str:
        done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, timeout=10, check=False)
        return "On" if done.stdout.decode().strip() == "true" else "Off"

    return state


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("address", "certificate", "key", "login", "serial", "power"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--port", type=int, default=443)
    parser.add_argument("--baseboard")
    chosen = parser.parse_args()
    login = json.loads(Path(chosen.login).read_text(encoding="utf-8"))
    answer = handler(login, chosen.serial, asked(chosen.power), chosen.baseboard)
    server = ThreadingHTTPServer((chosen.address, chosen.port), answer)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chosen.certificate, chosen.key)
    sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
