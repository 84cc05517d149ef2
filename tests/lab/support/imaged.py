"""A bare server behind a BMC, all stand-ins, in a network namespace of its own.

The medium is built once into ``~/.cache/appliance/vm``: it takes some minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from appliance.adapters.local.content import STANDINS
from appliance.cli.commands.site.options import site_ports
from appliance.lab.machine.installer_medium import (
    SYSTEM,
    Base,
    build_base,
    build_standin_medium,
    recipe,
)
from appliance.workflows.site.init import SiteInitRequest, site_init
from tests.lab.support.emulated import CACHE
from tests.lab.support.runbook import Runbook
from tests.prerequisites import require
from tests.standins.simulated_bmcs import FILE, LOGIN, certificate, configuration, configured
from tests.standins.simulated_bmcs import SYSTEM as SYSTEM_PATH

PAGE = Runbook("install-bare-servers")
NAME = "cp1"
SERIAL, DISK_SERIAL, MAC = "STANDIN-1", "STANDIN-DISK-1", "52:54:00:12:34:56"
LAN = "198.18.77"
HERE, BMC, SERVER = f"{LAN}.1", f"{LAN}.9", f"{LAN}.11"
TAP = "tap0"
SERVER_STANDIN = STANDINS / "server_standin" / "server_standin.py"
RELEASE = "k8s-1.23.5-r1"
MODEL = {
    "vendor": "STANDIN",
    "product": "container",
    "purpose": "control plane",
    "dmi": {"vendor": "STANDIN", "product": "STANDIN virtual server"},
    "platform": {"cpu_sockets": 1},
    "sources": [
        {"fact": fact, "where": "server_standin.py"}
        for fact in ("product", "dmi.vendor", "dmi.product", "platform.cpu_sockets")
    ],
}


@dataclass(frozen=True)
class Rack:
    """One server and its site.

    Attributes:
        folder: its disk, its console, its BMC's files.
        site: the site's directory.
        iso: the medium.
    """

    namespace: str
    folder: Path
    site: Path
    iso: Path

    def appliance(self, *words: str, timeout: float = 4000) -> subprocess.CompletedProcess[str]:
        """Run the command line on the machine that serves, to its end."""
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-m", "appliance", *words]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def image(self, *more: str) -> subprocess.CompletedProcess[str]:
        """``appliance node image`` for the server."""
        page = "appliance node image gpu1 gpu2 --iso ubuntu.iso --address 198.51.100.9 --site SITE"
        return self.appliance(*PAGE.words(page, self._values()), "--yes", *more)

    def forecast(self) -> subprocess.CompletedProcess[str]:
        """A dry run of it."""
        page = (
            "appliance node image gpu1 gpu2 --iso ubuntu.iso --address 198.51.100.9 --site SITE "
            "--dry-run"
        )
        return self.appliance(*PAGE.words(page, self._values()))

    def _values(self) -> dict[str, str]:
        """What the page's names are here: there is one server."""
        servers = {"gpu1": NAME, "gpu2": "", "198.51.100.9": HERE}
        return {**servers, "ubuntu.iso": str(self.iso), "SITE": str(self.site)}

    def verdicts(self) -> dict[str, str]:
        """``appliance hardware qualify`` of the server, by its probe: fact -> verdict."""
        models = self.folder / "models"
        (models / "lab").mkdir(parents=True, exist_ok=True)
        (models / "lab/container.yml").write_text(yaml.safe_dump(MODEL))
        words = ["hardware", "qualify", NAME, "--site", str(self.site), "--by", "probe"]
        done = self.appliance(*words, "--models", str(models), "--all", "--output", "json")
        assert done.returncode in (0, 5), done.stderr
        (found,) = json.loads(done.stdout)["nodes"]
        return {one["fact"]: one["verdict"] for one in found["findings"]}

    def power(self, order: str, *more: str) -> subprocess.CompletedProcess[str]:
        """``appliance node power`` for the server."""
        words = ["node", "power", order, NAME, "--site", str(self.site), *more]
        return self.appliance(*words)

    def shell(self, command: str) -> str:
        """Run a command in the installed system, by SSH as the site does."""
        words = [
            *("ip", "netns", "exec", self.namespace, "ssh", "-i", str(self.folder / "id_ed25519")),
            *("-o", f"UserKnownHostsFile={self.site / 'known_hosts'}", "-o", "BatchMode=yes"),
            *("-o", "ConnectTimeout=10", f"ubuntu@{SERVER}", command),
        ]
        done = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}"
        return done.stdout

    def empty_its_disk(self) -> None:
        """Give it a new disk; it is off."""
        empty_disk(self.folder)

    def wait_until_off(self, seconds: float = 600) -> None:
        """Wait until its BMC reports that it is off."""
        until = time.monotonic() + seconds
        while " Off " not in self.power("status").stdout:
            assert time.monotonic() < until, self.console[-3000:]
            time.sleep(5)

    def wait_for_ssh(self, seconds: float = 1200) -> None:
        """Wait until the installed system lets the site in."""
        until = time.monotonic() + seconds
        while True:
            try:
                self.shell("true")
            except AssertionError:
                assert time.monotonic() < until, self.console[-3000:]
                time.sleep(2)
            else:
                return

    @property
    def console(self) -> str:
        """What the server wrote to its serial port so far."""
        return (self.folder / "console.log").read_text("utf-8", "replace")


