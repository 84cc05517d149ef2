"""Projects are written down before an upgrade, and none of them may be missing after it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

module = load("runai_projects", role="runai_cluster")
api = importlib.import_module("ansible.module_utils.runai_backend_api")


class Backend(api.Backend):  # type: ignore[misc, name-defined]
    """A backend that answers a list of projects with one status."""

    def __init__(self, names: Any, status: int = 200) -> None:
        super().__init__("runai.rack.test", None)
        self.names, self.status = names, status
        self.asked: list[str] = []

    def log_in(self, username: str, password: str) -> None:
        self.asked.append(f"login {username} {password}")

    def _ask(self, path: str, *_: Any, **__: Any) -> tuple[int, bytes]:
        self.asked.append(path)
        return self.status, json.dumps([{"name": name} for name in self.names]).encode()


class Record:
    def __init__(self, namespaces: list[str], uuid: str = "u-1") -> None:
        self.namespaces, self.uuid = namespaces, uuid

    def read(self) -> dict[str, str]:
        return {"uuid": self.uuid} if self.uuid else {}

    def labelled(self, kind: str, label: str) -> dict[str, str]:
        assert (kind, label) == ("namespaces", "runai/queue")
        return {name: name.replace("runai-", "") for name in self.namespaces}


def asked(path: Path, state: str, backend: Backend, record: Record) -> Any:
    want = {"username": "u", "password": "p", "path": str(path), "state": state}
    return module.projects(backend, record, want)


def test_they_are_written_down_once_and_compared_by_name(tmp_path: Path) -> None:
    path = tmp_path / "before/projects.json"
    record = Record(["runai-team-a", "runai-team-b"])
    backend = Backend(["team-b", "team-a"])
    assert asked(path, "saved", backend, record)[1] is True
    assert backend.asked == ["login u p", "/v1/k8s/clusters/u-1/projects"]
    kept = {
        "backend": ["team-a", "team-b"],
        "namespaces": ["runai-team-a", "runai-team-b"],
        "queues": ["team-a", "team-b"],
    }
    assert json.loads(path.read_text()) == kept
    assert asked(path, "saved", backend, record)[1] is False
    assert asked(path, "compared", Backend(["team-a", "team-b", "new"]), record)[1] is False


@pytest.mark.parametrize(
    ("names", "namespaces", "said"),
    [
        (["team-a"], ["runai-team-a"], r"1 projects .* missing, first team-b \(backend\)"),
        (["team-a", "team-b"], [], r"1 projects .* first runai-team-a \(namespaces\)"),
        ([], [], r"3 projects"),
    ],
)
def test_one_that_is_missing_is_named(
    tmp_path: Path, names: list[str], namespaces: list[str], said: str
) -> None:
    path = tmp_path / "projects.json"
    asked(path, "saved", Backend(["team-a", "team-b"]), Record(["runai-team-a"]))
    with pytest.raises(api.BackendError, match=said) as caught:
        asked(path, "compared", Backend(names), Record(namespaces))
    assert not caught.value.final, "what comes back late is waited for"


@pytest.mark.parametrize("status", [404, 405])
def test_a_backend_without_the_call_is_compared_by_namespaces(tmp_path: Path, status: int) -> None:
    path = tmp_path / "projects.json"
    asked(path, "saved", Backend(["x"], status), Record(["runai-x"]))
    assert json.loads(path.read_text()) == {
        "backend": None,
        "namespaces": ["runai-x"],
        "queues": ["x"],
    }
    assert asked(path, "compared", Backend(["x", "y"]), Record(["runai-x"]))[1] is False
    with pytest.raises(api.BackendError, match="runai-x"):
        asked(path, "compared", Backend(["x"]), Record([]))


def test_a_backend_that_fails_is_no_empty_list(tmp_path: Path) -> None:
    with pytest.raises(api.BackendError, match="answers 503"):
        asked(tmp_path / "projects.json", "saved", Backend([], 503), Record([]))
    assert not (tmp_path / "projects.json").exists()


def test_a_cluster_of_downloaded_values_is_compared_by_namespaces(tmp_path: Path) -> None:
    backend = Backend(["x"])
    now, _ = asked(tmp_path / "projects.json", "saved", backend, Record(["runai-x"], uuid=""))
    assert (now["backend"], backend.asked) == (None, ["login u p"])


def test_a_list_of_an_earlier_attempt_is_not_that_of_now(tmp_path: Path) -> None:
    """The playbook writes it down only as long as helm has not begun."""
    path = tmp_path / "projects.json"
    asked(path, "saved", Backend(["of-last-month"]), Record(["runai-of-last-month"]))
    assert asked(path, "saved", Backend(["made-since"]), Record(["runai-made-since"]))[1] is True
    assert json.loads(path.read_text())["backend"] == ["made-since"]
    with pytest.raises(api.BackendError, match="made-since"):
        asked(path, "compared", Backend([]), Record(["runai-made-since"]))


def test_namespaces_outlive_a_database_that_is_empty(tmp_path: Path) -> None:
    """Up to 2.7 no backend lists its projects; the new one does, and knows none of them."""
    path = tmp_path / "projects.json"
    record = Record(["runai-team-a", "runai-team-b"])
    asked(path, "saved", Backend([], 404), record)
    with pytest.raises(api.BackendError, match="lists none of the 2 projects"):
        asked(path, "compared", Backend([]), record)
    assert asked(path, "compared", Backend(["team-a"]), record)[1] is False
    assert asked(path, "compared", Backend([], 404), record)[1] is False


def test_the_name_of_a_lost_project_does_not_act_on_a_terminal(tmp_path: Path) -> None:
    path = tmp_path / "projects.json"
    asked(path, "saved", Backend(["a\x1b[2J" + "b" * 500]), Record([]))
    with pytest.raises(api.BackendError) as caught:
        asked(path, "compared", Backend([]), Record([]))
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 300
