"""STANDIN of a bare server: a process that installs itself by its medium, and is a node afterwards.

    BMC_BOOT=Cd BMC_IMAGE=http://... python -m tests.standins.bare_server CONFIG

It is on as long as it runs. The medium, its seed, the judgement of the disk, the reports and SSH
are real; the disk is a JSON file, and what the probe answers is in CONFIG.
"""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from appliance.installer.disk import refusal
from tests import ssh_server

PIECES = 4
PIECE_SECONDS = 0.7
BLANK: dict[str, Any] = {"label": "", "installs": 0, "key": ""}


class Disk:
    """The disk; a cut of power leaves it as it was, or as it is, and nothing between."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> dict[str, Any]:
        """Its content: the label of its file system, and how often an installer took it."""
        if not self._path.exists():
            return dict(BLANK)
        found: dict[str, Any] = json.loads(self._path.read_text())
        return found

    def write(self, **changes: Any) -> None:
        """Change it."""
        new = self._path.with_suffix(".new")
        new.write_text(json.dumps({**self.read(), **changes}))
        new.replace(self._path)

    def as_lsblk_has_it(self, serial: str) -> list[dict[str, Any]]:
        """What lsblk tells of it."""
        disk: dict[str, Any] = {"name": "sda", "type": "disk", "serial": serial}
        if label := self.read()["label"]:
            part = {"name": "sda2", "type": "part", "fstype": "ext4", "label": label}
            disk |= {"pttype": "gpt", "children": [part]}
        return [disk]


def install(config: dict[str, Any], disk: Disk, url: str) -> None:
    """Do what an installer does that boots from this medium; the machine goes off afterwards."""
    document = _seed(config["serial"], url)
    *_, serial, mode, _file, _disk, unfinished, finished, _why = document["early-commands"][0]
    endpoint = document["reporting"]["appliance"]["endpoint"]
    _path, why = refusal(
        disk.as_lsblk_has_it(config["disk_serial"]), serial, mode != "wipe", unfinished, finished
    )
    if why:
        _report(endpoint, appliance="failed", text=f"not installed: {why}")
        return
    disk.write(label=unfinished.split(",")[0], installs=disk.read()["installs"] + 1, key="")
    for number in range(PIECES):
        said = {"event_type": "start", "description": f"piece {number}"}
        _report(endpoint, name="subiquity/Install/install", **said)
        time.sleep(PIECE_SECONDS * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        if not config["in_memory"] and not _is_there(url):
            # The kernel reads from a disc that is gone: it hangs, and the machine stays on.
            threading.Event().wait()
    key = Path(config["folder"], f"{config['name']}-{time.monotonic_ns()}")
    pem = (Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    key.write_bytes(Ed25519PrivateKey.generate().private_bytes(*pem))
    shown = paramiko.Ed25519Key.from_private_key_file(str(key))
    disk.write(label=finished, key=str(key))
    _report(endpoint, appliance="installed", text=f"{shown.get_name()} {shown.get_base64()}")


def _seed(machine: str, url: str) -> dict[str, Any]:
    """The autoinstall document of this machine on the medium."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "medium.iso").write_bytes(_http(url))
        words = ["xorriso", "-osirrox", "on", "-indev", str(folder / "medium.iso")]
        words += ["-extract", "/appliance/seeds", str(folder / "seeds")]
        subprocess.run(words, check=True, capture_output=True, timeout=120)
        seeds = json.loads((folder / "seeds/index.json").read_text())
        (mine,) = [one["name"] for one in seeds if one["serial"] == machine]
        found: dict[str, Any] = json.loads(
            (folder / "seeds" / mine / "autoinstall.json").read_text()
        )
        return found


def _is_there(url: str) -> bool:
    try:
        _http(url, method="HEAD")
    except OSError:
        return False
    return True


def _report(endpoint: str, **told: str) -> None:
    """Who is not there to hear it is not waited for."""
    with suppress(OSError):
        _http(endpoint, json.dumps(told).encode())


def _http(url: str, body: bytes | None = None, method: str | None = None) -> bytes:
    request = urllib.request.Request(url, body, method=method)  # noqa: S310 - of the medium
    with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content


def be_a_node(config: dict[str, Any], key: str) -> None:
    """Answer SSH for ever, as the probe would."""
    host_key = paramiko.Ed25519Key.from_private_key_file(key)
    listening = socket.create_server((config["address"], 22), backlog=64)

    def behave(channel: paramiko.Channel, command: str) -> None:
        while channel.recv(65536):
            pass
        said = _answer(config, command)
        ssh_server.says(said or b"", 0 if said else 127)(channel, command)

    def speak(connection: socket.socket) -> None:
        with suppress(OSError):
            ssh_server.begin(connection, host_key, behave)

    while True:
        connection, _ = listening.accept()
        threading.Thread(target=speak, args=(connection,), daemon=True).start()


def _answer(config: dict[str, Any], command: str) -> bytes | None:
    """What a command prints; None: there is no such command here."""
    if "appliance_probe" not in command:
        return None
    kinds = ((" --stream ", "stream"), (" --hardware ", "hardware"))
    kind = next((name for word, name in kinds if word in command), "facts")
    told = dict(config[kind])
    if kind == "stream":
        told["role"] = "serve" if "serve" in command else "connect"
    return json.dumps(told).encode()


def _answer_at(address: str) -> None:
    """Have an address for as long as it is on; a machine that is off has none."""

    def go_off(*_: object) -> None:
        _ip("delete", address)
        os._exit(0)

    # That of a machine whose program was killed is still there.
    _ip("replace", address)
    signal.signal(signal.SIGTERM, go_off)


def _ip(what: str, address: str) -> None:
    subprocess.run(["ip", "address", what, f"{address}/32", "dev", "lo"], check=True, timeout=60)


def _end_with(parent: int) -> None:
    """A machine has no power without the rack that it is in."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(0)


def main() -> None:
    """Boot."""
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    config: dict[str, Any] = json.loads(Path(sys.argv[1]).read_text())
    disk = Disk(Path(config["disk"]))
    image, key = os.environ.get("BMC_IMAGE"), disk.read()["key"]
    if not image and not key:
        threading.Event().wait()  # "no bootable device"
    _answer_at(config["address"])
    try:
        if image:
            install(config, disk, image)
        else:
            be_a_node(config, key)
    finally:
        _ip("delete", config["address"])


if __name__ == "__main__":
    main()
