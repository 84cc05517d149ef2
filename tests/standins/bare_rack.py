"""A rack of bare servers behind simulated BMCs, and its site; ``node image`` runs as a process.

All of it is in a network namespace of its own, on loopback. Needs to be root. As a program it is
the rack: it serves the BMCs of a configuration, and ends with its standard input; a line of it is
the number of a BMC that is repaired.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from appliance.cli.commands.site.options import site_ports
from appliance.lab.machine.installer_medium import SYSTEM as OPERATING_SYSTEM
from appliance.workflows.site.init import SiteInitRequest, site_init
from tests import samples
from tests.prerequisites import require
from tests.standins.bare_server import Disk
from tests.standins.simulated_bmcs import (
    SYSTEM,
    bmc_machine,
    bmc_standin,
    certificate,
    configuration,
    configured,
    secrets,
)
from tests.unit.hardware import made_up

ROOT = Path(__file__).parents[2]
NAMES = ("cp1", *(f"w{number}" for number in range(1, 8)))
LAN = "198.18.79"
HERE = f"{LAN}.1"
RELEASE = "k8s-1.23.5-r1"
# No run of eight may take longer, on however slow a machine.
MOST_SECONDS = 900.0


@dataclass(frozen=True)
class Rack:
    """The rack, and the site on this machine.

    Attributes:
        folder: of its disks, keys and configurations.
        process: that is the rack.
        site: the site's directory.
        iso: the installer's, which boots nothing.
    """

    folder: Path
    process: subprocess.Popen[str]
    site: Path
    iso: Path

    def start(self) -> subprocess.Popen[str]:
        """``appliance node image`` for all eight."""
        enter = ("nsenter", f"--net=/proc/{self.process.pid}/ns/net")
        words = ("node", "image", *NAMES, "--iso", str(self.iso), "--address", HERE)
        more = ("--site", str(self.site), "--yes", "--output", "json")
        return subprocess.Popen(
            [*enter, sys.executable, "-m", "appliance", *words, *more],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def image(self) -> subprocess.CompletedProcess[str]:
        """The same, to its end."""
        process = self.start()
        try:
            out, err = process.communicate(timeout=MOST_SECONDS)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def kill_image(self, is_time: Callable[[], bool], seconds: float) -> None:
        """The same, killed so many seconds after it is time; it may end before."""
        process = self.start()
        end = time.monotonic() + MOST_SECONDS
        try:
            while process.poll() is None and not is_time():
                assert time.monotonic() < end, "it does not come so far"
                time.sleep(0.05)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate()

    def repair(self, *names: str) -> None:
        """From now on these BMCs do what they are told."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        for name in names:
            self.process.stdin.write(f"{NAMES.index(name)}\n")
            self.process.stdin.flush()
            assert self.process.stdout.readline() == "repaired\n"

    def installs(self) -> dict[str, int]:
        """How often an installer took each server's disk."""
        return {name: _disk(self.folder, name).read()["installs"] for name in NAMES}

    def notes(self) -> dict[str, dict[str, Any]]:
        """What the site's state has of servers that are not finished."""
        found: dict[str, dict[str, Any]] = {}
        for path in (self.site / ".appliance/imaging").glob("*.json"):
            # A run that is at work drops notes.
            with suppress(FileNotFoundError):
                found[path.stem] = json.loads(path.read_text())
        return found


def _disk(folder: Path, name: str) -> Disk:
    return Disk(folder / f"{name}.disk")


def _address(name: str) -> str:
    return f"{LAN}.{11 + NAMES.index(name)}"


def _bmc_address(name: str) -> str:
    return f"203.0.113.{11 + NAMES.index(name)}"


@contextmanager
def bare_rack(folder: Path, iso: Path, faults: Mapping[str, Mapping[str, Any]]) -> Iterator[Rack]:
    """Eight servers that are off, with nothing on their disks.

    Args:
        folder: of its own.
        iso: an installer's medium by its layout.
        faults: server -> what is wrong with its BMC: ``quirks`` and ``faults`` of the stand-in.
    """
    require("ip", "nsenter", "openssl", "ssh-keygen", "unshare", "xorriso")
    bmcs = []
    for number, name in enumerate(NAMES):
        server = folder / f"{name}.server"
        server.write_text(json.dumps(_server(folder, name, number)))
        address = _bmc_address(name)
        (folder / name).mkdir()
        certificate(folder / name, address)
        bmcs.append(
            configured(
                address=address,
                port=443,
                changes={SYSTEM: {"SerialNumber": f"SN-{name}", "UUID": None, "PowerState": "Off"}},
                on=[sys.executable, "-m", "tests.standins.bare_server", str(server)],
                certificate=f"{name}/bmc.crt",
                key=f"{name}/bmc.key",
                **faults.get(name, {}),
            )
        )
    (folder / "bmc.crt").write_text("".join((folder / n / "bmc.crt").read_text() for n in NAMES))
    (folder / "rack.json").write_text(json.dumps(configuration(*bmcs)))
    site = _site(folder)
    with _powered(folder / "rack.json") as process:
        yield Rack(folder, process, site, iso)


