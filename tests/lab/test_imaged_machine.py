"""A virtual machine with an empty disk becomes a node of a site, by Redfish and no hand on it.

STANDINs: the BMC, the server's firmware, and the installer with its Debian. Real: ``node image``
and all that it drives, HTTP, the medium, a kernel, a disk, SSH. Ubuntu's installer never ran here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.support.imaged import DISK_SERIAL, NAME, SERIAL, TAP, Rack, rack
from tests.prerequisites import require
from tests.standins.simulated_bmcs import LOGIN

pytestmark = [pytest.mark.lab, pytest.mark.slow]

BY_PXE = ["--via", "pxe", "--interface", TAP, "--dhcp", "listed"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Rack]:
    """One server; the tests below are its story, in their order."""
    with rack(tmp_path_factory.mktemp("rack")) as found:
        yield found


def is_qualified(server: Rack) -> None:
    """Nothing but that it is virtual, and what no virtual machine has."""
    found = server.verdicts()
    assert found["model"] == found["serial"] == found["cpus"] == found["clock"] == "pass", found
    assert found["memory:ecc"] == found["memory-test"] == "pass", found
    assert found["hypervisor"] == "fail", found
    # No virtual machine has them; how fast its disk writes is this machine's affair.
    disk = {f"disk:{DISK_SERIAL}:{fact}" for fact in ("health", "errors")}
    unknown = {"memory:errors", "memory-test:ecc", *disk}
    others = {fact for fact, verdict in found.items() if verdict not in ("pass", "note")}
    assert others - {"etcd-disk"} == {"hypervisor", *unknown}, found


def host_step_passes(server: Rack, bundle: Path) -> None:
    """The first step of an install is verified."""
    words = ["install", "--site", str(server.site), "--bundle", str(bundle), "--yes"]
    done = server.appliance(*words, "--until", "host", timeout=1800)
    assert done.returncode == 0, done.stderr
    assert "verified: preflight, host" in done.stdout + done.stderr
    assert server.shell("cat /proc/sys/net/ipv4/ip_forward").strip() == "1"


def test_an_empty_machine_is_installed_through_its_bmc(server: Rack) -> None:
    planned = server.forecast()
    assert planned.returncode == 0, planned.stderr
    assert NAME in planned.stdout
    began = time.monotonic()
    done = server.image()
    took = time.monotonic() - began
    print(f"virtual media: empty disk to first login in {took:.0f} s")  # noqa: T201 - a figure
    assert done.returncode == 0, done.stderr + server.console[-3000:]
    assert "installed and verified" in done.stdout
    assert "hardware: note" in done.stdout
    assert LOGIN["password"] not in done.stdout + done.stderr
    assert server.shell("hostname").strip() == NAME
    assert "app-" in server.shell("lsblk -n -o LABEL /dev/vda2")
    assert DISK_SERIAL in server.shell("lsblk -d -n -o SERIAL /dev/vda")
    assert server.shell("cat /sys/class/net/lan0/operstate").strip() == "up"
    assert server.shell("sudo -n id -u").strip() == "0"


def test_the_same_command_finds_it_done(server: Rack) -> None:
    boots = server.console.count("Linux version")
    done = server.image("--output", "json")
    assert done.returncode == 0, done.stderr
    assert [one["does"] for one in json.loads(done.stdout)["nodes"]] == ["done"]
    assert server.console.count("Linux version") == boots


def test_qualify_finds_nothing_but_that_it_is_virtual(server: Rack) -> None:
    is_qualified(server)


def test_the_host_step_of_an_install_passes_on_it(server: Rack, bundle_directory: Path) -> None:
    host_step_passes(server, bundle_directory)


def test_without_its_host_key_it_is_somebodys(server: Rack) -> None:
    file = server.site / "known_hosts"
    known = file.read_text()
    file.write_text("")
    try:
        done = server.image()
    finally:
        file.write_text(known)
    assert done.returncode == 3, done.stdout + done.stderr
    assert f"--wipe {SERIAL}" in done.stderr


def test_while_it_is_off_its_installer_refuses_the_disk(server: Rack) -> None:
    server.shell("sudo touch /kept && sudo systemd-run --on-active=3 systemctl poweroff")
    server.wait_until_off()
    done = server.image()
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"(serial {DISK_SERIAL}) is not empty: ext4, gpt" in done.stderr
    on = server.power("on", "--yes")
    assert on.returncode == 0, on.stderr
    server.wait_for_ssh()
    assert server.shell("ls /kept").strip() == "/kept"


def test_its_serial_lets_it_be_wiped_and_it_is_installed_by_pxe(server: Rack) -> None:
    require("dnsmasq", "setpriv")
    began = time.monotonic()
    before = (server.site / "known_hosts").read_text()
    done = server.image("--wipe", SERIAL, *BY_PXE)
    took = time.monotonic() - began
    print(f"PXE: full disk to first login in {took:.0f} s")  # noqa: T201 - a figure
    assert done.returncode == 0, done.stderr + server.console[-3000:]
    assert server.shell("ls /").split().count("kept") == 0
    assert (server.site / "known_hosts").read_text() != before


def test_an_empty_machine_is_installed_by_pxe(server: Rack, bundle_directory: Path) -> None:
    """Its disk is new, and it is off: the whole way once more, with no medium in its BMC."""
    server.shell("sudo systemd-run --on-active=3 systemctl poweroff")
    server.wait_until_off()
    server.empty_its_disk()
    done = server.image(*BY_PXE)
    assert done.returncode == 0, done.stderr + server.console[-3000:]
    assert "installed and verified" in done.stdout
    boots = server.console.count("Linux version")
    again = server.image(*BY_PXE, "--output", "json")
    assert again.returncode == 0, again.stderr
    assert [one["does"] for one in json.loads(again.stdout)["nodes"]] == ["done"]
    assert server.console.count("Linux version") == boots
    is_qualified(server)
    host_step_passes(server, bundle_directory)
