"""Base settings of a host, on a root folder of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

host_settings = load("host_settings", role="host_base")

SYSCTL = "net.ipv4.ip_forward"


class FakeRun:
    """Answers of the programs that are asked, and what they were asked to change."""

    def __init__(self) -> None:
        self.swaps: list[str] = []
        self.packages = "linux-image-6.1 ii \nlinux-image-6.0 hi \nlinux-libc-dev ii \nbash ii \n"
        self.timers = "ActiveState=inactive\nUnitFileState=disabled\n"
        self.did: list[str] = []

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "dpkg-query":
            return 0, self.packages, ""
        if argv[:2] == ["systemctl", "list-units"]:
            return 0, "".join(f"{unit} loaded active active x\n" for unit in self.swaps), ""
        if argv[:2] == ["systemctl", "show"]:
            return 0, self.timers, ""
        self.did.append(" ".join(argv))
        return 0, "", ""


class Node:
    """A host below a root folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.run = FakeRun()
        self.put("/etc/hosts", "127.0.0.1 localhost\n127.0.1.1 node1\n")
        self.put("/etc/fstab", "UUID=1 / ext4 defaults 0 1\n/swap.img none swap sw 0 0\n")
        self.put("/proc/sys/net/ipv4/ip_forward", "0\n")
        self.put("/proc/swaps", "Filename Type Size Used Priority\n")
        self.put("/sys/module/overlay/x", "")

    def put(self, name: str, text: str) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, name: str) -> str:
        return (self.root / name.lstrip("/")).read_text()

    def converge(self, *, check: bool = False, **more: Any) -> list[str]:
        want = {
            "sysctls": {SYSCTL: 1},
            "modules": ["overlay"],
            "swap_managed": True,
            "hosts": {"192.0.2.11": ["node1.site.test", "node1"]},
            "hold_patterns": ["linux-image-*"],
            "update_blacklist": ["linux-"],
            "automatic_updates_enabled": True,
            **more,
        }
        host = host_settings.Host(self.run, check, str(self.root))
        changes: list[str] = host_settings.converge(host, want)
        return changes

    def settled(self) -> Node:
        self.converge()
        self.run.packages = self.run.packages.replace(" ii", " hi")
        self.run.did.clear()
        return self


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_everything_is_brought_once_and_then_left_alone(node: Node) -> None:
    assert len(node.converge()) > 5
    assert node.text("/proc/sys/net/ipv4/ip_forward") == "1"
    assert node.run.did == ["apt-mark hold linux-image-6.1"]
    node.run.packages = node.run.packages.replace(" ii", " hi")
    assert node.converge() == []


def test_check_mode_tells_the_same_and_changes_nothing(node: Node) -> None:
    before = {path: path.read_text() for path in node.root.rglob("*") if path.is_file()}
    told = node.converge(check=True)
    assert {path: path.read_text() for path in node.root.rglob("*") if path.is_file()} == before
    assert node.run.did == []
    assert [line.split(":")[0] for line in told] == [line.split(":")[0] for line in node.converge()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/etc/sysctl.d/90-appliance.conf", ""),
        ("/etc/modules-load.d/appliance.conf", "other\n"),
        ("/etc/hosts", "127.0.0.1 localhost\n"),
        ("/etc/fstab", "/swap.img none swap sw 0 0\n"),
        ("/etc/apt/apt.conf.d/52appliance-unattended-upgrades", ""),
    ],
)
def test_drift_is_reported_and_repaired(name: str, text: str, node: Node) -> None:
    node.settled()
    node.put(name, text)
    assert any(name.replace("/proc/sys/", "").split("/")[-1] in line for line in node.converge())
    assert node.converge() == []


def test_swap_lines_are_commented_and_the_old_file_is_kept(node: Node) -> None:
    before = node.text("/etc/fstab")
    node.converge()
    assert "# appliance: no swap: /swap.img none swap sw 0 0\n" in node.text("/etc/fstab")
    backups = list((node.root / "etc").glob("fstab.appliance-*"))
    assert [path.read_text() for path in backups] == [before]


def test_active_swap_is_turned_off_and_its_units_masked(node: Node) -> None:
    node.put("/proc/swaps", "Filename Type\n/dev/zram0 partition 1 0 100\n")
    node.run.swaps = ["dev-zram0.swap"]
    node.converge()
    assert "swapoff -a" in node.run.did
    assert "systemctl mask dev-zram0.swap" in node.run.did


def test_swap_that_is_shared_with_others_is_left_alone(node: Node) -> None:
    node.put("/proc/swaps", "Filename Type\n/dev/sda3 partition 1 0 100\n")
    before = node.text("/etc/fstab")
    node.converge(swap_managed=False)
    assert "swapoff -a" not in node.run.did
    assert node.text("/etc/fstab") == before