def _server(folder: Path, name: str, number: int) -> dict[str, Any]:
    """The configuration of one server."""
    facts = samples.bare(samples.site().node("w1"))
    facts["host"] |= {"hostname": name, "product_uuid": None, "machine_id": name}
    facts |= {
        "dmi": {"vendor": "Sample", "product": "Box", "serial": f"SN-{name}"},
        "nics": [{"name": "lan0", "addresses": [f"{_address(name)}/24"], "mtu": 1500}],
        "mounts": [],
    }
    return {
        "name": name,
        "address": _address(name),
        "serial": f"SN-{name}",
        "disk_serial": f"DISK-{name}",
        "disk": str(folder / f"{name}.disk"),
        "folder": str(folder / name),
        # Of half of them the installer needs its medium to the end.
        "in_memory": number % 2 == 0,
        "facts": facts,
        "hardware": made_up.document({"identity.serial": f"SN-{name}", "identity.uuid": None}),
        "stream": made_up.side(),
    }


@contextmanager
def _powered(config: Path) -> Iterator[subprocess.Popen[str]]:
    """The rack, in a network where nothing else answers."""
    # Where no machine is, a LAN says so.
    inside = f"ip link set lo up && ip route add unreachable {LAN}.0/24"
    for address in (HERE, *map(_bmc_address, NAMES)):
        inside += f" && ip address add {address}/32 dev lo"
    words = ["unshare", "--net", "sh", "-c", f'{inside} && exec "$@"', "sh", sys.executable]
    process = subprocess.Popen(
        [*words, "-m", "tests.standins.bare_rack", str(config)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in NAMES] == ["443\n"] * len(NAMES)
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(120)
        finally:
            process.kill()
            process.wait(10)
            process.stdout.close()


def _site(folder: Path) -> Path:
    """A site of eight nodes, which are not there yet."""
    site, key = folder / "rack1", folder / "id_ed25519"
    words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ops", "-f", str(key)]
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    settings: dict[str, Any] = {
        "appliance_release": RELEASE,
        "operating_system": OPERATING_SYSTEM,
        "domain": "rack1.internal",
        "dns_servers": [],
        "ntp_servers": [],
        "registry": "registry.rack1.internal:5000",
        "artifacts": "artifacts.rack1.internal:9443",
        "control_plane_endpoint": {"name": "api.rack1.internal"},
        "ssh": {"user": "ubuntu", "private_key": str(key)},
        "imaging": {
            "authorized_keys": [key.with_suffix(".pub").read_text().strip()],
            "gateway": HERE,
            "minutes": 15,
        },
        "gpu": None,
    }
    hosts = {
        name: {
            "address": f"{_address(name)}/24",
            "bmc_address": _bmc_address(name),
            "mac": f"00:00:5e:00:53:{number:02x}",
            # The stand-in of which nothing is expected.
            "hardware": "lab/container",
            "imaging": {"disk_serial": f"DISK-{name}", "machine_serial": f"SN-{name}"},
        }
        for number, name in enumerate(NAMES)
    }
    groups = {"control_plane": ("cp1",), "services": ("cp1",), "cpu_workers": NAMES[1:]}
    request = SiteInitRequest(site, settings, groups, hosts, secrets=secrets(folder))
    with site_ports(site, None, True, None) as ports:
        site_init(request, *ports)
    return site


def main() -> None:
    """Serve the BMCs until standard input ends; the machines end with them."""
    path = Path(sys.argv[1])
    servers = bmc_standin.serve(json.loads(path.read_text()), path.parent)
    for server in servers:
        sys.stdout.write(f"{server.server_address[1]}\n")
    sys.stdout.flush()
    try:
        for line in sys.stdin:
            bmc = servers[int(line)].bmc
            bmc.faults.clear()
            bmc.machine.quirks = bmc_machine.Quirks()
            sys.stdout.write("repaired\n")
            sys.stdout.flush()
    finally:
        for server in servers:
            server.bmc.machine.close()


if __name__ == "__main__":
    main()
