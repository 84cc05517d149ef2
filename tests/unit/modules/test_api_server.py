"""Flags of the API server: the manifest's lines, the watch, and the way back, cut off anywhere."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load_utils

api = load_utils("appliance_api_server")

MANIFEST = """apiVersion: v1
kind: Pod
spec:
  containers:
  - command:
    - kube-apiserver
    - --advertise-address=198.18.7.11
    - --etcd-servers=https://127.0.0.1:2379
    - --secure-port=6443
    - --service-cluster-ip-range=10.96.0.0/12
    image: registry.rack.test:5000/kube-apiserver:v1.23.5
    livenessProbe:
      httpGet:
        path: /livez
"""
FLAGS = {"oidc-client-id": "runai", "oidc-issuer-url": "https://runai.rack.test/auth/realms/runai"}


def test_flags_come_where_kubeadm_would_write_them() -> None:
    lines = api.with_flags(MANIFEST, FLAGS, "oidc-").splitlines()
    own = [line.strip() for line in lines if line.strip().startswith("- --")]
    assert own == sorted(own)
    assert "    - --oidc-client-id=runai" in lines
    assert lines.index("    - --oidc-client-id=runai") == 8


def test_giving_flags_and_taking_them_leaves_the_manifest_as_it_was() -> None:
    given = api.with_flags(MANIFEST, FLAGS, "oidc-")
    assert api.with_flags(given, FLAGS, "oidc-") == given
    assert api.with_flags(given, {}, "oidc-") == MANIFEST


def test_another_value_replaces_the_one_there_is() -> None:
    given = api.with_flags(MANIFEST, FLAGS, "oidc-")
    found = api.flags_of(api.with_flags(given, {"oidc-client-id": "runai-cli-sso"}, "oidc-"))
    assert {k: v for k, v in found.items() if k.startswith("oidc-")} == {
        "oidc-client-id": "runai-cli-sso"
    }
    assert found["secure-port"] == "6443"


def test_a_value_that_yaml_would_misread_is_quoted_and_read_back() -> None:
    text = api.with_flags(MANIFEST, {"oidc-username-prefix": "a: b"}, "oidc-")
    assert '    - "--oidc-username-prefix=a: b"' in text
    assert api.flags_of(text)["oidc-username-prefix"] == "a: b"


def test_a_manifest_of_another_hand_is_not_touched() -> None:
    with pytest.raises(api.ApiServerError, match="is not a manifest of kubeadm"):
        api.with_flags(MANIFEST.replace("- kube-apiserver", "- sh"), FLAGS, "oidc-")


@pytest.mark.parametrize(
    ("before", "now", "down", "count"),
    [
        ({"old": 0}, {"old": 0}, True, 0),
        ({"old": 0}, {"old": 0, "new": 0}, False, 0),
        ({"old": 0}, {"old": 0, "new": 0}, True, 1),
        ({"old": 0}, {"old": 0, "new": 1}, True, 2),
        ({"old": 0}, {"old": 0, "new": 2}, False, 2),
        ({"same": 3}, {"same": 4}, False, 0),
        ({"same": 3}, {"same": 5}, True, 2),
        ({"same": 3}, {"same": 0}, True, 1),
    ],
)
def test_ends_are_counted_from_the_kubelets_attempts(
    before: dict[str, int], now: dict[str, int], down: bool, count: int
) -> None:
    assert api.ends(before, now, down) == count


def test_attempts_are_the_names_of_the_kubelets_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "LOGS", tmp_path)
    folder = tmp_path / "kube-system_kube-apiserver-cp1_abc" / "kube-apiserver"
    folder.mkdir(parents=True)
    for name in ("0.log", "2.log", "2.log.20260101-000000"):
        (folder / name).write_text("")
    pod = folder.parent.name
    assert api.attempts() == {pod: 2}
    line = json.dumps({"log": 'E1121 "command failed" err="x"\n', "stream": "stderr"})
    (folder / "2.log").write_text(line + "\n" + json.dumps({"log": "bye\n"}) + "\n")
    assert api.said({pod: 1}) == ': E1121 "command failed" err="x"'
    assert api.said({pod: 2}) == ""
    (folder / "2.log").write_text("2026-01-01T00:00:00.1Z stderr F Error: unknown flag\n")
    assert api.said({}) == ": Error: unknown flag"


def test_an_api_server_is_found_among_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "PROC", tmp_path)
    (tmp_path / "stat").write_text("cpu 1\nbtime 1700000000\n")
    for pid, words in (("7", ["kube-apiserver", "--secure-port=6443"]), ("8", ["sh", "-c"])):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cmdline").write_bytes("\0".join([*words, ""]).encode())
        stat = f"{pid} (kube (api) x) S " + " ".join(["0"] * 18 + ["500", "0"])
        (tmp_path / pid / "stat").write_text(stat)
    (found,) = api.servers()
    assert found["flags"] == {"secure-port": "6443"}
    assert found["pid"] == 7
    assert found["started"] > 1700000000


class Node:
    """Files in a folder, a kubelet that runs what the manifest says, and a clock."""

    def __init__(self, tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.time = time.time() + 1000
        self.poison = "nonsense"
        self.newest: dict[str, int] = {}
        self.snapshots = 0
        self.die_after = 10**9
        self.started: dict[str, float] = {}
        self.restarts = 0
        self.manifest = tmp / "manifests/kube-apiserver.yaml"
        self.ca = tmp / "pki/ca.crt"
        for folder in ("manifests", "pki", "appliance"):
            (tmp / folder).mkdir()
        self.manifest.write_text(MANIFEST)
        self.mark = tmp / "appliance/change.json"
        monkeypatch.setattr(api, "FOLDER", tmp / "appliance")
        monkeypatch.setattr(api, "MANIFEST", self.manifest)
        monkeypatch.setattr(api, "write", self.counted(api.write))
        monkeypatch.setattr(api, "said", lambda _before: ": its last words")

        class Watch(api.Watch):  # type: ignore[misc,name-defined]
            clock = staticmethod(lambda: self.time)
            sleep = staticmethod(self.sleep)
            servers = staticmethod(self.servers)
            attempts = staticmethod(lambda: dict(self.newest))
            is_ready = staticmethod(self.is_ready)

        class Change(api.Change):  # type: ignore[misc,name-defined]
            watch = Watch
            servers = staticmethod(self.servers)
            attempts = staticmethod(lambda: dict(self.newest))
            now = staticmethod(lambda: self.time)

            def snapshot(_self) -> str:  # noqa: N805  (self is the node's)
                self.snapshots += 1
                return "/snapshot.db"

            def _restart(_self) -> None:  # noqa: N805
                self.restarts += 1
                self.started[self.uid] = self.time
                self.newest[self.uid] = self.newest.get(self.uid, 0) + 1

        self.change = Change

    def counted(self, write: Callable[..., None]) -> Callable[..., None]:
        """Writing, until the process is killed."""

        def writing(path: Path, text: str, mode: int = 0o600) -> None:
            if self.die_after == 0:
                raise Killed
            self.die_after -= 1
            write(path, text, mode)

        return writing

    @property
    def uid(self) -> str:
        return str(hash(self.manifest.read_text()))

    @property
    def is_bad(self) -> bool:
        bad_ca = self.ca.exists() and self.poison in self.ca.read_text()
        return self.poison in self.manifest.read_text() or bad_ca

    def sleep(self, seconds: float) -> None:
        self.time += seconds
        if self.is_bad:
            self.newest[self.uid] = self.newest.get(self.uid, -1) + 1

    def servers(self) -> list[Any]:
        if self.is_bad:
            return []
        self.newest.setdefault(self.uid, 0)
        started = self.started.setdefault(self.uid, self.time)
        return [{"pid": 1, "flags": api.flags_of(self.manifest.read_text()), "started": started}]

    def is_ready(self, port: int) -> bool:
        assert port == 6443
        return not self.is_bad

    def give(self, ca: str = "CA\n", **flags: str) -> Any:
        wanted = {key.replace("_", "-"): value for key, value in flags.items()}
        return self.change(
            {
                "flags": wanted,
                "prefix": "oidc-",
                "ca_path": str(self.ca),
                "ca": ca,
                "deadline_seconds": 180,
                "snapshot_command": [],
            }
        ).run()

    def assert_whole(self) -> None:
        assert not self.mark.exists()
        assert [path.name for path in self.manifest.parent.iterdir()] == ["kube-apiserver.yaml"]
        assert not self.is_bad


class Killed(BaseException):
    """SIGKILL: nothing that follows is run."""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_a_good_change_is_made_after_a_snapshot_and_only_once(node: Node) -> None:
    done = node.give(oidc_client_id="runai")
    assert done == {"changed": True, "snapshot": "/snapshot.db", "taken_up": False}
    assert "--oidc-client-id=runai" in node.manifest.read_text()
    assert node.ca.read_text() == "CA\n"
    assert node.give(oidc_client_id="runai")["changed"] is False
    assert node.snapshots == 1
    node.assert_whole()


def test_a_bad_change_is_taken_back_with_the_containers_last_words(node: Node) -> None:
    with pytest.raises(api.ApiServerError) as caught:
        node.give(oidc_client_id="nonsense")
    assert "its container ended 2 times with the new flags: its last words" in str(caught.value)
    assert str(caught.value).endswith("its old flags are restored, and it answers again")
    assert node.manifest.read_text() == MANIFEST
    assert not node.ca.exists()
    node.assert_whole()


def test_ends_of_an_earlier_try_do_not_count_against_the_next(node: Node) -> None:
    for _ in range(2):
        with pytest.raises(api.ApiServerError, match="ended 2 times"):
            node.give(oidc_client_id="nonsense")
    node.assert_whole()


def test_another_ca_alone_restarts_the_api_server(node: Node) -> None:
    node.give(oidc_client_id="runai")
    assert node.give(ca="OTHER\n", oidc_client_id="runai")["changed"] is True
    assert node.restarts == 1
    assert node.ca.read_text() == "OTHER\n"
    node.assert_whole()


def test_one_that_never_gets_ready_is_given_up_after_the_deadline(node: Node) -> None:
    ready = node.is_ready
    node.change.watch.is_ready = staticmethod(
        lambda port: ready(port) and "oidc" not in node.manifest.read_text()
    )
    began = node.time
    with pytest.raises(api.ApiServerError, match="after 180 s it runs but is not ready"):
        node.give(oidc_client_id="runai")
    assert node.time - began < 200
    assert node.manifest.read_text() == MANIFEST
    node.assert_whole()


@pytest.mark.parametrize("writes", range(8))
@pytest.mark.parametrize("value", ["runai", "nonsense"])
def test_a_kill_at_any_write_is_healed_by_the_next_run(node: Node, value: str, writes: int) -> None:
    node.die_after = writes
    with contextlib.suppress(Killed, api.ApiServerError):
        node.give(oidc_client_id=value)
    node.die_after = 10**9
    with contextlib.suppress(api.ApiServerError):
        node.give(oidc_client_id="good")
    node.give(oidc_client_id="good")
    assert "--oidc-client-id=good" in node.manifest.read_text()
    assert node.ca.read_text() == "CA\n"
    node.assert_whole()


def test_a_mark_holds_what_the_way_back_needs(node: Node) -> None:
    node.die_after = 2
    with pytest.raises(Killed):
        node.give(oidc_client_id="runai")
    mark = json.loads(node.mark.read_text())
    assert mark["ca_before"] is None
    assert mark["ca_path"] == str(node.ca)
    assert (node.mark.stat().st_mode & 0o777) == 0o600
