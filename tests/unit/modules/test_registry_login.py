"""A login is set or removed in Docker's configuration, and nothing else of it."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.unit.modules.loading import load

login = load("registry_login", role="registry_trust")
OURS = "harbor.test:443"
AUTH = base64.b64encode(b"robot:secret").decode()
OTHER = {"other.test": {"auth": "x"}}
THEIRS = {"auths": OTHER, "credHelpers": {"a": "b"}}


def test_a_new_file_is_only_for_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "kubelet" / "config.json"
    assert login.settle(path, OURS, AUTH, False)
    assert json.loads(path.read_text()) == {"auths": {OURS: {"auth": AUTH}}}
    assert path.stat().st_mode & 0o777 == 0o600
    assert not login.settle(path, OURS, AUTH, False)


def test_other_logins_and_settings_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(THEIRS))
    login.settle(path, OURS, AUTH, False)
    held = json.loads(path.read_text())
    assert held == {**THEIRS, "auths": {**OTHER, OURS: {"auth": AUTH}}}
    assert login.settle(path, OURS, None, False)
    assert json.loads(path.read_text()) == THEIRS


def test_a_file_with_nothing_but_our_login_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    login.settle(path, OURS, AUTH, False)
    assert login.settle(path, OURS, None, False)
    assert not path.exists()
    assert not login.settle(path, OURS, None, False)


def test_a_file_that_others_may_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    login.settle(path, OURS, AUTH, False)
    path.chmod(0o644)
    assert login.settle(path, OURS, AUTH, False)
    assert path.stat().st_mode & 0o777 == 0o600


def test_another_file_without_our_login_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(THEIRS))
    path.chmod(0o644)
    assert not login.settle(path, OURS, None, False)
    assert path.stat().st_mode & 0o777 == 0o644


def test_check_mode_reports_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    assert login.settle(path, OURS, AUTH, True)
    assert not path.exists()


@pytest.mark.parametrize("text", ["", "[]", "{", '{"auths": 7}', "[" * 50000])
def test_a_file_that_is_not_understood_is_not_replaced(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(login.LoginError, match="not a configuration of Docker"):
        login.settle(path, OURS, AUTH, False)
    assert path.read_text() == text


PERSON = {"auth": base64.b64encode(b"ada:own").decode(), "email": "ada@test"}


def kept(path: Path) -> dict[str, object]:
    copy = path.with_name(path.name + ".before-appliance")
    assert copy.stat().st_mode & 0o777 == 0o600
    found: dict[str, object] = json.loads(copy.read_text())["auths"]
    return found


@pytest.mark.parametrize("auth", [AUTH, None], ids=["replaced", "removed"])
def test_a_login_of_a_person_to_the_same_registry_is_kept_beside(
    tmp_path: Path, auth: str | None
) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {OURS: PERSON, **OTHER}}))
    assert login.settle(path, OURS, auth, False)
    assert kept(path) == {OURS: PERSON}
    assert json.loads(path.read_text())["auths"].keys() == {*OTHER, *([OURS] if auth else [])}


def test_a_second_login_of_a_person_takes_no_place_of_the_first(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    other = {"auth": base64.b64encode(b"bob:own").decode()}
    for entry in (PERSON, other, other):
        path.write_text(json.dumps({"auths": {OURS: entry}}))
        login.settle(path, OURS, AUTH, False)
    assert kept(path) == {OURS: PERSON, f"{OURS} (2)": other}


def test_no_secret_of_the_site_is_kept_when_it_changes_or_goes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    for user in (b"robot:secret", b"robot:changed", b"other:changed"):
        login.settle(path, OURS, base64.b64encode(user).decode(), False)
    assert login.settle(path, OURS, None, False)
    assert list(tmp_path.iterdir()) == []


def test_a_login_that_an_earlier_version_set_is_known_by_its_user(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {OURS: {"auth": AUTH}}}))
    login.settle(path, OURS, base64.b64encode(b"robot:changed").decode(), False)
    assert not path.with_name("config.json.before-appliance").exists()


def test_check_mode_keeps_nothing_beside(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"auths": {OURS: PERSON}}))
    assert login.settle(path, OURS, AUTH, True)
    assert [one.name for one in tmp_path.iterdir()] == ["config.json"]
