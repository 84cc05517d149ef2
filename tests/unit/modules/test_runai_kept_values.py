"""The values that an upgrade of Run:ai keeps, and what is told of their differences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

kept = load("runai_kept_values", role="runai_upgrade")
records = kept.records
OLD = {
    "deployment": {"domain": "runai.rack.test"},
    "backend": {"replicas": 2, "privateRegistryAddress": "", "secret": {"jwtSecret": "of theirs"}},
    "nginx-ingress": {"controller": {"service": {"externalIPs": ["198.18.0.9"]}}},
    "grafana": {"enabled": False},
    "thanos": "on",
}
NEW = {
    "deployment": {"domain": "runai.rack.test"},
    "backend": {"replicas": 1, "privateRegistryAddress": "registry.rack.test:5000"},
    "nginx-ingress": {"controller": {"service": {"externalIPs": ["198.18.0.9"]}}},
    "grafana": {"enabled": True},
    "thanos": {"enabled": True},
    "audit": {"level": "info"},
}


@pytest.fixture
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The record of this node, in a folder of the test."""
    path = tmp_path / "upgrade.json"
    monkeypatch.setattr(records, "PATH", path)
    return path


def test_what_was_there_wins_over_the_new_version_and_each_difference_is_told() -> None:
    values, lines = kept.compare(OLD, NEW, {}, ["registry.rack.test:5000"])
    assert values == {
        "backend": {"replicas": 2, "secret": {"jwtSecret": "of theirs"}},
        "grafana": {"enabled": False},
    }
    assert lines == [
        'backend.privateRegistryAddress: "" becomes "registry.rack.test:5000"',
        "backend.replicas: 2 is kept; the new version's: 1",
        "backend.secret.jwtSecret: (hidden) is kept; the new version's: none",
        "grafana.enabled: false is kept; the new version's: true",
        "thanos is dropped: the new version has another form there",
        'audit.level: "info" is new',
        "thanos.enabled: true is new",
    ]


def test_the_certificate_is_always_the_one_that_was_written_now() -> None:
    old, new = ({"backend": {"https": {"crt": one, "key": one}}} for one in ("old", "new"))
    assert kept.compare(old, new, {}, []) == ({}, [])


def test_what_the_site_gives_itself_is_not_kept_beside_it() -> None:
    given = {"backend": {"replicas": 3, "secret": {"jwtSecret": "of ours"}}, "grafana": "off"}
    values, lines = kept.compare(OLD, NEW, given, ["registry.rack.test:5000"])
    assert values == {}
    assert not [line for line in lines if "kept" in line]


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("db", "password"), "short"),
        (("backend", "https", "crt"), "LS0t"),
        (("backend", "initTenant"), "name: runai\nusers: []"),
        (("x",), "a" * 61),
        (("list",), ["a"]),
        (("db", "adminPassword"), 12345678),
        (("smtp", "pw"), "hunter2"),
        (("ldap", "bindPwd"), "hunter2"),
        (("backend", "dsn"), "postgres://runai:hunter2@db"),
        (("proxy", "url"), "http://user:hunter2@proxy:3128"),
        (("hook", "url"), "https://hooks.test/services/T0/B0/x"),
        (("env", "value"), "q8Zr0vL2nX5tB7yK"),
    ],
)
def test_what_may_be_a_secret_is_not_shown(path: tuple[str, ...], value: Any) -> None:
    assert kept.shown(path, value) == "(hidden)"


def test_what_is_no_secret_is_shown() -> None:
    for path, value in (
        (("backend", "replicas"), 2),
        (("auth", "enabled"), True),
        (("backend", "privateRegistryAddress"), "registry.rack.test:5000"),
        (("audit", "level"), "info"),
        (("image", "tag"), "2.7.14"),
    ):
        assert kept.shown(path, value) != "(hidden)"


@pytest.mark.parametrize(
    ("saved", "generated", "place"),
    [
        ({"postgresql": {"persistence": {"nfs": {"path": "/x"}}}},
         {"postgresql": {"persistence": "default"}}, "postgresql.persistence.nfs.path"),
        ({"thanos": {"storageClassName": "fast"}},
         {"thanos": {"storageClassName": {"receive": "any"}}}, "thanos.storageClassName"),
    ],
)  # fmt: skip
def test_a_value_that_says_where_data_is_never_gives_way_silently(
    saved: dict[str, Any], generated: dict[str, Any], place: str
) -> None:
    with pytest.raises(kept.UpgradeError, match=f"{place}.*runai.values in site.yml"):
        kept.compare(saved, generated, {}, [])
    given = dict.fromkeys(saved, "told by the site")
    assert kept.compare(saved, generated, given, [])[0] == {}


def test_where_there_were_no_kept_values_before_none_are_restored(tmp_path: Path) -> None:
    """A second merge of one upgrade would have saved the first one's as those from before."""
    path, before = tmp_path / "kept.yaml", tmp_path / "before.json"
    assert kept.put(path, {"a": 1}, before)
    assert kept.put(path, {"a": 2}, before)
    assert before.read_text() == ""


def test_the_values_before_are_kept_once_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    path, before = tmp_path / "kept.yaml", tmp_path / "before.json"
    path.write_text("{}\n")
    assert kept.put(path, {"a": 1}, before)
    assert not kept.put(path, {"a": 1}, before)
    assert kept.put(path, {"a": 2}, before)
    assert (before.read_text(), path.stat().st_mode & 0o777) == ("{}\n", 0o600)


def test_differences_of_both_releases_are_noted_in_one_order(record: Path) -> None:
    record.write_text('{"target_sha256": "ab"}')
    assert kept.note("runai-cluster", ["x is new"])
    assert kept.note("runai-backend", ["b is new", "a is new"])
    assert not kept.note("runai-cluster", ["x is new"])
    assert not kept.note("runai-backend", ["b is new", "a is new"])
    assert records.read()["differences"] == [
        "runai-backend: b is new",
        "runai-backend: a is new",
        "runai-cluster: x is new",
    ]
    many = [f"{number} is new" for number in range(300)]
    kept.note("runai-backend", many)
    assert records.read()["differences"][-2:] == [
        "runai-backend: and 100 more",
        "runai-cluster: x is new",
    ]
