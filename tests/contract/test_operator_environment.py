"""The operator's settings of Ansible change nothing of what this product runs."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible_runner import Runner

from appliance.adapters.ansible.playbooks import AnsiblePlaybooks
from appliance.adapters.site.vault import AnsibleVault, read_as_a_play
from appliance.lab.machine.plays import LocalPlays
from appliance.model.plan.play import Play
from tests.contract import tree

PLAY = """
- hosts: all
  tasks:
    - name: Tell the environment of ansible-playbook, and what it made of it
      ansible.builtin.copy:
        content: "{{ [lookup('ansible.builtin.pipe', 'env -0'), config] | to_json }}"
        dest: "{{ dest }}"
      vars:
        config: "{{ lookup('ansible.builtin.config', 'DEFAULT_TRANSPORT', 'DEFAULT_STRATEGY',
          'DEFAULT_REMOTE_USER', 'DEFAULT_FORKS', 'CALLBACKS_ENABLED', wantlist=true) }}"
"""
EVIL = "open({path!r}, 'w').close()\n"
# Each run has its own of these.
OWN = {"APPLIANCE_PLAY_BY"}


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings of an operator, in the environment; a plugin of theirs leaves the returned file."""
    left = tmp_path / "plugin-was-loaded"
    plugins = tmp_path / "theirs"
    plugins.mkdir()
    for name in ("theirs", "capped_ssh", "awx_display", "to_json", "linear"):
        (plugins / f"{name}.py").write_text(EVIL.format(path=str(left)))
    (tmp_path / "their.cfg").write_text("[defaults]\nforks = 1\nvault_identity_list = x@y\n")
    kinds = ("CONNECTION", "CALLBACK", "STRATEGY", "FILTER", "LOOKUP", "ACTION", "VARS")
    settings = {
        **{f"ANSIBLE_{kind}_PLUGINS": str(plugins) for kind in kinds},
        "ANSIBLE_CONFIG": str(tmp_path / "their.cfg"),
        "ANSIBLE_TRANSPORT": "ssh",
        "ANSIBLE_STRATEGY": "free",
        "ANSIBLE_REMOTE_USER": "theirs",
        "ANSIBLE_FORKS": "1",
        "ANSIBLE_STDOUT_CALLBACK": "theirs",
        "ANSIBLE_CALLBACKS_ENABLED": "theirs",
        "ANSIBLE_HOME": str(tmp_path / "their-home"),
        "ANSIBLE_LIBRARY": str(plugins),
        "ANSIBLE_SSH_EXECUTABLE": str(plugins / "ssh"),
        "ANSIBLE_SSH_ARGS": "-F theirs",
        "ANSIBLE_CHECK_MODE_MARKERS": "true",
        "ANSIBLE_VAULT_ID_MATCH": "true",
        "ANSIBLE_ASK_VAULT_PASS": "true",
        "ANSIBLE_OF_A_LATER_RELEASE": "theirs",
        "_ANSIBLE_INTERNAL": "theirs",
        "AWX_LIB_DIRECTORY": str(plugins),
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    return left


def _play(folder: Path, name: str) -> tuple[dict[str, str], Any]:
    """The environment of a play of ours without its marks, and some settings as it has them."""
    site = folder / "site"
    playbooks = folder / "playbooks"
    site.mkdir(exist_ok=True)
    if not playbooks.exists():
        shutil.copytree(tree.ROOT / "playbooks", playbooks)
        (playbooks / "told.yml").write_text(PLAY)
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (site / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"w1": host}}}))
    dest = folder / f"{name}.json"
    play = Play("r1", "told", ("w1",), {"all": {"vars": {"dest": str(dest)}}})
    AnsiblePlaybooks(site, playbooks=playbooks).play(play, lambda *_: None)
    environment, settings = json.loads(dest.read_text())
    pairs = (line.partition("=") for line in environment.split("\0") if line)
    return {key: value for key, _, value in pairs if key not in OWN}, settings


def test_a_play_runs_as_without_the_operators_settings(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = _play(tmp_path, "before")
    left = request.getfixturevalue("hostile")
    assert _play(tmp_path, "after") == before
    assert not left.exists()
    assert before[1][0] == "capped_ssh"


@pytest.mark.usefixtures("hostile")
def test_a_play_opens_the_vault_by_the_operators_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "password").write_text("one\n")
    (tmp_path / "site/group_vars/all").mkdir(parents=True)
    sealed = AnsibleVault(tmp_path / "password").encrypt("vault_one: secret\n")
    (tmp_path / "site/group_vars/all/vault.yml").write_text(sealed)
    monkeypatch.setenv("ANSIBLE_VAULT_PASSWORD_FILE", str(tmp_path / "password"))
    environment, _ = _play(tmp_path, "told")
    assert environment["ANSIBLE_VAULT_PASSWORD_FILE"] == str(tmp_path / "password")


def test_the_vault_is_read_as_without_the_operators_settings(tmp_path: Path, hostile: Path) -> None:
    (tmp_path / "password").write_text("one\n")
    vault = AnsibleVault(tmp_path / "password")
    file = tmp_path / "vault.yml"
    file.write_text(vault.encrypt("vault_one: secret\n"))
    assert vault.read(file) == {"vault_one": "secret"}
    assert read_as_a_play(file, tmp_path / "password") == {"vault_one": "secret"}
    assert not hostile.exists()
    assert not (tmp_path / "their-home").exists()


def test_a_labs_play_runs_without_them_too(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    environment: dict[str, str] = {}

    def run(runner: Runner) -> None:
        environment.update(runner.config.env)
        runner.rc, runner.status = 0, "successful"

    monkeypatch.setattr(Runner, "run", run)
    LocalPlays().run("lab_up", {"lab_node_lab": "operators-settings"})
    assert not [name for name, value in environment.items() if "their" in value]
    assert environment["ANSIBLE_CONFIG"].endswith("playbooks/ansible.cfg")
    assert not hostile.exists()
