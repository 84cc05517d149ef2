"""Nodes whose sudo asks for a password: the real sudo, which is given the one of the vault.

The lab's own nodes are set so for the time of these tests; their site stays as it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.commands import appliance, succeed
from tests.lab.conftest import LabSite

pytestmark = [pytest.mark.lab, pytest.mark.slow]

RULE = "/etc/sudoers.d/appliance"
# What a shell, a template and a reader of lines could each take for something else.
PASSWORD = 'it\'s {% "$HOME" \\n'  # noqa: S105 - made up here
NODES = ("cp1", "w1", "w2")


@pytest.fixture(scope="module")
def asking(installed_lab: LabSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabSite]:
    """The installed lab by a site of its own: every sudo asks, and the vault has the answer."""
    lab = installed_lab
    directory = tmp_path_factory.mktemp("asking") / lab.name
    shutil.copytree(lab.directory, directory, ignore=shutil.ignore_patterns("runs"))
    file = directory / "group_vars/all/site.yml"
    settings = yaml.safe_load(file.read_text())
    settings["ssh"]["become_password"] = True
    file.write_text(yaml.safe_dump(settings))
    user = settings["ssh"]["user"]
    _keep(directory, PASSWORD)
    before = {short: lab.shell(short, f"getent shadow {user}") for short in NODES}
    try:
        for short in NODES:
            lab.shell(short, f"printf '%s\\n' {_quoted(f'{user}:{PASSWORD}')} | chpasswd")
            lab.shell(short, f"sed -i 's/NOPASSWD: //' {RULE} && visudo -qcf {RULE}")
        yield LabSite(lab.name, directory, lab.bundle)
    finally:
        for short in NODES:
            lab.shell(short, f"echo '{user} ALL=(ALL) NOPASSWD: ALL' > {RULE}")
            old = before[short].split(":")[1]
            lab.shell(short, f"usermod -p {_quoted(old)} {user}")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _keep(directory: Path, password: str) -> None:
    """Put the password into the site's vault; a template in it stays text."""
    vault, file = AnsibleVault((directory / KEPT).resolve()), directory / "group_vars/all/vault.yml"
    known = dict(vault.read(file))
    known.pop("vault_become_password", None)
    text = yaml.safe_dump(known) + "vault_become_password: !unsafe "
    file.write_text(vault.encrypt(text + '"' + password.replace("\\", "\\\\").replace('"', '\\"')
                                  + '"\n'))  # fmt: skip


def test_nodes_are_read_as_root(asking: LabSite) -> None:
    refused = asking.shell("w1", "su appliance -c 'sudo -n true' 2>&1 || true")
    assert "a password is required" in refused, "the premise: sudo asks here"
    assert asking.settled()["unmet"] == []


def test_plays_and_deliveries_become_root_and_nothing_keeps_the_password(asking: LabSite) -> None:
    # A delivery of its own: the file that the services node has is not the bundle's any more.
    asking.shell("cp1", "echo x >> /var/lib/appliance/bundle/manifest.json")
    done = asking.install("--only", "artifacts", "--again")
    assert done.returncode == 0, done.stdout + done.stderr
    assert asking.settled()["unmet"] == []
    kept = [path for path in (asking.directory / ".appliance").rglob("*") if path.is_file()]
    runs = [path for path in kept if "runs" in path.parts]
    assert runs, "the premise: the run left its log"
    assert not [path for path in kept if PASSWORD.encode() in path.read_bytes()]
    for short in NODES:
        assert PASSWORD not in asking.shell(short, "journalctl -o cat --no-pager")


@pytest.mark.parametrize(
    ("password", "told"),
    [
        ("another", "expected that sudo takes vault_become_password of the vault"),
        ("", "has no vault_become_password of one line"),
    ],
    ids=["wrong", "missing"],
)
def test_a_password_that_does_not_work_is_refused_before_any_change(
    asking: LabSite, password: str, told: str
) -> None:
    _keep(asking.directory, password)
    try:
        done = appliance(*asking.install_words(), "--only", "preflight")
        assert done.returncode != 0
        assert told in " ".join((done.stdout + done.stderr).split())
    finally:
        _keep(asking.directory, PASSWORD)
    succeed("status", "--site", str(asking.directory))
