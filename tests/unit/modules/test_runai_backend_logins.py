"""First passwords of the vendor are tried, and researchers' logins switched on where possible."""

from __future__ import annotations

import http.client
import http.server
import importlib
import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from appliance.adapters.kubernetes.releases import FIRST_PASSWORDS, RESEARCHERS, read_record
from appliance.model.state.cluster.cluster import RunaiLogins
from tests.unit.modules.loading import load
from tests.unit.modules.test_runai_cluster_values import FakeKubectl

module = load("runai_backend_logins", role="runai_cluster")
api = importlib.import_module("ansible.module_utils.runai_backend_api")

USERS = [
    {"user": "test@run.ai", "known": ["password", "Abcd!234"]},
    {"user": "admin@run.ai", "known": ["admin"]},
]
SWITCH = {"key": "tenant.some_key", "label": "Researcher Authentication", "value": False}
OTHER = {"key": "tenant.login_with_sso", "label": "Login with SSO", "value": False}
SET_UP = {"error": "invalid_grant", "error_description": "Account is not fully set up"}
WRONG = {"error": "invalid_grant", "error_description": "Invalid user credentials"}
ODD = {"error": "invalid_request", "error_description": "Missing parameter: response_type"}


class Realm(http.server.BaseHTTPRequestHandler):
    """A backend with users and settings; what is stored is what it was told."""

    users: dict[str, str]
    refusal: tuple[int, dict[str, str]]
    settings: Any
    deaf: bool
    asked: list[str]

    def do_POST(self) -> None:
        form = urllib.parse.parse_qs(self._body())
        user, password = form["username"][0], (form.get("password") or [""])[0]
        self.asked.append(f"login {user}")
        known = self.users.get(user)
        if known == password:
            self._answer(200, {"id_token": "t0"})
        elif known == f"expired {password}":
            self._answer(400, SET_UP)
        else:
            self._answer(*self.refusal)

    def do_GET(self) -> None:
        self._answer(404 if self.settings is None else 200, self.settings)

    def do_PUT(self) -> None:
        body = json.loads(self._body())
        self.asked.append(f"set {body['key']}={body['value']}")
        for one in self.settings:
            if one["key"] == body["key"] and not self.deaf:
                one["value"] = body["value"]
        self._answer(200, {})

    def _body(self) -> str:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()

    def _answer(self, code: int, document: Any) -> None:
        content = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_arguments: object) -> None:
        """Say nothing."""


Start = Callable[..., tuple[Any, list[str]]]
OURS = {"test@run.ai": "own", "admin@run.ai": "own too"}


@pytest.fixture
def start() -> Iterator[Start]:
    servers = []

    def begin(
        users: dict[str, str] | None = None,
        refusal: tuple[int, dict[str, str]] = (401, WRONG),
        settings: Any = None,
        deaf: bool = False,
    ) -> tuple[Any, list[str]]:
        asked: list[str] = []
        told = {"users": users or OURS, "refusal": refusal, "settings": settings, "deaf": deaf}
        handler = type("Handler", (Realm,), {**told, "asked": asked})
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        backend = api.Backend("runai.rack.test", None)
        port = server.server_address[1]
        backend._connect = lambda: http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        return backend, asked

    yield begin
    for server in servers:
        server.shutdown()
        server.server_close()


def want(**changed: Any) -> dict[str, Any]:
    return {
        "username": "test@run.ai", "password": "own", "first_passwords": USERS,
        "researchers": False, **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("users", "refusal", "found"),
    [
        (OURS, (401, WRONG), []),
        ({**OURS, "test@run.ai": "Abcd!234"}, (401, WRONG), ["test@run.ai"]),
        ({"test@run.ai": "password", "admin@run.ai": "admin"}, (401, WRONG),
         ["test@run.ai", "admin@run.ai"]),
        ({**OURS, "admin@run.ai": "expired admin"}, (401, WRONG), ["admin@run.ai"]),
    ],
)  # fmt: skip
def test_a_first_password_in_force_is_found(
    start: Start, users: dict[str, str], refusal: tuple[int, dict[str, str]], found: list[str]
) -> None:
    backend, asked = start(users, refusal)
    record = api.Record(FakeKubectl(None))
    assert module.logins(backend, record, want()) == (found, "", True)
    assert record.read() == {"first-passwords": ",".join(found) or "none"}
    assert set(asked) == {"login test@run.ai", "login admin@run.ai"}
    assert module.logins(backend, record, want()) == (found, "", False)


