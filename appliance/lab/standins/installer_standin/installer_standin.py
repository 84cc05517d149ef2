"""STANDIN of Ubuntu's installer: it runs as the first process of a Debian in memory.

It reads the same seeds as Ubuntu's installer, from the medium or by HTTP, runs the same early and
late commands, and installs the Debian that it runs in. It knows the storage profiles without
LVM, with BIOS alone, and one ethernet port without bond and VLAN; it refuses the rest. It proves
nothing about Ubuntu's installer.
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
LOG = "/var/log/installer/subiquity-server-debug.log"
DISC_SECONDS = 60
# Types of GPT: the UEFI specification, and GRUB's manual for the BIOS boot partition.
BIOS_BOOT = "21686148-6449-6E6F-744E-656564454649"
LINUX = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
MENU = """set timeout=1
search --no-floppy --fs-uuid --set=root {uuid}
menuentry "STANDIN Debian" {{
  linux /boot/vmlinuz-{version} root=UUID={uuid} ro console=tty0 console=ttyS0
  initrd /boot/initrd.img-{version}
}}
"""


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
    actions = document["storage"]["config"]
    disks = [one for one in actions if one["type"] == "disk"]
    if len(disks) != 1 or disks[0]["path"] == PLACEHOLDER:
        raise Stop("no disk was chosen")
    if not {one["type"] for one in actions} <= {"disk", "partition", "format", "mount"}:
        raise Stop("the stand-in knows the storage profiles root and root_and_var alone")
    partitions = [one for one in actions if one["type"] == "partition"]
    if partitions[0].get("flag") != "bios_grub":
        raise Stop("the stand-in knows firmware bios alone")
    return {
        "disk": disks[0]["path"],
        "partitions": [parted(one, actions) for one in partitions],
        "port": of_network(document["network"]["network"]),
        "name": document["identity"]["hostname"],
        "user": document["identity"]["username"],
        "keys": document["ssh"]["authorized-keys"],
        "endpoint": document["reporting"]["appliance"]["endpoint"],
    }


def of_network(network):
    """The one port of a netplan document.

    Raises:
        Stop: it has others, or what stands on them.
    """
    ports = [one for one in network["ethernets"].values() if one.get("addresses")]
    if network.get("bonds") or network.get("vlans") or len(ports) != 1:
        raise Stop("the stand-in knows one port, without bond and VLAN")
    return {
        "mac": ports[0]["match"]["macaddress"],
        "address": ports[0]["addresses"][0],
        "routes": [(one["to"], one["via"]) for one in ports[0].get("routes") or ()],
    }


def parted(partition, actions):
    """A partition: its size in bytes (0: the rest), file system's label and mount point, if any."""
    systems = [one for one in actions if one.get("volume") == partition["id"]]
    ids = [one["id"] for one in systems]
    mounts = [one["path"] for one in actions if one["type"] == "mount" and one["device"] in ids]
    return {
        "size": "" if partition["size"] == -1 else partition["size"],
        "boots": partition.get("flag") == "bios_grub",
        "label": systems[0].get("label") or "" if systems else "",
        "mount": mounts[0] if mounts else "",
    }


def table(partitions):
    """The partition table, as sfdisk reads it. An empty line is no partition to it."""
    lines = ["label: gpt"]
    for one in partitions:
        size = ["size=" + one["size"]] if one["size"] else []
        lines.append(", ".join([*size, "type=" + (BIOS_BOOT if one["boots"] else LINUX)]))
    return "\n".join(lines) + "\n"


def option(command_line, name):
    """The value of a kernel option; empty without it."""
    found = [word[len(name) :] for word in command_line.split() if word.startswith(name)]
    return found[-1] if found else ""


def seed(where):
    """Bring the machine's seed to FILE, with its early commands done.

    As with Ubuntu's installer, the document that an early command writes is read after it: where
    one refuses, only the error commands of the first document run. That of a medium has none.

    Raises:
        Stop: no seed is this machine's, or its early command refused.
    """
    if where == "medium":
        until = time.monotonic() + DISC_SECONDS
        while not Path("/dev/sr0").exists() and time.monotonic() < until:
            time.sleep(1)
        Path("/cdrom").mkdir(parents=True, exist_ok=True)
        run("mount", "-o", "ro", "/dev/sr0", "/cdrom")
        text = Path("/cdrom/nocloud/user-data").read_text("utf-8")
    else:
        dhcp()
        with urllib.request.urlopen(where + "user-data", timeout=60) as answer:
            text = answer.read().decode("utf-8")
    import yaml

    first = yaml.safe_load(text)["autoinstall"]
    Path(FILE).write_text(json.dumps(first), "utf-8")
    try:
        for command in first["early-commands"]:
            run(*command)
    except Stop as error:
        failed(first, error)
        raise


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


