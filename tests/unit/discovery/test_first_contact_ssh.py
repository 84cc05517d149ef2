"""First contact by real SSH on loopback; commands run in a real shell with a home of their own."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import paramiko
import pytest
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED

from appliance.adapters.ssh.prospects import COMMENT, SshServers
from appliance.errors import ConfigError
from appliance.model.checks.discovery.found import Failed, Found
from appliance.model.checks.discovery.targets import Target, targets
from appliance.model.state.facts.facts import SCHEMA
from tests.ssh_server import KEY, mark_of

PASSWORD = "a pass-word$(id)'"  # noqa: S105
FACTS = {
    "schema": SCHEMA,
    "dmi": {"vendor": "Quanta", "product": "S5SP", "serial": "SN1"},
    "nics": [{"name": "eno1", "addresses": ["127.0.8.1/24"], "mac": "52:54:00:00:00:01"}],
}


class Machine(paramiko.ServerInterface):
    """One server.

    Attributes:
        home: of the login user, with ``.ssh/authorized_keys``.
        shell: what runs its commands; False: it answers with what the probe says.
        stdin: what the probe got.
    """

    def __init__(self, home: Path) -> None:
        self.home = home
        self.host_key: paramiko.PKey = KEY
        self.said: bytes = json.dumps(FACTS).encode()
        self.stdin: list[bytes] = []
        self.commands: list[str] = []
        self.ignores_file = False
        self.sudo_takes: str | None = None
        self.is_no_shell = False

    @property
    def file(self) -> Path:
        return self.home / ".ssh" / "authorized_keys"

    def check_auth_password(self, username: str, password: str) -> int:
        good = (username, password) == ("ubuntu", PASSWORD)
        return AUTH_SUCCESSFUL if good else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        line = f"{key.get_name()} {key.get_base64()}"
        good = not self.ignores_file and any(one.startswith(line) for one in lines)
        return AUTH_SUCCESSFUL if good and username == "ubuntu" else AUTH_FAILED

    def get_allowed_auths(self, _username: str) -> str:
        return "publickey,password"

    def check_channel_request(self, _kind: str, _chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._run, args=(channel, command.decode()), daemon=True).start()
        return True

    def _run(self, channel: paramiko.Channel, command: str) -> None:
        with suppress(OSError, EOFError, paramiko.SSHException):
            self.commands.append(command)
            stdin = b""
            while chunk := channel.recv(65536):
                stdin += chunk
            if self.is_no_shell and "appliance_probe" in command:
                first = stdin.partition(b"\n")[0]
                channel.sendall(mark_of(command))
                channel.sendall_stderr(b"% Unknown command: " + first + b"\n")
                channel.send_exit_status(127)
            elif "appliance_probe" in command:
                self.stdin.append(stdin)
                channel.sendall(mark_of(command) + self.said)
                channel.send_exit_status(0)
            elif self.sudo_takes is not None and "sudo" in command:
                self.stdin.append(stdin)
                channel.sendall(mark_of(command))
                channel.send_exit_status(int(stdin != f"{self.sudo_takes}\n".encode()))
            else:
                done = subprocess.run(
                    ["sh", "-c", command], input=stdin, capture_output=True, timeout=20,
                    check=False, env={"HOME": str(self.home), "PATH": "/usr/bin:/bin"},
                )  # fmt: skip
                channel.sendall(done.stdout)
                channel.sendall_stderr(done.stderr)
                channel.send_exit_status(done.returncode)
            channel.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    made = tmp_path / "home"
    made.mkdir()
    return made


@pytest.fixture
def machine(home: Path) -> Machine:
    return Machine(home)


@pytest.fixture
def port(machine: Machine) -> Iterator[int]:
    listening = socket.create_server(("127.0.8.1", 0))
    transports: list[paramiko.Transport] = []

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listening.accept()
                transport = paramiko.Transport(connection)
                transport.add_server_key(machine.host_key)
                transports.append(transport)
                # A client that refuses the key resets the connection.
                with suppress(paramiko.SSHException, EOFError, OSError):
                    transport.start_server(server=machine)

    threading.Thread(target=accept, daemon=True).start()
    yield listening.getsockname()[1]
    listening.shutdown(socket.SHUT_RDWR)
    listening.close()
    for transport in transports:
        transport.close()


@pytest.fixture
def key(tmp_path: Path) -> paramiko.PKey:
    made = paramiko.ECDSAKey.generate()
    made.write_private_key_file(str(tmp_path / "id"))
    return made


@pytest.fixture
def servers(tmp_path: Path, port: int, key: paramiko.PKey) -> SshServers:  # noqa: ARG001
    return SshServers("ubuntu", str(tmp_path / "id"), port)


def where() -> Target:
    return targets(["127.0.8.1"])[0]


def pinned(servers: SshServers) -> dict[Target, str]:
    shown = servers.keys([where()])[where()]
    assert isinstance(shown, str)
    return {where(): shown}


def test_the_key_is_added_once_and_then_lets_in(
    servers: SshServers, machine: Machine, key: paramiko.PKey
) -> None:
    pins = pinned(servers)
    assert pins[where()] == f"{KEY.get_name()} {KEY.get_base64()}"
    refused = servers.read([where()], pins, None)[where()]
    assert refused == Failed("the login was refused", refuses_key=True)
    found = servers.read([where()], pins, PASSWORD)[where()]
    assert isinstance(found, Found)
    assert (found.serial, found.prefix, found.has_key) == ("SN1", 24, False)
    for _ in range(2):
        assert servers.let_in([where()], pins, PASSWORD) == {where(): None}
    line = f"{key.get_name()} {key.get_base64()} {COMMENT}\n"
    assert machine.file.read_text() == line
    assert machine.file.stat().st_mode & 0o777 == 0o600
    assert machine.file.parent.stat().st_mode & 0o777 == 0o700
    again = servers.read([where()], pins, None)[where()]
    assert isinstance(again, Found)
    assert again.has_key


def test_other_keys_stay_as_they_are(servers: SshServers, machine: Machine) -> None:
    machine.file.parent.mkdir()
    machine.file.write_text("# mine\nssh-ed25519 AAAA other")
    machine.file.chmod(0o640)
    assert servers.let_in([where()], pinned(servers), PASSWORD) == {where(): None}
    assert machine.file.read_text().startswith("# mine\nssh-ed25519 AAAA other\necdsa-")
    assert len(machine.file.read_text().splitlines()) == 3
    assert machine.file.stat().st_mode & 0o777 == 0o640


def test_the_password_is_in_no_command(servers: SshServers, machine: Machine) -> None:
    pins = pinned(servers)
    servers.read([where()], pins, PASSWORD)
    servers.let_in([where()], pins, PASSWORD)
    assert machine.stdin[0].startswith(f"{PASSWORD}\n".encode())
    assert len(machine.commands) == 3
    assert not [one for one in machine.commands if PASSWORD in one or "pass-word" in one]


def test_a_password_for_sudo_is_proved_and_is_in_no_command(
    servers: SshServers, machine: Machine
) -> None:
    pins = pinned(servers)
    servers.let_in([where()], pins, PASSWORD)
    machine.sudo_takes = PASSWORD
    found = servers.read([where()], pins, None)[where()]
    assert isinstance(found, Found)
    assert (found.has_key, found.sudo_asks) == (True, True)
    found = servers.read_as_root([where()], pins, PASSWORD)[where()]
    assert isinstance(found, Found)
    assert (found.has_key, found.sudo_asks) == (True, True)
    assert f"{PASSWORD}\n".encode() in machine.stdin
    wrong = servers.read_as_root([where()], pins, "wrong")[where()]
    assert isinstance(wrong, Failed)
    assert "sudo does not make the login user root with this password" in wrong.reason
    assert not [one for one in machine.commands if PASSWORD in one or "pass-word" in one]


def test_another_host_key_than_the_pinned_gets_no_password(
    servers: SshServers, machine: Machine
) -> None:
    pins = pinned(servers)
    machine.host_key = paramiko.ECDSAKey.generate()
    for answer in (
        servers.read([where()], pins, PASSWORD)[where()],
        servers.let_in([where()], pins, PASSWORD)[where()],
    ):
        assert answer == Failed("it shows another host key than a moment ago")
    assert machine.commands == []


def test_a_server_that_does_not_heed_the_file_is_named(
    servers: SshServers, machine: Machine
) -> None:
    machine.ignores_file = True
    answer = servers.let_in([where()], pinned(servers), PASSWORD)[where()]
    assert answer == Failed("the key is in ~/.ssh/authorized_keys, and still refused")


def test_a_file_that_cannot_be_written_is_named(servers: SshServers, machine: Machine) -> None:
    machine.file.parent.write_text("a file")
    answer = servers.let_in([where()], pinned(servers), PASSWORD)[where()]
    assert isinstance(answer, Failed)
    assert "was not added to ~/.ssh/authorized_keys" in answer.reason


@pytest.mark.parametrize("said", [b"", b"[", b'{"schema": 99}', b"\x00\xff", b"[" * 100_000])
def test_a_strange_answer_is_a_reason(servers: SshServers, machine: Machine, said: bytes) -> None:
    machine.said = said
    answer = servers.read([where()], pinned(servers), PASSWORD)[where()]
    assert isinstance(answer, Failed)
    assert not answer.refuses_key


def test_nobody_there_is_a_reason(servers: SshServers) -> None:
    silent = targets(["127.0.8.2"])[0]
    answer = servers.keys([silent])[silent]
    assert isinstance(answer, Failed)
    assert "no SSH on 127.0.8.2" in answer.reason


def test_a_key_that_cannot_be_used_ends_it_before_any_login(tmp_path: Path, port: int) -> None:
    with pytest.raises(ConfigError):
        SshServers("ubuntu", str(tmp_path / "none"), port).read([where()], {}, None)


def test_the_password_is_not_repeated_where_a_server_is_no_shell(
    servers: SshServers, machine: Machine
) -> None:
    """As a switch in the range, which takes its input for commands and names each."""
    machine.is_no_shell = True
    found = servers.read([where()], pinned(servers), PASSWORD)[where()]
    assert isinstance(found, Failed)
    assert PASSWORD not in found.reason
    assert found.reason == "the probe exited with 127: % Unknown command: (password)"
