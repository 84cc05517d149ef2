"""No well-known secret of the vendor stays in the values, and no key comes that a chart lacks."""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.model.components.runai.vendor_defaults import BACKEND, CLUSTER, SECRETS, new_secret
from tests.unit.modules.loading import load

own_secrets = load("own_secrets")
ROWS = [{**one._asdict(), "known": list(one.known)} for one in BACKEND]
OWN = {name: new_secret(name, f"0wn{index}" * 9) for index, name in enumerate(SECRETS)}
# As the vendor published them (see vendor_defaults): the users are one block of text.
BLOCK = """name: runai
admin:
    email: admin@run.ai
    password: admin
users:
- email: test@run.ai
  password: password
grafanaPages:
    promProxy: http://thanos
"""
PUBLISHED = {
    "backend": {
        "initTenant": BLOCK,
        "secret": {"jwtSecret": "jwt_secret", "sessionSecret": "session_secret"},
    },
    "postgresql": {"postgresqlPassword": "password", "postgresqlPostgresPassword": "password"},
    "global": {"db": {"password": "password"}, "grafana": {"dbPassword": "password"}},
}
USERS = OWN["vault_runai_admin_password"]
ADMIN = OWN["vault_runai_tenant_admin_password"]


def laid_over(values: dict[str, Any], *, ours_only: bool = False) -> Any:
    over, places = own_secrets.overlay(values, ROWS, OWN, ours_only)
    return own_secrets.merged(values, over), over, places


def test_every_known_default_of_the_published_values_is_replaced() -> None:
    result, _, places = laid_over(PUBLISHED)
    assert places == [one.name for one in BACKEND]
    assert own_secrets.in_force(PUBLISHED, ROWS) == [one.name for one in BACKEND]
    assert own_secrets.in_force(result, ROWS) == []
    described = yaml.safe_load(result["backend"]["initTenant"])
    assert described["admin"] == {"email": "admin@run.ai", "password": ADMIN}
    assert described["users"] == [{"email": "test@run.ai", "password": USERS}]
    assert described["grafanaPages"] == {"promProxy": "http://thanos"}
    database = result["postgresql"]["postgresqlPassword"]
    assert database == result["global"]["db"]["password"] == OWN["vault_runai_database_password"]


def test_a_key_that_the_chart_lacks_is_never_added() -> None:
    assert laid_over({"global": {"domain": "x"}})[1:] == ({}, [])
    assert laid_over({"backend": {"secret": {"jwtSecret": "jwt_secret"}}})[1] == {
        "backend": {"secret": {"jwtSecret": OWN["vault_runai_jwt_secret"]}}
    }


@pytest.mark.parametrize(
    "held",
    [{"postgresql": {}}, {"global": {"db": {"password": "of another key"}}}, {"global": {}}],
)
def test_a_password_of_server_and_clients_is_replaced_at_all_of_its_places_or_at_none(
    held: dict[str, Any],
) -> None:
    result, _, places = laid_over({**PUBLISHED, **held})
    database = {one.name for one in BACKEND if one.secret == "vault_runai_database_password"}  # noqa: S105
    assert not database & set(places)
    assert "backend.secret.jwtSecret" in places
    assert result["postgresql"] == {**PUBLISHED, **held}["postgresql"]


def test_what_the_site_has_set_itself_stays() -> None:
    changed = own_secrets.merged(PUBLISHED, {"backend": {"secret": {"jwtSecret": "theirs"}}})
    result, _, places = laid_over(changed)
    assert result["backend"]["secret"]["jwtSecret"] == "theirs"
    assert "backend.secret.jwtSecret" not in places


@pytest.mark.parametrize(
    "described",
    [
        BLOCK,
        {
            "admin": {"email": "admin@run.ai", "password": "admin"},
            "users": [{"email": "test@run.ai", "password": "Abcd!234"}],
        },
        {"admin": "admin", "users": {"test@run.ai": "Abcd!234"}},
        {"admin": "admin", "users": [{"email": "test@run.ai", "password": "password"}]},
    ],
    ids=["text", "list", "mapping", "mixed"],
)
def test_users_are_found_in_every_form_that_a_chart_may_describe_them_in(described: Any) -> None:
    values = {"backend": {"initTenant": described}}
    result, _, places = laid_over(values)
    assert places == ["backend.initTenant (test@run.ai)", "backend.initTenant (admin@run.ai)"]
    after = result["backend"]["initTenant"]
    assert own_secrets.password_of(after, "test@run.ai") in (USERS, json.dumps(USERS).strip('"'))
    assert own_secrets.password_of(after, "admin@run.ai") == ADMIN