@pytest.mark.parametrize(
    "refusal",
    [
        (400, ODD),
        (400, {"error": "unauthorized_client", "error_description": "Client not allowed"}),
        (400, {"error": "invalid_grant", "error_description": "Account disabled"}),
        (401, {"error": "invalid_client"}),
        (403, {}),
    ],
)
def test_a_backend_that_does_not_judge_the_password_leaves_it_unknown(
    start: Start, refusal: tuple[int, dict[str, str]]
) -> None:
    record = api.Record(FakeKubectl({"cluster": "rack"}))
    assert module.logins(start(OURS, refusal)[0], record, want())[0] == []
    assert record.read() == {"cluster": "rack"}, "nothing is noted: the next run asks again"


def test_a_backend_that_is_out_of_order_is_no_proof(start: Start) -> None:
    record = api.Record(FakeKubectl({"cluster": "rack"}))
    with pytest.raises(api.BackendError, match="answers 503") as caught:
        module.logins(start(refusal=(503, {}))[0], record, want())
    assert not caught.value.final
    assert record.read() == {"cluster": "rack"}


@pytest.mark.parametrize(
    ("settings", "deaf", "said", "put"),
    [
        ([OTHER, SWITCH], False, "on", ["set tenant.some_key=True"]),
        ([OTHER, {**SWITCH, "value": "true"}], False, "on", []),
        ([OTHER, SWITCH], True, "by-hand", ["set tenant.some_key=True"]),
        ([OTHER], False, "by-hand", []),
        ([SWITCH, {**SWITCH, "key": "tenant.other"}], False, "by-hand", []),
        ([{**SWITCH, "key": None}], False, "by-hand", []),
        ([{**SWITCH, "key": "allowUnauthenticatedResearcher"}], False, "by-hand", []),
        ([{"key": "tenant.researcher_auth", "value": False}], False, "on",
         ["set tenant.researcher_auth=True"]),
        (["a text", 7], False, "by-hand", []),
        ({"message": "no list"}, False, "by-hand", []),
        (None, False, "by-hand", []),
    ],
)  # fmt: skip
def test_only_a_switch_that_is_certain_is_switched_on(
    start: Start, settings: Any, deaf: bool, said: str, put: list[str]
) -> None:
    backend, asked = start(settings=json.loads(json.dumps(settings)), deaf=deaf)
    record = api.Record(FakeKubectl({"cluster": "rack", "uuid": "u1"}))
    assert module.logins(backend, record, want(researchers=True)) == ([], said, True)
    assert [one for one in asked if one.startswith("set")] == put
    assert record.read()["researcher-login"] == said
    assert record.read()["uuid"] == "u1"


@pytest.mark.parametrize("password", ["", "wrong"])
def test_without_a_login_the_switch_is_left_to_a_person(start: Start, password: str) -> None:
    backend, asked = start(settings=[SWITCH])
    record = api.Record(FakeKubectl(None))
    told = want(researchers=True, password=password)
    assert module.logins(backend, record, told) == ([], "by-hand", True)
    assert not any(one.startswith("set") for one in asked)


@pytest.mark.parametrize(
    ("data", "logins"),
    [
        ({}, RunaiLogins()),
        ({"first-passwords": "none"}, RunaiLogins(())),
        ({"first-passwords": "a@run.ai,b@run.ai"}, RunaiLogins(("a@run.ai", "b@run.ai"))),
        ({"first-passwords": "\x1b[2J"}, RunaiLogins()),
        ({"first-passwords": "none", "researcher-login": "on"}, RunaiLogins((), researchers=True)),
        ({"researcher-login": "by-hand"}, RunaiLogins(researchers=False)),
        ({"researcher-login": "perhaps"}, RunaiLogins()),
    ],
)
def test_health_reads_what_the_role_noted(data: dict[str, str], logins: RunaiLogins) -> None:
    assert (api.FIRST_PASSWORDS, api.RESEARCHERS) == (FIRST_PASSWORDS, RESEARCHERS)
    answer = SimpleNamespace(items=[SimpleNamespace(data=data)])
    assert read_record(None, lambda *_, **__: answer) == (False, logins)
