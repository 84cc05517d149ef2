"""A site's state that is another user's, a vault that is closed or gone, and no site at all."""

import os
from pathlib import Path

import pytest

from appliance.cli import exits
from tests.site_cases import break_site, copy_of_good

VAULT = "group_vars/all/vault.yml"


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_SITE", "APPLIANCE_OUTPUT", "ANSIBLE_VAULT_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("command", [["site", "check"], ["history"]])
@pytest.mark.parametrize("folder", [".appliance", ".appliance/journal"])
def test_a_state_folder_of_another_user_is_refused_with_a_remedy(
    command: list[str],
    folder: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    site = copy_of_good(tmp_path / "rack7")
    (site / ".appliance/journal").mkdir(parents=True)
    monkeypatch.setattr(
        os, "access", lambda path, mode: mode == os.F_OK or Path(path) != site / folder
    )
    assert exits.run([*command, "--site", str(site)]) == 3
    said = capsys.readouterr().err
    assert f"you may not read {site / folder}" in said
    assert f'sudo chown -R "$USER" {site}/.appliance' in said


def test_history_of_no_site_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for place in (tmp_path, tmp_path / "nonexist"):
        assert exits.run(["history", "--site", str(place)]) == 3
        printed = capsys.readouterr()
        assert printed.out == ""
        assert f"there is no site at {place}" in printed.err


def test_history_of_a_broken_site_and_of_a_journal_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_site("many_at_once", tmp_path / "broken")
    (tmp_path / "kept/.appliance/journal").mkdir(parents=True)
    for name in ("broken", "kept"):
        assert exits.run(["history", "--site", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.startswith("nothing ran here yet; ")


@pytest.mark.parametrize("case", ["missing_vault", "empty_vault"])
def test_the_hint_for_a_lost_vault_is_to_restore_it_if_nodes_trust_its_ca(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    break_site(case, tmp_path / "rack7")
    assert exits.run(["site", "check", "--site", str(tmp_path / "rack7")]) == 3
    said = capsys.readouterr().err
    assert f"git log -- {VAULT}" in said
    assert f"git checkout COMMIT -- {VAULT}" in said
    assert "a new vault has a new CA, which the nodes of an existing cluster do not trust" in said
    assert "ansible-vault edit" not in said


def test_a_closed_vault_is_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = copy_of_good(tmp_path / "rack7")
    assert exits.run(["site", "check", "--site", str(site)]) == 0
    printed = capsys.readouterr()
    assert printed.out == "rack7: 2 nodes, no fault, 1 warning\n"
    said = f"warning: {site / VAULT}:1: the vault was not checked: no password available; set "
    assert said in printed.err
    assert "ANSIBLE_VAULT_PASSWORD_FILE" in printed.err


def test_a_new_site_with_one_fault_reports_one_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--control-plane=cp1=198.51.100.11/24",
        "--hardware=cp1=quanta/none",
        "--dns=198.51.100.2",
    ]
    assert exits.run(["site", "init", str(tmp_path / "rack7"), *words]) == 3
    said = capsys.readouterr().err
    assert said.count("\n  - ") == 1
    assert "would have 1 fault;" in said


@pytest.mark.parametrize("file", ["hosts.yml", "group_vars/all/site.yml"])
@pytest.mark.parametrize("command", [["site", "check"], ["history"]])
def test_a_file_of_a_site_is_answered_with_the_directory(
    file: str, command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = copy_of_good(tmp_path / "rack7")
    assert exits.run([*command, "--site", str(site / file)]) == 3
    assert capsys.readouterr().err == (
        f"error: {site / file} is a file; --site takes the directory of the site\n"
        f"hint: --site {site}\n"
    )
