"""The edge: each error class becomes its exit code and a message that says what to do next."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest

from appliance import errors
from appliance.cli import app, exits
from appliance.cli.screen.hints import in_lines, remembering, runnable
from appliance.workflows.session.look_warnings import collecting

CODES = {
    errors.ApplianceError: 1,
    errors.PlaybookFailed: 1,
    errors.ClusterError: 1,
    errors.ClusterRefused: 1,
    errors.ClusterSilent: 1,
    errors.StepNotVerified: 1,
    errors.BuildFailed: 1,
    errors.LabError: 1,
    errors.LeaseLost: 1,
    errors.LeftOut: 1,
    errors.BmcRefused: 1,
    errors.CommandFailed: 1,
    errors.SourceUnavailable: 1,
    errors.Refused: 3,
    errors.ConfigError: 3,
    errors.PreflightFailed: 3,
    errors.BundleRefused: 3,
    errors.NodeUnreachable: 4,
    errors.NotHealthy: 5,
    errors.Interrupted: 130,
}


def _run(monkeypatch: pytest.MonkeyPatch, failure: BaseException | None) -> int:
    @click.command()
    def probe() -> None:
        if failure:
            raise failure

    monkeypatch.setattr(app.cli, "get_command", lambda _ctx, _name: probe)
    return exits.run(["probe"])


@pytest.mark.parametrize("kind", CODES, ids=lambda kind: kind.__name__)
def test_each_error_has_its_exit_code_and_says_what_to_do(
    kind: type[errors.ApplianceError],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    error = kind(
        "w2: it is wrong",
        task="role : Task (file:3)",
        hint="do this next",
        details=["w1: also"],
        log_path=Path("/var/log/x.log"),
    )
    assert _run(monkeypatch, error) == CODES[kind]
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.splitlines() == [
        "error: w2: it is wrong",
        "  - w1: also",
        "task: role : Task (file:3)",
        "hint: do this next",
        "log: /var/log/x.log",
    ]


def test_every_error_class_is_tested() -> None:
    def all_of(kind: type[errors.ApplianceError]) -> set[type[errors.ApplianceError]]:
        return {kind}.union(*(all_of(child) for child in kind.__subclasses__()))

    ours = {kind for kind in all_of(errors.ApplianceError) if kind.__module__ == errors.__name__}
    assert ours == set(CODES)


def test_a_successful_command_exits_with_0(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _run(monkeypatch, None) == 0


def test_ctrl_c_exits_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, KeyboardInterrupt()) == 130
    assert "interrupted" in capsys.readouterr().err


def _warn_and_end(failure: BaseException) -> None:
    with collecting() as warnings:
        warnings.append("the passports cannot be read")
        raise failure


@pytest.mark.parametrize(
    "failure",
    [errors.Refused("w2: it is wrong"), KeyboardInterrupt(), OSError(28, "full"), KeyError("bug")],
    ids=lambda failure: failure.__class__.__name__,
)
def test_warnings_are_printed_whatever_error_follows(
    failure: BaseException, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(failure.__class__):
        _warn_and_end(failure)
    assert _run(monkeypatch, failure) != 0
    lines = [line for line in capsys.readouterr().err.splitlines() if line]
    assert lines[0] == "warning: the passports cannot be read"
    assert lines[1].startswith("error: ")


def test_an_internal_error_writes_its_traceback_to_a_log_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, RuntimeError("boom")) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "error: internal error: RuntimeError: boom"
    assert len(lines) == 3
    log = Path(lines[2].removeprefix("log: "))
    assert "RuntimeError: boom" in log.read_text(encoding="utf-8")
    log.unlink()


@pytest.mark.parametrize(
    ("failure", "told", "hint"),
    [
        (OSError(28, "No space left on device", "/s/x"), "/s/x: No space left", "df -h"),
        (OSError(28, "No space left on device"), "No space left on device", "df -h"),
        (PermissionError(13, "Permission denied", "/s/y"), "/s/y: Permission denied", "ls -l"),
        (OSError(30, "Read-only file system", "/s/z"), "/s/z: Read-only", "read-only"),
    ],
    ids=repr,
)
def test_an_error_of_this_machine_is_not_an_internal_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    failure: OSError,
    told: str,
    hint: str,
) -> None:
    assert _run(monkeypatch, failure) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"error: this machine: {told}")
    assert hint in second


def test_any_other_os_error_is_an_internal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(monkeypatch, IsADirectoryError(21, "Is a directory", "/s")) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("error: internal error: IsADirectoryError")
    Path(said[2].removeprefix("log: ")).unlink()


@pytest.mark.parametrize(
    ("words", "hint", "more"),
    [
        (
            ["--site", "S 1"],
            "see: appliance status; then",
            "see: appliance status --site 'S 1'; then",
        ),
        (["--site=S"], "appliance node rejoin w1", "appliance node rejoin w1 --site S"),
        # A site whose name is part of the hint's words is a site like any other.
        (["--site", "node"], "appliance node rejoin w1", "appliance node rejoin w1 --site node"),
        (["--site", "l"], "see: appliance plan", "see: appliance plan --site l"),
        (
            ["--site", "S"],
            "do x && appliance install --yes",
            "do x && appliance install --yes --site S",
        ),
        (["--site", "S"], "the same: appliance plan.", "the same: appliance plan --site S."),
        (["--site", "S"], "appliance bundle verify DIR", ""),
        (["--site", "S"], "appliance bundle build --release r --os o DIR", ""),
        (["--site", "S"], "the appliance has no node", ""),
        (["-s", "S"], "(appliance install --only gpu)", "(appliance install --only gpu --site S)"),
        (["--site", "S"], "appliance site show --site S", ""),
        (["--site", "/r"], "make one with: appliance site init /r", ""),
        (["--site", "S"], "ping 198.18.0.1", ""),
        (["--site", "S"], "appliance lab up", ""),
        (["--site", "S"], "appliance runai inspect /media/x.tar", ""),
        (["--site", "S"], "appliance runai csr", "appliance runai csr --site S"),
        ([], "see: appliance status", ""),
    ],
)
def test_commands_in_a_hint_have_the_site_that_was_typed(
    capsys: pytest.CaptureFixture[str], words: list[str], hint: str, more: str
) -> None:
    with remembering(["plan", *words, "--nodes", "w1"], app.cli):
        exits.show(errors.Refused("no", hint=hint))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[1] == f"hint: {more or hint}"


def test_programs_of_an_inactive_environment_are_named_by_their_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [".venv/bin/appliance", "status"])
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bin" / "python"))
    hint = "appliance status; ansible-vault edit vault.yml"
    assert runnable(hint) == ".venv/bin/appliance status; ansible-vault edit vault.yml"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ansible-vault").touch()
    assert (
        runnable(hint) == f".venv/bin/appliance status; {tmp_path}/bin/ansible-vault edit vault.yml"
    )
    monkeypatch.setattr(sys, "argv", ["pytest"])
    assert runnable("appliance status") == "appliance status"


@pytest.mark.parametrize(
    ("typed", "hint", "said"),
    [
        (["lab", "up", "--yes", "--workers", "3"], "sudo appliance lab up --name lab",
         "sudo FOLDER/appliance lab up --yes --workers 3"),
        (["lab", "up"], "sudo appliance lab down --name lab",
         "sudo FOLDER/appliance lab down --name lab"),
    ],
)  # fmt: skip
def test_sudo_gets_the_path_of_this_program_and_the_options_that_were_typed(
    typed: list[str], hint: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "appliance").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "appliance"), *typed])
    with remembering(typed, app.cli):
        assert runnable(hint) == said.replace("FOLDER", str(tmp_path))


def test_sudo_finds_a_program_of_the_system_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/local/bin/appliance", "lab", "up"])
    monkeypatch.setenv("PATH", "/nowhere")
    with remembering(["lab", "up"], app.cli):
        assert runnable("sudo appliance lab down") == "sudo appliance lab down"


@pytest.mark.parametrize(
    ("hint", "wanted"),
    [
        ("appliance node ssh w1 -- docker ps", "appliance node ssh w1 --site /r -- docker ps"),
        ("try appliance kubeconfig --out F; or", "try appliance kubeconfig --out F --site /r; or"),
        ("appliance node logs w1, then", "appliance node logs w1 --site /r, then"),
        ("appliance docs install", "appliance docs install"),
    ],
)
def test_the_site_of_a_hint_comes_before_words_of_another_program(hint: str, wanted: str) -> None:
    with remembering(["status", "--site", "/r"], app.cli):
        assert runnable(hint) == wanted


def test_a_long_hint_is_cut_between_its_clauses_only() -> None:
    short = "see: appliance plan; then: appliance install"
    assert in_lines(short) == short
    long = f"{short}; {'x' * 80}"
    assert in_lines(long).splitlines() == [
        "see: appliance plan;", "then: appliance install;", "x" * 80,
    ]  # fmt: skip


@pytest.mark.parametrize("words", [["no-such-command"], ["install", "--no-such-option"]])
def test_usage_errors_exit_with_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.run(words) == 2
    assert "No such" in capsys.readouterr().err


def test_every_command_is_registered_under_its_own_name_and_has_help() -> None:
    context = click.Context(app.cli)
    for name in app.cli.list_commands(context):
        command = app.cli.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_main_exits_with_the_code_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["appliance", "--version"])
    monkeypatch.setattr(exits, "end_like_ctrl_c", lambda: None)  # these are pytest's signals
    with pytest.raises(SystemExit) as caught:
        exits.main()
    assert caught.value.code == 0
