from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest

from appliance.errors import ConfigError, LabError, Refused
from appliance.lab.bmcs import LabBmc
from appliance.lab.down import LabDownPorts, lab_down
from appliance.lab.layout import RunningNode, SysctlChange
from appliance.lab.site.site import LabExtras, LabSite
from appliance.lab.up import LabUpPorts, LabUpRequest, lab_up
from appliance.model.node.bmc.report import Login
from appliance.model.programs import PROGRAMS
from appliance.model.upgrade.rehearsal.likeness import Likeness
from tests.unit.lab.fake_bmcs import FakeBmcs


@dataclass
class FakeMachine:
    """Host, podman, playbooks and site directories of a machine that is not there."""

    root: bool = True
    runs: str = "debian-12"
    archives: frozenset[str] = frozenset({"debian-12", "debian-11"})
    present: set[str] = field(default_factory=lambda: {row.name for row in PROGRAMS})
    taken: frozenset[IPv4Network] = frozenset()
    running: list[RunningNode] = field(default_factory=list)
    networks_of: dict[str, IPv4Network] = field(default_factory=dict)
    changed: tuple[SysctlChange, ...] = ()
    not_put_back: tuple[str, ...] = ()
    sites: dict[Path, LabSite] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)
    bmcs: FakeBmcs = field(default_factory=FakeBmcs)
    apt_brings_nothing: bool = False
    removal_works: bool = True
    fail_in: str = ""

    def is_root(self) -> bool:
        return self.root

    def operating_system(self) -> str:
        return self.runs

    def serves(self, operating_system: str) -> bool:
        return operating_system in self.archives

    def programs(self, names: Collection[str]) -> frozenset[str]:
        return frozenset(self.present & set(names))

    def install(self, packages: Sequence[str]) -> None:
        self.done.append("apt " + " ".join(packages))
        if not self.apt_brings_nothing:
            self.present |= {row.name for row in PROGRAMS}

    def networks(self) -> frozenset[IPv4Network]:
        return self.taken

    def changed_sysctls(self) -> tuple[SysctlChange, ...]:
        return self.changed

    def sysctls(self, names: Collection[str]) -> dict[str, str]:
        return {change.name: self.now(change) for change in self.changed if change.name in names}

    def now(self, change: SysctlChange) -> str:
        labs = {node.lab for node in self.running}
        return change.after if labs or change.name in self.not_put_back else change.before

    def nodes(self, lab: str | None = None) -> tuple[RunningNode, ...]:
        return tuple(node for node in self.running if lab in (None, node.lab))

    def subnets(self) -> dict[str, IPv4Network]:
        return self.networks_of

    def closed(self) -> frozenset[str]:
        return frozenset(self.networks_of)

    def run(self, playbook: str, variables: dict[str, Any]) -> None:
        self.done.append(playbook)
        if self.fail_in == playbook:
            raise LabError("a node did not boot")
        name = variables["lab_node_lab"]
        if playbook == "lab_up":
            self.networks_of[name] = IPv4Network(variables["lab_node_subnet"])
            for node in variables["lab_node_nodes"]:
                self.running.append(
                    RunningNode(node["name"], name, "running", "", self.image(variables))
                )
        elif self.removal_works:
            self.running = [node for node in self.running if node.lab != name]
            self.networks_of.pop(name, None)

    def image(self, variables: dict[str, Any]) -> str:
        return f"localhost/appliance-lab-node:{variables['lab_node_operating_system']}-0123456789ab"

    def exists(self, directory: Path) -> bool:
        return directory in self.sites

    def make_key(self, directory: Path) -> Path:
        self.done.append("key")
        return directory / "key"

    def write(self, directory: Path, site: LabSite) -> None:
        self.done.append("site")
        self.sites[directory] = site

    def keep_likeness(self, directory: Path, like: Likeness) -> None:
        self.done.append(f"{directory.name} is like {like.site}")

    def matches(self, directory: Path, site: LabSite) -> tuple[str, ...]:
        return () if self.sites[directory] == site else ("hosts.yml: another lab",)

    def give_bmcs(
        self, directory: Path, bmcs: Sequence[LabBmc], fingerprints: Mapping[str, str]
    ) -> Mapping[str, Login]:
        assert directory in self.sites
        self.done.append("site's BMCs " + " ".join(fingerprints))
        return {bmc.node: Login("operator", "canary") for bmc in bmcs}


REQUEST = LabUpRequest(
    name="lab",
    control_planes=1,
    workers=2,
    site_directory=Path("/sites/lab"),
    release="k8s-1.23.5-r1",
    operating_system="debian-12",
    bundle=Path("/bundle"),
    bundle_is_there=False,
)


