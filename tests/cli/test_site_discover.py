"""``appliance site init --discover``: what is typed, asked, printed and written."""

from __future__ import annotations

import dataclasses
import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from appliance.adapters.local.discovery_pins import SitePins
from appliance.cli import exits
from appliance.cli.commands.site import discovery
from appliance.cli.commands.site.discovered import public_key
from appliance.cli.commands.site.discovery import DiscoveryOptions, Operator
from appliance.model.checks.discovery.found import Failed, FoundDisk
from appliance.model.checks.discovery.targets import Target
from appliance.model.site.files.new import NewSite
from appliance.workflows.site.discover import Contacts
from tests.unit.discovery.made_up import machine
from tests.unit.discovery.test_discover import World
from tests.unit.imaging import bench

HOST_KEY = (
    "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7"
    "opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg="
)
WORDS = [
    "--discover=198.51.100.11-12",
    "--discover=bmc:203.0.113.12",
    "--private-key=/root/.ssh/site-key",
]
MORE = ["--domain=rack7.example", "--new-vault-password", "--gpu"]
Capture = pytest.CaptureFixture[str]


class Rack(World):
    """Two servers and a BMC; what they tell of themselves goes to the terminal."""

    def keys(self, asked: Sequence[Target]) -> dict[Target, str | Failed]:
        found = super().keys(asked)
        for one, key in found.items():
            if isinstance(key, str):
                of_bmc = ("cd" if str(one) in self.other else "ab") * 32
                found[one] = of_bmc if one.kind == "bmc" else HOST_KEY
        return found


