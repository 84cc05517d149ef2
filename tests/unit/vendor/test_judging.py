"""What follows from the content of a vendor bundle: support, space, names in the registry."""

from __future__ import annotations

from typing import Any

import pytest

from appliance.model.bundle.release.runai_versions import supported_range
from appliance.model.bundle.vendor.bundle import (
    Generation,
    Image,
    Needs,
    VendorBundle,
    has_documented_name,
    hostile,
    short_of_space,
)
from tests.vendor_bundles import GB, judged


def bundle(version: str = "2.7.1", **changes: Any) -> VendorBundle:
    sizes = {"size": 5 * GB, "unpacked_bytes": 6 * GB, "layer_bytes": 9 * GB}
    return judged(version, **{**sizes, **changes})


@pytest.mark.parametrize("version", ["2.4.0", "2.7.14", "v2.8.1", "2.8.22"])
def test_versions_that_kubernetes_1_23_runs(version: str) -> None:
    assert bundle(version).faults("1.23.5") == ()


@pytest.mark.parametrize("version", ["2.3.9", "2.11.0", "2.17.0", "3.0.1"])
def test_versions_that_it_does_not_run_are_refused_with_the_range(version: str) -> None:
    assert bundle(version).faults("1.23.5") == (
        f"Kubernetes 1.23.5 runs Run:ai 2.4 to 2.8, not {version}",
    )


@pytest.mark.parametrize("version", ["2.9.3", "2.10.4"])
def test_versions_without_ingress_and_prometheus_are_refused_by_name(version: str) -> None:
    (fault,) = bundle(version).faults("1.23.5")
    assert fault.startswith(f"Kubernetes 1.23.5 runs Run:ai 2.4 to 2.8, not {version}: it brings ")
    assert "neither an ingress controller nor Prometheus" in fault


def test_an_unknown_kubernetes_version_supports_no_runai_version() -> None:
    assert bundle().faults("1.31.0")[0].endswith("no known version, not 2.7.1")
    assert supported_range("1.23.99") == "2.4 to 2.8"


def test_a_damaged_bundle_says_that_alone() -> None:
    assert bundle("2.17.0", faults=("it is truncated",)).faults("1.23.5") == ("it is truncated",)


def test_a_record_that_is_none_gives_nothing() -> None:
    assert VendorBundle.from_record({"sha256": "ab"}) is None


def test_without_charts_nothing_is_known() -> None:
    found = bundle(charts=())
    assert (found.generation, found.version) == (Generation.UNKNOWN, "2.7.1")


def test_the_admin_cli_tells_the_version_before_the_files_name() -> None:
    name = "deploy/runai-admin-cli-2.6.3-linux-amd64.tar.gz"
    assert bundle(charts=(), files={name: 1}).version == "2.6.3"


def test_a_name_that_contradicts_the_content_is_remarked() -> None:
    found = bundle(file_name="runai-2.5.0.tar.gz")
    assert found.version == "2.7.1"
    assert "the file's name says 2.5.0, its chart 2.7.1" in found.remarks


@pytest.mark.parametrize(
    "name", ["runai-2.7.1.tar", "runai-2.7.1.tar.gz", "runai-air-gapped-2.9.0.tar.gz"]
)
def test_both_spellings_of_the_documents_are_known(name: str) -> None:
    assert has_documented_name(name)
    assert bundle(file_name=name).named_version in {"2.7.1", "2.9.0"}


def test_an_image_may_keep_its_path_or_lose_it() -> None:
    assert Image("gcr.io/run-ai-prod/backend:2.7").names == (
        "run-ai-prod/backend:2.7",
        "backend:2.7",
    )
    assert Image("backend:2.7").names == ("backend:2.7",)
    assert Image("localhost/backend:2.7").names == ("backend:2.7",)


def test_space_for_the_tar_and_what_is_in_it_but_at_least_the_vendors_20_gb() -> None:
    assert bundle().needs_bytes(20) == Needs(20 * GB, 9 * GB, 9 * GB)
    assert bundle().needs_bytes(5).unpack == 11 * GB


def test_folders_on_one_file_system_need_their_sum() -> None:
    folders = {"unpack": "/var/lib/appliance", "docker": "/var/lib/docker"}
    one = [{"mount": "/", "for": list(folders.values()), "free_bytes": 28 * GB}]
    assert short_of_space(Needs(20 * GB, 9 * GB, 0), one, folders) == [
        ("/", 28 * GB, 29 * GB, ("unpack", "docker"))
    ]
    two = [
        {"mount": "/", "for": ["/var/lib/appliance"], "free_bytes": 20 * GB},
        {"mount": "/var/lib/docker", "for": ["/var/lib/docker"], "free_bytes": 9 * GB},
    ]
    assert short_of_space(Needs(20 * GB, 9 * GB, 0), two, folders) == []


def test_a_record_gives_the_bundle_back() -> None:
    found = bundle(images=(Image("gcr.io/x:1", "cd" * 32),))
    again = VendorBundle.from_record(found.record())
    assert again is not None
    assert again.record() == found.record()
    assert (again.version, again.generation, again.deploy) == ("2.7.1", found.generation, "deploy")


@pytest.mark.parametrize(
    ("path", "target", "hard"),
    [("deploy/a", "b", False), ("deploy/a/b", "../c", False), ("deploy/a", "deploy/b", True)],
)
def test_links_that_stay_inside(path: str, target: str, *, hard: bool) -> None:
    assert hostile(path, target, hard=hard) is None