def ports(
    machine: FakeMachine, *, confirm: bool = True, notes: list[str] | None = None
) -> LabUpPorts:
    ticks = iter(range(1000))
    heard: list[str] = [] if notes is None else notes
    note: Callable[[str], None] = heard.append
    return LabUpPorts(
        host=machine,
        containers=machine,
        plays=machine,
        sites=machine,
        bmcs=machine.bmcs,
        build_bundle=lambda: machine.done.append("bundle"),
        build_vendor_bundle=lambda version, path: machine.done.append(
            f"vendor bundle {version} {path.name}"
        ),
        install=lambda: machine.done.append("install"),
        confirm=lambda _plan: confirm,
        note=note,
        monotonic=lambda: float(next(ticks)),
    )


def test_it_goes_from_nothing_to_an_installed_cluster() -> None:
    machine = FakeMachine()
    result = lab_up(REQUEST, ports(machine))
    assert machine.done[:2] == ["site", "key"]
    assert sorted(machine.done[2:4]) == ["bundle", "lab_up"]
    assert machine.done[4:] == ["install"]
    assert set(result.seconds) == {"prerequisites", "site", "nodes", "bundle", "install"}


def test_a_second_run_keeps_site_and_network() -> None:
    machine = FakeMachine()
    first = lab_up(REQUEST, ports(machine))
    machine.taken = frozenset(machine.networks_of.values())
    machine.done.clear()
    second = lab_up(replace(REQUEST, bundle_is_there=True), ports(machine))
    assert machine.done == ["key", "lab_up", "install"]
    assert second.lab == first.lab


def test_bare_nodes_need_neither_bundle_nor_install() -> None:
    machine = FakeMachine()
    machine.present -= {"go", "gcc", "dpkg-deb"}
    lab_up(replace(REQUEST, install=False), ports(machine))
    assert machine.done == ["site", "key", "lab_up"]


@pytest.mark.parametrize("install", [True, False])
def test_the_vendors_bundle_belongs_to_the_site_bare_or_not(install: bool) -> None:
    machine = FakeMachine()
    machine.present -= {"go"}
    extras = LabExtras(2, runai="2.4.0")
    lab_up(replace(REQUEST, install=install, bundle_is_there=True, extras=extras), ports(machine))
    assert "golang-go" in machine.done[0]
    assert "vendor bundle 2.4.0 runai-2.4.0.tar" in machine.done
    assert ("install" in machine.done) is install


def test_an_ordinary_user_is_refused_before_anything() -> None:
    machine = FakeMachine(root=False)
    with pytest.raises(Refused, match="needs root"):
        lab_up(REQUEST, ports(machine))
    assert machine.done == []


def test_a_machine_whose_archive_does_not_make_the_nodes_is_refused() -> None:
    machine = FakeMachine(runs="ubuntu-22.04", archives=frozenset())
    with pytest.raises(Refused, match=r"ubuntu-22\.04.*debian-12"):
        lab_up(REQUEST, ports(machine))
    assert machine.done == []


def test_nodes_can_run_another_release_of_debian_that_the_archives_serve() -> None:
    machine = FakeMachine(runs="debian-12")
    lab_up(replace(REQUEST, operating_system="debian-11"), ports(machine))
    assert {node.operating_system for node in machine.nodes()} == {"debian-11"}
    (site,) = machine.sites.values()
    assert site.settings["operating_system"] == "debian-11"


def test_a_lab_does_not_get_nodes_of_a_second_operating_system() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    machine.done.clear()
    with pytest.raises(Refused, match=r"do not run debian-11: lab-cp1, lab-w1, lab-w2"):
        lab_up(replace(REQUEST, operating_system="debian-11"), ports(machine))
    assert machine.done == []


def test_missing_programs_are_shown_and_installed() -> None:
    machine = FakeMachine()
    machine.present -= {"podman", "ssh", "ssh-keygen"}
    notes: list[str] = []
    lab_up(REQUEST, ports(machine, notes=notes))
    assert machine.done[0] == "apt podman netavark openssh-client"
    assert any("missing: podman" in note for note in notes)


def test_without_a_confirmation_nothing_is_installed() -> None:
    machine = FakeMachine()
    machine.present.clear()
    with pytest.raises(Refused) as caught:
        lab_up(REQUEST, ports(machine, confirm=False))
    assert caught.value.exit_code == 3
    assert machine.done == []


def test_a_dry_run_plans_and_changes_nothing() -> None:
    machine = FakeMachine(root=False)
    machine.present -= {"mmdebstrap"}
    plan = lab_up(replace(REQUEST, dry_run=True), ports(machine, confirm=False)).plan
    assert [row.name for row in plan.missing] == ["mmdebstrap"]
    assert plan.builds == ("bundle",)
    assert plan.new_nodes == ("lab-cp1", "lab-w1", "lab-w2")
    assert machine.done == []


