from __future__ import annotations

import json
from ipaddress import IPv4Network
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.errors import CommandFailed
from appliance.lab.layout import SysctlChange, plan_lab
from appliance.lab.machine.host import LabMachine
from appliance.lab.machine.podman import MOST_LOOKS, Podman
from appliance.lab.site.site import KEY, LabSite, lab_site
from appliance.lab.site.sites import LabSiteFiles
from tests.prerequisites import require


def a_site(*, workers: int = 1, name: str = "lab") -> LabSite:
    found = plan_lab(name, IPv4Network("198.18.7.0/24"), control_planes=1, workers=workers)
    return lab_site(found, release="r", operating_system="debian-12", private_key=KEY)


def write(directory: Path, site: LabSite) -> None:
    (directory / "group_vars/all").mkdir(parents=True)
    (directory / "group_vars/all/site.yml").write_text(yaml.safe_dump(dict(site.settings)))
    children: dict[str, dict[str, dict[str, dict[str, str]]]] = {
        group: {"hosts": {name: {} for name in names}} for group, names in site.groups.items()
    }
    (directory / "hosts.yml").write_text(yaml.safe_dump({"all": {"children": children}}))


def test_a_site_that_was_written_for_this_lab_fits(tmp_path: Path) -> None:
    files = LabSiteFiles(write)
    assert not files.exists(tmp_path / "site")
    files.write(tmp_path / "site", a_site())
    assert files.exists(tmp_path / "site")
    assert files.matches(tmp_path / "site", a_site()) == ()


def test_what_does_not_fit_is_named_with_its_file(tmp_path: Path) -> None:
    files = LabSiteFiles(write)
    files.write(tmp_path / "site", a_site())
    more = files.matches(tmp_path / "site", a_site(workers=2))
    assert len(more) == 1
    assert "hosts.yml: cpu_workers has ['lab-w1'], the lab has ['lab-w1', 'lab-w2']" in more[0]
    other = files.matches(tmp_path / "site", a_site(name="other"))
    assert any("site_name is 'lab'" in line for line in other)


def test_an_operators_own_settings_are_not_a_contradiction(tmp_path: Path) -> None:
    files = LabSiteFiles(write)
    files.write(tmp_path / "site", a_site())
    settings = tmp_path / "site/group_vars/all/site.yml"
    settings.write_text(settings.read_text() + "role_overrides: {}\n")
    assert files.matches(tmp_path / "site", a_site()) == ()


def test_the_key_is_made_once_and_is_private(tmp_path: Path) -> None:
    require("ssh-keygen")
    files = LabSiteFiles(write)
    key = files.make_key(tmp_path)
    before = key.read_bytes()
    assert files.make_key(tmp_path).read_bytes() == before
    assert key.stat().st_mode & 0o077 == 0
    assert Path(f"{key}.pub").read_text().startswith("ssh-ed25519 ")


def test_sysctls_are_compared_with_what_they_were(tmp_path: Path) -> None:
    record, root = tmp_path / "record.json", tmp_path / "sys"
    (root / "kernel").mkdir(parents=True)
    (root / "kernel/panic").write_text("10\n")
    machine = LabMachine(sysctl_record=record, sysctl_root=root)
    assert machine.changed_sysctls() == ()
    record.write_text(json.dumps({"kernel.panic": "0", "kernel.gone": "1"}))
    assert machine.changed_sysctls() == (SysctlChange("kernel.panic", "0", "10"),)


def test_programs_are_looked_for_on_the_path() -> None:
    assert LabMachine().programs(("sh", "no-such-program-anywhere")) == {"sh"}


def test_networks_of_this_machine_hold_the_loopback() -> None:
    machine = LabMachine()
    if machine.programs(("ip",)):
        assert any(IPv4Network("127.0.0.1/32").subnet_of(net) for net in machine.networks())


def test_this_machine_has_a_name_as_releases_use_it() -> None:
    system, _, version = LabMachine().operating_system().partition("-")
    assert system
    assert version[:1].isdigit() or not version


@pytest.mark.parametrize("seen", ["198.18.7.13", ""])
def test_a_node_that_does_not_run_has_the_address_that_it_was_made_with(
    monkeypatch: pytest.MonkeyPatch, seen: str
) -> None:
    made = ["podman", "run", "--network", "appliance-a", "--ip", "198.18.7.13", "image"]
    networks = {"appliance-a": {"IPAddress": seen, "IPAMConfig": None}}
    found = {
        "Name": "a-w1",
        "Config": {"Labels": {"appliance-lab": "a"}, "CreateCommand": made},
        "State": {"Status": "running" if seen else "exited"},
        "NetworkSettings": {"Networks": networks},
    }
    answers = {"ps": [{"Id": "1", "Names": ["a-w1"]}], "container": [found]}
    monkeypatch.setattr(Podman, "_json", lambda _self, *words: answers[words[0]])
    assert [node.address for node in Podman().nodes("a")] == ["198.18.7.13"]


class Busy(Podman):
    """podman, while another command removes its lab: each look misses one more container."""

    def __init__(self, removals: int, said: str = "no such container b-w1") -> None:
        self.removals = removals
        self.said = said
        self.looks = 0

    def _json(self, *words: str) -> list[dict[str, Any]]:
        if words[0] == "ps":
            self.looks += 1
            return [{"Names": ["a-w1"]}]
        if self.looks <= self.removals:
            error = f"Error: inspecting object: {self.said}"
            raise CommandFailed("podman failed with exit status 125", details=(error,))
        labels = {"Labels": {"appliance-lab": "a"}}
        return [{"Name": "a-w1", "Config": labels, "State": {"Status": "running"}}]


def test_a_container_that_goes_between_list_and_look_is_no_error() -> None:
    busy = Busy(3)
    assert [node.name for node in busy.nodes()] == ["a-w1"]
    assert busy.looks == 4


@pytest.mark.parametrize(
    ("busy", "looks"), [(Busy(1000), MOST_LOOKS), (Busy(1, "database is locked"), 1)]
)
def test_what_podman_says_otherwise_or_always_is_an_error(busy: Busy, looks: int) -> None:
    with pytest.raises(CommandFailed, match="exit status 125"):
        busy.nodes()
    assert busy.looks == looks
