"""The probe asks the issuer stand-in over TLS, and believes it only by the right CA and name."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.runai.certificate import new_key, request_for, sign
from appliance.adapters.site.authorities import SiteAuthorities
from appliance.probe.services.wire import https_document
from appliance.probe.source import Machine, Request, Source
from tests.prerequisites import require
from tests.unit.modules.loading import from_file

FILE = Path(__file__).parents[2] / "appliance/lab/standins/oidc_standin/oidc_standin.py"
PATH = "/auth/realms/runai"
oidc_standin = from_file("oidc_standin", FILE)


def fetched(url: str, ca: str) -> tuple[dict[str, Any] | None, str | None]:
    source = Source(Machine(Path("/"), None, Request()), "issuer")
    return https_document(source, "issuer", url, ca)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address of the realm, and the CA that vouches for it."""
    require("openssl")
    folder = tmp_path_factory.mktemp("realm")
    authority, key = SiteAuthorities().make("rack"), new_key()
    (folder / "tls.key").write_text(key)
    (folder / "tls.crt").write_text(sign(request_for("localhost", key), authority))
    (folder / "users.json").write_text(json.dumps({}))
    signer = oidc_standin.Signer(folder / "signing.pem")
    realm = oidc_standin.Realm("https://localhost" + PATH, signer, folder / "users.json")
    pair = (str(folder / "tls.crt"), str(folder / "tls.key"))
    server = oidc_standin.serve("127.0.0.1", 0, realm, pair)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield f"https://localhost:{server.server_address[1]}", authority.certificate
    server.shutdown()
    server.server_close()


def test_configuration_and_keys_are_read(served: tuple[str, str]) -> None:
    url, ca = served
    document, error = fetched(f"{url}{PATH}/.well-known/openid-configuration", ca)
    assert error is None
    assert document is not None
    assert document["issuer"] == "https://localhost" + PATH
    keys, _ = fetched(f"{url}{PATH}/protocol/openid-connect/certs", ca)
    assert keys is not None
    assert len(keys["keys"]) == 1


def test_another_ca_is_not_believed(served: tuple[str, str]) -> None:
    other = SiteAuthorities().make("other").certificate
    document, error = fetched(f"{served[0]}{PATH}/.well-known/openid-configuration", other)
    assert document is None
    assert "certificate" in str(error)


def test_another_name_is_not_believed(served: tuple[str, str]) -> None:
    url, ca = served
    document, error = fetched(url.replace("localhost", "127.0.0.1") + PATH, ca)
    assert document is None
    assert "IP address mismatch" in str(error)


@pytest.mark.parametrize("url", ["http://localhost/x", "https://localhost:1/x"])
def test_what_does_not_answer_says_so(url: str, served: tuple[str, str]) -> None:
    document, error = fetched(url, served[1])
    assert document is None
    assert error


def test_a_path_that_is_not_there_is_an_error(served: tuple[str, str]) -> None:
    url, ca = served
    assert "404" in str(fetched(f"{url}/elsewhere", ca)[1])
    _, error = fetched(f"{url}{PATH}/protocol/openid-connect/token", ca)
    assert "404" in str(error)
