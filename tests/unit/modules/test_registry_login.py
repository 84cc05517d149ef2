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
