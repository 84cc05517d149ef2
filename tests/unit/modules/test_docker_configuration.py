"""daemon.json is merged, never overwritten."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.modules.loading import load

docker_configuration = load("docker_configuration", role="docker_engine")

SYSTEMD = {"exec-opts": ["native.cgroupdriver=systemd"]}
CASES: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ("empty", {}, SYSTEMD, SYSTEMD),
    ("equal", SYSTEMD, SYSTEMD, SYSTEMD),
    (
        "foreign keys stay",
        {"runtimes": {"nvidia": {"path": "x"}}, "data-root": "/data"},
        SYSTEMD,
        {"runtimes": {"nvidia": {"path": "x"}}, "data-root": "/data", **SYSTEMD},
    ),
    (
        "the other driver is replaced, other options stay",
        {"exec-opts": ["native.cgroupdriver=cgroupfs", "x=1"]},
        SYSTEMD,
        {"exec-opts": ["x=1", "native.cgroupdriver=systemd"]},
    ),
    (
        "order is no difference",
        {"exec-opts": ["native.cgroupdriver=systemd", "x=1"]},
        SYSTEMD,
        {"exec-opts": ["native.cgroupdriver=systemd", "x=1"]},
    ),
    (
        "both drivers named",
        {"exec-opts": ["native.cgroupdriver=systemd", "native.cgroupdriver=cgroupfs"]},
        SYSTEMD,
        SYSTEMD,
    ),
    (
        "maps are merged",
        {"log-opts": {"max-size": "1m", "tag": "t"}},
        {"log-opts": {"max-size": "50m"}},
        {"log-opts": {"max-size": "50m", "tag": "t"}},
    ),
    (
        "lists are joined",
        {"insecure-registries": ["a"]},
        {"insecure-registries": ["b"]},
        {"insecure-registries": ["a", "b"]},
    ),
]


@pytest.mark.parametrize(
    ("have", "want", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_options_are_merged(
    have: dict[str, Any], want: dict[str, Any], expected: dict[str, Any]
) -> None:
    before = json.dumps(have)
    once = docker_configuration.merged(have, want)
    assert once == expected
    assert docker_configuration.merged(once, want) == once
    assert json.dumps(have) == before


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "{'a': 1}"])
def test_what_is_not_a_json_object_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"."):
        docker_configuration.load(path)


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_file_is_no_configuration(text: str, tmp_path: Path) -> None:
    path = tmp_path / "daemon.json"
    path.write_text(text)
    assert docker_configuration.load(path) == {}
    assert docker_configuration.load(tmp_path / "absent") == {}


def test_the_mode_of_the_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "docker" / "daemon.json"
    docker_configuration.save(path, {"a": 1})
    assert path.stat().st_mode & 0o777 == 0o644
    path.chmod(0o600)
    docker_configuration.save(path, {"a": 2})
    assert path.stat().st_mode & 0o777 == 0o600
    assert docker_configuration.load(path) == {"a": 2}