def test_nodes_that_are_there_are_not_made_again() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    assert lab_up(replace(REQUEST, dry_run=True), ports(machine)).plan.new_nodes == ()


def test_a_program_that_apt_did_not_bring_is_named() -> None:
    machine = FakeMachine(apt_brings_nothing=True)
    machine.present -= {"mmdebstrap"}
    with pytest.raises(Refused, match="mmdebstrap is still missing"):
        lab_up(REQUEST, ports(machine))


def test_a_site_of_another_lab_is_not_touched() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    machine.done.clear()
    with pytest.raises(Refused) as caught:
        lab_up(replace(REQUEST, workers=5), ports(machine))
    assert caught.value.details == ("hosts.yml: another lab",)
    assert machine.done == []


def test_a_failure_of_the_nodes_is_not_hidden_by_the_bundle() -> None:
    machine, notes = FakeMachine(fail_in="lab_up"), list[str]()
    with pytest.raises(LabError, match="did not boot"):
        lab_up(REQUEST, ports(machine, notes=notes))
    assert "install" not in machine.done
    assert any("nodes: FAILED after" in note and "did not boot" in note for note in notes)


def test_changed_sysctls_are_printed() -> None:
    notes: list[str] = []
    machine = FakeMachine(changed=(SysctlChange("kernel.panic", "0", "10"),))
    lab_up(REQUEST, ports(machine, notes=notes))
    assert any("kernel.panic: 0 -> 10" in note for note in notes)


def down_ports(machine: FakeMachine, notes: list[str], *, confirm: bool = True) -> LabDownPorts:
    return LabDownPorts(machine, machine, machine, lambda _nodes: confirm, notes.append)


def test_down_removes_everything_and_says_what_it_put_back() -> None:
    machine = FakeMachine(changed=(SysctlChange("kernel.panic", "0", "10"),))
    lab_up(REQUEST, ports(machine))
    notes: list[str] = []
    assert len(lab_down("lab", down_ports(machine, notes))) == 3
    assert machine.nodes() == ()
    assert notes == ["restored: this machine's sysctl kernel.panic: 10 -> 0"]


def test_a_sysctl_that_another_program_set_since_is_reported_as_not_restored() -> None:
    forward = SysctlChange("net.ipv4.ip_forward", "0", "1")
    machine = FakeMachine(changed=(forward,), not_put_back=("net.ipv4.ip_forward",))
    lab_up(REQUEST, ports(machine))
    notes: list[str] = []
    lab_down("lab", down_ports(machine, notes))
    assert len(notes) == 1
    assert notes[0].startswith("not restored: this machine's sysctl net.ipv4.ip_forward = 1")


@pytest.mark.parametrize("name", ["", " ", "Lab", "-lab", "lab,two", "lab\n", "a" * 21])
def test_no_empty_or_impossible_name_takes_any_lab_down(name: str) -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    with pytest.raises(ConfigError, match="invalid lab name"):
        lab_down(name, down_ports(machine, []))
    with pytest.raises(ConfigError):
        lab_down(name, down_ports(machine, []), dry_run=True)
    assert len(machine.nodes()) == 3


def test_down_works_after_a_half_up_and_again() -> None:
    machine = FakeMachine(networks_of={"lab": IPv4Network("198.18.7.0/24")})
    assert lab_down("lab", down_ports(machine, [])) == ()
    assert machine.networks_of == {}
    assert lab_down("lab", down_ports(machine, [])) == ()


def test_a_dry_run_of_down_removes_nothing() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    assert len(lab_down("lab", down_ports(machine, []), dry_run=True)) == 3
    assert len(machine.nodes()) == 3


def test_down_leaves_other_labs_alone() -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    other = replace(REQUEST, name="two", site_directory=Path("/sites/two"))
    lab_up(other, ports(machine))
    lab_down("lab", down_ports(machine, []))
    assert {node.lab for node in machine.nodes()} == {"two"}


def test_down_without_podman_has_nothing_to_do() -> None:
    machine = FakeMachine(present=set())
    assert lab_down("lab", down_ports(machine, [])) == ()
    assert machine.done == []


@pytest.mark.parametrize(("root", "confirm"), [(False, True), (True, False)])
def test_down_is_refused(root: bool, confirm: bool) -> None:
    machine = FakeMachine()
    lab_up(REQUEST, ports(machine))
    machine.root = root
    with pytest.raises(Refused):
        lab_down("lab", down_ports(machine, [], confirm=confirm))
    assert len(machine.nodes()) == 3


def test_what_could_not_be_removed_is_an_error() -> None:
    machine = FakeMachine(removal_works=False)
    lab_up(REQUEST, ports(machine))
    with pytest.raises(LabError, match="lab-cp1"):
        lab_down("lab", down_ports(machine, []))