@pytest.mark.parametrize("described", [None, [], 7, "name: runai", {"users": ["x"]}, {}])
def test_a_description_without_users_gives_nothing(described: Any) -> None:
    assert laid_over({"backend": {"initTenant": described}})[1:] == ({}, [])


def test_a_release_that_is_there_keeps_what_its_database_was_made_with() -> None:
    assert laid_over(PUBLISHED, ours_only=True)[1:] == ({}, [])
    made = laid_over(PUBLISHED)[0]
    again, over, places = laid_over(made, ours_only=True)
    assert (again, places) == (made, [one.name for one in BACKEND])
    assert over["postgresql"]["postgresqlPassword"] == OWN["vault_runai_database_password"]


@pytest.mark.parametrize("vault", [{}, dict.fromkeys(OWN, "another one, of today")])
def test_a_vault_that_was_changed_or_lost_puts_no_published_secret_into_force(
    vault: dict[str, str],
) -> None:
    made = laid_over(PUBLISHED)[0]
    over, places = own_secrets.overlay(made, ROWS, vault, True)
    assert places == [one.name for one in BACKEND]
    assert own_secrets.in_force(own_secrets.merged(PUBLISHED, over), ROWS) == []
    assert own_secrets.merged(PUBLISHED, over) == made


def test_the_end_of_line_of_a_block_in_the_vault_is_no_part_of_a_password() -> None:
    text = json.dumps({"a": "Rehearsal-1\n", "b": None})
    assert own_secrets.secrets_in(text) == {"a": "Rehearsal-1", "b": ""}


def test_a_vault_without_the_secrets_replaces_nothing() -> None:
    assert own_secrets.overlay(PUBLISHED, ROWS, dict.fromkeys(SECRETS, ""), False) == ({}, [])


def test_the_clusters_part_follows_the_password_of_the_backends_administrator() -> None:
    rows = [{**one._asdict(), "known": list(one.known)} for one in CLUSTER]
    values = {"runai-operator": {"config": {"runaiBackend": {"password": "admin"}}}}
    over, _ = own_secrets.overlay(values, rows, OWN, False)
    assert own_secrets.at(over, CLUSTER[0].path) == ADMIN
    other = {"runai-operator": {"config": {"runaiBackend": {"password": "of this cluster"}}}}
    assert own_secrets.overlay(other, rows, OWN, False) == ({}, [])


class FakeKubectl:
    """One release, as helm keeps it; None before the install."""

    def __init__(self, values: dict[str, Any] | None) -> None:
        self.notes: dict[str, str] = {}
        self.values = values

    def get(self, *arguments: str) -> Any:
        if self.values is None:
            return {"items": []}
        document = {"chart": {"values": PUBLISHED}, "config": self.values, "manifest": ""}
        packed = base64.b64encode(gzip.compress(json.dumps(document).encode()))
        labels = {"version": "1", "status": "deployed", "owner": "helm", "name": "runai-backend"}
        secret = {
            "metadata": {"name": "sh.helm.v1", "labels": labels, "annotations": self.notes},
            "data": {"release": base64.b64encode(packed).decode()},
        }
        return {"items": [secret]} if "secrets" in arguments else secret

    def call(self, arguments: list[str]) -> tuple[int, str]:
        assert arguments[1:4] == ["annotate", "--overwrite", "secret"]
        key, _, text = arguments[5].partition("=")
        self.notes[key] = text
        return 0, ""


@pytest.fixture
def want(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(own_secrets, "would_be", lambda _want, _run: PUBLISHED)
    return {
        "name": "runai-backend",
        "namespace": "runai-backend",
        "known": ROWS,
        "secrets": OWN,
        "path": str(tmp_path / "own.yaml"),
    }


def test_the_file_is_written_before_the_install_and_stays_the_same_after_it(
    want: dict[str, Any],
) -> None:
    changed, replaced, left = own_secrets.converge(want, FakeKubectl(None), None)
    assert (changed, len(replaced), left) == (True, len(BACKEND), [])
    path = Path(want["path"])
    assert path.stat().st_mode & 0o077 == 0
    before = path.read_bytes()
    installed = FakeKubectl(json.loads(before))
    assert own_secrets.converge(want, installed, None)[2] == []
    assert installed.notes == {"appliance.dev/vendor-defaults": "[]"}
    assert path.read_bytes() == before
    assert own_secrets.converge(want, installed, None)[0] is False


def test_places_in_force_are_noted_by_name_and_never_by_value(want: dict[str, Any]) -> None:
    installed = FakeKubectl({})
    _, replaced, left = own_secrets.converge(want, installed, None)
    assert (replaced, left) == ([], [one.name for one in BACKEND])
    (note,) = installed.notes.values()
    assert json.loads(note) == sorted(left)
    assert "session_secret" not in note