@pytest.mark.parametrize("name", ["99-site.conf", "91-more.conf"])
def test_a_file_that_would_win_at_the_next_boot_is_refused_before_any_change(
    name: str, node: Node
) -> None:
    node.put(f"/etc/sysctl.d/{name}", f"# theirs\n{SYSCTL} = 0\n")
    with pytest.raises(host_settings.SettingsError, match=rf"{name}:2 sets {SYSCTL} = 0"):
        node.converge()
    assert not (node.root / "etc/sysctl.d/90-appliance.conf").exists()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/etc/sysctl.d/10-site.conf", f"{SYSCTL} = 0\n"),
        ("/etc/sysctl.d/99-site.conf", f"{SYSCTL}=1\n"),
        ("/etc/sysctl.d/99-site.conf", f"#{SYSCTL}=0\n;{SYSCTL}=0\n"),
    ],
)
def test_a_file_that_does_not_win_is_no_matter(name: str, text: str, node: Node) -> None:
    node.put(name, text)
    node.converge()


def test_a_line_that_contradicts_the_site_is_refused(node: Node) -> None:
    node.put("/etc/hosts", "127.0.0.1 localhost\n192.0.2.99 node1 # old\n")
    with pytest.raises(host_settings.SettingsError, match="hosts:2 gives node1 the address"):
        node.converge()


def test_the_block_is_replaced_and_what_stands_around_it_stays(node: Node) -> None:
    node.converge()
    node.put("/etc/hosts", node.text("/etc/hosts") + "192.0.2.50 printer\n")
    node.converge(hosts={"192.0.2.12": ["node2"]})
    text = node.text("/etc/hosts")
    assert "192.0.2.50 printer" in text
    assert "192.0.2.12 node2" in text
    assert "192.0.2.11" not in text
    assert text.count("BEGIN appliance") == 1


def test_a_file_that_is_a_bind_mount_is_written_in_place(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    inode = (node.root / "etc/hosts").stat().st_ino
    real = Path.replace

    def busy(self: Path, target: Path) -> Path:
        if target.name == "hosts":
            raise OSError(16, "Device or resource busy")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", busy)
    node.converge()
    assert (node.root / "etc/hosts").stat().st_ino == inode
    assert "node1.site.test" in node.text("/etc/hosts")
    assert list((node.root / "etc").glob(".hosts*")) == []


@pytest.mark.parametrize(
    ("module", "evidence"),
    [
        ("br_netfilter", "/proc/sys/net/bridge/bridge-nf-call-iptables"),
        ("nf_conntrack", "/proc/sys/net/netfilter/nf_conntrack_max"),
        ("ip_vs", "/sys/module/ip_vs/x"),
    ],
)
def test_a_module_that_works_is_loaded_however_it_came(
    module: str, evidence: str, node: Node
) -> None:
    node.put(evidence, "1")
    node.converge(modules=[module])
    assert f"modprobe {module}" not in node.run.did


def test_a_module_that_is_not_there_is_loaded(node: Node) -> None:
    assert "module br_netfilter loaded" in node.converge(modules=["br_netfilter"])
    assert "modprobe br_netfilter" in node.run.did


def test_a_program_that_fails_is_told_with_its_words(node: Node) -> None:
    host = host_settings.Host(lambda _: (1, "", "no such module\n"), False, str(node.root))
    with pytest.raises(host_settings.SettingsError, match="modprobe x failed: no such module"):
        host.act("module x loaded", ["modprobe", "x"])


def test_timers_stop_only_when_the_site_says_so(node: Node) -> None:
    node.run.timers = "ActiveState=active\nUnitFileState=enabled\n"
    node.converge()
    assert not any("apt-daily" in line for line in node.run.did)
    node.converge(automatic_updates_enabled=False)
    assert "systemctl disable --now apt-daily.timer" in node.run.did


def test_a_file_that_cannot_be_read_is_not_taken_for_an_empty_one(node: Node) -> None:
    path = node.root / "etc/hosts"
    path.unlink()
    path.mkdir()  # read() fails with EISDIR, as with EIO of a broken disk
    with pytest.raises(host_settings.SettingsError, match="/etc/hosts cannot be read"):
        node.converge()
    assert node.run.did == []


def test_a_byte_that_is_no_utf_8_stays_where_it_was(node: Node) -> None:
    path = node.root / "etc/hosts"
    path.write_bytes(b"127.0.0.1 localhost # B\xfcro\n")
    node.converge()
    assert path.read_bytes().startswith(b"127.0.0.1 localhost # B\xfcro\n# BEGIN appliance")
