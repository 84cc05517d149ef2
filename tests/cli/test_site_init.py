"""``appliance site init``: what it asks, what it says at its end, and how it refuses."""

import sys
from pathlib import Path

import click
import pytest

from appliance.cli import exits

NEW = [
    "--domain=rack7.example",
    "--control-plane=master1=198.51.100.11/24",
    "--worker=gpu1=198.51.100.21/24",
    "--hardware=gpu1=quanta/d43n-3u",
    "--ntp=198.51.100.3",
    "--new-vault-password",
]
SETTINGS = Path("group_vars", "all", "site.yml")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("APPLIANCE_SITE", "ANSIBLE_VAULT_PASSWORD_FILE"):
        monkeypatch.delenv(name, raising=False)


def init(directory: Path, *words: str) -> int:
    return exits.run(["site", "init", str(directory), *NEW, *words])


def test_a_fault_names_the_option_and_no_file_that_was_never_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = tmp_path / "rack7"
    assert init(directory, "--hardware=mastr1=quanta/s5sp", "--os=ubuntu-20.4") == 3
    said = capsys.readouterr().err
    assert "--hardware mastr1=quanta/s5sp: no such node; did you mean 'master1'?" in said
    assert "--os ubuntu-20.4: " in said
    assert "has 2 faults" in said or "have 2 faults" in said
    assert ".yml:" not in said
    assert "hint: correct --hardware, --os, then run the same command again" in said
    assert not directory.exists()


def test_without_a_terminal_the_choice_about_gpus_is_explicit_and_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "rack7", "--dry-run") == 0
    said = capsys.readouterr().err
    assert "warning: site.yml says gpu: null: pods get no GPUs of gpu1" in said
    assert "gpu: {driver: host}" in said


@pytest.mark.parametrize("answer", [True, False])
def test_a_person_is_asked_about_gpus(
    answer: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(click, "confirm", confirm)
    assert init(tmp_path / "rack7") == 0
    assert asked == ["gpu1: install the GPU driver and the GPU Operator?"]
    written = (tmp_path / "rack7" / SETTINGS).read_text()
    assert ("\n  driver: host\n" in written) is answer
    assert ("\ngpu: null\n" in written) is not answer
    assert "warning: site.yml says gpu" not in capsys.readouterr().err


@pytest.mark.parametrize(("option", "kept"), [("--gpu", "\ngpu:\n"), ("--no-gpu", "\ngpu: null\n")])
def test_an_option_answers_the_question(
    option: str, kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert init(tmp_path / "rack7", option) == 0
    said = capsys.readouterr().err
    assert kept in (tmp_path / "rack7" / SETTINGS).read_text()
    assert "warning: site.yml says gpu" not in said
    assert ("gpu.kernels" in said) is (option == "--gpu")


def test_the_end_says_what_to_edit_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory = tmp_path / "rack7"
    assert init(directory, "--no-gpu") == 0
    said = capsys.readouterr().err
    assert f"{directory / SETTINGS}: nfs (shared storage), runai, ssh (port, jump_host)" in said
    assert "hardware of master1" in said
    assert "system_nodes, which Run:ai needs" in said
    assert said.endswith(f"next: appliance site check --site {directory}\n")


def test_a_directory_that_cannot_be_written_is_exit_3_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("theirs")
    assert init(tmp_path / "file" / "rack9", "--no-gpu") == 3
    said = capsys.readouterr().err
    assert "cannot be written: " in said
    assert "nothing was changed" in said
    assert "hint: choose a directory that you may write to" in said
    assert (tmp_path / "file").read_text() == "theirs"


def test_no_permission_is_exit_3_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = Path.mkdir

    def mkdir(self: Path, *words: object, **named: object) -> None:
        if self == tmp_path / "rack9":
            raise PermissionError(13, "Permission denied", str(self))
        original(self, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "mkdir", mkdir)
    assert init(tmp_path / "rack9", "--no-gpu") == 3
    said = capsys.readouterr().err
    assert f"{tmp_path / 'rack9'} cannot be written: Permission denied" in said
