"""The updates of a bundle: apt is asked for what nodes have, from archives of the test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.sources.apt import updates
from appliance.builder.sources.apt.sources import AptTarget
from appliance.builder.sources.apt.updates import (
    NodeUpdates,
    UpdatesRequest,
    built,
    security_target,
)
from appliance.errors import BuildFailed, BundleRefused
from appliance.model.bundle.builds.fetched import FetchedArtifact
from appliance.model.bundle.installed import KIND, InstalledList, InstalledPackages
from tests.package_suites import Suites, keys

OLD, NEW = "1598918400", "1790000000"  # 2020-09-01 and 2026-09-21
SINCE = date(2026, 1, 1)


@pytest.fixture
def suites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Suites]:
    """Ubuntu's suites in small: libraries, an agent, and a kernel that a metapackage follows."""
    with keys() as made:
        made.make("ubuntu")
        archive = Suites(tmp_path / "archive", made, "ubuntu")

        def add(when: str, suite: str, name: str, version: str, **fields: str) -> None:
            monkeypatch.setenv("SOURCE_DATE_EPOCH", when)
            archive.add(suite, "main", name, version, None, **fields)

        add(OLD, "focal", "openssl", "1.1-1")
        add(NEW, "focal-security", "openssl", "1.1-1.2", Depends="libnew")
        add(NEW, "focal-security", "libnew", "1.0")
        add(NEW, "focal-updates", "openssl", "1.1-9")
        add(OLD, "focal-security", "zlib", "2.0-1.1")
        add(NEW, "focal-security", "agent", "5.0")
        add(NEW, "focal-security", "linux-generic", "5.4.0.216", Depends="linux-image-generic")
        add(NEW, "focal-security", "linux-image-generic", "5.4.0.216",
            Depends="linux-image-5.4.0-216-generic")  # fmt: skip
        add(NEW, "focal-security", "linux-image-5.4.0-216-generic", "5.4.0-216.236")
        archive.publish(["focal", "focal-updates", "focal-security"], ["main"])
        yield archive


def target(suites: Suites) -> AptTarget:
    ring = suites.folder / "ring.gpg"
    ring.write_bytes(suites.keys.export("ubuntu"))
    stanza = (
        f"Types: deb\nURIs: copy:{suites.folder}\nSuites: focal focal-updates focal-security\n"
        f"Components: main\nSigned-By: {ring}\n"
    )
    return AptTarget("ubuntu-20.04", "amd64", (stanza,))


def node(name: str = "w1", *, held: tuple[str, ...] = (), **packages: str) -> InstalledPackages:
    named = {key.replace("_", "-"): version for key, version in packages.items()}
    return InstalledPackages(name, "5.4.0-150-generic", named, held)


def fetch(suites: Suites, *nodes: InstalledPackages, since: date = SINCE) -> FetchedArtifact:
    found = InstalledList(KIND, "ubuntu-20.04", "2026-10-01T00:00:00Z", nodes)
    cache = Cache(suites.folder.parent / "cache")
    return NodeUpdates(cache, lambda: target(suites), UpdatesRequest(since, found)).fetch()


def versions(fetched: FetchedArtifact) -> dict[str, str]:
    return {file.name: file.version for file in fetched.files}


def test_a_node_gets_security_updates_of_what_it_has_with_their_new_dependencies(
    suites: Suites,
) -> None:
    fetched = fetch(suites, node(openssl="1.1-1"))
    assert versions(fetched) == {"openssl": "1.1-1.2", "libnew": "1.0"}
    assert {file.path for file in fetched.files} == {
        "updates/pool/openssl_1.1-1.2_amd64.deb",
        "updates/pool/libnew_1.0_amd64.deb",
    }


def test_the_kernels_of_several_nodes_come_once_although_we_hold_them(suites: Suites) -> None:
    first = node("w1", linux_generic="5.4.0.150", held=("linux-generic",))
    fetched = fetch(suites, first, replace(first, node="w2"))
    assert versions(fetched) == {
        "linux-generic": "5.4.0.216",
        "linux-image-generic": "5.4.0.216",
        "linux-image-5.4.0-216-generic": "5.4.0-216.236",
    }


def test_a_held_package_and_one_that_is_current_bring_nothing(suites: Suites) -> None:
    assert versions(fetch(suites, node(agent="4.0", openssl="1.1-9", held=("agent",)))) == {}


def test_what_was_built_before_the_day_is_left_out_and_told(suites: Suites) -> None:
    fetched = fetch(suites, node(zlib="2.0-1", agent="4.0"))
    assert versions(fetched) == {"agent": "5.0"}
    assert dict(fetched.details) == {"zlib": "2.0-1.1"}
    everything = fetch(suites, node(zlib="2.0-1", agent="4.0"), since=date(2020, 1, 1))
    assert versions(everything) == {"agent": "5.0", "zlib": "2.0-1.1"}


def test_a_list_of_the_whole_archive_is_refused_before_anything_is_downloaded(
    suites: Suites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(updates, "MOST_UPDATES", 1, raising=False)
    with pytest.raises(BundleRefused, match="node w1 lacks 2 updates, expected at most 1"):
        fetch(suites, node(zlib="0", agent="0"))
    assert versions(fetch(suites, node(agent="0"))) == {"agent": "5.0"}


def test_the_day_of_a_package_is_read_from_the_package(suites: Suites, tmp_path: Path) -> None:
    assert built(suites.folder / "pool/zlib_2.0-1.1_amd64.deb") == date(2020, 9, 1)
    other = tmp_path / "other.deb"
    other.write_text("no archive")
    with pytest.raises(BuildFailed, match=r"other\.deb is no Debian package"):
        built(other)


def test_archives_without_a_security_suite_are_refused(suites: Suites) -> None:
    whole = target(suites)
    stanza = whole.sources[0].replace(" focal-security", "")
    with pytest.raises(BundleRefused, match="has a suite of security updates: found focal, focal-"):
        security_target(replace(whole, sources=(stanza,)))


def test_another_vendors_suite_of_the_same_name_is_not_asked(suites: Suites) -> None:
    whole = target(suites)
    vendor = "Types: deb\nURIs: https://vendor.test/\nSuites: focal\nComponents: stable\n"
    asked = security_target(replace(whole, sources=(*whole.sources, vendor)))
    (kept,) = asked.sources
    assert "Suites: focal focal-security\n" in kept
