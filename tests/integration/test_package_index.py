"""Real apt, a real repository: packages come by the bundle's own index or not at all."""

from __future__ import annotations

import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.package_archive import Archive
from tests.unit.modules.loading import load_utils

packages = load_utils("appliance_packages")
APT_FAILED = 100


class Node:
    """A node's apt, with folders of its own, that takes packages from one source."""

    def __init__(self, folder: Path, address: str, index: Path) -> None:
        self.state = folder / "state"
        self.policy = folder / "policy-rc.d"
        self.list = folder / "packages.list"
        self.list.write_text(f"deb [trusted=yes] {address} ./\n")
        digest = hashlib.sha256(index.read_bytes()).hexdigest()
        self.list.with_name("packages.list.sha256").write_text(digest + "\n")
        for part in ("conf.d", "lists/partial", "cache/archives/partial", "bin"):
            (self.state / part).mkdir(parents=True)
        (self.state / "status").touch()
        dpkg = self.state / "bin" / "dpkg"  # its database is that of this machine
        dpkg.write_text("#!/bin/sh\nexit 0\n")
        dpkg.chmod(0o755)

    @property
    def taken(self) -> list[str]:
        """The packages that came."""
        return [path.name for path in (self.state / "cache/archives").glob("*.deb")]

    def install(
        self, *names: str, upgrades: str = "", **options: str
    ) -> subprocess.CompletedProcess[str]:
        """What the job on a node runs, but for unpacking."""
        text = packages.apt_configuration(str(self.list), self.state, 1)
        more = {"Dir::State::status": str(self.state / "status"), **options}
        text += "".join(f'{key} "{value}";\n' for key, value in more.items())
        (self.state / "apt.conf").write_text(text)
        address, index = packages.source_of(str(self.list))
        return subprocess.run(
            ["/bin/sh", "-c", packages.SCRIPT, "x", str(self.policy), str(self.state / "apt.conf"),
             "  ", str(self.state / "lists"), index, address, "install", "--download-only", *names],
            env={
                "PATH": f"{self.state / 'bin'}:/usr/sbin:/usr/bin:/sbin:/bin",
                "UPGRADES": upgrades,
            },
            capture_output=True,
            text=True,
            check=False,
        )  # fmt: skip


@pytest.fixture
def filled(archive: Archive) -> Archive:
    archive.add("app")
    archive.publish(signed=False)
    return archive


@pytest.fixture
def node(filled: Archive, tmp_path: Path) -> Node:
    return Node(tmp_path, f"copy:{filled.folder}", filled.folder / "Packages")


def test_packages_come_by_the_index_of_the_bundle(node: Node) -> None:
    done = node.install("app=1.0")
    assert done.returncode == 0, done.stderr
    assert node.taken == ["app_1.0_amd64.deb"]


@pytest.mark.parametrize("again", [False, True], ids=["first run", "after a good run"])
def test_a_mirror_with_another_index_is_refused_by_name_before_a_package_comes(
    node: Node, filled: Archive, *, again: bool
) -> None:
    if again:
        assert node.install("app=1.0").returncode == 0
        shutil.rmtree(node.state / "cache")
        (node.state / "cache/archives/partial").mkdir(parents=True)
    shutil.rmtree(filled.folder / "trees")
    filled.add("app", Section="somebody-else")
    filled.publish(signed=False)
    done = node.install("app=1.0")
    assert done.returncode == 4
    assert f"copy:{filled.folder} serves a package index that is not the bundle's" in done.stderr
    assert "nothing was installed" in done.stderr
    assert node.taken == []


def test_a_mirror_that_offers_a_changed_index_in_one_compression_only_is_refused(
    node: Node, filled: Archive
) -> None:
    index = filled.folder / "Packages"
    text = index.read_bytes() + b"\n\nPackage: more\nVersion: 1\nArchitecture: all\n"
    index.with_name("Packages.gz").write_bytes(gzip.compress(text))
    (filled.folder / "Release").unlink()
    assert node.install("app=1.0").returncode == 4
    assert node.taken == []


def test_a_mirror_whose_index_and_release_contradict_each_other_is_named(
    node: Node, filled: Archive
) -> None:
    for name in ("Packages", "Packages.gz"):
        (filled.folder / name).write_bytes(b"Package: app\n")
    done = node.install("app=1.0")
    assert done.returncode == APT_FAILED
    assert f"copy:{filled.folder} did not give the bundle's package index" in done.stderr
    assert node.taken == []


def test_a_changed_package_is_refused_by_apt(node: Node, filled: Archive) -> None:
    (deb,) = (filled.folder / "pool").glob("*.deb")
    data = bytearray(deb.read_bytes())
    data[-1] ^= 1
    deb.write_bytes(data)
    assert node.install("app=1.0").returncode not in {0, 4}
    assert node.taken == []


@pytest.mark.parametrize("order", ["", "gz"])
def test_an_index_that_apt_keeps_compressed_is_compared_too(
    node: Node, filled: Archive, order: str
) -> None:
    (filled.folder / "Packages").rename(filled.folder.parent / "Packages")
    (filled.folder / "Release").unlink()
    options = {"Acquire::GzipIndexes": "true", "Acquire::CompressionTypes::Order": order}
    done = node.install("app=1.0", **{key: value for key, value in options.items() if value})
    assert done.returncode == 0, done.stderr
    assert [path.suffix for path in (node.state / "lists").glob("*Packages*")] != [""]
    assert node.taken == ["app_1.0_amd64.deb"]


def test_the_services_node_reads_its_own_bundle_the_same_way(
    filled: Archive, tmp_path: Path
) -> None:
    node = Node(tmp_path, f"file:{filled.folder}", filled.folder / "Packages")
    done = node.install("app=1.0")
    assert done.returncode == 0, done.stderr
    filled.add("other")
    filled.publish(signed=False)
    assert node.install("app=1.0").returncode == 4


@pytest.mark.parametrize(
    ("upgrades", "taken", "told"),
    [
        (" app ", [], "apt would also change runtime, which is to stay as it is"),
        (" app runtime ", ["app_1.0_amd64.deb", "new_1.0_amd64.deb", "runtime_1.0_amd64.deb"], ""),
        ("", ["app_1.0_amd64.deb", "new_1.0_amd64.deb", "runtime_1.0_amd64.deb"], ""),
    ],
)
def test_what_is_to_stay_does_not_change_as_a_dependency(
    archive: Archive, tmp_path: Path, upgrades: str, taken: list[str], told: str
) -> None:
    archive.add("app", Depends="runtime (>= 1.0), new")
    archive.add("runtime")
    archive.add("new")
    archive.publish(signed=False)
    node = Node(tmp_path, f"copy:{archive.folder}", archive.folder / "Packages")
    status = "".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: 0.9\nArchitecture: amd64\n"
        "Maintainer: x <x@example.test>\nDescription: x\n\n"
        for name in ("app", "runtime")
    )
    (node.state / "status").write_text(status)
    done = node.install("app=1.0", upgrades=upgrades)
    assert (sorted(node.taken), told in done.stderr) == (taken, True), done.stderr
    assert done.returncode == (3 if told else 0)
