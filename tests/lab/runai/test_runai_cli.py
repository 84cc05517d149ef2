"""``appliance runai cli install``: several users of one node work with the CLI and kubectl."""

from __future__ import annotations

import stat

import pytest
import yaml

from tests.lab.conftest import LabSite
from tests.lab.runai.commands import Commands
from tests.lab.runai.researchers import HOST, NAMES, PROJECT, Researchers

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("name", NAMES)
def test_each_has_a_file_of_their_own_without_any_credential_of_others(
    researchers: Researchers, name: str
) -> None:
    lab, path = researchers.lab, f"/home/{name}/.kube/config"
    mode, owner = lab.shell(HOST, f"stat -c '%a %U' {path}").split()
    assert (mode, owner) == ("600", name)
    config = yaml.safe_load(lab.shell(HOST, f"cat {path}"))
    assert config["current-context"].startswith(f"{name}@")
    (user,) = config["users"]
    assert list(user["user"]) == ["auth-provider"]
    # A token is there for who logged in, and nobody else.
    assert bool(researchers.token(name)) == (name == "ada")
    for other in set(NAMES) - {name}:
        assert "Permission denied" in researchers.run(name, f"cat /home/{other}/.kube/config")


def test_the_program_and_its_completion_work_for_everybody(researchers: Researchers) -> None:
    for name in NAMES:
        assert "STANDIN" in researchers.run(name, "runai version")
        script = ". /etc/bash_completion.d/runai; complete -p runai"
        assert "login" in researchers.run(name, f'bash -c "{script}"')


def test_a_login_lists_the_pods_of_its_project_and_nothing_else(researchers: Researchers) -> None:
    assert "Logged in" in researchers.log_in("ada")
    assert "No resources found" in researchers.run("ada", f"kubectl -n {PROJECT} get pods")
    for forbidden in ("nodes", "secrets -n kube-system", "secrets -A", "pods -A"):
        said = researchers.run("ada", f"kubectl get {forbidden}")
        assert "Forbidden): " in said, forbidden
        assert "cannot list resource" in said


def test_the_cli_reads_the_same_file(researchers: Researchers) -> None:
    lab = researchers.lab
    assert "Logged in" in researchers.log_in("ada")
    said = researchers.run("ada", "runai list jobs")
    assert 'cannot list resource "pods" in API group "" in the namespace "default"' in said
    assert stat.S_IMODE(int(lab.shell(HOST, "stat -c %f /home/ada/.kube/config"), 16)) == 0o600


def test_without_a_login_nothing_is_shown(researchers: Researchers) -> None:
    said = researchers.run("grace", f"kubectl -n {PROJECT} get pods </dev/null")
    assert "No resources found" not in said
    assert "NAME" not in said


def test_a_second_run_has_nothing_to_do_and_leaves_the_login(
    researchers: Researchers, commands: Commands
) -> None:
    before = researchers.token("ada")
    assert before
    assert "nothing to do" in commands.succeed(*researchers.words).stdout
    assert researchers.token("ada") == before


def test_a_user_who_is_not_there_is_refused_before_any_change(
    researchers: Researchers, runai_lab: LabSite, commands: Commands
) -> None:
    before = len(runai_lab.records())
    done = commands.run(*researchers.words, "--user", "nobody-of-us")
    assert done.returncode == 3, done.stderr
    assert "user nobody-of-us: found no such user" in done.stderr
    assert "sudo adduser nobody-of-us" in done.stderr
    assert len(runai_lab.records()) == before
