"""A real etcd is filled until it raises NOSPACE, and healed; a real one is defragmented."""

from __future__ import annotations

import base64
import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.care.etcd import EtcdCare
from appliance.adapters.ssh.call import Answer
from appliance.model.site.settings import Node
from appliance.model.upkeep.care.etcd import NOSPACE, alarmed
from appliance.workflows.cluster.cleaning.etcd import clean_etcd, look_at_etcd
from tests import samples
from tests.etcd_server import make_pki, unpack_programs
from tests.fakes import FakeClock, FakeObserver, FakeRack
from tests.sessions import fake_session
from tests.unit.modules.loading import UTILS, load_utils

pytestmark = pytest.mark.bundle
MB = 1 << 20
QUOTA = 32 * MB


@pytest.fixture(scope="module")
def programs(bundle_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack_programs(bundle_directory, tmp_path_factory.mktemp("programs"))


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kubernetes") / "pki"
    make_pki(folder)
    return folder


class LocalNodes:
    """Runs what is meant for a node here, with the member of that node in place of its own."""

    def __init__(self, pki: Path, ports: dict[str, int], data: Path, snapshots: Path) -> None:
        self.pki, self.ports, self.data, self.snapshots = pki, ports, data, snapshots
        self.defragmented: list[str] = []

    def run_as_root(self, node: Node, command: str, *, stdin: bytes, timeout: float) -> Answer:
        source = stdin.decode()
        places = {
            'Path("/etc/kubernetes/pki")': f"Path({str(self.pki)!r})",
            'Path("/var/lib/etcd/member/snap/db")': (
                f"Path({str(self.data / node.name / 'member/snap/db')!r})"
            ),
            'Path("/var/lib/appliance/etcd-snapshots")': f"Path({str(self.snapshots)!r})",
            "PORT = 2379": f"PORT = {self.ports[node.name]}",
        }
        for name, place in places.items():
            source = source.replace(name, place)
        words = [sys.executable, *shlex.split(command)[1:]]
        if "defragment" in words:
            self.defragmented.append(node.name)
        done = subprocess.run(
            words, input=source.encode(), capture_output=True, timeout=timeout, check=False
        )
        return Answer(done.returncode, done.stdout.decode(), done.stderr.decode())


@contextmanager
def members(programs: Path, pki: Path, folder: Path, names: list[str]) -> Iterator[LocalNodes]:
    """Run etcd with a small quota, one member for each name."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(2 * len(names))]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        free = [one.getsockname()[1] for one in sockets]
    ports = dict(zip(names, free, strict=False))
    peers = {n: f"https://127.0.0.1:{p}" for n, p in zip(names, free[len(names) :], strict=True)}
    cluster = ",".join(f"{name}={peer}" for name, peer in peers.items())
    running = []
    for name in names:
        client, own = f"https://127.0.0.1:{ports[name]}", peers[name]
        running.append(
            subprocess.Popen(
                [
                    programs / "etcd", f"--name={name}", f"--data-dir={folder / name}",
                    f"--initial-cluster={cluster}", f"--initial-advertise-peer-urls={own}",
                    f"--listen-peer-urls={own}", f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}", f"--quota-backend-bytes={QUOTA}",
                    "--client-cert-auth", f"--trusted-ca-file={pki}/etcd/ca.crt",
                    f"--cert-file={pki}/etcd/server.crt", f"--key-file={pki}/etcd/server.key",
                    "--peer-client-cert-auth", f"--peer-trusted-ca-file={pki}/etcd/ca.crt",
                    f"--peer-cert-file={pki}/etcd/peer.crt", "--log-level=error",
                    f"--peer-key-file={pki}/etcd/peer.key", "--unsafe-no-fsync",
                ],
                stdin=subprocess.DEVNULL,
            )
        )  # fmt: skip
    try:
        yield LocalNodes(pki, ports, folder, folder / "snapshots")
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.wait(10)


class Real:
    """A site of real members, and what fills it."""

    def __init__(self, nodes: LocalNodes, masters: int, pki: Path) -> None:
        self.nodes = nodes
        self.site = samples.site(masters=masters)
        self.care = EtcdCare(nodes, "python3")  # type: ignore[arg-type]
        self.module: Any = load_utils("appliance_etcd_care")
        vars(self.module).update(PKI=pki, PORT=nodes.ports["cp1"])
        until = time.monotonic() + 60
        while look_at_etcd(self.site, self.care)[0:1] == () or self.sick():
            assert time.monotonic() < until, self.sick()
            time.sleep(0.3)

    def sick(self) -> str:
        items = look_at_etcd(self.site, self.care)
        return next((i.why for i in items if "healthy" in i.why or "leader" in i.why), "")

    def put(self, key: str, value: bytes) -> int:
        body = {name: base64.b64encode(text).decode() for name, text in
                (("key", key.encode()), ("value", value))}  # fmt: skip
        status: int = self.module.ask("/v3/kv/put", body)[0]
        return status

    def get(self, key: str) -> bytes:
        body = {"key": base64.b64encode(key.encode()).decode()}
        return base64.b64decode(self.module.told("/v3/kv/range", body)["kvs"][0]["value"])

    def clean(self) -> int:
        port: Any = self.care
        ports: dict[str, Any] = {"clock": FakeClock(), "observer": FakeObserver()}
        rack = FakeRack(samples.desired(self.site))
        return clean_etcd(self.site, port, fake_session(rack, **ports))


@pytest.fixture
def one(programs: Path, pki: Path, tmp_path: Path) -> Iterator[Real]:
    with members(programs, pki, tmp_path, ["cp1"]) as nodes:
        yield Real(nodes, 1, pki)


def fill(real: Real) -> int:
    """Write new values of the same keys until etcd refuses; how many were taken."""
    taken = 0
    while real.put(f"/registry/leases/{taken % 4}", bytes([taken % 251]) * 700_000) == 200:
        taken += 1
        assert taken < 200, "etcd never refused"
    return taken


def test_a_full_etcd_takes_writes_again(one: Real) -> None:
    taken = fill(one)
    (space,), silent = one.care.spaces(one.site.control_plane)
    assert (space.alarms, silent, space.quota_bytes) == ((NOSPACE,), (), QUOTA)
    assert space.healthy, "the alarm for space alone is no illness"
    last = one.get(f"/registry/leases/{(taken - 1) % 4}")
    assert one.clean() > 20 * MB
    (space,), _ = one.care.spaces(one.site.control_plane)
    assert not alarmed((space,))
    assert space.size_bytes < 8 * MB
    assert one.put("/registry/new", b"taken") == 200
    assert one.get(f"/registry/leases/{(taken - 1) % 4}") == last
    (snapshot,) = (one.nodes.snapshots).glob("*-cleanup.db")
    assert snapshot.stat().st_mode & 0o777 == 0o600


def test_a_kill_between_the_acts_is_ended_by_the_same_command(one: Real) -> None:
    fill(one)
    (space,), _ = one.care.spaces(one.site.control_plane)
    master = one.site.control_plane[0]
    one.care.compact(master, space.revision)
    one.care.compact(master, space.revision)
    one.care.defragment(master)
    assert [item.goes for item in look_at_etcd(one.site, one.care)] == [True]
    one.clean()
    assert [item.goes for item in look_at_etcd(one.site, one.care)] == [False]


def test_three_members_are_defragmented_the_leader_last(
    programs: Path, pki: Path, tmp_path: Path
) -> None:
    names = ["cp1", "cp2", "cp3"]
    with members(programs, pki, tmp_path, names) as nodes:
        real = Real(nodes, 3, pki)
        for number in range(30):
            assert real.put(f"/registry/leases/{number % 2}", bytes([number]) * 700_000) == 200
        found, _ = real.care.spaces(real.site.control_plane)
        (leader,) = [one.node for one in found if one.leads]
        # A member may lag behind the others.
        newest = max(one.revision for one in found)
        real.care.compact(real.site.node(leader), newest)
        until = time.monotonic() + 60
        while not all(item.goes for item in look_at_etcd(real.site, real.care)):
            assert time.monotonic() < until, look_at_etcd(real.site, real.care)
            # Pages become free with a later write, as a cluster makes them all the time.
            assert real.put("/registry/leases/holder", b"renewed") == 200
        assert real.clean() > 45 * MB
        assert nodes.defragmented == [*sorted({*names} - {leader}), leader]
        assert real.get("/registry/leases/1") == bytes([29]) * 700_000


def test_the_disk_must_hold_the_copy(one: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    one.put("/registry/big", bytes(700_000))
    monkeypatch.setattr(one.module, "_free", lambda: 1000)
    with pytest.raises(one.module.CareError, match="no space to defragment"):
        one.module.defragment()


def test_the_module_is_whole_by_itself() -> None:
    text = (UTILS / "appliance_etcd_care.py").read_text()
    assert "ansible" not in text
    done = subprocess.run(
        [sys.executable, "-", "space"], input=text.encode(), capture_output=True, check=False
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"etcd does not answer" in done.stderr
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.stderr)
