"""The cluster is made once in the backend, whatever ends in between."""

from __future__ import annotations

import http.client
import http.server
import importlib
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.kubernetes.releases import (
    CLUSTER_RECORD,
    NO_RECORD,
    UNCONFIRMED,
    read_record,
)
from appliance.model.state.cluster.prerequisites import BACKEND_RELEASE
from tests.unit.modules.loading import load

module = load("runai_cluster_values", role="runai_cluster")
seen = load("runai_cluster_connection", role="runai_cluster")
api = importlib.import_module("ansible.module_utils.runai_backend_api")

WANT = {"username": "test@run.ai", "password": "right", "cluster": "rack"}
TOKEN = "/auth/realms/runai/protocol/openid-connect/token"  # noqa: S105 - a path


class Rack(http.server.BaseHTTPRequestHandler):
    """A backend that answers as its ``answers`` say, and keeps what it was asked."""

    answers: dict[str, tuple[int, Any]]
    asked: list[str]

    def _answer(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length).decode()
        self.asked.append(f"{self.command} {self.path}")
        path = self.path.partition("?")[0]
        code, document = self.answers.get(f"{self.command} {path}") or self.answers[path]
        if self.path == TOKEN and "password=right" not in body:
            code, document = 401, {}
        elif self.path != TOKEN and self.headers["Authorization"] != "Bearer t0":
            code, document = 403, {}
        content = document.encode() if isinstance(document, str) else json.dumps(document).encode()
        self.send_response(code)
        if code in (301, 302, 303, 307, 308):
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = _answer  # noqa: N815 - the base class's names

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


class FakeRecord:
    """The ConfigMap, in memory."""

    def __init__(self, data: dict[str, str] | None = None) -> None:
        self.data = data or {}

    def read(self) -> dict[str, str]:
        return self.data

    def write(self, cluster: str, uuid: str) -> None:
        self.data = {"cluster": cluster, "uuid": uuid, "unconfirmed": "true"}

    def confirm(self) -> bool:
        return self.data.pop("unconfirmed", None) is not None

    def forget(self) -> None:
        self.data = {}


Make = Callable[..., tuple[Any, list[str]]]


@pytest.fixture
def make() -> Iterator[Make]:
    servers = []

    def start(**changed: tuple[int, Any]) -> tuple[Any, list[str]]:
        answers = {
            TOKEN: changed.get("token", (200, {"id_token": "t0"})),
            "POST /v1/k8s/clusters": changed.get("create", (201, {"uuid": "u1"})),
            "GET /v1/k8s/clusters": changed.get("list", (200, [{"name": "rack", "uuid": "u1"}])),
            "/v1/k8s/clusters/u1/installfile": changed.get("values", (200, "a: 1\n")),
        }
        asked: list[str] = []
        handler = type("Handler", (Rack,), {"answers": answers, "asked": asked})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        backend = api.Backend("runai.rack.test", None)
        port = server.server_address[1]
        backend._connect = lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        return backend, asked

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_cluster_is_made_and_its_values_are_fetched(make: Make) -> None:
    backend, asked = make()
    record = FakeRecord()
    assert module.fetch(backend, record, WANT) == ("u1", b"a: 1\n", True)
    assert record.data == {"cluster": "rack", "uuid": "u1", "unconfirmed": "true"}
    assert [line.split("?")[0] for line in asked] == [
        f"POST {TOKEN}",
        "POST /v1/k8s/clusters",
        "GET /v1/k8s/clusters/u1/installfile",
    ]


def test_the_one_that_was_made_is_asked_for_again(make: Make) -> None:
    backend, asked = make()
    record = FakeRecord({"cluster": "rack", "uuid": "u1"})
    assert module.fetch(backend, record, WANT) == ("u1", b"a: 1\n", False)
    assert "POST /v1/k8s/clusters" not in asked


def test_one_whose_answer_was_lost_is_known_for_ours(make: Make) -> None:
    record = FakeRecord()
    lost, _ = make(create=(504, {}))
    with pytest.raises(api.BackendError, match="answers 504") as caught:
        module.fetch(lost, record, WANT)
    assert not caught.value.final
    assert record.data == {"cluster": "rack", "uuid": "", "unconfirmed": "true"}
    there, asked = make(create=(409, {}))
    assert module.fetch(there, record, WANT) == ("u1", b"a: 1\n", True)
    assert record.data == {"cluster": "rack", "uuid": "u1", "unconfirmed": "true"}
    assert "GET /v1/k8s/clusters" in asked


