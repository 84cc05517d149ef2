"""The searches for told secrets run every command that a secret could come into.

One is in a lab, with every secret of a site; one has simulated BMCs, and searches for their
passwords.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence

import click
import pytest

from appliance.cli.app import cli
from tests.contract.tree import walk
from tests.lab.runai.test_secrets import COMMANDS
from tests.standins.test_bmc_secrets import COMMANDS as BMC_COMMANDS

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
    "hardware list": "no site",
    "hardware show": "no site",
    "self upgrade": "of a site it reads only which signers it trusts",
    "site schema": "no site",
    "support explain": "no site: it reads a file whose secrets were taken out",
    "lab status": "no site: it asks podman, and prints names and addresses of BMCs",
    "lab shell": "a shell: what is told in it is its user's own",
    "node ssh": "a login: what is told in it is its user's own",
    "kubeconfig": "it prints the administrator's key, which is asked for; no secret of the vault",
    "lab down": "no site: it removes containers",
    "node image": "it asks BMCs, as node power does, which is searched; seeds have no secret",
    "node remove": "the kubeadm reset of a node that the search has joined again already",
    "node rejoin": "the steps of the install that joins a wiped node, which is searched",
    "node add": "the steps of the install that joins a wiped node, which is searched",
}
BMC_LINES = [line for line, _ in BMC_COMMANDS]
# A command that may ask a BMC and that the search for their passwords does not run.
WITHOUT_BMC = {
    "lab down": "it asks no BMC: it ends the process that plays them",
    "lab shell": "it asks no BMC: it opens a shell in a container",
    "lab status": "it asks no BMC: it prints their names and addresses",
    "lab up": "it asks no BMC; test_bmc_processes searches the process that plays them",
    "node add": "it needs a cluster; its BMC is asked by the code of node power status",
    "node image": "seeds have no secret; its BMC is driven by the code of node power",
    "node maintain": "it needs a cluster; test_bmc searches what it prints when it cuts power",
    "node rejoin": "it needs a cluster; its BMC is asked by the code of node power status",
    "node remove": "it needs a cluster; its BMC is driven by the code of node maintain",
    "node return": "it needs a cluster; its BMC is driven by the code of node power on",
    "rack down": "it needs a cluster; its BMCs are driven by the code of node power",
    "rack up": "it needs nodes that start; its BMCs are driven by the code of node power on",
    "site check": "it asks no BMC: it reads the inventory",
    "site schema": "it asks no BMC: it prints the schema of files",
    "site show": "it asks no BMC: it reads the inventory",
}
# What a module says that reaches a BMC.
ASKS_BMC = re.compile(r"bmc|redfish|with_imaging|hardware import reader", re.IGNORECASE)


def _run_by(lines: Sequence[str]) -> set[str]:
    every = {" ".join(path) for path, _ in walk(cli)}
    return {one for one in every for line in lines if f"{line} ".startswith(f"{one} ")}


def _may_ask_a_bmc(command: click.Command) -> bool:
    assert command.callback is not None
    module = inspect.getmodule(inspect.unwrap(command.callback))
    assert module is not None
    return bool(ASKS_BMC.search(inspect.getsource(module)))


def test_every_command_that_may_ask_a_bmc_is_searched_for_their_passwords() -> None:
    asking = {" ".join(path) for path, command in walk(cli) if _may_ask_a_bmc(command)}
    searched = _run_by(BMC_LINES)
    assert asking - searched - WITHOUT_BMC.keys() == set(), "neither searched nor excused"
    assert WITHOUT_BMC.keys() & searched == set(), "excused and yet searched"
    assert WITHOUT_BMC.keys() - asking == set(), "no such command, or it asks no BMC"


def test_every_command_is_searched_or_excused() -> None:
    every = {" ".join(path) for path, _ in walk(cli)}
    by_bmcs = _run_by(BMC_LINES)
    searched = BY_FIXTURES | by_bmcs | _run_by(COMMANDS)
    assert every - searched - EXCUSED.keys() == set(), "neither searched nor excused"
    assert EXCUSED.keys() & searched == set(), "excused and yet searched"
    assert (EXCUSED.keys() | BY_FIXTURES) - every == set(), "no such command"


@pytest.mark.parametrize("line", [*COMMANDS, *BMC_LINES])
def test_a_line_of_the_search_names_a_command(line: str) -> None:
    assert any(f"{line} ".startswith(f"{' '.join(path)} ") for path, _ in walk(cli))
