"""A user's own ssh_config hands nothing of this machine to a node; the real ssh says so."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.site.ssh import connection_vars, jump_command, login_words
from tests import samples
from tests.prerequisites import require

ROOT = Path(__file__).parents[3]
SITE = samples.site()
OPEN = """\
Host *
  ForwardAgent yes
  ForwardX11 yes
  ForwardX11Trusted yes
  Tunnel point-to-point
  RemoteForward 9999 localhost:22
  LocalForward 9998 localhost:22
  DynamicForward 9997
  PermitLocalCommand yes
  LocalCommand touch /tmp/own
  GlobalKnownHostsFile /etc/everybody
  UserKnownHostsFile /home/me/known_hosts
  StrictHostKeyChecking no
  VerifyHostKeyDNS yes
  ControlMaster auto
  ControlPath /home/me/%h
  CertificateFile /home/me/certificate.pub
"""
CLOSED = {
    "forwardagent": "no",
    "forwardx11": "no",
    "tunnel": "false",
    "permitlocalcommand": "no",
    "globalknownhostsfile": "/dev/null",
    "stricthostkeychecking": "true",
    "verifyhostkeydns": "false",
    "clearallforwardings": "yes",
}


def means(command: str, config: str, folder: Path) -> dict[str, str]:
    """What ssh would do for a command line, with a user's configuration."""
    require("ssh")
    path = folder / "config"
    path.write_text(config)
    program, *words = shlex.split(command)
    assert program == "ssh"
    said = subprocess.run(
        [program, "-G", "-F", str(path), *words], capture_output=True, text=True, check=True
    ).stdout
    return dict(line.split(" ", 1) for line in said.splitlines() if " " in line)


def plays() -> str:
    common = connection_vars(samples.site())["ansible_ssh_common_args"]
    return f"ssh {common} 198.18.7.11"


def rsync(role: str) -> str:
    variables: dict[str, Any] = yaml.safe_load((ROOT / f"roles/{role}/vars/main.yml").read_text())
    said = variables[f"__{role}_ssh"]
    common = connection_vars(samples.site())["ansible_ssh_common_args"]
    said = said.replace("{{ ansible_port | default(22) }}", "22")
    said = said.replace(
        f"{{% if __{role}_key %}}-i {{{{ __{role}_key | quote }}}}{{% endif %}}", ""
    )
    said = said.replace("{{ ansible_ssh_common_args | default('') }}", common)
    assert "{" not in said
    return f"{said} 198.18.7.11"


def jump() -> str:
    return jump_command(samples.site(ssh={"jump_host": "ops@198.51.100.1"}), "198.18.7.11:22")


def person(command: str = "") -> str:
    return shlex.join(login_words(SITE, SITE.nodes[0], command, terminal=bool(command)))


COMMANDS: dict[str, Callable[[], str]] = {
    "plays": plays,
    "the bundle": lambda: rsync("artifact_server"),
    "the vendor's bundle": lambda: rsync("runai_bundle"),
    "the jump host": jump,
    "a person": person,
    "a person's command": partial(person, "id"),
}


@pytest.mark.parametrize("which", COMMANDS)
def test_nothing_is_forwarded_and_only_the_sites_keys_are_believed(
    which: str, tmp_path: Path
) -> None:
    own = means("ssh 198.18.7.11", OPEN, tmp_path)
    assert {name for name, value in CLOSED.items() if own.get(name) == value} == set()
    found = means(COMMANDS[which](), OPEN, tmp_path)
    assert {name: found[name] for name in CLOSED} == CLOSED
    assert "remoteforward" not in found
    assert "localforward" not in found
    assert found["userknownhostsfile"] == "/nowhere/rack/known_hosts"


@pytest.mark.parametrize(
    "which", ["the bundle", "the vendor's bundle", "the jump host", "a person"]
)
def test_no_connection_is_shared_that_was_made_by_other_rules(which: str, tmp_path: Path) -> None:
    assert means("ssh 198.18.7.11", OPEN, tmp_path)["controlpath"] == "/home/me/198.18.7.11"
    assert means(COMMANDS[which](), OPEN, tmp_path).get("controlpath", "none") == "none"


@pytest.mark.parametrize("which", COMMANDS)
def test_what_a_user_needs_of_it_stays(which: str, tmp_path: Path) -> None:
    found = means(COMMANDS[which](), OPEN, tmp_path)
    assert found["certificatefile"] == "/home/me/certificate.pub"


def test_a_command_that_begins_with_a_dash_is_no_option_of_ssh(tmp_path: Path) -> None:
    found = means(person("-oProxyCommand=touch /tmp/x"), OPEN, tmp_path)
    assert "touch" not in found.get("proxycommand", "")
