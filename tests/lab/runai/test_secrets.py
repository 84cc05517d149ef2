"""No secret that any command was given is told anywhere; a canary in each place would be found.

What the making of the lab was given is searched for in every run, in ``test_runai.py``; here every
command runs, with all that it can be given, and a canary is planted in each place of every node.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from appliance.adapters.site.vault import KEPT, AnsibleVault
from tests.lab.conftest import LabSite
from tests.lab.runai.commands import Commands
from tests.lab.runai.hiding_places import CANARIES, PLACES, World, found_in
from tests.lab.runai.known_secrets import Secret, forms, secrets_of
from tests.lab.runai.researchers import HOST, Researchers
from tests.lab.runai.watch import HERE, ProcessWatch
from tests.lab.support import faults
from tests.lab.support.issuer import settings_file, site_with

pytestmark = [pytest.mark.lab, pytest.mark.slow]

TLS_KEY = "vault_runai_tls_key"
CLUSTER_VALUES = "/etc/appliance/runai/runai-{}.yaml"
# What must be among the secrets, so that the search is for something.
EXPECTED = {
    "vault_site_ca_key", TLS_KEY, "vault_runai_admin_password", "vault password", "SSH key",
    "admin's key", "token 1 of a join", "cluster's client secret", "backend's key",
    "registry's key", "cluster CA's key", "researcher's token",
}  # fmt: skip
# Every command that reads or changes a site; SITE is its directory, W1 and W2 are its workers.
# tests/contract/test_secrets_search.py holds it against the command line itself.
COMMANDS = (
    "plan --site SITE",
    "plan --site SITE --output json",
    "status --site SITE",
    "status --site SITE --output json",
    "status --site SITE --debug",
    "health --site SITE --output json",
    "health --site SITE --stage runai",
    "cluster certificates show --site SITE",
    "hardware inspect --site SITE --output json",
    "hardware qualify --site SITE --report SITE/../hardware-secrets.html",
    "hardware burn-in --site SITE --output json",
    "cluster certificates renew --site SITE --dry-run",
    "cluster backup list --site SITE --to SITE/..",
    "cluster cleanup --site SITE --dry-run",
    "cluster upgrade --to k8s-1.23.17-r1 --site SITE --dry-run",
    "site check --site SITE",
    "site show --site SITE",
    "site inventory --site SITE",
    "site adopt --site SITE",
    "history --site SITE --output json",
    "horizon --site SITE --output json",
    "support bundle --site SITE --to SITE/../support-secrets.tar.gz",
    "node passport --site SITE",
    "node patch --site SITE --dry-run",
    "node power status --site SITE",
    "site packages --site SITE",
    "node logs W1 --site SITE --lines 10000",
    "node maintain W2 --site SITE --reason secrets --yes",
    "node return W2 --site SITE --yes",
    "rack down --site SITE --dry-run",
    "rack up --site SITE --dry-run",
    "reset --site SITE --dry-run",
    "node role list --site SITE",
    "node role remove W1 --role gpu --site SITE --yes",
    "node role set W1 --role gpu --site SITE --yes",
    "runai access kubeconfig ada --project team-a --site SITE",
    "runai cli install --site SITE --nodes W1 --user ada --user grace --yes",
    "runai inspect SITE/.appliance/vendor/runai-2.7.14.tar",
    "runai upgrade SITE/.appliance/vendor/runai-2.7.14.tar --site SITE --dry-run",
    "gpu upgrade --site SITE --dry-run",
    "install --site SITE --yes",
)
# These look, and say by their exit code what they see of a lab.
LOOKING = {"health", "horizon", "plan"}


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
def test_a_secret_is_known_again_in_base64_wherever_it_stands(before: int, after: int) -> None:
    text = b64encode(b"x" * before + b"Abcd!234" + b"y" * after).decode()
    assert any(form in text for form in forms("Abcd!234"))


def test_what_is_too_short_to_be_searched_for_is_said() -> None:
    with pytest.raises(ValueError, match="4 characters"):
        forms("1234")


@pytest.fixture(scope="module")
def world(
    runai_lab: LabSite,
    watch: ProcessWatch,
    commands: Commands,
    researchers: Researchers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[World]:
    """Every command has run, with everything that it can be given."""
    found = World(runai_lab, watch, commands)
    folder = tmp_path_factory.mktemp("certificate")
    with own_certificate(found, folder):
        make_it_log_in(found)
        site = ("--site", str(runai_lab.directory))
        words = ("install", *site, "--bundle", str(runai_lab.bundle), "--yes")
        assert "verified: " in commands.succeed(*words, timeout=1200).stderr
        for line in COMMANDS:
            run(found, line)
        assert "Logged in" in researchers.log_in("ada")
        run(found, COMMANDS[-1])
        yield found


@contextmanager
def own_certificate(world: World, folder: Path) -> Iterator[None]:
    """The site brings the backend's certificate, and its key is in the vault."""
    lab = world.lab
    site = ("--site", str(lab.directory))
    world.commands.succeed("runai", "csr", *site, "--out", str(folder), "--sign")
    name = f"runai.{lab.name}.test"
    file, vault = lab.directory / "group_vars/all/vault.yml", AnsibleVault(lab.directory / KEPT)
    before = file.read_text()
    more = {TLS_KEY: (folder / f"{name}.key").read_text()}
    file.write_text(vault.encrypt(yaml.safe_dump({**vault.read(file), **more})))
    settings = yaml.safe_load(settings_file(lab).read_text())
    runai = {**settings["runai"], "certificate": str(folder / f"{name}.crt")}
    try:
        with site_with(lab, runai=runai):
            yield
    finally:
        file.write_text(before)


