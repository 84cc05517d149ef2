"""A script becomes root by itself, by sudo, or by sudo with a password; its input arrives whole."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.control_plane.archive import ControlPlaneArchive
from appliance.adapters.site.vault_text import read_secrets
from appliance.adapters.ssh.become import Become
from appliance.adapters.ssh.nodes import SshNodes
from appliance.errors import ConfigError
from appliance.model.site.settings import Site
from tests import samples
from tests.unit.modules.sudo_that_asks import PASSWORD, programs

INPUT = bytes(range(256)) * 2_000
SCRIPT = 'printf "root=%s " "$AS_ROOT"; cat | sha256sum; exit 7'


def site(**changes: Any) -> Site:
    found = samples.site()
    ssh = found.settings.ssh.model_copy(update=changes)
    return replace(found, settings=found.settings.model_copy(update={"ssh": ssh}))


def become(folder: Path, *, asks: bool, password: str | None, **how: Any) -> Any:
    way = Become(site(become_password=password is not None), lambda _name: password)
    return subprocess.run(
        ["sh", "-c", way.command(SCRIPT, **how)],
        input=way.stdin(INPUT),
        env={"PATH": f"{programs(folder, asks=asks)}:{os.environ['PATH']}"},
        capture_output=True,
        timeout=60,
        check=False,
    )


def digest() -> str:
    done = subprocess.run(["sha256sum"], input=INPUT, capture_output=True, check=True)
    return done.stdout.decode()


@pytest.mark.parametrize("or_self", [False, True])
@pytest.mark.parametrize(
    ("asks", "password"), [(False, None), (False, PASSWORD), (True, PASSWORD)], ids=repr
)
def test_a_script_runs_as_root_with_its_whole_input(
    tmp_path: Path,
    asks: bool,
    password: str | None,
    or_self: bool,
) -> None:
    done = become(tmp_path, asks=asks, password=password, or_self=or_self)
    assert (done.returncode, done.stdout.decode()) == (7, f"root=1 {digest()}"), done.stderr


@pytest.mark.parametrize("password", [None, "wrong"])
def test_without_the_right_password_it_does_not_run(tmp_path: Path, password: str | None) -> None:
    done = become(tmp_path, asks=True, password=password)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"sudo:" in done.stderr
    assert b"3 incorrect" not in done.stderr


@pytest.mark.parametrize("password", [None, "wrong"])
def test_or_it_runs_with_the_own_rights(tmp_path: Path, password: str | None) -> None:
    done = become(tmp_path, asks=True, password=password, or_self=True)
    assert (done.returncode, done.stdout.decode()) == (7, f"root= {digest()}")


def test_what_needs_no_root_asks_no_sudo(tmp_path: Path) -> None:
    done = become(tmp_path, asks=True, password=PASSWORD, enough="true")
    assert (done.returncode, done.stdout.decode()) == (7, f"root= {digest()}")


@pytest.mark.parametrize(
    "changes", [{"become_password": False}, {"become": False}, {"user": "root"}], ids=repr
)
def test_the_password_goes_to_no_node_that_does_not_ask(changes: dict[str, Any]) -> None:
    way = Become(site(**{"become_password": True, **changes}), lambda _name: PASSWORD)
    assert way.stdin(b"x") == b"x"


@pytest.mark.parametrize("password", [None, "", "two\nlines"])
def test_a_password_that_cannot_be_one_is_refused(password: str | None) -> None:
    way = Become(site(become_password=True), lambda _name: password)
    with pytest.raises(ConfigError, match="has no vault_become_password of one line"):
        way.stdin(b"")


@pytest.mark.parametrize("vault", ["{}", 'vault_become_password: ""', "vault_become_password:"])
def test_it_is_refused_before_the_first_connection(
    vault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(SshNodes, "_transport", lambda _self, node: asked.append(node.name))
    held = read_secrets(Path("vault.yml"), vault)
    rack = site(become_password=True)
    archive = ControlPlaneArchive(rack, SshNodes(rack, secret=held.get))
    with pytest.raises(ConfigError, match="has no vault_become_password of one line"):
        archive.everything("members")
    assert asked == []
