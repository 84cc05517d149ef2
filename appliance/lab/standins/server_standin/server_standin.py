#!/usr/bin/python3
"""STANDIN of a bare server: a virtual machine, emulated in software, that a simulated BMC starts.

    BMC_BOOT=Cd BMC_IMAGE=http://... server_standin.py CONFIG

CONFIG is a JSON file; the machine is on as long as this program runs. ``"network": "tap"`` names an
interface that is there already. The firmware is a BIOS. ::

    {"serial": "STANDIN-1", "disk": "disk.qcow2", "disk_serial": "STANDIN-DISK-1",
     "mac": "00:00:5e:00:53:01", "tap": "tap0", "console": "console.log", "memory_mb": 2048}
"""

import json
import os
import sys
import urllib.request
import uuid
from pathlib import Path

SECONDS = 600
PIECE = 1 << 20
# Redfish's boot source -> QEMU's letter; every other one is the disk.
ONCE = {"Cd": "d", "UsbCd": "d", "Pxe": "n"}


def words(config, boot, disc):
    """The emulator's command line.

    Args:
        config: of the machine.
        boot: Redfish's source of this one boot; a restart within it boots from the disk.
        disc: file of the inserted medium; empty without one.
    """
    once = ",once=" + ONCE[boot] if boot in ONCE else ""
    identity = "type=1,manufacturer=STANDIN,product=STANDIN virtual server,serial="
    return [
        *("qemu-system-x86_64", "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"),
        *("-smp", "2", "-m", str(config.get("memory_mb", 2048)), "-display", "none"),
        *("-uuid", str(uuid.uuid5(uuid.NAMESPACE_DNS, config["serial"]))),
        *("-smbios", identity + config["serial"], "-boot", "order=c" + once),
        *("-chardev", "file,id=console,append=on,path=" + config["console"]),
        *("-serial", "chardev:console"),
        *("-drive", "if=none,id=disk,format=qcow2,cache=unsafe,file=" + config["disk"]),
        *("-device", "virtio-blk-pci,drive=disk,serial=" + config["disk_serial"]),
        *("-netdev", "tap,id=lan,script=no,downscript=no,ifname=" + config["tap"]),
        *("-device", "virtio-net-pci,netdev=lan,mac=" + config["mac"]),
        *(("-cdrom", disc) if disc else ()),
    ]


def fetch(url, path):
    """The medium's file, as a BMC would read it piece by piece."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer, path.open("wb") as file:
        while piece := answer.read(PIECE):
            file.write(piece)


def main():
    """Become the machine."""
    config = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    boot, image = os.environ.get("BMC_BOOT", ""), os.environ.get("BMC_IMAGE", "")
    disc = Path(config["disk"] + ".iso")
    if image:
        fetch(image, disc)
    command = words(config, boot, str(disc) if image else "")
    os.execvp(command[0], command)  # noqa: S606 - its words are a list


if __name__ == "__main__":
    main()
