"""The lab's packages from a Debian machine's own archives: complete, and installable offline."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.builder.sources.apt.isolated import IsolatedApt, ResolvedPackage
from appliance.builder.sources.apt.repository import write_flat_repository
from appliance.builder.sources.apt.sources import host_target
from appliance.lab.layout import SYSTEMS
from appliance.lab.machine.archives import served
from tests.package_archive import ARCHITECTURE, Archive
from tests.prerequisites import require

ROOTS = [
    "docker.io",
    "docker-registry",
    "chrony",
    "nginx-light",
    "conntrack",
    "socat",
    "ebtables",
    "ethtool",
    "iptables",
    "haproxy",
    "keepalived",
    "nfs-common",
    "busybox-static",
    "iproute2",
    "ipset",
    "kmod",
]


POOLS = [SYSTEMS[0], *(pytest.param(name, marks=pytest.mark.slow) for name in SYSTEMS[1:])]


@pytest.fixture(scope="module", params=POOLS)
def real_pool(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> tuple[Path, list[ResolvedPackage]]:
    """The lab's packages from this machine's own archives, as a flat repository."""
    system = str(request.param)
    if not served(system):
        pytest.skip("the lab's packages come from a Debian machine's own sources")
    folder = tmp_path_factory.mktemp("real")
    apt = IsolatedApt(folder / "isolated", host_target(system, ARCHITECTURE))
    apt.update()
    packages = apt.resolve(ROOTS)
    apt.download(packages, folder / "apt/pool")
    digests = {item.filename: item.sha256 for item in packages}
    write_flat_repository(
        folder / "apt", origin="test", suite=system, when=datetime.now(UTC), digests=digests
    )
    return folder / "apt", list(packages)


@pytest.mark.bundle
def test_the_labs_packages_are_complete_from_their_pool_alone(
    real_pool: tuple[Path, list[ResolvedPackage]], archive: Archive, root: Path
) -> None:
    folder, packages = real_pool
    assert {item.name for item in packages} >= {*ROOTS, "libc6", "dpkg", "containerd", "runc"}
    (archive.folder / "pool").rmdir()
    for name in ("Packages", "Packages.gz", "Release", "pool"):
        (archive.folder / name).symlink_to(folder / name)
    archive.sign()
    apt = IsolatedApt(root, archive.target())
    apt.update()
    assert [(item.name, item.version) for item in apt.resolve(ROOTS)] == [
        (item.name, item.version) for item in packages
    ]


@pytest.mark.bundle
@pytest.mark.slow
def test_the_labs_packages_install_into_an_empty_debian_without_a_network(
    real_pool: tuple[Path, list[ResolvedPackage]], tmp_path: Path
) -> None:
    """Without a suite's name mmdebstrap takes the essential packages of the whole pool."""
    require("mmdebstrap", "unshare")
    folder, _ = real_pool
    done = subprocess.run(
        [
            "unshare", "--net", "mmdebstrap", "--variant=essential", f"--include={','.join(ROOTS)}",
            "", tmp_path / "root.tar", f"deb [trusted=yes] copy:{folder} ./",
        ],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    status = subprocess.run(
        [
            "tar",
            "--extract",
            "--to-stdout",
            "--file",
            tmp_path / "root.tar",
            "./var/lib/dpkg/status",
        ],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for name in ROOTS:
        assert f"Package: {name}\nStatus: install ok installed\n" in status