def medium() -> Path:
    """The stand-in's medium; its Debian is built when this recipe was never built here."""
    require("mmdebstrap", "grub-mkrescue", "xorriso", "cpio", "zstd", "mformat")
    folder = CACHE / f"medium-{_digest(recipe().encode())}"
    base = Base(folder / "vmlinuz", folder / "initrd")
    if not folder.is_dir():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
            Path(work, "base").mkdir()
            build_base(Path(work, "base"))
            Path(work, "base").rename(folder)
    program = b"".join(
        path.read_bytes() for path in sorted((STANDINS / "installer_standin").iterdir())
    )
    iso = folder / f"standin-{_digest(program)}.iso"
    if not iso.is_file():
        for old in folder.glob("*.iso"):
            old.unlink()
        with tempfile.TemporaryDirectory(dir=CACHE, prefix="build-") as work:
            build_standin_medium(base, Path(work), Path(work, "made.iso")).rename(iso)
    return iso


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


@contextmanager
def rack(folder: Path) -> Iterator[Rack]:
    """A server that is off, its BMC, and a site that has both."""
    require("qemu-system-x86_64", "qemu-img", "ip", "ssh-keygen", "openssl")
    iso = medium()
    namespace = f"appliance-image-{os.getpid()}"
    disk = empty_disk(folder)
    with _network(namespace), _bmc(namespace, folder, disk):
        yield Rack(namespace, folder, _site(folder), iso)


def empty_disk(folder: Path) -> Path:
    """A disk with nothing on it, in place of one that was there."""
    disk = folder / "disk.qcow2"
    disk.unlink(missing_ok=True)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", disk, "6G"], check=True)
    return disk


@contextmanager
def _network(namespace: str) -> Iterator[None]:
    """A LAN with this machine and the BMC on it."""
    _run("ip", "netns", "add", namespace)
    try:
        for words in (
            ("link", "set", "lo", "up"),
            ("tuntap", "add", TAP, "mode", "tap"),
            ("address", "add", f"{HERE}/24", "dev", TAP),
            ("address", "add", f"{BMC}/24", "dev", TAP),
            ("link", "set", TAP, "up"),
        ):
            _run("ip", "-n", namespace, *words)
        yield
    finally:
        _run("ip", "netns", "delete", namespace)


@contextmanager
def _bmc(namespace: str, folder: Path, disk: Path) -> Iterator[None]:
    """The BMC; the server ends with it."""
    certificate(folder, BMC)
    server = {
        "serial": SERIAL, "disk": str(disk), "disk_serial": DISK_SERIAL, "mac": MAC, "tap": TAP,
        "console": str(folder / "console.log"),
    }  # fmt: skip
    (folder / "server.json").write_text(json.dumps(server))
    bmc = configured(
        address=BMC,
        port=443,
        changes={SYSTEM_PATH: {"SerialNumber": SERIAL, "UUID": None, "PowerState": "Off"}},
        on=[sys.executable, str(SERVER_STANDIN), str(folder / "server.json")],
    )
    (folder / "config.json").write_text(json.dumps(configuration(bmc)))
    process = subprocess.Popen(
        ["ip", "netns", "exec", namespace, sys.executable, str(FILE), str(folder / "config.json")],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "443\n"
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait(10)
            process.stdout.close()


def _site(folder: Path) -> Path:
    """A site of one node, which is not there yet."""
    site = folder / "rack1"
    key = folder / "id_ed25519"
    _run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ops", "-f", str(key))
    public = key.with_suffix(".pub").read_text().strip()
    settings: dict[str, Any] = {
        "appliance_release": RELEASE,
        "operating_system": SYSTEM,
        "domain": "rack1.internal",
        "dns_servers": [],
        "ntp_servers": [],
        "registry": "registry.rack1.internal:5000",
        "artifacts": "artifacts.rack1.internal:9443",
        "network": {
            "pod_cidr": "198.19.0.0/17",
            "service_cidr": "198.19.128.0/17",
            "lan_cidrs": [f"{LAN}.0/24"],
        },
        "control_plane_endpoint": {
            "name": "api.rack1.internal", "port": 6443, "balancer": "none",
        },
        "ssh": {"user": "ubuntu", "private_key": str(key)},
        # Service addresses need a default route; nothing is behind this one.
        "imaging": {
            "authorized_keys": [public], "firmware": "bios", "minutes": 60, "gateway": HERE,
        },
        "time": {"may_set_clock": False},
    }  # fmt: skip
    host = {
        "address": f"{SERVER}/24",
        "bmc_address": BMC,
        "mac": MAC,
        # The one name that is no model of a vendor; MODELS says what is behind it here.
        "hardware": "lab/container",
        "imaging": {"disk_serial": DISK_SERIAL, "machine_serial": SERIAL},
    }
    secrets = {
        "vault_bmc_user": LOGIN["user"],
        "vault_bmc_password": LOGIN["password"],
        "vault_bmc_ca_certificate": (folder / "bmc.crt").read_text(),
    }
    groups = {"control_plane": (NAME,), "services": (NAME,)}
    request = SiteInitRequest(site, settings, groups, {NAME: host}, secrets=secrets)
    with site_ports(site, None, True, None) as ports:
        site_init(request, *ports)
    return site


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr}"
