"""``appliance hardware bmc-password``: what is printed, kept and started holds no password."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.hardware.redfish_accounts import RedfishAccounts
from appliance.adapters.site import vault as vaults
from appliance.adapters.site.vault import KEPT, AnsibleVault, SiteVault
from appliance.cli.commands.hardware import reader
from appliance.cli.exits import run
from tests.cli import test_questions
from tests.cli.question_rack import Rack, has_the_factorys_password
from tests.standins import simulated_bmcs
from tests.standins.simulated_bmcs import LOGIN, SERIAL, SYSTEM, configured, secrets, simulated

rack = test_questions.rack
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def typed(rack: Rack) -> Callable[..., int]:
    has_the_factorys_password(rack)
    site = str(rack.desired.site.directory)
    return lambda *words: run(["hardware", "bmc-password", *words, "--site", site])


def test_a_bmc_is_given_a_password_once(
    typed: Callable[..., int], rack: Rack, capsys: Capture
) -> None:
    assert typed("w2", "--yes") == 0
    assert "put it under version control" in capsys.readouterr().out
    kept = rack.accounts[1].secrets["vault_bmc_password_w2"]
    assert typed("w2", "--yes") == 0
    assert "w2: nothing to do: this tool replaced it on 2023-11-14" in capsys.readouterr().out
    assert typed("w2", "--yes", "--renew", "-o", "json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["changed"] is True
    assert kept not in said.out + said.err


@pytest.mark.parametrize(
    ("fault", "ends"),
    [
        ({"deaf": True}, (1, "its BMC accepted the new password, and kept the old one")),
        ({"remembers": 99}, (1, "the new password lets in at its BMC, and the old one still does")),
        ({"has_account": False}, (4, "lists no account of the user admin")),
        ({"silent": True}, (4, "no answer")),
    ],
)
def test_what_went_wrong_is_said_without_a_password(
    typed: Callable[..., int], rack: Rack, capsys: Capture, fault: Any, ends: tuple[int, str]
) -> None:
    for name, value in fault.items():
        setattr(rack.accounts[0].boards["w2"], name, value)
    assert typed("w2", "--yes") == ends[0]
    said = capsys.readouterr()
    assert ends[1] in said.err
    for name, secret in rack.accounts[1].secrets.items():
        if "password" in name:
            assert secret not in said.out + said.err


def test_an_unknown_node_is_refused(typed: Callable[..., int], capsys: Capture) -> None:
    assert typed("w22", "--yes") == 2
    assert "did you mean" in capsys.readouterr().err


def test_a_whole_change_starts_no_program_with_a_password_and_leaves_none_in_a_file(
    rack: Rack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """A simulated BMC over TLS, and a vault that ansible-vault encrypts."""
    board = tmp_path / "board"
    board.mkdir()
    file, key = tmp_path / "group_vars/all/vault.yml", tmp_path / KEPT
    file.parent.mkdir(parents=True)
    key.parent.mkdir(mode=0o700)
    key.write_text("password-of-the-vault\n")
    key.chmod(0o600)
    started: list[str] = []
    runs: Any = vars(vaults)["run"]

    def watched(words: Any, **more: Any) -> Any:
        started.append(" ".join(map(str, words)) + " ".join((more.get("env") or {}).values()))
        return runs(words, **more)

    changes = {SYSTEM: {**SERIAL[SYSTEM], "SerialNumber": "SN-w2"}}
    with simulated(board, configured(changes=changes, quirks={"password_cut": 16})) as (server,):
        known = secrets(board)
        lines = (f"{name}: {json.dumps(value)}\n" for name, value in known.items())
        file.write_text(AnsibleVault(key).encrypt("".join(lines)))
        site = rack.desired.site
        nodes = tuple(simulated_bmcs.node("w2") if one.name == "w2" else one for one in site.nodes)
        rack.desired = replace(rack.desired, site=replace(site, nodes=nodes))
        store = SiteVault(rack.desired.site)
        accounts = RedfishAccounts(store.read, server.server_address[1])
        monkeypatch.setattr(reader, "accounts_of", lambda _: (accounts, store))
        monkeypatch.setattr(vaults, "run", watched)
        assert run(["hardware", "bmc-password", "w2", "--yes", "--site", str(tmp_path)]) == 0
        said = capsys.readouterr()
        assert "it keeps only the first 16 characters" in said.out
        new = server.bmc.machine.accounts.password
    assert store.read()["vault_bmc_password_w2"] == new
    records = list((tmp_path / ".appliance").rglob("*.json"))
    assert len(records) >= 1, "the premise: the journal is there"
    assert len(started) > 4, "the premise: ansible-vault was started"
    files = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in (new, LOGIN["password"]):
        assert not any(secret in text for text in (said.out, said.err, *started, *files))
