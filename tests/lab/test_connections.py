"""SSH as it is: strict about host keys in probes and in plays, through a jump host, by any path.

The nodes are looked at, and pinged by a play of the tests' own; nothing on them is changed.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
import yaml

from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
from appliance.adapters.local.content import find_content_root
from appliance.adapters.site.files import load_site
from appliance.adapters.site.vault import KEPT
from appliance.errors import PlaybookFailed
from appliance.model.plan.play import Play
from appliance.model.site.ssh import connection_vars
from tests import processes
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite

pytestmark = pytest.mark.lab

PING = [{"hosts": "all", "gather_facts": False, "tasks": [{"ansible.builtin.ping": {}}]}]


@pytest.fixture
def site(lab: LabSite, tmp_path: Path) -> Path:
    """The lab by a site of its own, whose files may be changed."""
    directory = tmp_path / lab.name
    shutil.copytree(lab.directory, directory, ignore=shutil.ignore_patterns("runs"))
    return directory


def ping(directory: Path, name: str, tmp_path: Path) -> None:
    """A play on one node, the way every play goes."""
    folder = tmp_path / "playbooks"
    shutil.copytree(find_content_root() / "playbooks", folder, dirs_exist_ok=True)
    (folder / "ping.yml").write_text(yaml.safe_dump(PING))
    found = load_site(directory)
    hosts = {name: {"ansible_host": found.node(name).ip}}
    inventory = {"all": {"vars": connection_vars(found), "hosts": hosts}}
    plays = AnsiblePlaybooks(directory, (directory / KEPT).resolve(), folder)
    plays.play(Play("run-1", "ping", (name,), inventory), lambda *_: None)


def masters(directory: Path) -> set[int]:
    """The processes that hold the open connections of a site."""
    sockets = AnsiblePlaybooks(directory, None, directory)._connections()
    title = f"ssh: {sockets}/"
    lines = processes.command_lines()
    return {pid for pid, line in lines.items() if line.startswith(title)}


def known(directory: Path) -> dict[str, list[str]]:
    """Address -> its line of known_hosts, as words."""
    lines = (directory / "known_hosts").read_text().splitlines()
    return {line.split()[0]: line.split() for line in lines}


def write_known(directory: Path, lines: dict[str, list[str]]) -> None:
    text = "".join(" ".join(words) + "\n" for words in lines.values())
    (directory / "known_hosts").write_text(text)


def test_a_play_goes_to_a_node_that_shows_the_known_key(
    lab: LabSite, site: Path, tmp_path: Path
) -> None:
    ping(site, lab.node("w1"), tmp_path)


def test_no_play_goes_to_a_machine_with_another_key(
    lab: LabSite, site: Path, tmp_path: Path
) -> None:
    lines = known(site)
    lines[lab.address("w1")][1:] = lines[lab.address("w2")][1:]
    write_known(site, lines)
    with pytest.raises(PlaybookFailed) as refused:
        ping(site, lab.node("w1"), tmp_path)
    assert "Host key verification failed" in str(refused.value)


def test_a_relative_path_of_the_site_is_as_good(
    lab: LabSite, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(site.parent)
    ping(Path(site.name), lab.node("w1"), tmp_path)
    assert appliance("status", "--site", site.name).returncode == 0
    monkeypatch.chdir(site)
    assert appliance("status").returncode == 0


@pytest.fixture
def behind(lab: LabSite, site: Path) -> Path:
    """The same site, which goes through its first node; no host key is known."""
    file = site / "group_vars" / "all" / "site.yml"
    settings = yaml.safe_load(file.read_text())
    settings["ssh"]["jump_host"] = f"{settings['ssh']['user']}@{lab.address('cp1')}:22"
    file.write_text(yaml.safe_dump(settings))
    (site / "known_hosts").write_text("")
    return site


@pytest.mark.slow
def test_through_a_jump_host_the_keys_are_shown_kept_and_strict(
    lab: LabSite, behind: Path, tmp_path: Path
) -> None:
    unknown = appliance("status", "--site", str(behind))
    assert "test the jump host" in unknown.stdout + unknown.stderr
    words = ("--site", str(behind), "--bundle", str(lab.bundle), "--yes", "--accept-host-keys")
    # A rehearsal keeps nothing, and ssh finds its way by what is kept alone.
    rehearsed = appliance("install", *words, "--dry-run")
    assert rehearsed.returncode == 3, rehearsed.stderr
    assert "with the same command without --dry-run" in rehearsed.stderr
    assert known(behind) == {}
    done = succeed("install", *words, "--only", "preflight")
    assert f"jump host ({lab.address('cp1')}): " in done.stderr
    assert known(behind).keys() == {lab.address(short) for short in ("cp1", "w1", "w2")}
    shown = json.loads(succeed("status", "--site", str(behind), "--output", "json").stdout)
    assert "unreachable" not in {node["status"] for node in shown["nodes"]}, shown
    ping(behind, lab.node("w1"), tmp_path)
    lines = known(behind)
    lines[lab.address("cp1")][1:] = lines[lab.address("w2")][1:]
    write_known(behind, lines)
    shutil.rmtree(tmp_path / "playbooks")
    with pytest.raises(PlaybookFailed):
        ping(behind, lab.node("w2"), tmp_path)


def test_connections_of_two_sites_are_apart(site: Path, tmp_path: Path) -> None:
    other = tmp_path / "rack8"
    shutil.copytree(site, other)
    play = Play("run-1", "ping", ("w1",), {})
    said = [AnsiblePlaybooks(one).command(play) for one in (site, other)]
    folders = {text.partition("ANSIBLE_SSH_CONTROL_PATH_DIR=")[2].split()[0] for text in said}
    assert len(folders) == 2
    # A socket's path has 108 bytes; Ansible adds 11, and ssh 17 while it makes one.
    assert all(len(os.fsencode(folder)) < 80 for folder in folders), folders


def test_the_next_play_goes_by_the_connection_of_the_one_before(
    site: Path, lab: LabSite, tmp_path: Path
) -> None:
    ping(site, lab.node("w1"), tmp_path)
    (first,) = masters(site)
    ping(site, lab.node("w1"), tmp_path)
    assert masters(site) == {first}