def failed(document, error):
    """Keep the reason as the installer's log, and run the error commands of a document."""
    sys.stderr.write(f"STANDIN: not installed: {error}\n")
    Path(LOG).parent.mkdir(parents=True, exist_ok=True)
    Path(LOG).write_text(f"{error}\n")
    for command in document.get("error-commands") or ():
        subprocess.run(command, check=False)


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
    run(
        "sfdisk",
        "--wipe",
        "always",
        "--wipe-partitions",
        "always",
        disk,
        stdin=table(want["partitions"]),
    )
    run("udevadm", "settle")
    mounts = {}
    for number, one in enumerate(want["partitions"], 1):
        if one["mount"]:
            mounts[one["mount"]] = disk + end + str(number)
            label = ["-L", one["label"]] if one["label"] else []
            run("mkfs.ext4", "-q", "-F", *label, mounts[one["mount"]])
    table_of_mounts = []
    # What is mounted below another folder comes after it.
    for path in sorted(mounts):
        where = TARGET + path.rstrip("/")
        Path(where).mkdir(parents=True, exist_ok=True)
        run("mount", mounts[path], where)
        uuid = run("blkid", "-p", "-s", "UUID", "-o", "value", mounts[path]).strip()
        table_of_mounts.append(f"UUID={uuid} {path} ext4 defaults 0 {1 if path == '/' else 2}\n")
    copy()
    Path(TARGET, "etc/fstab").write_text("".join(table_of_mounts))
    Path(TARGET, "etc/hostname").write_text(want["name"] + "\n")
    Path(TARGET, "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 {}\n".format(want["name"]))
    Path(TARGET, "etc/machine-id").write_text("")
    add_user(want)
    run("chroot", TARGET, "grub-install", "--target=i386-pc", disk)
    # Not by update-grub: an emulated machine takes a minute for its shells.
    (kernel,) = Path(TARGET, "boot").glob("vmlinuz-*")
    uuid = run("blkid", "-p", "-s", "UUID", "-o", "value", mounts["/"]).strip()
    version = kernel.name[len("vmlinuz-") :]
    Path(TARGET, "boot/grub/grub.cfg").write_text(MENU.format(uuid=uuid, version=version))


def copy():
    """This Debian onto the disk, with what a system needs to start in it."""
    kept = [str(one) for one in sorted(Path("/").iterdir()) if keeps(one.name)]
    run("cp", "-ax", "--", *kept, TARGET)
    for name in ("proc", "sys", "dev", "run"):
        Path(TARGET, name).mkdir(exist_ok=True)
    Path(TARGET, "tmp").mkdir(exist_ok=True)
    Path(TARGET, "tmp").chmod(0o1777)
    for name in ("proc", "sys", "dev"):
        run("mount", "--bind", "/" + name, TARGET + "/" + name)


def keeps(name):
    """Whether a folder of the Debian in memory belongs on the disk."""
    return name not in {"proc", "sys", "dev", "run", "tmp", "cdrom", "target", "init", FILE[1:]}


def add_user(want):
    """Who logs in, with keys alone."""
    run("chroot", TARGET, "useradd", "-m", "-s", "/bin/bash", "-p", "*", want["user"])
    folder = Path(TARGET, "home", want["user"], ".ssh")
    folder.mkdir(mode=0o700)
    (folder / "authorized_keys").write_text("".join(key + "\n" for key in want["keys"]))
    run("chroot", TARGET, "chown", "-R", want["user"], "/home/{}/.ssh".format(want["user"]))


def main():
    """The first process: it never returns, the machine goes off."""
    try:
        seed(option(Path("/proc/cmdline").read_text("utf-8"), SEEDED))
        document = json.loads(Path(FILE).read_text("utf-8"))
        try:
            want = wanted(document)
            network(want["port"])
            say(want, "standin/write", "writes " + want["disk"])
            install(want)
            for command in document["late-commands"]:
                run(*command)
        except Exception as error:
            failed(document, error)
    except Exception as error:
        sys.stderr.write(f"STANDIN: not installed: {error}\n")
    os.sync()
    subprocess.run(["umount", "-R", TARGET], check=False)
    time.sleep(1)
    Path("/proc/sysrq-trigger").write_text("o")
    time.sleep(60)


if __name__ == "__main__":
    main()
