"""A release as its difference from another: what is taken over, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.local import content, shipped
from appliance.adapters.local.content import load_release
from appliance.errors import ConfigError
from appliance.model.bundle.release.release import Release
from tests.unit.bundle.samples import artifact, image_of, release_data

Write = Callable[..., None]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Release files of a test, by name."""
    monkeypatch.setattr(content, "RELEASES", tmp_path)
    monkeypatch.setattr(shipped, "RELEASES", tmp_path)

    def written(name: str, /, **data: Any) -> None:
        (tmp_path / f"{name}.yml").write_text(yaml.safe_dump({"name": name, **data}))
        load_release.cache_clear()

    artifacts = [artifact("tool", operating_systems=["debian-12"]),
                 artifact("tool", operating_systems=["ubuntu-20.04"], version="0.9"),
                 artifact("other"), artifact("web"), image_of("web", "web")]  # fmt: skip
    written("base", **{k: v for k, v in release_data(*artifacts).items() if k != "name"})
    return written


def own(**changes: Any) -> dict[str, Any]:
    """The least that a file must say, and changes."""
    return {"based_on": "base", "description": "d", "reached_from": ["base"], **changes}


def loaded(write: Write, **changes: Any) -> Release:
    write("next", **own(**changes))
    return load_release("next")


def test_what_a_file_does_not_say_is_the_bases(write: Write) -> None:
    found, base = loaded(write), load_release("base")
    assert (found.name, found.based_on, found.reached_from) == ("next", ("base",), ("base",))
    differing = {"name", "description", "based_on", "reached_from"}
    assert found.model_dump(exclude=differing) == base.model_dump(exclude=differing)


def test_versions_lines_and_package_groups_are_replaced_one_by_one(write: Write) -> None:
    systems = {"debian-12": {"versions": {"docker": None, "containerd": "1.6.20"},
                             "package_roots": {"runtime": ["containerd"]}},
               "ubuntu-20.04": {"versions": {"containerd": "1.6.21"}}}  # fmt: skip
    found = loaded(
        write,
        runtime={"name": "containerd", "socket": "unix:///run/containerd/containerd.sock"},
        versions={"etcd": "3.5.6", "docker": None},
        needs={"docker": None, "containerd": "1.6"},
        support_ends={"containerd": "2025-08-23"},
        operating_systems=systems,
    )
    assert (found.versions.etcd, found.versions.coredns, found.versions.docker) == (
        "3.5.6", "1.8.6", None,
    )  # fmt: skip
    assert dict(found.needs) == {"etcd": "3.5", "containerd": "1.6"}
    assert set(found.support_ends) == {"kubernetes", "containerd"}
    debian = found.operating_system("debian-12")
    assert debian.package_roots == {"time": ("chrony",), "runtime": ("containerd",)}
    assert debian.title == "Debian"
    assert found.versions_on("ubuntu-20.04").containerd == "1.6.21"


def test_an_artifact_replaces_all_of_its_kind_and_name_and_nothing_else(write: Write) -> None:
    found = loaded(write, artifacts=[artifact("tool", version="2.0"), artifact("new")])
    told = {(item.kind, item.name): item.version for item in found.artifacts_on("ubuntu-20.04")}
    assert told == {
        ("binary", "tool"): "2.0", ("binary", "other"): "1.0", ("binary", "web"): "1.0",
        ("image", "web"): "1.0", ("binary", "new"): "1.0",
    }  # fmt: skip


def test_an_operating_system_is_given_up_with_what_is_for_it_alone(write: Write) -> None:
    both = artifact("both", operating_systems=["debian-12", "ubuntu-20.04"])
    base = release_data(artifact("old", operating_systems=["debian-12"]), both)
    write("base", **{key: value for key, value in base.items() if key != "name"})
    found = loaded(write, operating_systems={"debian-12": None})
    assert set(found.operating_systems) == {"ubuntu-20.04"}
    assert {item.name: item.operating_systems for item in found.artifacts} == {
        "both": ("ubuntu-20.04",)
    }


def test_the_nearest_release_comes_first(write: Write) -> None:
    write("next", **own(versions={"etcd": "3.5.6"}))
    write("last", **own(based_on="next", versions={"coredns": "1.9.0"}))
    found = load_release("last")
    assert found.based_on == ("next", "base")
    assert (found.versions.etcd, found.versions.coredns) == ("3.5.6", "1.9.0")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"operating_systems": {"debian-13": {}}}, "does not have: debian-13"),
        ({"operating_systems": {"debian-12": {"title": "x"}}}, "title is taken over from the base"),
        ({"operating_systems": ["debian-12"]}, "operating_systems: expected entries"),
        ({"versions": {"cuda": None}}, "removes what the base does not have: cuda"),
        ({"versions": {"cuda": "12"}}, "Extra inputs"),
        ({"versions": {"etcd": "3.4.23"}}, "needs etcd 3.5, not 3.4.23"),
        ({"needs": {"cuda": "12"}}, "unknown parts: cuda"),
        ({"support_ends": {"etcd": "soon"}}, "valid date"),
        ({"versions": {"docker": None}, "needs": {"docker": None},
          "operating_systems": {"debian-12": {"versions": {"docker": None}}}},
         "no version of its runtime docker"),
        ({"runtime": {"name": "cri-o", "socket": "/run/x.sock"}}, "'docker' or 'containerd'"),
        ({"runtime": {"name": "docker", "socket": "run/x.sock"}}, "should match pattern"),
        ({"reached_from": ["next"]}, "is reached from itself"),
        ({"artifacts": {"tool": {}}}, "expected a list of artifacts"),
        ({"artifacts": [artifact("tool"), artifact("tool")]}, "is there twice"),
        ({"artifact": []}, "Extra inputs"),
        ({"based_on": "next"}, "release next is based on itself"),
    ],
)  # fmt: skip
def test_a_wrong_difference_is_refused(write: Write, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(write, **change)
    assert words in " ".join([caught.value.message, *caught.value.details])


def test_a_file_says_itself_what_is_true_of_it_alone(write: Write) -> None:
    write("next", based_on="base")
    with pytest.raises(ConfigError) as caught:
        load_release("next")
    assert caught.value.details == ("a release says this itself: description, reached_from",)


def test_a_base_that_is_not_there_is_named_with_the_file_that_wants_it(write: Write) -> None:
    write("next", **own(based_on="bass"))
    with pytest.raises(ConfigError, match="there is no release bass") as caught:
        load_release("next")
    assert caught.value.details[0].endswith("next.yml is based on it")


def test_two_releases_that_are_based_on_each_other_are_refused(write: Write) -> None:
    write("next", **own(based_on="last"))
    write("last", **own(based_on="next"))
    with pytest.raises(ConfigError, match="release next is based on itself"):
        load_release("next")
