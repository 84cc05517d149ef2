"""A fault of this machine's SSH key ends the command; it is never a node's fault."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace as Thing
from typing import Any

import paramiko
import pytest

from appliance.adapters.ssh.nodes import SshNodes
from appliance.adapters.ssh.trust import known_hosts
from appliance.errors import ConfigError, NodeUnreachable
from appliance.model.site.settings import Site
from tests import samples
from tests.prerequisites import require

KEY = paramiko.ECDSAKey.generate()


@pytest.fixture(autouse=True)
def _ssh_keygen() -> None:
    require("ssh-keygen")


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Addresses that were connected to; no agent, no key at home, and nothing answers."""
    found: list[str] = []

    def connect(_self: paramiko.SSHClient, address: str, **_more: Any) -> None:
        found.append(address)
        raise TimeoutError("timed out")

    monkeypatch.setattr(paramiko.SSHClient, "connect", connect)
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return found


def agent(monkeypatch: pytest.MonkeyPatch, *keys: object) -> None:
    held = Thing(get_keys=lambda: keys, close=lambda: None)
    monkeypatch.setattr(paramiko, "Agent", lambda: held)


def site_with(tmp_path: Path, key: Path | None) -> Site:
    site = samples.site(ssh={"user": "appliance", "private_key": str(key) if key else None})
    return replace(site, directory=tmp_path)


def whole(path: Path, password: str | None = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    KEY.write_private_key_file(str(path), password)
    return path


def refusal(site: Site) -> str:
    """What a look ends with."""
    with pytest.raises(ConfigError) as error:
        SshNodes(site).look(site.nodes)
    assert error.value.exit_code == 3
    return f"{error.value.message} | {error.value.hint}"


def test_a_key_that_is_not_there_is_named(tmp_path: Path, asked: list[str]) -> None:
    said = refusal(site_with(tmp_path, tmp_path / "id"))
    assert f"{tmp_path / 'id'} cannot be read: No such file" in said
    assert "ssh.private_key in site.yml" in said
    assert asked == []


def test_a_directory_is_no_key(tmp_path: Path) -> None:
    assert "cannot be read: Is a directory" in refusal(site_with(tmp_path, tmp_path))


def test_a_key_of_another_user_says_who_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: str, _password: object = None) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(paramiko.RSAKey, "from_private_key_file", denied)
    said = refusal(site_with(tmp_path, whole(tmp_path / "id")))
    assert "cannot be read: Permission denied" in said
    assert "chown" in said


@pytest.mark.parametrize("held", [b"ecdsa-sha2-nistp256 AAAA me\n", b"\xff\xfe\x00"], ids=repr)
def test_what_is_no_private_key_is_said(tmp_path: Path, held: bytes) -> None:
    public = tmp_path / "id.pub"
    public.write_bytes(held)
    said = refusal(site_with(tmp_path, public))
    assert str(public) in said
    assert "ssh.private_key in site.yml" in said


def test_a_key_with_a_passphrase_needs_an_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    site = site_with(tmp_path, whole(tmp_path / "id", "secret"))
    said = refusal(site)
    assert "has a passphrase, and no SSH agent holds a key" in said
    assert f"ssh-add {tmp_path / 'id'}" in said
    agent(monkeypatch, KEY)
    assert len(SshNodes(site).look(site.nodes).faults) == len(site.nodes) == len(asked)


def test_without_a_key_an_agent_or_a_key_at_home_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = site_with(tmp_path, None)
    assert "no SSH agent holds a key" in refusal(site)
    locked = whole(tmp_path / "home" / ".ssh" / "id_ecdsa", "secret")
    assert "ssh-add" in refusal(site)
    whole(locked)
    assert SshNodes(site).look(site.nodes).faults
    locked.unlink()
    agent(monkeypatch, KEY)
    assert SshNodes(site).look(site.nodes).faults


def test_the_key_is_checked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checks: list[str | None] = []
    monkeypatch.setattr("appliance.adapters.ssh.nodes.check_private_key", checks.append)
    site = site_with(tmp_path, tmp_path / "id")
    nodes = SshNodes(site)
    nodes.look(site.nodes)
    nodes.look(site.nodes)
    assert checks == [str(tmp_path / "id")]


@pytest.mark.parametrize("held", [None, b"\xff\xfe\n", b"w1 ssh-ed25519 AAA\n"], ids=repr)
def test_a_known_hosts_that_cannot_be_read_is_named(tmp_path: Path, held: bytes | None) -> None:
    site = site_with(tmp_path, whole(tmp_path / "id"))
    if held is None:
        site.known_hosts.mkdir()
    else:
        site.known_hosts.write_bytes(held)
    assert str(site.known_hosts) in refusal(site)
    with pytest.raises(ConfigError, match="known_hosts"):
        known_hosts.missing(site.known_hosts, ["198.18.0.1"], 22)
    with pytest.raises(ConfigError, match="known_hosts"):
        known_hosts.holds(site.known_hosts, "198.18.0.1", 22, KEY)


def test_a_known_hosts_of_another_user_says_who_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_self: paramiko.HostKeys, path: str) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr(paramiko.HostKeys, "load", denied)
    said = refusal(site_with(tmp_path, whole(tmp_path / "id")))
    assert "Permission denied" in said
    assert "chown" in said


@pytest.mark.parametrize(
    "error",
    [
        PermissionError(errno.EACCES, "Permission denied", "/keys/id-cert.pub"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "ssh"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=repr,
)
def test_whatever_else_is_this_machines_own_tells_nothing_of_a_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    def fails(*_words: object, **_more: object) -> None:
        raise error

    monkeypatch.setattr(paramiko.SSHClient, "connect", fails)
    assert str(error.strerror) in refusal(site_with(tmp_path, whole(tmp_path / "id")))


def test_a_node_that_is_silent_is_still_a_fault_of_the_node(tmp_path: Path) -> None:
    site = site_with(tmp_path, whole(tmp_path / "id"))
    with pytest.raises(NodeUnreachable, match="no answer within"):
        SshNodes(site).run(site.nodes[0], "true")


def test_a_key_trusted_for_one_run_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes the place of the one in the file, and leaves the file alone."""
    seen: list[Any] = []

    def connect(self: paramiko.SSHClient, address: str, **_more: Any) -> None:
        seen.append(dict(self.get_host_keys().lookup(address) or {}))

    monkeypatch.setattr(paramiko.SSHClient, "connect", connect)
    site = site_with(tmp_path, whole(tmp_path / "id"))
    old = paramiko.RSAKey.generate(2048)
    known_hosts.append(site.known_hosts, {(site.nodes[0].ip, 22): old})
    before = site.known_hosts.read_bytes()
    nodes = SshNodes(site)
    nodes.trust({(site.nodes[0].ip, 22): KEY})
    nodes._connect(site.nodes[0])
    assert seen == [{KEY.get_name(): KEY}]
    assert site.known_hosts.read_bytes() == before
