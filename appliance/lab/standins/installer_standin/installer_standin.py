"""STANDIN of Ubuntu's installer: it runs as the first process of a Debian in memory.

It reads the same seeds as Ubuntu's installer, from the medium or by HTTP, runs the same early and
late commands, and installs the Debian that it runs in. It knows the storage profile ``root`` with
BIOS alone, and ethernet ports without bonds and VLANs; it refuses the rest. It proves nothing about
Ubuntu's installer.
"""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

FILE = "/autoinstall.yaml"
SEEDED = "standin.seeds="
PLACEHOLDER = "/dev/disk-chosen-by-serial"
TARGET = "/target"
DISC_SECONDS = 60


class Stop(Exception):
    """Nothing may be installed, or the installation cannot go on; says why."""


def run(*words, stdin=None):
    """Run a program to its end."""
    done = subprocess.run(words, input=stdin, text=True, check=False, capture_output=True)
    if done.returncode:
        raise Stop(f"{words[0]}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def wanted(document):
    """What the document asks for, as far as this stand-in knows it.

    Raises:
        Stop: it asks for more.
    """
    kinds = [one["type"] for one in document["storage"]["config"]]
    disks = [one for one in document["storage"]["config"] if one["type"] == "disk"]
    partitions = [one for one in document["storage"]["config"] if one["type"] == "partition"]
    if len(disks) != 1 or disks[0]["path"] == PLACEHOLDER:
        raise Stop("no disk was chosen")
    if [one.get("flag") for one in partitions] != ["bios_grub", None] or "lvm_volgroup" in kinds:
        raise Stop("the stand-in knows the storage profile root with firmware bios alone")
    network = document["network"]["network"]
    ports = [one for one in network["ethernets"].values() if one.get("addresses")]
    if network.get("bonds") or network.get("vlans") or len(ports) != 1:
        raise Stop("the stand-in knows one port, without bond and VLAN")
    labels = [one["label"] for one in document["storage"]["config"] if one.get("label")]
    return {
        "disk": disks[0]["path"],
        "label": labels[0],
        "mac": ports[0]["match"]["macaddress"],
        "address": ports[0]["addresses"][0],
        "routes": [(one["to"], one["via"]) for one in ports[0].get("routes") or ()],
        "name": document["identity"]["hostname"],
        "user": document["identity"]["username"],
        "keys": document["ssh"]["authorized-keys"],
        "endpoint": document["reporting"]["appliance"]["endpoint"],
    }


def option(command_line, name):
    """The value of a kernel option; empty without it."""
    found = [word[len(name) :] for word in command_line.split() if word.startswith(name)]
    return found[-1] if found else ""


def seed(where):
    """Bring the machine's seed to FILE, with its early commands done.

    Raises:
        Stop: no seed is this machine's, or its early command refused.
    """
    if where == "medium":
        until = time.monotonic() + DISC_SECONDS
        while not Path("/dev/sr0").exists() and time.monotonic() < until:
            time.sleep(1)
        Path("/cdrom").mkdir(parents=True, exist_ok=True)
        run("mount", "-o", "ro", "/dev/sr0", "/cdrom")
        run("python3", "/cdrom/appliance/choose.py", "/cdrom/appliance/seeds", FILE)
        return
    import yaml

    dhcp()
    with urllib.request.urlopen(where + "user-data", timeout=60) as answer:
        document = yaml.safe_load(answer.read())["autoinstall"]
    Path(FILE).write_text(json.dumps(document), "utf-8")
    for command in document["early-commands"]:
        run(*command)


def ports():
    """Names of this machine's network ports."""
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def dhcp():
    """An address of the LAN's DHCP server, on every port that has a link."""
    for port in ports():
        if port != "lo":
            run("ip", "link", "set", port, "up")
            subprocess.run(["busybox", "udhcpc", "-n", "-q", "-i", port], check=False)


def network(want):
    """The address of the seed, for the reports."""
    for port in ports():
        if Path("/sys/class/net", port, "address").read_text().strip() != want["mac"]:
            continue
        run("ip", "address", "flush", "dev", port)
        run("ip", "link", "set", port, "up")
        run("ip", "address", "add", want["address"], "dev", port)
        for to, via in want["routes"]:
            run("ip", "route", "add", to, "via", via)
        return
    raise Stop("no port has the MAC {}".format(want["mac"]))


def say(want, name, description):
    """One event of the webhook, as curtin sends it; nobody's answer stops anything."""
    body = {"name": name, "event_type": "start", "description": "STANDIN: " + description}
    request = urllib.request.Request(
        want["endpoint"], json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except OSError as error:
        sys.stderr.write(f"{error}\n")


def install(want):
    """Write the disk: partitions, this very Debian, its user and its boot loader."""
    disk = want["disk"]
    end = "p" if disk[-1].isdigit() else ""
    root = disk + end + "2"
    run(
        "sfdisk",
        "--wipe",
        "always",
        disk,
        stdin="label: gpt\nsize=1M, type=21686148-6449-6E6F-744E-656564454649\n\n",
    )
    run("udevadm", "settle")
    run("mkfs.ext4", "-q", "-F", "-L", want["label"], root)
    Path(TARGET).mkdir(parents=True, exist_ok=True)
    run("mount", root, TARGET)
    run("cp", "-ax", "--", *[str(one) for one in Path("/").iterdir() if keeps(one.name)], TARGET)
    for name in ("proc", "sys", "dev", "run", "tmp"):
        Path(TARGET, name).mkdir(exist_ok=True)
    Path(TARGET, "init").unlink(missing_ok=True)
    for name in ("proc", "sys", "dev"):
        run("mount", "--bind", "/" + name, TARGET + "/" + name)
    uuid = run("blkid", "-s", "UUID", "-o", "value", root).strip()
    Path(TARGET, "etc/fstab").write_text(f"UUID={uuid} / ext4 defaults 0 1\n")
    Path(TARGET, "etc/hostname").write_text(want["name"] + "\n")
    Path(TARGET, "etc/machine-id").write_text("")
    run("chroot", TARGET, "useradd", "-m", "-s", "/bin/bash", "-p", "*", want["user"])
    folder = Path(TARGET, "home", want["user"], ".ssh")
    folder.mkdir(mode=0o700)
    (folder / "authorized_keys").write_text("".join(key + "\n" for key in want["keys"]))
    run("chroot", TARGET, "chown", "-R", want["user"], "/home/{}/.ssh".format(want["user"]))
    run("chroot", TARGET, "grub-install", "--target=i386-pc", disk)
    run("chroot", TARGET, "update-grub")


def keeps(name):
    """Whether a folder of the Debian in memory belongs on the disk."""
    return name not in {"proc", "sys", "dev", "run", "tmp", "cdrom", "target", "init", FILE[1:]}


def main():
    """The first process: it never returns, the machine goes off."""
    document = None
    try:
        seed(option(Path("/proc/cmdline").read_text("utf-8"), SEEDED))
        document = json.loads(Path(FILE).read_text("utf-8"))
        want = wanted(document)
        network(want)
        say(want, "standin/write", "writes " + want["disk"])
        install(want)
        for command in document["late-commands"]:
            run(*command)
    except Exception as error:
        sys.stderr.write(f"STANDIN: not installed: {error}\n")
        Path("/var/log/installer").mkdir(parents=True, exist_ok=True)
        log = "/var/log/installer/subiquity-server-debug.log"
        Path(log).write_text(f"{error}\n")
        for command in (document or {}).get("error-commands") or ():
            subprocess.run(command, check=False)
    os.sync()
    time.sleep(2)
    Path("/proc/sysrq-trigger").write_text("o")
    time.sleep(60)


if __name__ == "__main__":
    main()
