"""What the Kubernetes library raises, as the two errors that everything else tells apart."""

from __future__ import annotations

from typing import Any

import pytest
from kubernetes.client import ApiException
from urllib3.exceptions import ProtocolError

from appliance.adapters.kubernetes.client import TIMEOUT, ApiRefused, ApiSilent, NotReadable, call
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


def test_errors_of_ours_pass_unchanged() -> None:
    with pytest.raises(ClusterError, match=r"^as it was$"):
        call(_raising(ClusterError("as it was")))


def test_a_request_has_a_time_limit_and_the_callers_words() -> None:
    given: dict[str, Any] = {}
    call(lambda *words, **more: given.update(more, words=words), "w1", field_selector="a=b")
    assert given == {"words": ("w1",), "field_selector": "a=b", "_request_timeout": TIMEOUT}
