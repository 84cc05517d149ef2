"""The search for told secrets runs every command that a secret could come into."""

from __future__ import annotations

import pytest

from appliance.cli.app import cli
from tests.contract.tree import walk
from tests.lab.runai.test_secrets import COMMANDS

# Run by the fixtures of the same search, with all that they can be given.
BY_FIXTURES = {"lab up", "runai csr", "runai access enable"}
EXCUSED = {
    "bundle build": "no site: it reads public artifacts",
    "bundle show": "no site",
    "bundle verify": "no site; a signature is checked with public keys",
    "bundle have": "it prints digests and sizes of a manifest",
    "bundle join": "no site",
    "bundle sign": "no site; ssh-keygen reads the key from its own file",
    "cluster backup create": "its file is encrypted; test_archive searches it for secrets",
    "cluster backup fetch": "it prints names, sizes and digests; the file is encrypted",
    "cluster backup key": "no site: it prints a public key",
    "cluster backup verify": "it prints digests and numbers of parts",
    "completion": "no site: it prints a script",
    "docs": "no site: it prints pages",
    "cluster restore": "it prints names, sizes and times; a living cluster is refused before",
    "hardware bios set": "no lab node has a BMC; test_hardware_bios searches what it prints",
    "hardware bmc-password": "no lab node has a BMC; test_hardware_bmc_password searches for it",
    "hardware list": "no site",
    "hardware show": "no site",
    "hardware record": "no lab node has a BMC; test_bmc_record searches its file for the login",
    "node power cycle": "no lab node has a BMC; test_bmc_driver searches words and logs",
    "node power off": "no lab node has a BMC; test_bmc_driver searches words and logs",
    "node power on": "no lab node has a BMC; test_bmc_driver searches words and logs",
    "self upgrade": "of a site it reads only which signers it trusts",
    "site schema": "no site",
    "support explain": "no site: it reads a file whose secrets were taken out",
    "site init": "a new site: it has no secret before its first install",
    "lab status": "no site: it asks podman",
    "lab shell": "a shell: what is told in it is its user's own",
    "node ssh": "a login: what is told in it is its user's own",
    "kubeconfig": "it prints the administrator's key, which is asked for; no secret of the vault",
    "lab down": "no site: it removes containers",
    "node image": "it asks BMCs, as node power does, which is searched; seeds have no secret",
    "node remove": "the kubeadm reset of a node that the search has joined again already",
    "node rejoin": "the steps of the install that joins a wiped node, which is searched",
    "node add": "the steps of the install that joins a wiped node, which is searched",
}


def test_every_command_is_searched_or_excused() -> None:
    every = {" ".join(path) for path, _ in walk(cli)}
    searched = BY_FIXTURES | {
        command for command in every for line in COMMANDS if f"{line} ".startswith(f"{command} ")
    }
    assert every - searched - EXCUSED.keys() == set(), "neither searched nor excused"
    assert EXCUSED.keys() & searched == set(), "excused and yet searched"
    assert (EXCUSED.keys() | BY_FIXTURES) - every == set(), "no such command"


@pytest.mark.parametrize("line", COMMANDS)
def test_a_line_of_the_search_names_a_command(line: str) -> None:
    assert any(f"{line} ".startswith(f"{' '.join(path)} ") for path, _ in walk(cli))
