"""Which of a machine's apt sources and settings count, as texts."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.builder.sources.apt.sources import (
    DEBIAN_SUITES,
    AptTarget,
    as_deb822,
    host_options,
    host_target,
    stanza_fields,
)
from appliance.errors import BundleRefused
from tests.prerequisites import require

OS_RELEASE = 'ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n'


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    require("apt-config")
    (tmp_path / "etc/apt/sources.list.d").mkdir(parents=True)
    (tmp_path / "etc/apt/trusted.gpg.d").mkdir()
    (tmp_path / "etc/os-release").write_text(OS_RELEASE)
    return tmp_path


def test_only_the_suites_of_the_machines_own_system_count(machine: Path) -> None:
    (machine / "etc/apt/sources.list").write_text(
        "# deb http://mirror.test/debian bookworm main\n"
        "deb-src http://mirror.test/debian bookworm main\n"
        "deb [arch=amd64] http://mirror.test/debian bookworm main contrib # ours\n"
        "deb http://mirror.test/security bookworm-security main\n"
        "deb http://mirror.test/other trixie main\n"
    )
    (machine / "etc/apt/sources.list.d/a.sources").write_text(
        "# a comment\nTypes: deb deb-src\n# another\nURIs: http://mirror.test/debian\n"
        "Suites: bookworm-updates nodistro\nComponents: main\n\n"
        "Types: deb\nURIs: http://vendor.test\nSuites: nodistro\nComponents: main\n\n"
        "Enabled: no\nTypes: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\n"
    )
    (machine / "etc/apt/sources.list.d/a.sources.disabled").write_text(
        "Types: deb\nURIs: http://off.test\nSuites: bookworm\nComponents: main\n"
    )
    target = host_target("debian-12", "amd64", root=machine)
    told = [
        (fields["uris"], fields["types"], fields["suites"], fields["components"])
        for fields in map(stanza_fields, target.sources)
    ]
    assert told == [
        ("http://mirror.test/debian", "deb", "bookworm", "main contrib"),
        ("http://mirror.test/security", "deb", "bookworm-security", "main"),
        ("http://mirror.test/debian", "deb", "bookworm-updates", "main"),
    ]


def test_the_machines_keys_and_credentials_go_with_its_own_sources(machine: Path) -> None:
    (machine / "etc/apt/sources.list").write_text("deb http://mirror.test/debian bookworm main\n")
    (machine / "etc/apt/trusted.gpg.d/archive.asc").write_text("key")
    (machine / "etc/apt/auth.conf").write_text("machine mirror.test login a password b\n")
    target = host_target("debian-12", "amd64", root=machine)
    assert target.keyrings == (machine / "etc/apt/trusted.gpg.d/archive.asc",)
    assert target.credentials == (machine / "etc/apt/auth.conf",)


def test_another_operating_systems_packages_never_come_from_the_machines_sources(
    machine: Path,
) -> None:
    (machine / "etc/apt/sources.list").write_text("deb http://mirror.test/debian bookworm main\n")
    with pytest.raises(BundleRefused, match="it runs debian-12"):
        host_target("ubuntu-20.04", "amd64", root=machine)


def test_another_release_of_debian_comes_from_the_same_archives(machine: Path) -> None:
    (machine / "etc/apt/sources.list").write_text(
        "deb http://mirror.test/debian bookworm main contrib non-free-firmware\n"
        "deb http://mirror.test/debian bookworm-backports main\n"
        "deb [signed-by=/etc/os-release] http://vendor.test cloud-bookworm main\n"
    )
    (machine / "etc/apt/sources.list.d/a.sources").write_text(
        "Types: deb\nURIs: http://mirror.test/debian-security\nSuites: bookworm-security\n"
        "Components: main\nSigned-By: /etc/os-release\nCheck-Valid-Until: no\n\n"
        "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm-updates bookworm-backports\n"
        "Components: main\n\n"
        "Types: deb\nURIs: http://vendor.test\nSuites: nodistro bullseye\nComponents: main\n\n"
        "Types: deb\nURIs: http://firmware.test\nSuites: bookworm\nComponents: non-free-firmware\n"
    )
    target = host_target("debian-11", "amd64", root=machine)
    assert [stanza_fields(source) for source in target.sources] == [
        {
            "types": "deb",
            "uris": "http://mirror.test/debian",
            "suites": "bullseye",
            "components": "main contrib",
        },
        {
            "types": "deb",
            "uris": "http://mirror.test/debian-security",
            "suites": "bullseye-security",
            "components": "main",
            "signed-by": "/etc/os-release",
            "check-valid-until": "no",
        },
        {
            "types": "deb",
            "uris": "http://mirror.test/debian",
            "suites": "bullseye-updates",
            "components": "main",
        },
    ]


def test_a_debian_without_archives_of_its_own_has_none_for_another_release(machine: Path) -> None:
    (machine / "etc/apt/sources.list").write_text("deb http://vendor.test bullseye main\n")
    with pytest.raises(BundleRefused, match="no package archive is named for debian-11"):
        host_target("debian-11", "amd64", root=machine)


@pytest.mark.parametrize("name", sorted(DEBIAN_SUITES))
def test_another_vendors_machine_has_no_packages_of_debian(machine: Path, name: str) -> None:
    (machine / "etc/os-release").write_text(
        'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="22.04"\nVERSION_CODENAME=jammy\n'
    )
    (machine / "etc/apt/sources.list").write_text("deb http://mirror.test jammy main\n")
    with pytest.raises(BundleRefused, match=r"it runs ubuntu-22\.04"):
        host_target(name, "amd64", root=machine)


def test_a_release_of_debian_that_no_node_runs_is_refused(machine: Path) -> None:
    (machine / "etc/apt/sources.list").write_text("deb http://mirror.test/debian bookworm main\n")
    with pytest.raises(BundleRefused, match="no packages for debian-10"):
        host_target("debian-10", "amd64", root=machine)


def test_a_machine_without_a_source_of_its_own_system_is_refused(machine: Path) -> None:
    with pytest.raises(BundleRefused, match="no package archive is named for debian-12"):
        host_target("debian-12", "amd64", root=machine)


def test_an_inline_key_survives_the_reading(machine: Path) -> None:
    (machine / "etc/apt/sources.list.d/a.sources").write_text(
        "Types: deb\nURIs: http://mirror.test/debian\nSuites: bookworm\nComponents: main\n"
        "Signed-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n"
    )
    (source,) = host_target("debian-12", "amd64", root=machine).sources
    assert "Signed-By: \n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n mDME\n" in source


def test_a_one_line_entry_becomes_a_stanza() -> None:
    text = "deb [arch=amd64,i386 signed-by=/k.gpg] http://mirror.test/ubuntu focal main universe"
    assert as_deb822(text) == (
        "Types: deb\nURIs: http://mirror.test/ubuntu\nSuites: focal\nComponents: main universe\n"
        "Architectures: amd64 i386\nSigned-By: /k.gpg\n"
    )


def test_an_unknown_option_of_a_package_source_is_refused() -> None:
    with pytest.raises(BundleRefused, match="'by-hash'"):
        as_deb822("deb [by-hash=no] http://mirror.test focal main")


@pytest.mark.parametrize(
    "source",
    [
        "deb [trusted=yes] http://mirror.test ./",
        "deb [arch=amd64 allow-insecure=yes] http://mirror.test ./",
        "Types: deb\nURIs: http://mirror.test\nSuites: ./\ntrusted: Yes\n",
        "Types: deb\nURIs: http://mirror.test\nSuites: ./\nAllow-Weak: true\n",
    ],
)
def test_a_source_that_needs_no_signature_is_refused(source: str) -> None:
    with pytest.raises(BundleRefused, match="without a signature"):
        AptTarget("test-1", "amd64", (source,))


DUMP = """\
APT::Update::Post-Invoke:: "rm -f /x";
Acquire::http::Proxy "http://proxy.test:3128";
Acquire::https::Proxy::mirror.test "DIRECT";
Acquire::https::mirror.test::CaInfo "/etc/ca.pem";
Acquire::https::Verify-Peer "false";
Acquire::http::Proxy-Auto-Detect "";
Acquire::AllowInsecureRepositories "1";
Acquire::Check-Valid-Until "false";
APT::Install-Recommends "1";
"""


def test_a_proxy_holds_for_every_archive_and_nothing_that_weakens_a_check_does() -> None:
    assert host_options(DUMP, own_archives=False) == (
        'Acquire::http::Proxy "http://proxy.test:3128";',
        'Acquire::https::Proxy::mirror.test "DIRECT";',
        'Acquire::https::mirror.test::CaInfo "/etc/ca.pem";',
    )


def test_the_age_of_an_index_is_judged_as_the_machine_judges_its_own_archives() -> None:
    kept = host_options(DUMP, own_archives=True)
    assert kept[-1] == 'Acquire::Check-Valid-Until "false";'
    assert len(kept) == 4
