"""A jumpbox: which kubeconfig is ours, current, or somebody else's; the program's completion."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.modules.loading import load, load_utils

jumpbox = load_utils("appliance_jumpbox")
completions = load("program_completion", role="runai_cli")
kubeconfigs = load("researcher_kubeconfigs", role="runai_cli")

ME = getpass.getuser()
EXPECTED = {"server": "https://api.rack.test:6443", "realm": "runai", "airgapped": "true"}
OURS = """\
apiVersion: v1
kind: Config
clusters:
- name: rack
  cluster:
    server: https://api.rack.test:6443
contexts:
- name: ada@rack
  context: {cluster: rack, user: runai-authenticated-user}
current-context: ada@rack
users:
- name: runai-authenticated-user
  user:
    auth-provider:
      name: oidc
      config:
        airgapped: 'true'
        realm: runai
"""
# As kubectl writes it back: other quotes, tokens, a namespace.
LOGGED_IN = OURS.replace("'true'", '"true"').replace(
    "        realm: runai\n",
    "        id-token: aaa.bbb\n        realm: runai\n        refresh-token: ccc\n",
)
ADMIN = OURS.replace("    auth-provider:", "    client-key-data: x\n    auth-provider:")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a user with our own uid."""
    me = pwd.getpwnam(ME)

    def ask(name: str) -> Any:
        if name == "nobody-here":
            raise KeyError(name)
        return SimpleNamespace(
            pw_name=me.pw_name, pw_uid=me.pw_uid, pw_gid=me.pw_gid, pw_dir=str(tmp_path / name)
        )

    (tmp_path / "ada").mkdir()
    monkeypatch.setattr(pwd, "getpwnam", ask)
    return tmp_path / "ada"


def put(home: Path, text: str, mode: int = 0o600) -> Path:
    path = home / ".kube/config"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


def state(name: str = "ada", expected: dict[str, str] = EXPECTED) -> str:
    found: str = jumpbox.researcher(name, expected)[0]
    return found


def test_a_user_or_a_home_that_is_not_there_is_said(home: Path) -> None:
    assert jumpbox.researcher("nobody-here", {}) == ("no user", "there is no user nobody-here")
    assert state("grace") == "no home"
    assert state() == "absent"
    assert home.is_dir()


@pytest.mark.parametrize(
    ("text", "mode", "wanted"),
    [
        (OURS, 0o600, "current"),
        (LOGGED_IN, 0o600, "current"),
        (OURS, 0o644, "loose"),
        (OURS.replace("api.rack.test", "old.rack.test"), 0o600, "outdated"),
        (ADMIN, 0o600, "foreign"),
        (OURS + "    exec: {command: aws}\n", 0o600, "foreign"),
        (OURS.replace("runai-authenticated-user", "admin"), 0o600, "foreign"),
        (OURS.replace("contexts:", "    server: https://second\ncontexts:"), 0o600, "foreign"),
        ("", 0o600, "foreign"),
    ],
)
def test_a_kubeconfig_is_judged_by_what_is_in_it(
    home: Path, text: str, mode: int, wanted: str
) -> None:
    put(home, text, mode)
    assert state() == wanted