@pytest.fixture
def rack(monkeypatch: pytest.MonkeyPatch) -> Rack:
    made = Rack(
        {
            "198.51.100.11": machine("198.51.100.11", serial="SN-1", product="S5SP"),
            "198.51.100.12": machine(
                "198.51.100.12", serial="SN-2", gpus=4, mac="52:54:00:00:00:02"
            ),
            "bmc:203.0.113.12": machine("bmc:203.0.113.12", serial="SN-2"),
        },
        closed={"198.51.100.11", "198.51.100.12"},
    )

    def contacts(
        directory: Path, _new: NewSite, options: DiscoveryOptions, *, dry_run: bool
    ) -> Contacts:
        operator = Operator(directory, options, dry_run=dry_run)
        return Contacts(made, made, SitePins(directory), operator)

    monkeypatch.setattr(discovery, "contacts_of", contacts)
    for name in ("APPLIANCE_SITE", "ANSIBLE_VAULT_PASSWORD_FILE", "APPLIANCE_VAULT_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)
    return made


@pytest.fixture
def passwords(tmp_path: Path) -> list[str]:
    file = tmp_path / "password"
    file.write_text("right\n")
    file.chmod(0o600)
    return [f"--password-file={file}", f"--bmc-password-file={file}"]


def init(directory: Path, *words: str) -> int:
    return exits.run(["site", "init", str(directory), *WORDS, *MORE, *words])


def test_found_machines_become_a_site_that_passes_its_check(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    directory = tmp_path / "rack7"
    assert init(directory, *passwords, "--yes") == 0
    assert rack.said[-1] == "let in 198.51.100.11,198.51.100.12"
    assert exits.run(["site", "check", "--site", str(directory)]) == 0
    capsys.readouterr()
    hosts = yaml.safe_load((directory / "hosts.yml").read_text())["all"]["children"]
    assert list(hosts["control_plane"]["hosts"]) == ["cp1"]
    assert list(hosts["gpu_workers"]["hosts"]) == ["gpu1"]
    assert yaml.safe_load((directory / "host_vars/gpu1.yml").read_text()) == {
        "address": "198.51.100.12/24",
        "bmc_address": "203.0.113.12",
        "bmc_fingerprint": "ab" * 32,
        "mac": "52:54:00:00:00:02",
    }
    assert (directory / "known_hosts").read_text() == "".join(
        f"198.51.100.{n} {HOST_KEY}\n" for n in (11, 12)
    )
    assert not (directory / ".appliance" / "discovery.json").exists()
    vault = (directory / "group_vars/all/vault.yml").read_text()
    assert vault.startswith("$ANSIBLE_VAULT;")


def test_bare_servers_are_drafted_for_node_image(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    key = tmp_path / ".ssh/id_ed25519.pub"
    key.parent.mkdir()
    key.write_text(f"{bench.KEY}\n")
    disks = {"12": (FoundDisk("DISK-12"),), "13": (FoundDisk("DISK-A"), FoundDisk("DISK-B"))}
    rack.machines.clear()
    for last, told in disks.items():
        name = f"bmc:203.0.113.{last}"
        rack.machines[name] = machine(name, serial=f"SN-{last}", product="S5SP", disks=told)
    directory = tmp_path / "rack7"
    words = ["--discover=bmc:203.0.113.12-13", "--addresses=198.51.100.11/24", *MORE, *passwords]
    assert exits.run(["site", "init", str(directory), *words, "--yes"]) == 0
    printed = capsys.readouterr().err
    assert "imaging.disk_serial of sys1, for node image" in printed
    assert "imaging.authorized_keys" not in printed
    settings = yaml.safe_load((directory / "group_vars/all/site.yml").read_text())
    assert settings["imaging"] == {"authorized_keys": [bench.KEY]}
    (one, other) = ((directory / f"host_vars/{name}.yml").read_text() for name in ("cp1", "sys1"))
    assert yaml.safe_load(one)["imaging"] == {
        "disk_serial": "DISK-12",
        "machine_serial": "SN-12",
    }
    assert "imaging" not in yaml.safe_load(other)
    assert "# imaging:\n#   # The disk" in other
    assert exits.run(["site", "check", "--site", str(directory)]) == 0, capsys.readouterr().err
    # Uncommented, with one line kept, it is a section.
    chosen = other.replace('#   disk_serial: "DISK-B"\n', "")
    chosen = chosen.replace("# imaging:\n#   #", "imaging:\n  #")
    chosen = chosen.replace("\n#   disk_serial:", "\n  disk_serial:")
    chosen = chosen.replace("\n#   machine_serial:", "\n  machine_serial:")
    (directory / "host_vars/sys1.yml").write_text(chosen)
    assert yaml.safe_load(chosen)["imaging"]["disk_serial"] == "DISK-A"
    assert exits.run(["site", "check", "--site", str(directory)]) == 0, capsys.readouterr().err


def test_the_key_beside_the_site_key_lets_its_owner_in(tmp_path: Path) -> None:
    private = tmp_path / "site-key"
    assert public_key(str(private)) is None
    private.with_suffix(".pub").write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    assert public_key(str(private)) is None
    private.with_suffix(".pub").write_text(f"{bench.KEY}\n")
    assert public_key(str(private)) == public_key(f"{private}.pub") == bench.KEY


def test_a_port_and_a_password_for_sudo_go_into_the_site(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    for name, one in rack.machines.items():
        rack.machines[name] = dataclasses.replace(one, sudo_asks=not name.startswith("bmc"))
    directory = tmp_path / "rack7"
    assert init(directory, *passwords, "--yes", "--ssh-port=2222") == 0
    assert "sudo asks for the login user's password" in capsys.readouterr().err
    settings = yaml.safe_load((directory / "group_vars/all/site.yml").read_text())
    assert (settings["ssh"]["port"], settings["ssh"]["become_password"]) == (2222, True)
    assert (directory / "known_hosts").read_text().startswith("[198.51.100.11]:2222 ")
    words = ["site", "check", "--site", str(directory)]
    assert exits.run(words) == 0, capsys.readouterr().err


def test_a_jump_host_is_refused_with_what_to_do_instead(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    assert init(tmp_path / "rack7", *passwords, "--yes", "--jump-host=ada@198.51.100.9") == 2
    assert "run it on that host, and write ssh.jump_host" in capsys.readouterr().err
    assert rack.said == []


def test_no_password_is_printed_or_written_in_the_clear(
    rack: Rack, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rack.password = None  # type: ignore[assignment, method-assign]
    secret = "right-horse"  # noqa: S105
    monkeypatch.setattr(World, "let_in", lambda *_: {})
    rack.closed.clear()
    file = tmp_path / "secret"
    file.write_text(secret)
    file.chmod(0o600)
    directory = tmp_path / "rack7"
    assert init(directory, f"--bmc-password-file={file}", "--yes") == 0
    printed = capsys.readouterr()
    assert secret not in printed.out + printed.err
    assert [p for p in directory.rglob("*") if p.is_file() and secret in p.read_text()] == []


def test_a_dry_run_writes_nothing(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    assert init(tmp_path / "rack7", *passwords, "--yes", "--dry-run") == 0
    assert "would write" in capsys.readouterr().out
    assert not (tmp_path / "rack7").exists()
    assert "let in" not in " ".join(rack.said).replace("; let in", "")


def test_without_a_terminal_the_keys_are_refused(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    assert init(tmp_path / "rack7", *passwords) == 3
    assert "--yes" in capsys.readouterr().err
    assert not [said for said in rack.said if said.startswith("read")]


def test_a_person_sees_the_keys_and_the_machines_and_says_no(
    rack: Rack, tmp_path: Path, passwords: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: Capture,
) -> None:  # fmt: skip
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return len(asked) == 1

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirm)
    directory = tmp_path / "rack7"
    assert init(directory, *passwords) == 3
    printed = capsys.readouterr()
    assert "198.51.100.11: ecdsa-sha2-nistp256 SHA256:" in printed.err
    assert f"bmc:203.0.113.12: certificate SHA-256 {'ab' * 32}" in printed.err
    assert "cp1, 198.51.100.11" in printed.err
    assert "SN-2" in printed.out
    assert len(asked) == 2
    assert not (directory / "hosts.yml").exists()
    assert not rack.said[-1].startswith("let in")


def test_a_changed_certificate_is_refused_by_the_second_run(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    rack.stubborn.add("198.51.100.12")
    directory = tmp_path / "rack7"
    assert init(directory, *passwords, "--yes") == 1
    rack.other.add("bmc:203.0.113.12")
    assert init(directory, *passwords, "--yes") == 3
    assert "bmc:203.0.113.12 shows another key than at first contact" in capsys.readouterr().err
    rack.other.clear()
    rack.stubborn.clear()
    assert init(directory, *passwords, "--yes") == 0
    assert not (directory / ".appliance" / "discovery.json").exists()


def test_an_existing_site_is_refused_before_any_machine_is_asked(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    (tmp_path / "rack7").mkdir()
    (tmp_path / "rack7" / "hosts.yml").touch()
    assert init(tmp_path / "rack7", *passwords, "--yes") == 3
    assert "exists; no file was changed" in capsys.readouterr().err
    assert rack.said == []


def _loose(path: Path) -> None:
    path.write_text("right\n")
    path.chmod(0o644)


def _two_lines(path: Path) -> None:
    path.write_text("one\ntwo\n")
    path.chmod(0o600)


def _empty(path: Path) -> None:
    path.write_text("\n")
    path.chmod(0o600)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_loose, "chmod 600"),
        (_two_lines, "no password"),
        (_empty, "no password"),
        (lambda path: path.mkdir(), "may read"),
        (lambda _path: None, "cannot be read"),
    ],
    ids=["loose", "two lines", "empty", "a folder", "none"],
)
def test_a_password_file_is_strict(
    rack: Rack, make: Callable[[Path], Any], said: str, tmp_path: Path, capsys: Capture
) -> None:
    make(tmp_path / "password")
    assert init(tmp_path / "rack7", f"--password-file={tmp_path / 'password'}", "--yes") == 3
    assert said in capsys.readouterr().err
    assert not [one for one in rack.said if one.endswith("with right")]


def test_a_password_comes_from_standard_input(
    rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passwords: list[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("right\nmore\n"))
    assert init(tmp_path / "rack7", "--password-file=-", passwords[1], "--yes", "--dry-run") == 0
    assert "read 198.51.100.11,198.51.100.12 with right" in rack.said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--worker=a=198.51.100.1/24"], "--role ADDRESS=ROLE"),
        (["--role=198.51.100.1=boss"], "is not ADDRESS=ROLE"),
        (["--role=here=worker"], "is not ADDRESS=ROLE"),
        (["--addresses=198.51.100.1/33"], "is not ADDRESS/PREFIX"),
        (["--addresses=198.51.100.1"], "the prefix is 8 to 30"),
        (["--control-plane-count=2"], "1 or 3"),
        (["--control-plane-count=3"], "needs --virtual-address"),
        (["--password-file=-", "--bmc-password-file=-"], "only one password"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_any_machine_is_asked(
    rack: Rack, words: list[str], said: str, tmp_path: Path, capsys: Capture
) -> None:
    assert init(tmp_path / "rack7", *words, "--yes") == 2
    assert said in " ".join(capsys.readouterr().err.split())
    assert rack.said == []


@pytest.mark.parametrize(
    "word", ["--yes", "--names=x", "--role=a=b", "--bmc-user=x", "--system-node-count=2"]
)
def test_options_of_a_discovery_need_one(word: str, tmp_path: Path, capsys: Capture) -> None:
    assert exits.run(["site", "init", str(tmp_path / "rack7"), word]) == 2
    assert "needs --discover" in capsys.readouterr().err


def test_the_site_key_must_be_named(rack: Rack, tmp_path: Path, capsys: Capture) -> None:
    words = ["site", "init", str(tmp_path / "rack7"), "--discover=198.51.100.11", "--yes"]
    assert exits.run(words) == 2
    assert "--private-key" in capsys.readouterr().err
    assert exits.run([*words, "--private-key=id"]) == 2
    assert "begins with / or ~/" in " ".join(capsys.readouterr().err.split())
    assert rack.said == []


def test_a_file_of_ranges(
    rack: Rack, tmp_path: Path, passwords: list[str], capsys: Capture
) -> None:
    ranges = tmp_path / "ranges"
    ranges.write_text("198.51.100.11 # the master\n198.51.100.12\n")
    words = [f"--discover={ranges}", "--private-key=~/k", *MORE, *passwords, "--yes", "--dry-run"]
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *words]) == 0
    assert "gpu1" in capsys.readouterr().out
    assert not [said for said in rack.said if "bmc:" in said]


def test_every_option_of_a_discovery_is_taken() -> None:
    names = {field.name for field in dataclasses.fields(DiscoveryOptions)}
    assert names <= {
        parameter.name for parameter in discovery.discovery_options(click.Command("x")).params
    }