def test_a_foreign_object_is_never_treated_as_ours(make: Make) -> None:
    record = FakeRecord()
    for _ in range(2):
        backend, asked = make(create=(409, {}))
        with pytest.raises(api.BackendError, match="did not make"):
            module.fetch(backend, record, WANT)
        assert record.data == {}
        assert "GET /v1/k8s/clusters" not in asked


def test_values_that_are_fetched_again_are_to_be_confirmed_again(make: Make) -> None:
    backend, _ = make()
    record = FakeRecord({"cluster": "rack", "uuid": "u1"})
    module.fetch(backend, record, WANT)
    assert record.data["unconfirmed"] == "true"


def ours() -> FakeRecord:
    """A cluster that the backend was not seen to know yet."""
    return FakeRecord({"cluster": "rack", "uuid": "u1", "unconfirmed": "true"})


class FakeKubectl:
    """Keeps one ConfigMap and the verbs that it was asked for."""

    def __init__(self, data: dict[str, str] | None) -> None:
        self.data = data
        self.verbs: list[str] = []

    def get(self, *_: str) -> dict[str, Any] | None:
        return None if self.data is None else {"data": dict(self.data)}

    def call(self, argv: list[str]) -> None:
        self.verbs.append(argv[0])
        if argv[0] == "create":
            literals = [word.partition("=")[2] for word in argv if word.startswith("--from-lit")]
            self.data = dict(one.split("=", 1) for one in literals)
        else:
            patch = next(word for word in argv if word.startswith("--patch="))
            changed = json.loads(patch.partition("=")[2])["data"]
            merged = {**(self.data or {}), **changed}
            self.data = {key: value for key, value in merged.items() if value is not None}


def test_the_planner_reads_what_the_role_notes() -> None:
    noted = (api.NAMESPACE, api.CONFIG_MAP, api.UNCONFIRMED)
    assert noted == (BACKEND_RELEASE, CLUSTER_RECORD, UNCONFIRMED)
    listed = [SimpleNamespace(data={"uuid": "u1", UNCONFIRMED: "true"})]
    assert read_record(None, lambda *_, **__: SimpleNamespace(items=listed))[0]
    listed[0].data.pop(UNCONFIRMED)
    assert not read_record(None, lambda *_, **__: SimpleNamespace(items=listed))[0]
    assert read_record(None, lambda *_, **__: SimpleNamespace(items=[])) == NO_RECORD


def test_the_record_says_until_it_is_confirmed_that_it_is_not() -> None:
    kubectl = FakeKubectl(None)
    record = api.Record(kubectl)
    for uuid in ("", "u1"):
        record.write("rack", uuid)
        assert record.read() == {"cluster": "rack", "uuid": uuid, "unconfirmed": "true"}
    assert record.confirm() is True
    assert record.read() == {"cluster": "rack", "uuid": "u1"}
    assert record.confirm() is False
    assert kubectl.verbs == ["create", "patch", "patch"]


@pytest.mark.parametrize(
    ("listed", "said", "shown"),
    [
        ({"status": "connected"}, "connected", True),
        ({"status": "Connected"}, "Connected", True),
        ({"status": "ServiceIssues"}, "ServiceIssues", False),
        ({"status": "connecting"}, "connecting", False),
        ({"status": "\x1b[2Jconnected"}, "[2Jconnected", False),
        ({}, "", False),
    ],
)
def test_only_the_known_word_shows_a_connection(
    make: Make, listed: dict[str, str], said: str, shown: bool
) -> None:
    backend, _ = make(list=(200, [{"uuid": "u0"}, {"uuid": "u1", **listed}]))
    record = ours()
    assert seen.connection(backend, record, WANT) == ("u1", said, True)
    assert seen.is_shown(said) is shown
    assert record.data == {"cluster": "rack", "uuid": "u1"}
    assert seen.connection(backend, record, WANT) == ("u1", said, False)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((200, [{"uuid": "u1", "status": "Disconnected"}]), "says of it: Disconnected"),
        ((200, [{"uuid": "u1", "status": "waiting_to_connect"}]), "says of it: waiting"),
        ((200, [{"uuid": "u0", "status": "connected"}]), "does not list the cluster rack"),
        ((200, {}), "answers without a list"),
        ((200, "<html>"), "answers without a list"),
        ((503, {}), "answers 503"),
    ],
)
def test_a_cluster_that_the_backend_does_not_see_is_waited_for(
    make: Make, answer: tuple[int, Any], told: str
) -> None:
    backend, _ = make(list=answer)
    record = ours()
    with pytest.raises(api.BackendError, match=told) as caught:
        seen.connection(backend, record, WANT)
    assert record.data["unconfirmed"] == "true"
    assert not caught.value.final


