"""What every test by pods shares: its namespace goes in any case, and a wait that ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kubernetes import client
from urllib3.exceptions import ProtocolError

from appliance.adapters.kubernetes.pod_tests import engine
from appliance.errors import ClusterError, ClusterSilent, StepNotVerified


class Api:
    """An API server that remembers which namespaces it made and deleted."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.deleted: list[str] = []

    @contextmanager
    def any_client(self) -> Iterator[Any]:
        yield "client"

    def create_namespace(self, body: Any, **_: Any) -> None:
        self.made.append(body["metadata"]["name"])

    def delete_namespace(self, name: str, **_: Any) -> None:
        self.deleted.append(name)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Api()
    monkeypatch.setattr(client, "CoreV1Api", lambda _: made)
    return made


@pytest.mark.parametrize(
    ("error", "raised", "words"),
    [
        (StepNotVerified("w1: no answer"), StepNotVerified, "w1: no answer"),
        (ProtocolError("cut"), ClusterError, "stopped answering during the X test: ProtocolError"),
        (
            client.ApiException(status=403, reason="Forbidden"),
            ClusterError,
            "the API refused a part of the X test: 403 Forbidden",
        ),
    ],
)
def test_the_namespace_is_deleted_whatever_ends_the_test(
    api: Any, error: Exception, raised: type[Exception], words: str
) -> None:
    with pytest.raises(raised, match=words), engine.own_namespace(api, "X test"):
        raise error
    assert len(api.made) == 1
    assert api.deleted == api.made


class Cut(Api):
    """A server that starts again: so many deletions are not answered, and the last is told this."""

    def __init__(self, silent: int, last: int = 200) -> None:
        super().__init__()
        self.silent = silent
        self.last = last

    def delete_namespace(self, name: str, **_: Any) -> None:
        self.silent -= 1
        if self.silent >= 0:
            raise ProtocolError("cut")
        if self.last != 200:
            raise client.ApiException(status=self.last, reason="as asked")
        self.deleted.append(name)


@pytest.mark.parametrize(
    ("server", "rest"),
    [
        (Cut(1), False),
        (Cut(20), False),
        (Cut(2, 404), False),
        (Cut(2, 409), False),
        (Cut(2, 403), True),
        (Cut(1000), True),
    ],
    ids=["soon", "later", "gone before", "on its way", "refused", "never"],
)
def test_what_is_left_of_a_test_goes_once_the_api_answers_again(
    monkeypatch: pytest.MonkeyPatch, clock: Any, server: Cut, rest: bool
) -> None:
    monkeypatch.setattr(client, "CoreV1Api", lambda _: server)
    cut: Any = server
    with (
        pytest.raises(ClusterSilent, match="stopped answering during the X test") as silent,
        engine.own_namespace(cut, "X test"),
    ):
        raise ProtocolError("cut")
    assert clock.time <= engine.AWAY_SECONDS + engine.AWAY_POLL_SECONDS
    assert server.deleted == ([] if server.last != 200 or rest else server.made)
    (name,) = server.made
    first = f"delete the rest of the test: kubectl delete namespace {name}; then "
    assert silent.value.hint == f"{first if rest else ''}run the same command again"


STARTS = '{"message": "namespaces is forbidden: not yet ready to handle request"}'


@pytest.mark.parametrize(
    "answer",
    [(403, "Forbidden", STARTS), (500, "Internal Server Error", ""), (503, "Unavailable", "")],
)
def test_what_the_api_could_not_do_for_the_moment_may_be_tried_again(
    api: Any, answer: tuple[int, str, str]
) -> None:
    status, reason, body = answer
    error = client.ApiException(status=status, reason=reason)
    error.body = body
    words = f"the API could not do a part of the X test: {status} {reason}"
    with pytest.raises(ClusterSilent, match=words), engine.own_namespace(api, "X test"):
        raise error
    assert api.deleted == api.made


class Starting(Api):
    """A server that starts: it makes no namespace yet, and says so for that many requests."""

    def __init__(self, requests: int) -> None:
        super().__init__()
        self.requests = requests

    def _answer(self, then: int) -> None:
        self.requests -= 1
        error = client.ApiException(status=403 if self.requests >= 0 else then, reason="Forbidden")
        error.body = STARTS if self.requests >= 0 else ""
        raise error

    def create_namespace(self, *_: Any, **__: Any) -> None:
        self._answer(500)

    def delete_namespace(self, *_: Any, **__: Any) -> None:
        self._answer(404)


def test_a_server_that_starts_is_waited_for_before_the_test_begins_again(
    monkeypatch: pytest.MonkeyPatch, clock: Any
) -> None:
    server: Any = Starting(6)
    monkeypatch.setattr(client, "CoreV1Api", lambda _: server)
    with pytest.raises(ClusterSilent) as silent, engine.own_namespace(server, "X test"):
        raise AssertionError("there is no namespace for it")
    assert clock.time == 5 * engine.AWAY_POLL_SECONDS
    assert silent.value.hint == "run the same command again"


class Never(engine.PodTest[str]):
    """Pods that are never ready, looked at every two seconds."""

    def __init__(self, looks: int | None = None) -> None:
        self.log: list[str] = []
        self.looks = looks

    def start(self) -> None:
        self.log.append("start")

    def poll(self) -> float | None:
        self.log.append("poll")
        return None if self.log.count("poll") == self.looks else 2.0

    def verdict(self) -> str:
        self.log.append("verdict")
        return "done"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    now = SimpleNamespace(time=0.0)

    def sleep(seconds: float) -> None:
        now.time += seconds

    fake = SimpleNamespace(monotonic=lambda: now.time, sleep=sleep)
    monkeypatch.setattr(engine, "time", fake)
    return now


def test_the_wait_ends_with_its_patience_and_one_last_look(clock: Any) -> None:
    test = Never()
    assert test.carry_out(5) == "done"
    assert clock.time == 6
    assert test.log == ["start", *["poll"] * 4, "verdict"]


def test_what_is_done_meanwhile_is_done_once_between_start_and_wait(clock: Any) -> None:
    test = Never(looks=2)
    test.carry_out(60, lambda: test.log.append("meanwhile"))
    assert test.log == ["start", "meanwhile", "poll", "poll", "verdict"]
    assert clock.time == 2
