"""Every fault is in force while it lasts, as it asserts itself, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.lab.conftest import lab_up
from tests.lab.support import faults
from tests.this_run import lab_name

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NAME = lab_name("faults")
CP, W = f"{NAME}-cp1", f"{NAME}-w1"

FAULTS: dict[str, Callable[[], AbstractContextManager[None]]] = {
    "sshd stopped": lambda: faults.sshd_stopped(W),
    "changed host key": lambda: faults.changed_host_key(W),
    "no default route": lambda: faults.no_default_route(W),
    "pulled cable": lambda: faults.pulled_cable(W),
    "full disk": lambda: faults.small_filesystem(W, "/var/lib/docker", "8m", filled=True),
    "duplicate product_uuid": lambda: faults.duplicate_product_uuid(W, of=CP),
    "duplicate hostname": lambda: faults.duplicate_hostname(W, of=CP),
    "clock off": lambda: faults.clock_off(W, 600),
    "address taken": lambda: faults.address_taken(faults.address_of(CP), by=W),
    "package lock held": lambda: faults.package_lock_held(W),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A control plane and a worker, bare."""
    with lab_up("faults", tmp_path_factory.mktemp("labs"), "--workers", "1") as directory:
        yield directory


@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_in_force_and_undone(name: str) -> None:
    with FAULTS[name]():
        pass
    assert faults.shell(W, "systemctl is-system-running") == "running"


@pytest.mark.usefixtures("site")
def test_a_restart_is_a_reboot() -> None:
    before = faults.shell(W, f"cat {faults.FACTS}/host.json /etc/ssh/ssh_host_ed25519_key.pub")
    faults.shell(W, "echo kept > /var/lib/kept; echo kept > /var/lib/docker/kept; touch /run/gone")
    faults.restart(W)
    after = faults.shell(W, f"cat {faults.FACTS}/host.json /etc/ssh/ssh_host_ed25519_key.pub")
    assert before.splitlines()[-1] == after.splitlines()[-1]
    assert before != after, "the boot id must be another"
    assert faults.shell(W, "cat /var/lib/kept /var/lib/docker/kept; ls /run/gone || true") == (
        "kept\nkept"
    )
    assert "default via" in faults.shell(W, "ip route show default")


def test_a_wiped_node_is_empty_and_the_same_machine_or_another(site: Path) -> None:
    faults.shell(W, "touch /var/lib/docker/kept")
    faults.wipe(site, W, volumes=[{"path": "/var", "size": "600m"}])
    assert faults.shell(W, "ls /var/lib/docker") == ""
    assert int(faults.shell(W, "df --output=size -BM /var | tail -n 1").rstrip("M")) == 600
    assert faults.shell(W, "dpkg --list | grep -c '^ii'") != "0"
    faults.wipe(site, W, serial="STANDIN-another")
    assert "default via" in faults.shell(W, "ip route show default")


def test_two_labs_live_side_by_side(site: Path, tmp_path: Path) -> None:
    assert site.is_dir()
    with lab_up("other", tmp_path, "--workers", "0") as other:
        theirs = faults.address_of(f"{other.name}-cp1")
        assert faults.ssh_answers(theirs)
        assert faults.shell(CP, f"ping -c 1 -W 1 {theirs}", check=False)
    assert other.is_dir()
    assert faults.ssh_answers(faults.address_of(CP))
