"""A release says what fits together, and refuses what does not."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.adapters.local.content import RELEASES, list_releases, load_release
from appliance.errors import ConfigError
from appliance.model.bundle.release import Release
from appliance.model.bundle.sources import ComposeSource, GoSource, OciSource, UrlSource
from tests.unit.bundle.samples import URL, VERSIONS, artifact, image_of, release, release_data

# Read in kubespray v2.19.1, roles/download/defaults/main.yml.
CITED = {
    "kubeadm": "8eebded187ee84c97003074eaa347e34131fef3acdf3e589a9b0200f94687667",
    "kubelet": "253b9db2299b09b91e4c09781ce1d2db6bad2099cf16ba210245159f48d0d5e4",
    "kubectl": "715da05c56aa4f8df09cb1f9d96a2aa2c33a1232f6fd195e3ffce6e98a50a879",
    "cni-plugins": "b275772da4026d2161bf8a8b41ed4786754c8a93ebfb6564006d5da7f23831e5",
}


def faults_of(data: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Release.model_validate(data)
    return str(caught.value)


def test_an_unknown_operating_system_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(ConfigError, match=r"rocky-9: it was tested with debian-12, ubuntu-20\.04"):
        release(artifact("tool")).operating_system("rocky-9")


def test_an_operating_system_says_its_own_versions() -> None:
    found = release(artifact("tool"))
    assert found.versions_on("debian-12").docker == "20.10.24"
    assert found.versions_on("ubuntu-20.04").docker == "20.10.11"


def test_a_combination_that_was_not_tested_is_refused_part_by_part() -> None:
    with pytest.raises(ConfigError) as caught:
        release(artifact("tool")).require(
            "debian-12", kubernetes="v1.24.0", docker="20.10.24", x="1"
        )
    assert caught.value.details == (
        "kubernetes v1.24.0: this release has 1.23.5",
        "x 1: this release has no such part",
    )


def test_the_tested_combination_is_accepted() -> None:
    release(artifact("tool")).require("debian-12", kubernetes="v1.23.5", docker="20.10.24")


def test_docker_and_etcd_must_fit_kubernetes() -> None:
    found = faults_of(
        release_data(artifact("tool"), versions={**VERSIONS, "etcd": "3.4.23", "docker": "24.0.5"})
    )
    assert "Kubernetes 1.23 needs etcd 3.5, not 3.4.23" in found
    assert "ubuntu-20.04: Kubernetes 1.23 needs Docker 20.10, not 24.0.5" in found


def test_an_image_made_from_nothing_that_exists_is_refused() -> None:
    assert "is made from ghost, which is no artifact" in faults_of(
        release_data(image_of("web", "ghost"))
    )


def test_the_same_artifact_twice_is_refused_unless_each_has_its_own_system() -> None:
    assert "is there twice" in faults_of(release_data(artifact("tool"), artifact("tool")))
    one = artifact("tool", operating_systems=["debian-12"])
    two = artifact("tool", operating_systems=["ubuntu-20.04"], version="2.0")
    assert [a.version for a in release(one, two).artifacts_on("ubuntu-20.04")] == ["2.0"]


def test_an_artifact_for_an_unknown_system_is_refused() -> None:
    found = faults_of(release_data(artifact("tool", operating_systems=["debian-13"])))
    assert "unknown operating system debian-13" in found


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "image", "image": None}, "an image, and nothing else"),
        ({"image": "tool:v1"}, "an image, and nothing else"),
        ({"sources": []}, "at least 1 item"),
        ({"sources": [{**URL, "sha256": "abc"}]}, "should match pattern"),
        ({"sources": [{"kind": "ftp"}]}, "ftp"),
        ({"sources": [{**URL, "checksum": "x"}]}, "Extra inputs"),
        ({"sources": [{"kind": "compose"}]}, "an image needs content"),
        ({"sources": [{"kind": "compose", "c_program": "a", "packages": ["x"]}]}, "excludes"),
        ({"sources": [{"kind": "oci", "reference": "pause"}]}, "should match pattern"),
    ],
)  # fmt: skip
def test_a_wrong_artifact_is_refused(change: dict[str, Any], words: str) -> None:
    assert words in faults_of(release_data({**artifact("tool"), **change}))


def test_an_unknown_package_group_and_part_are_refused() -> None:
    system = {"title": "x", "versions": {"cuda": "12"}, "package_roots": {}}
    assert "unknown parts: cuda" in faults_of(
        release_data(artifact("t"), operating_systems={"x": system})
    )
    system = {"title": "x", "versions": {}, "package_roots": {"games": ["nethack"]}}
    assert "groups: games" in faults_of(
        release_data(artifact("t"), operating_systems={"x": system})
    )


def test_roots_are_named_once_and_without_versions() -> None:
    system = release(artifact("tool")).operating_system("debian-12")
    assert system.roots == ("chrony", "docker.io=20.10.24")
    assert system.root_names() == {"time": ("chrony",), "runtime": ("docker.io", "chrony")}


@pytest.mark.parametrize("name", list_releases())
def test_a_shipped_release_is_whole(name: str) -> None:
    found = load_release(name)
    assert found.name == name
    for item in found.artifacts:
        for source in item.sources:
            if isinstance(source, GoSource):
                folder = RELEASES / name / "go" / source.module
                assert (folder / "go.mod").is_file()
                assert (folder / "go.sum").is_file()
                assert f'"{source.package}"' in (folder / "tools.go").read_text()
            if isinstance(source, ComposeSource) and source.c_program:
                assert (RELEASES / name / source.c_program).is_file()


@pytest.mark.parametrize("os_name", ["ubuntu-20.04", "debian-12", "debian-11"])
def test_the_release_has_every_image_that_kubeadm_and_flannel_ask_for(os_name: str) -> None:
    found = load_release("k8s-1.23.5-r1")
    images = {item.image for item in found.artifacts_on(os_name)}
    assert images >= {
        "kube-apiserver:v1.23.5", "kube-controller-manager:v1.23.5", "kube-scheduler:v1.23.5",
        "kube-proxy:v1.23.5", "etcd:3.5.1-0", "coredns:v1.8.6", "pause:3.6", "flannel:v0.19.2",
    }  # fmt: skip


def test_only_digests_that_were_read_somewhere_are_in_the_release() -> None:
    found = load_release("k8s-1.23.5-r1")
    sources = [source for item in found.artifacts for source in item.sources]
    named = {s.sha256 for s in sources if isinstance(s, UrlSource) and s.sha256}
    assert named == set(CITED.values())
    pinned = {s.reference: s.digest for s in sources if isinstance(s, OciSource) and s.digest}
    # The list that registry.k8s.io is filled from; the release names its commit.
    assert all(reference.startswith("registry.k8s.io/") for reference in pinned)
    assert len(pinned) == len(set(pinned.values())) == 8
    text = (RELEASES / "k8s-1.23.5-r1.yml").read_text()
    assert re.search(r"kubernetes/k8s\.io, [^\n]+\n +# read at commit [0-9a-f]{40}\.", text)


def test_the_appliances_docker_is_pinned_to_the_version_that_was_read() -> None:
    roots = load_release("k8s-1.23.5-r1").operating_system("ubuntu-20.04").package_roots["runtime"]
    assert "docker-ce=5:20.10.11~3-0~ubuntu-focal" in roots
    assert "containerd.io=1.4.12-1" in roots