def test_another_name_is_another_cluster(make: Make) -> None:
    backend, _ = make()
    record = FakeRecord({"cluster": "old", "uuid": "u0"})
    assert module.fetch(backend, record, WANT)[2] is True
    assert record.data["cluster"] == "rack"


@pytest.mark.parametrize(
    ("changed", "want", "told"),
    [
        ({}, {"password": "wrong"}, "refuses the login of test@run.ai"),
        (
            {"token": (400, {"error": "invalid_grant", "error_description": "not set up\x1b[0m"})},
            {},
            r"answers 400, invalid_grant: not set up \[0m\. A user who has to change",
        ),
        ({"token": (400, "<html>")}, {}, "answers 400, without a reason"),
        ({"create": (404, {})}, {}, "download runai-rack.yaml"),
        ({"create": (409, {})}, {}, "has a cluster rack already"),
    ],
)
def test_what_waiting_does_not_heal_is_final(
    make: Make, changed: dict[str, Any], want: dict[str, str], told: str
) -> None:
    backend, _ = make(**changed)
    with pytest.raises(api.BackendError, match=told) as caught:
        module.fetch(backend, FakeRecord(), {**WANT, **want})
    assert caught.value.final
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"token": (503, {})}, "token answers 503"),
        ({"token": (200, {})}, "answers without a token"),
        ({"token": (200, "<html>")}, "answers without a token"),
        ({"create": (500, {})}, "clusters answers 500"),
        ({"create": (200, {})}, "answers without a uuid"),
        ({"values": (502, {})}, "installfile answers 502"),
        ({"values": (404, {})}, "has no values for the cluster it has just made"),
    ],
)
def test_what_may_heal_is_not_final(make: Make, changed: dict[str, Any], told: str) -> None:
    backend, _ = make(**changed)
    with pytest.raises(api.BackendError, match=told) as caught:
        module.fetch(backend, FakeRecord(), WANT)
    assert not caught.value.final


def test_a_redirect_is_not_followed_with_the_token(make: Make) -> None:
    backend, asked = make(values=(302, {}))
    with pytest.raises(api.BackendError, match="installfile answers 302"):
        module.fetch(backend, FakeRecord(), WANT)
    assert not [line for line in asked if "elsewhere" in line]


@pytest.mark.parametrize(
    ("listed", "told"),
    [("[" * 100_000, "without a list"), ("x" * 2000, "an answer of more than 1000 bytes")],
)
def test_an_answer_that_is_too_deep_or_too_large_is_told(
    make: Make, monkeypatch: pytest.MonkeyPatch, listed: str, told: str
) -> None:
    if "bytes" in told:
        monkeypatch.setattr(api, "LARGEST_ANSWER", 1000)
    backend, _ = make(list=(200, listed))
    backend.log_in("test@run.ai", "right")
    with pytest.raises(api.BackendError, match=told):
        backend.listed()


def test_a_backend_that_is_not_there_is_named() -> None:
    backend = api.Backend("backend.invalid", ssl.create_default_context())
    with pytest.raises(api.BackendError, match=r"https://backend.invalid does not answer"):
        backend.log_in("a", "b")


def test_it_insists_until_it_is_late() -> None:
    class Clock:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

        def sleep(self, seconds: float) -> None:
            self.now += seconds

    tries: list[int] = []

    def attempt() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise api.BackendError("not yet")
        return "done"

    clock = Clock()
    assert api.insist(attempt, 60, clock) == "done"
    tries.clear()

    def never() -> None:
        tries.append(1)
        raise api.BackendError("no")

    with pytest.raises(api.BackendError):
        api.insist(never, 10, clock)
    assert len(tries) == 6


def test_values_are_for_root_alone_and_written_once(tmp_path: Path) -> None:
    path = tmp_path / "runai" / "values.yaml"
    assert module.save(path, b"a: 1\n") is True
    assert module.save(path, b"a: 1\n") is False
    assert path.stat().st_mode & 0o077 == 0
