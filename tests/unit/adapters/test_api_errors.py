"""What the Kubernetes library raises, as the two errors that everything else tells apart."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import ApiClient, ApiException, Configuration, CoreV1Api
from urllib3.exceptions import ProtocolError, SSLError

from appliance.adapters.kubernetes.connection.client import (
    TIMEOUT,
    ApiRefused,
    ApiSilent,
    NotReadable,
    call,
)
from appliance.errors import ClusterError


def _raising(error: Exception) -> Any:
    def function(**_: Any) -> None:
        raise error

    return function


def test_an_answer_with_an_error_keeps_its_status_reason_and_body() -> None:
    error = ApiException(status=403, reason="Forbidden")
    error.body = '{"message": "no"}'
    with pytest.raises(ApiRefused, match=r"^the API answered 403 Forbidden$") as refused:
        call(_raising(error))
    assert (refused.value.status, refused.value.reason) == (403, "Forbidden")
    assert (refused.value.words, refused.value.body) == ("403 Forbidden", '{"message": "no"}')
    assert isinstance(refused.value, NotReadable)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ProtocolError("cut off"), "ProtocolError"),
        (ConnectionResetError(), "ConnectionResetError"),
        (TimeoutError(), "TimeoutError"),
        # As the library tells a broken TLS connection.
        (ApiException(status=0, reason="SSLError\n[SSL: EOF] in violation"), "SSLError"),
        (ApiException(status=0), "ApiException"),
    ],
)
def test_a_connection_that_broke_is_no_refusal(error: Exception, words: str) -> None:
    with pytest.raises(ApiSilent, match=f"^the API does not answer: {words}$") as silent:
        call(_raising(error))
    assert silent.value.words == words


def test_a_tls_connection_that_broke_under_the_library_itself_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The library decodes the body of what it raised itself, and that has none."""

    def broken(*_: object, **__: object) -> None:
        raise SSLError("EOF occurred in violation of protocol")

    client = ApiClient(Configuration(host="https://127.0.0.1:1"))
    monkeypatch.setattr(client.rest_client.pool_manager, "request", broken)
    with pytest.raises(ApiSilent, match=r"^the API does not answer: SSLError$"):
        call(CoreV1Api(client).read_node, "w1")


def test_another_fault_of_the_library_is_not_called_a_silence() -> None:
    with pytest.raises(AttributeError):
        call(_raising(AttributeError("decode")))


def test_errors_of_ours_pass_unchanged() -> None:
    with pytest.raises(ClusterError, match=r"^as it was$"):
        call(_raising(ClusterError("as it was")))


def test_a_request_has_a_time_limit_and_the_callers_words() -> None:
    given: dict[str, Any] = {}
    call(lambda *words, **more: given.update(more, words=words), "w1", field_selector="a=b")
    assert given == {"words": ("w1",), "field_selector": "a=b", "_request_timeout": TIMEOUT}