def test_a_link_is_foreign_whatever_it_leads_to(home: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(OURS)
    (home / ".kube").mkdir()
    (home / ".kube/config").symlink_to(tmp_path / "elsewhere")
    assert state() == "foreign"


def test_a_file_of_another_user_is_foreign(home: Path) -> None:
    path = put(home, OURS)
    found, text = jumpbox.judge(path, path.stat().st_uid + 1, EXPECTED)
    assert found == "foreign"
    assert "belongs to another user" in text


def user(content: str = OURS) -> dict[str, Any]:
    return {"name": "ada", "content": content, "expected": EXPECTED}


def bring(*, check_mode: bool = False) -> list[str]:
    found, text = jumpbox.researcher("ada", EXPECTED)
    changes: list[str] = kubeconfigs.bring(user(), found, text, check_mode)
    return changes


def test_a_kubeconfig_is_written_once_and_private(home: Path) -> None:
    path = home / ".kube/config"
    assert bring(check_mode=True)
    assert not path.exists()
    assert bring()
    assert path.read_text() == OURS
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert bring() == []
    assert [entry.name for entry in path.parent.iterdir()] == ["config"]


def test_tokens_of_a_login_are_kept(home: Path) -> None:
    path = put(home, LOGGED_IN)
    assert bring() == []
    path.chmod(0o644)
    assert bring()
    assert path.read_text() == LOGGED_IN
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_foreign_kubeconfig_is_refused_or_put_aside(home: Path) -> None:
    path = put(home, ADMIN)
    states = {"ada": jumpbox.researcher("ada", EXPECTED)}
    (refusal,) = kubeconfigs.refusals(states, False)
    assert "client-key-data" in refusal
    assert kubeconfigs.refusals(states, True) == []
    (path.parent / "config.before-appliance-1").write_text("older")
    assert bring()[1].endswith("config.before-appliance-2")
    assert path.read_text() == OURS
    assert (path.parent / "config.before-appliance-2").read_text() == ADMIN
    assert (path.parent / "config.before-appliance-1").read_text() == "older"


def test_a_missing_user_is_refused_even_when_replacing(home: Path) -> None:
    assert home.is_dir()
    states = {"nobody-here": jumpbox.researcher("nobody-here", {})}
    assert kubeconfigs.refusals(states, True) == ["there is no user nobody-here"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take another's rights")
def test_a_user_gets_a_file_with_their_own_rights_alone(tmp_path: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    private = tmp_path / "roots"
    private.mkdir(mode=0o700)
    with jumpbox.as_user(nobody):
        assert (os.geteuid(), os.getegid()) == (nobody.pw_uid, nobody.pw_gid)
        with pytest.raises(PermissionError):
            kubeconfigs.write_config(private / "config", OURS)
    assert os.geteuid() == 0
    assert list(private.iterdir()) == []


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "runai"
    path.write_text('#!/bin/sh\ntouch "$HOME/.runai" && echo "complete -W $2 runai"\n')
    path.chmod(0o755)
    return path


def test_the_completion_is_what_the_program_says(program: Path, tmp_path: Path) -> None:
    target = tmp_path / "etc/bash_completion.d/runai"
    assert completions.keep(str(program), str(target), True)
    assert not target.exists()
    assert completions.keep(str(program), str(target), False)
    assert target.read_text() == "complete -W bash runai\n"
    assert target.stat().st_mode & 0o777 == 0o644
    assert completions.keep(str(program), str(target), False) is False
    target.write_text("drift")
    assert completions.keep(str(program), str(target), False)


def test_a_program_that_is_not_there_is_a_change_in_check_mode_and_else_a_fault(
    tmp_path: Path,
) -> None:
    gone, target = str(tmp_path / "gone"), str(tmp_path / "runai")
    assert completions.keep(gone, target, True)
    with pytest.raises(completions.Unusable, match="does not run here"):
        completions.completion(gone)


def test_a_program_that_knows_no_completion_is_a_fault_in_its_own_words(program: Path) -> None:
    program.write_text("#!/bin/sh\necho 'unknown command' >&2\nexit 1\n")
    with pytest.raises(jumpbox.Unusable, match="code 1 and said: unknown command"):
        jumpbox.completion(program)


def test_a_program_without_an_end_of_words_is_a_fault_and_fills_no_disk(program: Path) -> None:
    program.write_text("#!/bin/sh\nexec yes\n")
    with pytest.raises(jumpbox.Unusable, match="completion bash ended with code"):
        jumpbox.completion(program)


def test_a_look_says_all_of_it_and_nothing_of_what_is_inside(
    program: Path, home: Path, tmp_path: Path
) -> None:
    put(home, LOGGED_IN)
    target = tmp_path / "runai.completion"
    want = {
        "program": str(program),
        "completion": str(target),
        "name": "localhost",
        "users": {"ada": EXPECTED},
    }
    found = jumpbox.look(want)
    assert found["program_sha256"] == jumpbox.digest(program)
    assert found["completion_current"] is False
    assert found["resolves"] is True
    assert found["users"] == {"ada": {"state": "current", "text": ""}}
    assert "aaa.bbb" not in str(found)
    completions.keep(str(program), str(target), False)
    assert jumpbox.look(want)["completion_current"] is True
    program.write_text("#!/bin/sh\nexit 3\n")
    assert "code 3" in jumpbox.look(want)["program_fault"]
    program.unlink()
    gone = jumpbox.look({**want, "name": "no-such-name.invalid"})
    assert (gone["program_sha256"], gone["program_fault"], gone["resolves"]) == (None, "", False)
