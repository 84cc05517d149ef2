"""The issuer stand-in: what it says of itself, what it signs, and whom it turns away."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.prerequisites import require
from tests.unit.modules.loading import from_file

FILE = Path(__file__).parents[2] / "appliance/lab/standins/oidc_standin/oidc_standin.py"
ISSUER = "https://runai.rack.test/auth/realms/runai"
GRANT = {"grant_type": "password", "client_id": "runai", "username": "ada"}

oidc_standin = from_file("oidc_standin", FILE)


@pytest.fixture(scope="module", autouse=True)
def signing() -> None:
    """The stand-in signs with the command, and so does who checks it."""
    require("openssl")


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("key") / "signing.pem"


@pytest.fixture
def realm(key: Path, tmp_path: Path) -> Any:
    users = tmp_path / "users.json"
    users.write_text(json.dumps({"ada": {"password": "right", "sub": "s-1", "email": "a@x.test"}}))
    return oidc_standin.Realm(ISSUER, oidc_standin.Signer(key), users)


def _part(token: str, index: int) -> Any:
    text = token.split(".")[index]
    return json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))


def test_it_calls_itself_by_its_issuer_and_says_that_it_is_a_stand_in(realm: Any) -> None:
    said = realm.configuration()
    assert said["issuer"] == ISSUER
    assert said["jwks_uri"] == f"{ISSUER}/protocol/openid-connect/certs"
    assert said["standin"] is True


def test_a_token_is_signed_by_the_key_it_publishes(realm: Any, key: Path, tmp_path: Path) -> None:
    status, answer = realm.token({**GRANT, "password": "right"}, 1000.0)
    assert status == 200
    token = answer["id_token"]
    (published,) = realm.keys()["keys"]
    assert _part(token, 0) == {"alg": "RS256", "typ": "JWT", "kid": published["kid"]}
    claims = _part(token, 1)
    assert (claims["iss"], claims["aud"], claims["sub"]) == (ISSUER, "runai", "s-1")
    assert claims["exp"] - claims["iat"] == oidc_standin.LIFE_SECONDS
    head, _, signature = token.rpartition(".")
    (tmp_path / "signature").write_bytes(base64.urlsafe_b64decode(signature + "=="))
    public = tmp_path / "public.pem"
    subprocess.run(["openssl", "rsa", "-in", key, "-pubout", "-out", public], check=True)
    words: list[str | Path] = ["openssl", "dgst", "-sha256", "-verify", public]
    words += ["-signature", tmp_path / "signature"]
    done = subprocess.run(words, input=head.encode(), capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"password": "wrong"}, 401, "invalid_grant"),
        ({"username": "nobody", "password": "right"}, 401, "invalid_grant"),
        ({"client_id": "another", "password": "right"}, 401, "invalid_client"),
        ({"grant_type": "refresh_token"}, 400, "unsupported_grant_type"),
    ],
)
def test_whoever_is_not_known_is_turned_away(
    realm: Any, changes: dict[str, str], status: int, error: str
) -> None:
    found, answer = realm.token({**GRANT, **changes}, 0.0)
    assert (found, answer["error"]) == (status, error)
    assert "id_token" not in answer


def test_the_key_is_created_once_and_readable_by_its_owner_only(key: Path) -> None:
    first = oidc_standin.Signer(key).identity
    assert oidc_standin.Signer(key).identity == first
    assert key.stat().st_mode & 0o777 == 0o600


def test_it_imports_nothing_but_the_standard_library() -> None:
    imports = re.findall(r"(?m)^(?:from|import) (\S+)", FILE.read_text())
    assert not [name for name in imports if name.startswith(("appliance", "ansible"))]