def make_it_log_in(world: World) -> None:
    """The cluster's values are gone and the script is to run again; a worker has to join again."""
    lab = world.lab
    lab.shell("cp1", f"rm -f {CLUSTER_VALUES.format(lab.name)} /var/lib/appliance/runai/*/prepared")
    if not world.watch.seen.tokens:
        faults.wipe(lab.directory, lab.node("w2"))


def run(world: World, line: str) -> None:
    """One command of the table."""
    lab = world.lab
    meant = {"SITE": str(lab.directory), "W1": lab.node(HOST), "W2": lab.node("w2")}
    words = [meant.get(word, word.replace("SITE/", f"{lab.directory}/")) for word in line.split()]
    done = world.commands.run(*words)
    assert done.returncode in ((0, 5) if words[0] in LOOKING else (0,)), done.stdout + done.stderr


@pytest.fixture(scope="module")
def secrets(world: World, researchers: Researchers) -> tuple[Secret, ...]:
    """As they are after the last command."""
    token = Secret("researcher's token", researchers.token("ada").rpartition(".")[2])
    return (*secrets_of(world.lab, world.watch.seen), token)


def test_every_kind_of_secret_is_searched_for(secrets: tuple[Secret, ...]) -> None:
    assert {secret.name for secret in secrets} >= EXPECTED


def test_commands_were_watched_here_and_on_every_node(world: World) -> None:
    seen = world.watch.seen.argv
    assert set(seen) == {HERE, *(world.lab.node(short) for short in ("cp1", "w1", "w2", "w3"))}
    assert any("ansible-playbook" in line for line in seen[HERE])
    for short, line in (("cp1", "helm upgrade --install runai-backend"), ("w2", "kubeadm join")):
        assert any(line in one for one in seen[world.lab.node(short)]), line
    assert world.watch.seen.open_files == set()


@pytest.mark.parametrize("place", PLACES)
def test_no_secret_is_printed_or_stored(
    world: World, secrets: tuple[Secret, ...], place: str
) -> None:
    assert PLACES[place](world, secrets) == []


@pytest.mark.parametrize("name", CANARIES)
def test_a_printed_secret_would_be_found(world: World, name: str) -> None:
    place, told, plant = CANARIES[name]
    canary = "canary-" + name.replace(" ", "-").replace("'", "")
    with plant(world, canary):
        found = found_in(place, world, canary)
    assert any(told in one for one in found), found
