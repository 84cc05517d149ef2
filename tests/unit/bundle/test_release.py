"""A release says what fits together, and refuses what does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from appliance.adapters.local.content import (
    RELEASES,
    default_release,
    list_releases,
    load_release,
)
from appliance.errors import ConfigError
from appliance.model.bundle.archives.archive import AptArchive
from appliance.model.bundle.release.release import Release
from appliance.model.bundle.release.sources import ComposeSource, GoSource, OciSource, UrlSource
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
    with pytest.raises(
        ConfigError, match=r"rocky-9: the release was tested with debian-12, ubuntu"
    ):
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
    assert "ubuntu-20.04: Kubernetes 1.23 needs etcd 3.5, not 3.4.23" in found
    assert "ubuntu-20.04: Kubernetes 1.23 needs docker 20.10, not 24.0.5" in found


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


def test_a_bundle_for_ubuntu_carries_rsync_for_machines_without_it() -> None:
    system = load_release("k8s-1.23.5-r1").operating_system("ubuntu-20.04")
    assert system.root_names()["by_hand"] == ("rsync",)


def of_release(found: Release, name: str) -> Path:
    """A file of the release, or of the one that it is based on, as the builder finds it."""
    paths = [RELEASES / release / name for release in (found.name, *found.based_on)]
    return next(path for path in paths if path.exists())


@pytest.mark.parametrize("name", list_releases())
def test_a_shipped_release_is_whole(name: str) -> None:
    found = load_release(name)
    assert found.name == name
    for item in found.artifacts:
        for source in item.sources:
            if isinstance(source, GoSource):
                folder = of_release(found, f"go/{source.module}")
                assert (folder / "go.mod").is_file()
                assert (folder / "go.sum").is_file()
                listed = folder / ("main.go" if source.standin else "tools.go")
                assert source.standin or f'"{source.package}"' in listed.read_text()
                assert listed.is_file()
            if isinstance(source, ComposeSource) and source.c_program:
                assert of_release(found, source.c_program).is_file()


# kubeadm's own: cmd/kubeadm/app/constants/constants.go of each version.
KUBEADMS = {
    "k8s-1.23.5-r1": {"etcd:3.5.1-0", "coredns:v1.8.6", "pause:3.6"},
    "k8s-1.23.17-r1": {"etcd:3.5.6-0", "coredns:v1.8.6", "pause:3.6"},
    "k8s-1.24.17-r1": {"etcd:3.5.6-0", "coredns:v1.8.6", "pause:3.7"},
}


@pytest.mark.parametrize(
    ("name", "os_name"),
    [(name, system) for name in list_releases() for system in load_release(name).operating_systems],
)
def test_the_release_has_every_image_that_kubeadm_and_flannel_ask_for(
    name: str, os_name: str
) -> None:
    found = load_release(name)
    version = f"v{found.versions.kubernetes}"
    programs = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    asked = {f"{program}:{version}" for program in programs} | KUBEADMS[name]
    images = {item.image for item in found.artifacts_on(os_name)}
    assert images >= asked | {"flannel:v0.19.2"}
    names = {image.partition(":")[0] for image in asked}
    assert {i for i in images if i and i.partition(":")[0] in names} == asked


@pytest.mark.parametrize("name", list_releases())
def test_every_program_of_a_release_is_of_its_own_versions(name: str) -> None:
    found = load_release(name)
    own = found.versions.model_dump()
    programs = {
        "kubernetes": ("kubeadm", "kubelet", "kubectl", "kube-apiserver", "kube-proxy",
                       "kube-controller-manager", "kube-scheduler"),
        "etcd": ("etcd", "etcdctl", "etcdutl"),
        "coredns": ("coredns",), "pause": ("pause",), "helm": ("helm",), "crane": ("crane",),
        "cri_tools": ("crictl",),
    }  # fmt: skip
    wanted = {program: own[part] for part, names in programs.items() for program in names}
    listed = [item for item in found.artifacts if item.name in wanted]
    assert {item.name: item.version for item in listed} == {
        program: version for program, version in wanted.items() if version is not None
    }
    for item in listed:
        for source in item.sources:
            if isinstance(source, (UrlSource, OciSource, GoSource)):
                assert (source.version or wanted[item.name]) in source.ref, source.ref
            if isinstance(source, GoSource):
                minor = found.versions.kubernetes.split(".")[1]
                told = [flag for flag in source.ldflags if "inor=" in flag]
                assert all(flag.endswith(f"inor={minor}") for flag in told)


def test_releases_are_listed_by_their_numbers() -> None:
    names = list_releases()
    assert names.index("k8s-1.23.5-r1") < names.index("k8s-1.23.17-r1")
    numbers = [load_release(name).versions.kubernetes.split(".") for name in names]
    assert numbers == sorted(numbers, key=lambda parts: [int(part) for part in parts])


def test_releases_form_paths_from_the_first_one_up() -> None:
    releases = {name: load_release(name) for name in list_releases()}
    numbers = {
        name: tuple(map(int, found.versions.kubernetes.split(".")))
        for name, found in releases.items()
    }
    for name, found in releases.items():
        assert set(found.reached_from) <= set(releases)
        for before in found.reached_from:
            # kubeadm takes a cluster one minor version at a time, and never back.
            assert numbers[before] < numbers[name]
            assert numbers[name][1] - numbers[before][1] <= 1
            assert set(releases[before].operating_systems) >= set(found.operating_systems)
            # What is given up says so in its file, and never the appliance's own.
            assert "ubuntu-20.04" in found.operating_systems
    starts = [name for name, found in releases.items() if not found.reached_from]
    assert starts == [default_release()]
    assert all("kubernetes" in found.support_ends for found in releases.values())


def test_only_digests_that_were_read_somewhere_are_in_the_release() -> None:
    found = load_release("k8s-1.23.5-r1")
    sources = [source for item in found.artifacts for source in item.sources]
    named = {s.sha256 for s in sources if isinstance(s, UrlSource) and s.sha256}
    assert named == set(CITED.values())
    pinned = {s.reference: s.digest for s in sources if isinstance(s, OciSource) and s.digest}
    # The list that registry.k8s.io is filled from; the release names its commit.
    assert all(reference.startswith("registry.k8s.io/") for reference in pinned)
    assert len(pinned) == len(set(pinned.values())) == 9
    text = (RELEASES / "k8s-1.23.5-r1.yml").read_text()
    assert re.search(r"kubernetes/k8s\.io, [^\n]+\n +# read at commit [0-9a-f]{40}\.", text)


def test_the_appliances_docker_is_pinned_to_the_version_that_was_read() -> None:
    roots = load_release("k8s-1.23.5-r1").operating_system("ubuntu-20.04").package_roots["runtime"]
    assert "docker-ce=5:20.10.11~3-0~ubuntu-focal" in roots
    assert "containerd.io=1.4.12-1" in roots


# Read with the keys in lxc/lxc-ci, images/ubuntu.yaml (and computed from their bytes there);
# NVIDIA's in projects that compare them before they install;
# Docker's in docker/docs and kubespray; Debian's on ftp-master.debian.org/keys.html.
ARCHIVE_KEYS = {
    "http://archive.ubuntu.com/ubuntu": {
        "790BC7277767219C42C86F933B4FE6ACC0B21F32", "F6ECB3762474EDA9D21B7022871920D1991BC93C",
    },
    "http://security.ubuntu.com/ubuntu": {
        "790BC7277767219C42C86F933B4FE6ACC0B21F32", "F6ECB3762474EDA9D21B7022871920D1991BC93C",
    },
    "https://download.docker.com/linux/ubuntu": {"9DC858229FC7DD38854AE2D88D81803C0EBFCD88"},
    "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64": {
        "EB693B3035CD5710E231E123A4B469963BF863CC"
    },
    "https://nvidia.github.io/libnvidia-container/stable/deb/amd64": {
        "C95B321B61E88C1809C4F759DDCAE044F796ECB0"
    },
}  # fmt: skip


def test_each_archive_names_the_keys_that_sign_it_and_only_those_that_were_read_somewhere() -> None:
    archives = load_release("k8s-1.23.5-r1").operating_system("ubuntu-20.04").archives
    assert {item.uri: item.keyring.fingerprints for item in archives} == ARCHIVE_KEYS


@pytest.mark.parametrize(
    "change",
    [
        {"uri": "http://archive.test/ubuntu\nTrusted: yes"},
        {"suites": ["focal\nTrusted: yes"]},
        {"components": ["main Trusted"]},
        {"keyring": "/usr/share/keyrings/x.gpg"},
        {"keyring": {"keys": [], "url": "http://archive.test/key"}},
        {"keyring": {"keys": [{"fingerprint": "871920D1991BC93C", "title": "x"}],
                     "url": "http://archive.test/key"}},
    ],
)  # fmt: skip
def test_an_archive_that_says_more_than_it_should_is_refused(change: dict[str, Any]) -> None:
    keyring = {"keys": [{"fingerprint": "A" * 40, "title": "x"}], "url": "http://archive.test/key"}
    archive = {
        "uri": "http://archive.test/ubuntu", "suites": ["focal"], "components": ["main"],
        "keyring": keyring,
    }  # fmt: skip
    AptArchive.model_validate(archive)
    with pytest.raises(ValidationError):
        AptArchive.model_validate({**archive, **change})


def test_kernels_are_taken_by_exact_name_in_place_of_the_metapackages() -> None:
    found = load_release("k8s-1.23.5-r1")
    newest = found.operating_system("ubuntu-20.04").package_roots["kernel"]
    assert {"linux-image-generic", "linux-headers-generic-hwe-20.04"} <= set(newest)
    two = found.with_kernels(
        "ubuntu-20.04", ["5.4.0-216-generic", "5.15.0-139-generic", "5.4.0-216-generic"]
    )
    roots = two.operating_system("ubuntu-20.04").package_roots["kernel"]
    assert roots == tuple(
        f"linux-{part}-{kernel}"
        for kernel in ("5.4.0-216-generic", "5.15.0-139-generic")
        for part in ("image", "modules", "modules-extra", "headers")
    )
    assert set(roots) <= set(two.operating_system("ubuntu-20.04").roots)
    assert found.with_kernels("debian-12", []) is found
    with pytest.raises(ConfigError, match="no packages of kernels for debian-12"):
        found.with_kernels("debian-12", ["5.4.0-216-generic"])


def test_driver_and_fabric_manager_are_of_one_branch_and_archives_without_suites_are_told() -> None:
    found = load_release("k8s-1.23.5-r1")
    system = found.operating_system("ubuntu-20.04")
    branch = found.versions.nvidia_driver
    assert system.package_roots["driver"] == (f"cuda-drivers-{branch}",)
    assert system.package_roots["fabric_manager"] == (f"cuda-drivers-fabricmanager-{branch}",)
    flat = [archive for archive in system.archives if archive.suites == ("/",)]
    assert [archive.uri.partition("/")[2].strip("/").partition("/")[0] for archive in flat] == [
        "developer.download.nvidia.com",
        "nvidia.github.io",
    ]
    # apt refuses a source with a path for a suite that has components, too.
    assert not [archive for archive in flat if "Components" in archive.stanza("/k")]
    assert "Components: main universe" in system.archives[0].stanza("/k")
