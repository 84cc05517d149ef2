"""Base settings of a host, on a root folder of the test's own."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.unit.modules.loading import load

conflicts = load("host_conflicts", role="host_base")
modules = load("kernel_modules", role="host_base")
sysctls = load("kernel_sysctls", role="host_base")
swap = load("swap_off", role="host_base")
held = load("packages_held", role="host_base")
changes = importlib.import_module("ansible.module_utils.host_changes")

SYSCTL = "net.ipv4.ip_forward"
HOSTS = {"192.0.2.11": ["node1.site.test", "node1"]}
TASKS: list[tuple[ModuleType, dict[str, Any]]] = [
    (modules, {"names": ["overlay"]}),
    (sysctls, {"values": {SYSCTL: 1}}),
    (swap, {}),
    (held, {"patterns": ["linux-image-*"]}),
]


class FakeRun:
    """Answers of the programs that are asked, and what they were asked to change."""

    def __init__(self) -> None:
        self.swaps: list[str] = []
        self.packages = "linux-image-6.1 ii \nlinux-image-6.0 hi \nlinux-libc-dev ii \nbash ii \n"
        self.did: list[str] = []

    def __call__(self, argv: list[str]) -> tuple[int, str, str]:
        if argv[0] == "dpkg-query":
            return 0, self.packages, ""
        if argv[:2] == ["systemctl", "list-units"]:
            return 0, "".join(f"{unit} loaded active active x\n" for unit in self.swaps), ""
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

    def bring(self, module: ModuleType, *, check: bool = False, **want: Any) -> list[str]:
        """What one module changes, with the parameters of its task."""
        host = changes.Host(self.run, check, str(self.root))
        module.bring(host, want)
        assert len(host.differences) == len(host.changes), "--diff shows each change"
        told: list[str] = host.changes
        return told

    def bring_all(self, *, check: bool = False) -> list[str]:
        """What the modules change one after the other."""
        return [line for module, want in TASKS for line in self.bring(module, check=check, **want)]

    def refuse(self, **want: Any) -> None:
        """Look for conflicts."""
        host = changes.Host(self.run, True, str(self.root))
        conflicts.refuse(host, {"sysctls": {SYSCTL: 1}, "hosts": HOSTS, **want})

    def files(self) -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_everything_is_brought_once_and_then_left_alone(node: Node) -> None:
    assert [line.split(":")[0].rpartition("/")[2] for line in node.bring_all()] == [
        "appliance.conf",
        "90-appliance.conf",
        f"sysctl {SYSCTL}",
        next((node.root / "etc").glob("fstab.appliance-*")).name,
        "fstab",
        "on hold",
    ]
    assert node.text("/proc/sys/net/ipv4/ip_forward") == "1"
    assert node.run.did == ["apt-mark hold linux-image-6.1"]
    node.run.packages = node.run.packages.replace(" ii", " hi")
    assert node.bring_all() == []


def test_check_mode_tells_the_same_and_changes_nothing(node: Node) -> None:
    before = node.files()
    told = node.bring_all(check=True)
    assert node.files() == before
    assert node.run.did == []
    brought = node.bring_all()
    assert [line.split(":")[0] for line in told] == [line.split(":")[0] for line in brought]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("/proc/sys/net/ipv4/ip_forward", "0\n"),
        ("/etc/sysctl.d/90-appliance.conf", ""),
        ("/etc/modules-load.d/appliance.conf", "other\n"),
        ("/etc/fstab", "/swap.img none swap sw 0 0\n"),
    ],
)
def test_drift_is_reported_and_repaired(name: str, text: str, node: Node) -> None:
    node.bring_all()
    node.run.packages = node.run.packages.replace(" ii", " hi")
    node.put(name, text)
    told = node.bring_all()
    assert any(name.replace("/proc/sys/", "").split("/")[-1] in line for line in told)
    assert node.bring_all() == []


def test_swap_lines_are_commented_and_the_old_file_is_kept(node: Node) -> None:
    before = node.text("/etc/fstab")
    node.bring(swap)
    assert "# appliance: no swap: /swap.img none swap sw 0 0\n" in node.text("/etc/fstab")
    backups = list((node.root / "etc").glob("fstab.appliance-*"))
    assert [path.read_text() for path in backups] == [before]


def test_active_swap_is_turned_off_and_its_units_masked(node: Node) -> None:
    node.put("/proc/swaps", "Filename Type\n/dev/zram0 partition 1 0 100\n")
    node.run.swaps = ["dev-zram0.swap"]
    node.bring(swap)
    assert "swapoff -a" in node.run.did
    assert "systemctl mask dev-zram0.swap" in node.run.did


@pytest.mark.parametrize("name", ["99-site.conf", "91-more.conf"])
def test_a_file_that_would_win_at_the_next_boot_is_refused(name: str, node: Node) -> None:
    node.put(f"/etc/sysctl.d/{name}", f"# theirs\n{SYSCTL} = 0\n")
    before = node.files()
    with pytest.raises(changes.SettingsError, match=rf"{name}:2 sets {SYSCTL} = 0"):
        node.refuse()
    assert node.files() == before


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
    host = changes.Host(node.run, True, str(node.root))
    assert conflicts.overruled(host, {SYSCTL: 1}) == []


def test_a_line_that_contradicts_the_site_is_refused(node: Node) -> None:
    node.put("/etc/hosts", "127.0.0.1 localhost\n192.0.2.99 node1 # old\n")
    with pytest.raises(changes.SettingsError, match="hosts:2 gives node1 the address"):
        node.refuse()


@pytest.mark.parametrize(
    "text",
    [
        "# BEGIN appliance\n192.0.2.1 a\n# END appliance",
        "# BEGIN appliance\n192.0.2.1 a\n# END appliance\n10.0.0.5 printer\n# BEGIN appliance\n",
        "# END appliance\n10.0.0.5 printer\n# BEGIN appliance\n",
        "# BEGIN appliance \n192.0.2.1 a\n# END appliance\n",
    ],
    ids=["no line end", "a torn block", "the wrong order", "a trailing blank"],
)
def test_a_block_of_hosts_that_is_not_whole_is_refused(node: Node, text: str) -> None:
    node.put("/etc/hosts", text)
    with pytest.raises(changes.SettingsError, match="exactly one line '# BEGIN appliance'"):
        node.refuse()


def test_a_diff_of_fstab_shows_only_the_lines_that_change(node: Node) -> None:
    node.put("/etc/fstab", "//nas/x /x cifs password=canary 0 0\n/swap.img none swap sw 0 0\n")
    (node.root / "etc/fstab").chmod(0o600)
    host = changes.Host(node.run, False, str(node.root))
    swap.bring(host, {})
    assert "canary" not in str(host.differences)
    assert "/swap.img" in str(host.differences)
    (backup,) = (node.root / "etc").glob("fstab.appliance-*")
    assert "canary" in backup.read_text()
    assert backup.stat().st_mode & 0o777 == 0o600


def test_our_own_block_of_hosts_contradicts_nothing(node: Node) -> None:
    node.put("/etc/hosts", f"{changes.BEGIN}\n192.0.2.99 node1\n{changes.END}\n")
    assert conflicts.contradictions(node.text("/etc/hosts"), HOSTS) == []


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
    node.bring(modules, names=[module])
    assert f"modprobe {module}" not in node.run.did


def test_a_module_that_is_not_there_is_loaded(node: Node) -> None:
    assert "module br_netfilter loaded" in node.bring(modules, names=["br_netfilter"])
    assert "modprobe br_netfilter" in node.run.did


def test_a_program_that_fails_is_reported_with_its_words(node: Node) -> None:
    host = changes.Host(lambda _: (1, "", "no such module\n"), False, str(node.root))
    with pytest.raises(changes.SettingsError, match="modprobe x failed: no such module"):
        host.act("module x loaded", ["modprobe", "x"])


def test_a_file_that_cannot_be_read_is_not_treated_as_an_empty_one(node: Node) -> None:
    path = node.root / "etc/hosts"
    path.unlink()
    path.mkdir()  # read() fails with EISDIR, as with EIO of a broken disk
    with pytest.raises(changes.SettingsError, match="/etc/hosts cannot be read"):
        node.refuse()


def test_a_byte_that_is_no_utf_8_stays_where_it_was(node: Node) -> None:
    path = node.root / "etc/fstab"
    path.write_bytes(b"# B\xfcro\n/swap.img none swap sw 0 0\n")
    node.bring(swap)
    assert path.read_bytes() == b"# B\xfcro\n# appliance: no swap: /swap.img none swap sw 0 0\n"
