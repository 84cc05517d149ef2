"""Plain Ansible reaches every node of a site with what ``appliance site inventory`` prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import paramiko
import pytest
import yaml

from appliance.adapters.site.files import load_site
from appliance.adapters.site.vault import AnsibleVault, new_password
from appliance.cli import exits
from appliance.model.site.settings import Site
from tests.prerequisites import require
from tests.site_cases import ROOT, copy_of_good
from tests.ssh_server import KEY, Servers, servers
from tests.this_run import folder

PASSWORD = "--vault-password-file"  # noqa: S105 - an option


def runs(channel: paramiko.Channel, command: str) -> None:
    """Runs the command on this machine, as a node's shell would."""
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        pipe, said, errors = process.stdin, process.stdout, process.stderr
        assert pipe is not None
        assert said is not None
        assert errors is not None

        def take() -> None:
            with suppress(OSError):
                while data := channel.recv(65536):
                    pipe.write(data)
                pipe.close()

        threading.Thread(target=take, daemon=True).start()
        channel.sendall(said.read())
        channel.sendall_stderr(errors.read())
        channel.send_exit_status(process.wait())


@pytest.fixture
def rack(tmp_path: Path) -> Iterator[tuple[Path, Site]]:
    """A site whose nodes are servers of this machine, and the same as it is served."""
    require("ssh")
    directory = copy_of_good(tmp_path / "rack7")
    vault = AnsibleVault(new_password(directory))
    secrets = "vault_registry_password: " + "k" * 24 + "\nvault_site_ca_key: CA-KEY\n"
    (directory / "group_vars/all/vault.yml").write_text(vault.encrypt(secrets))
    (tmp_path / "servers").mkdir()
    with servers(tmp_path / "servers") as made:
        yield directory, _served(made, directory)


def _served(made: Servers, directory: Path) -> Site:
    site = load_site(directory)
    served = made.serve(site, {node.name: runs for node in site.nodes})
    settings = directory / "group_vars/all/site.yml"
    text = yaml.safe_load(settings.read_text())
    ssh = served.settings.ssh
    text["ssh"] = {"user": "root", "port": ssh.port, "private_key": ssh.private_key}
    text["ssh"] |= {"become": False, "python": sys.executable}
    text["dns_servers"] = []
    text["network"]["lan_cidrs"] = None
    settings.write_text(yaml.safe_dump(text))
    for node in served.nodes:
        (directory / f"host_vars/{node.name}.yml").write_text(f"address: {node.address}\n")
    known = (served.directory / "known_hosts").read_text()
    (directory / "known_hosts").write_text(known)
    return served


def _program(name: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    own = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    # The sockets of ssh have short paths, however deep the folders of a run are.
    own["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(folder() / "cp")
    return subprocess.run(
        [Path(sys.executable).with_name(name), *words],
        cwd=cwd, capture_output=True, text=True, timeout=120, check=False,
        env={**own, "LC_ALL": "C.UTF-8", "ANSIBLE_PIPELINING": "1", "HOME": str(cwd)},
    )  # fmt: skip


def _printed(directory: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert exits.run(["site", "inventory", "--site", str(directory), *words]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_ansible_reaches_every_node_with_it(
    form: str, rack: tuple[Path, Site], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, _ = rack
    file = tmp_path / f"nodes.{form}"
    file.write_text(_printed(directory, capsys, "-o", form))
    password = str(directory / ".appliance/vault-password")
    both = ("-i", str(directory), "-i", str(file), PASSWORD, password)
    for words in (("-i", str(file)), both):
        done = _program("ansible", *words, "all", "-m", "ping", cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        assert done.stdout.count('"ping": "pong"') == 2, done.stdout + done.stderr


def test_a_changed_host_key_is_refused(
    rack: tuple[Path, Site], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory, _ = rack
    other = paramiko.ECDSAKey.generate().get_base64()
    known = directory / "known_hosts"
    known.write_text(known.read_text().replace(KEY.get_base64(), other))
    (tmp_path / "nodes").write_text(_printed(directory, capsys))
    done = _program("ansible", "-i", str(tmp_path / "nodes"), "all", "-m", "ping", cwd=tmp_path)
    assert "Host key verification failed" in done.stdout + done.stderr
    assert "pong" not in done.stdout


def test_the_inventory_has_the_jump_host_and_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = copy_of_good(tmp_path / "rack7")
    settings = directory / "group_vars/all/site.yml"
    text = yaml.safe_load(settings.read_text())
    text["ssh"] = {"jump_host": "admin@jump.example:2222", "become_password": True}
    settings.write_text(yaml.safe_dump(text))
    (tmp_path / "nodes").write_text(_printed(directory, capsys))
    listed = _program("ansible-inventory", "-i", str(tmp_path / "nodes"), "--list", cwd=tmp_path)
    inventory: dict[str, Any] = json.loads(listed.stdout)
    assert inventory["control_plane"]["hosts"] == ["master1"]
    variables = inventory["_meta"]["hostvars"]["gpu1"]
    assert variables["ansible_host"] == "198.51.100.21"
    assert "-W %h:%p admin@jump.example" in variables["ansible_ssh_common_args"]
    assert str(directory / "known_hosts") in variables["ansible_ssh_common_args"]
    assert "{{ vault_become_password }}" in variables.values()
    assert not [name for name in variables if name.startswith("vault_")]


def test_the_ca_key_is_no_variable_of_the_example(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("example\n")
    example = ROOT / "inventories" / "example"
    words = ("-i", str(example), PASSWORD, str(tmp_path / "password"), "--list")
    listed = _program("ansible-inventory", *words, cwd=tmp_path)
    variables = json.loads(listed.stdout)["_meta"]["hostvars"]["gpu1"]
    assert "vault_site_ca_certificate" in variables
    assert "vault_site_ca_key" not in variables
