"""Faults for end-to-end tests. Each asserts that it is in force, and is undone at the end.

Faults of a container's own are made in the running node; what a container cannot have (a clock, an
identity of the board) is given by fact files; a node that has to be another one is made again.
"""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from appliance.lab.layout import node_facts
from appliance.lab.machine.plays import LocalPlays
from appliance.lab.machine.podman import Podman
from appliance.lab.site.site import KEY

FACTS = "/etc/appliance-lab/facts"


def shell(node: str, command: str, *, check: bool = True, stdin: str | None = None) -> str:
    """Run a shell command as root in a node, past SSH."""
    done = subprocess.run(
        ["podman", "exec", "--interactive", node, "sh", "-c", command],
        input=stdin,
        stdin=subprocess.DEVNULL if stdin is None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0 or not check, f"{node}: {command}: {done.stderr}{done.stdout}"
    return done.stdout.strip()


def address_of(node: str) -> str:
    """The node's address, from podman."""
    (found,) = (one for one in Podman().nodes() if one.name == node)
    return found.address


def ssh_answers(address: str) -> bool:
    """Whether sshd shows its banner."""
    try:
        with socket.create_connection((address, 22), timeout=2) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def wait_for_ssh(address: str, seconds: float = 30) -> None:
    """Poll until sshd shows its banner: a busy machine may take longer than one look."""
    deadline = time.monotonic() + seconds
    while not ssh_answers(address):
        assert time.monotonic() < deadline, f"{address}: no SSH for {seconds:.0f} s"
        time.sleep(0.2)


def wait(what: str, node: str, command: str, seconds: float = 120) -> None:
    """Poll a command in a node until it ends with 0."""
    deadline = time.monotonic() + seconds
    while shell(node, f"{command} >/dev/null 2>&1 && echo yes || true") != "yes":
        assert time.monotonic() < deadline, f"{node}: waited {seconds:.0f} s in vain for {what}"
        time.sleep(0.2)


def end_ssh_sessions(node: str) -> None:
    """End logins that outlive their sshd: OpenSSH's shared connections would hide the fault."""
    shell(node, "pkill -f '^sshd: appliance' || true")


@contextmanager
def sshd_stopped(node: str) -> Iterator[None]:
    """No SSH."""
    address = address_of(node)
    shell(node, "systemctl stop ssh")
    end_ssh_sessions(node)
    try:
        assert not ssh_answers(address)
        yield
    finally:
        shell(node, "systemctl start ssh")
        wait("sshd", node, "systemctl is-active ssh")
    wait_for_ssh(address)


@contextmanager
def changed_host_key(node: str) -> Iterator[None]:
    """Another machine answers at the address: its host key is not the one in known_hosts."""
    read = "cat /etc/ssh/ssh_host_ed25519_key.pub"
    before = shell(node, read)
    shell(node, "mkdir /root/keys && mv /etc/ssh/ssh_host_* /root/keys/ && ssh-keygen -q -A")
    shell(node, "systemctl restart ssh")
    end_ssh_sessions(node)
    try:
        assert shell(node, read) != before
        yield
    finally:
        shell(node, "mv -f /root/keys/* /etc/ssh/ && rmdir /root/keys && systemctl restart ssh")
        end_ssh_sessions(node)
    assert shell(node, read) == before


@contextmanager
def no_default_route(node: str) -> Iterator[None]:
    """No default route, and none after a restart."""
    mark = "/etc/appliance-lab/no-default-route"
    shell(node, f"touch {mark} && ip route del default")
    try:
        assert shell(node, "ip route show default") == ""
        yield
    finally:
        shell(node, f"rm -f {mark} && systemctl restart appliance-lab-boot")
    assert "default via" in shell(node, "ip route show default")


@contextmanager
def pulled_cable(node: str) -> Iterator[None]:
    """The node's one interface has no carrier."""
    address = address_of(node)
    shell(node, "ip link set eth0 down")
    try:
        assert "DOWN" in shell(node, "ip -brief link show eth0")
        assert not ssh_answers(address)
        # What this machine remembers of its neighbour decides between silence and "no route".
        subprocess.run(["ip", "neigh", "flush", "to", address], check=True, capture_output=True)
        yield
    finally:
        shell(node, "ip link set eth0 up && systemctl restart appliance-lab-boot")
    wait_for_ssh(address)


@contextmanager
def small_filesystem(node: str, path: str, size: str, *, filled: bool = False) -> Iterator[None]:
    """A file system of that size at ``path``; what is below it is out of sight meanwhile."""
    shell(node, f"mkdir -p {path} && mount -t tmpfs -o size={size} tmpfs {path}")
    try:
        if filled:
            shell(node, f"dd if=/dev/zero of={path}/filler bs=64k 2>/dev/null", check=False)
            free = int(shell(node, f"df --output=avail -B1 {path} | tail -n 1"))
            assert free == 0
        assert shell(node, f"stat -f -c %T {path}") == "tmpfs"
        yield
    finally:
        shell(node, f"umount {path}")
    assert shell(node, f"stat -f -c %T {path}") != "tmpfs"


@contextmanager
def facts(
    node: str, section: str, instead: list[Any] | None = None, **values: Any
) -> Iterator[None]:
    """Fact files say something else than before: other values, or another list."""
    path = f"{FACTS}/{section}.json"
    before = shell(node, f"cat {path} 2>/dev/null || true")
    changed = instead or {**json.loads(before or "{}"), **values}
    shell(node, f"cat > {path}", stdin=json.dumps(changed))
    try:
        assert json.loads(shell(node, f"cat {path}")) == changed
        yield
    finally:
        if before:
            shell(node, f"cat > {path}", stdin=before + "\n")
        else:
            shell(node, f"rm -f {path}")
    assert shell(node, f"cat {path} 2>/dev/null || true") == before


@contextmanager
def duplicate_product_uuid(node: str, of: str) -> Iterator[None]:
    """Two boards that say they are one, as cloned virtual machines do."""
    other = json.loads(shell(of, f"cat {FACTS}/host.json"))["product_uuid"]
    with facts(node, "host", product_uuid=other):
        yield


@contextmanager
def duplicate_hostname(node: str, of: str) -> Iterator[None]:
    """Two nodes of one name."""
    with facts(node, "host", hostname=of):
        yield


@contextmanager
def clock_off(node: str, seconds: float = 600) -> Iterator[None]:
    """The node's clock as the probe reads it; the real one is this machine's and is not touched."""
    with facts(node, "clock", epoch=time.time() + seconds):
        told = json.loads(shell(node, f"cat {FACTS}/clock.json"))["epoch"]
        assert abs(told - float(shell(node, "date +%s"))) > abs(seconds) - 30
        yield


@contextmanager
def address_taken(address: str, by: str) -> Iterator[None]:
    """Another machine has the address already."""
    shell(by, f"ip address add {address}/24 dev eth0")
    try:
        assert f" {address}/" in shell(by, "ip -4 -oneline address show dev eth0")
        yield
    finally:
        shell(by, f"ip address del {address}/24 dev eth0")
    assert f" {address}/" not in shell(by, "ip -4 -oneline address show dev eth0")


@contextmanager
def package_lock_held(node: str) -> Iterator[None]:
    """Somebody else is installing packages, as apt-daily does after a boot."""
    hold = (
        "import fcntl,time; f=open('/var/lib/dpkg/lock-frontend','w');"
        " fcntl.lockf(f,fcntl.LOCK_EX); time.sleep(3600)"
    )
    shell(node, f'systemd-run --quiet --unit=standin-apt-daily python3 -c "{hold}"')
    take = (
        "import fcntl; f=open('/var/lib/dpkg/lock-frontend','w');"
        " fcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)"
    )
    try:
        wait("the lock to be held", node, f'! python3 -c "{take}"')
        yield
    finally:
        shell(node, "systemctl stop standin-apt-daily")
    shell(node, f'python3 -c "{take}"')


@contextmanager
def unknown_host_key(known_hosts: Path, node: str) -> Iterator[None]:
    """Nobody confirmed the node's host key yet."""
    before = known_hosts.read_text()
    address = address_of(node)
    kept = [line for line in before.splitlines() if line.split()[0] != address]
    assert len(kept) == len(before.splitlines()) - 1
    known_hosts.write_text("".join(f"{line}\n" for line in kept))
    try:
        yield
    finally:
        known_hosts.write_text(before)


@contextmanager
def moved_away(node: str, path: str) -> Iterator[None]:
    """A file of the node is not there; sessions that had read it are ended."""
    shell(node, f"mkdir -p /root/away && mv {path} /root/away/file")
    end_ssh_sessions(node)
    try:
        assert shell(node, f"test -e {path} || echo gone") == "gone"
        yield
    finally:
        shell(node, f"mv /root/away/file {path} && rmdir /root/away")


@contextmanager
def file_says(node: str, path: str, text: str) -> Iterator[None]:
    """A file of the node holds this text; folders that did not exist go with it."""
    before = shell(node, f"test -e {path} && echo there || true")
    assert not before or shell(node, f"cp -p {path} {path}.kept") == ""
    made = shell(node, f"d=$(dirname {path}); while [ ! -e $d ]; do echo $d; d=$(dirname $d); done")
    shell(node, f"mkdir -p $(dirname {path}) && cat > {path}", stdin=text)
    try:
        assert shell(node, f"cat {path}") == text.strip()
        yield
    finally:
        shell(node, f"mv {path}.kept {path}" if before else f"rm {path}")
        for folder in made.split():
            shell(node, f"rmdir {folder}")
    assert shell(node, f"test -e {path} && echo there || true") == before


@contextmanager
def own_hostname(node: str, name: str) -> Iterator[None]:
    """The machine calls itself something else."""
    shell(node, f"hostname {name}")
    try:
        assert shell(node, "hostname") == name
        yield
    finally:
        shell(node, f"hostname {node}")
    assert shell(node, "hostname") == node


@contextmanager
def route_to(node: str, network: str) -> Iterator[None]:
    """The node reaches a network of that range already."""
    shell(node, f"ip route add {network} dev eth0")
    try:
        assert shell(node, f"ip route show {network}") != ""
        yield
    finally:
        shell(node, f"ip route del {network}")
    assert shell(node, f"ip route show {network}") == ""


@contextmanager
def small_mtu(node: str, mtu: int) -> Iterator[None]:
    """The interface takes shorter packets than the site counts on."""
    before = shell(node, "cat /sys/class/net/eth0/mtu")
    shell(node, f"ip link set eth0 mtu {mtu}")
    try:
        assert shell(node, "cat /sys/class/net/eth0/mtu") == str(mtu)
        yield
    finally:
        shell(node, f"ip link set eth0 mtu {before}")


@contextmanager
def port_taken(node: str, port: int) -> Iterator[None]:
    """Somebody else's service listens where one of ours has to."""
    listens = f"ss -Hltn sport = :{port} | grep -q LISTEN"
    shell(node, f"systemd-run --quiet --unit=standin-port python3 -m http.server {port}")
    try:
        wait(f"port {port} to be taken", node, listens)
        yield
    finally:
        shell(node, "systemctl stop standin-port")
    assert shell(node, f"{listens} || echo free") == "free"


def _gpus(node: str) -> dict[str, Any]:
    """The GPUs that a node has on PCI, also of one that is off: they stay in the machine."""
    with TemporaryDirectory() as folder:
        copy = Path(folder) / "gpus.json"
        words = ["podman", "cp", f"{node}:{FACTS}/gpus.json", str(copy)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            assert "could not be found" in done.stderr, f"{node}: {done.stderr}"
            return {}
        return {"gpus": json.loads(copy.read_text())}


def wipe(site: Path, node: str, *, serial: str | None = None, **more: Any) -> None:
    """Make a node again, empty; under another DMI serial it is another machine.

    Args:
        site: the lab's site directory.
        node: its name.
        serial: the DMI serial; the same as before when None.
        more: further keys of ``lab_node_nodes``, e.g. ``volumes=[{"path": "/var", "size": "1g"}]``.
    """
    (before,) = (one for one in Podman().nodes() if one.name == node)
    plays = LocalPlays()
    facts = {**node_facts(node, serial=serial), **_gpus(node)}
    plays.run("lab_down", {"lab_node_lab": before.lab, "lab_node_remove_nodes": [node]})
    assert node not in {one.name for one in Podman().nodes()}
    entry = {"name": node, "address": before.address, "facts": facts}
    plays.run(
        "lab_up",
        {
            "lab_node_lab": before.lab,
            "lab_node_operating_system": before.operating_system,
            "lab_node_subnet": str(Podman().subnets()[before.lab]),
            "lab_node_public_key_path": f"{site.resolve() / KEY}.pub",
            "lab_node_known_hosts_path": str(site.resolve() / "known_hosts"),
            "lab_node_nodes": [{**entry, **more}],
        },
    )
    wanted = serial or f"STANDIN-{node}"
    assert json.loads(shell(node, f"cat {FACTS}/dmi.json"))["serial"] == wanted
    assert shell(node, "ls /etc/kubernetes /usr/local/bin/kubeadm 2>/dev/null || true") == ""


def restart(node: str) -> None:
    """What a reboot is to a server."""
    subprocess.run(
        ["podman", "restart", "--time", "60", node],
        check=True,
        capture_output=True,
        timeout=180,
    )
    wait("systemd", node, "systemctl is-system-running | grep -qE 'running|degraded'", 240)
