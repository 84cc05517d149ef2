"""The resolver, proven on a small signed package repository that the test makes itself."""

from __future__ import annotations

import gzip
import hashlib
import multiprocessing
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from appliance.builder.sources.apt.isolated import IsolatedApt, ResolvedPackage
from appliance.builder.sources.apt.repository import write_flat_repository
from appliance.builder.sources.apt.sources import AptTarget
from appliance.errors import BuildFailed, BundleRefused, CommandFailed
from tests.package_archive import ARCHITECTURE, Archive

NOBODY = 65534


def resolve(
    archive: Archive, root: Path, *roots: str, recommends: bool = False
) -> tuple[ResolvedPackage, ...]:
    archive.publish()
    apt = IsolatedApt(root, archive.target(), recommends=recommends)
    apt.update()
    return apt.resolve(roots)


def names(packages: Sequence[ResolvedPackage]) -> list[str]:
    return [f"{item.name}={item.version}" for item in packages]


def test_a_chain_of_dependencies_is_followed_to_its_end(archive: Archive, root: Path) -> None:
    archive.add("app", Depends="library (>= 1.0)")
    archive.add("library", Pre_Depends="ground")
    archive.add("ground")
    archive.add("bystander")
    assert names(resolve(archive, root, "app")) == ["app=1.0", "ground=1.0", "library=1.0"]


def test_what_is_recorded_is_what_the_signed_index_says(archive: Archive, root: Path) -> None:
    deb = archive.add("app", version="1:2.0-1")
    (package,) = resolve(archive, root, "app")
    assert package == ResolvedPackage(
        name="app",
        version="1:2.0-1",
        architecture=ARCHITECTURE,
        uri=package.uri,
        sha256=hashlib.sha256(deb.read_bytes()).hexdigest(),
        size=deb.stat().st_size,
        filename=deb.name,
    )
    assert package.uri.startswith(f"copy:{archive.folder}/")


def test_the_first_alternative_is_taken_and_the_second_when_only_that_exists(
    archive: Archive, root: Path
) -> None:
    archive.add("app", Depends="first | second, missing | third")
    for name in ("first", "second", "third"):
        archive.add(name)
    assert names(resolve(archive, root, "app")) == ["app=1.0", "first=1.0", "third=1.0"]


def test_a_virtual_package_is_filled_by_what_provides_it(archive: Archive, root: Path) -> None:
    archive.add("app", Depends="mail-agent")
    archive.add("postbox", Provides="mail-agent")
    assert names(resolve(archive, root, "app")) == ["app=1.0", "postbox=1.0"]


def test_the_newest_version_is_taken_when_none_is_pinned(archive: Archive, root: Path) -> None:
    archive.add("app", version="1.0")
    archive.add("app", version="1.10")
    archive.add("app", version="1.9")
    assert names(resolve(archive, root, "app")) == ["app=1.10"]


def test_a_pinned_version_brings_the_siblings_of_its_own_build(
    archive: Archive, root: Path
) -> None:
    for version in ("1.0", "2.0"):
        archive.add("app", version, Depends=f"engine (= {version}), shared (>= 1.0)")
        archive.add("engine", version, Depends=f"engine-data (= {version})")
        archive.add("engine-data", version)
        archive.add("shared", version)
    assert names(resolve(archive, root, "app=1.0")) == [
        "app=1.0",
        "engine=1.0",
        "engine-data=1.0",
        "shared=2.0",
    ]


def test_a_pin_of_one_question_is_forgotten_by_the_next(archive: Archive, root: Path) -> None:
    archive.add("app", "1.0")
    archive.add("app", "2.0")
    archive.publish()
    apt = IsolatedApt(root, archive.target())
    apt.update()
    assert names(apt.resolve(["app=1.0"])) == ["app=1.0"]
    assert names(apt.resolve(["app"])) == ["app=2.0"]


def test_a_package_that_the_builder_has_installed_is_still_in_the_closure(
    archive: Archive, root: Path
) -> None:
    installed = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status}", "libc6"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert installed == "installed", "the premise: this machine has libc6"
    archive.add("app", Depends="libc6, dpkg")
    archive.add("libc6", "0.1")
    archive.add("dpkg", "0.1")
    assert names(resolve(archive, root, "app")) == ["app=1.0", "dpkg=0.1", "libc6=0.1"]


def test_essential_packages_come_along_unless_they_are_not_wanted(
    archive: Archive, root: Path
) -> None:
    archive.add("app")
    archive.add("shell", Essential="yes", Pre_Depends="loader")
    archive.add("loader")
    archive.publish()
    apt = IsolatedApt(root, archive.target())
    apt.update()
    assert names(apt.resolve(["app"])) == ["app=1.0", "loader=1.0", "shell=1.0"]
    assert names(apt.resolve(["app"], essential=False)) == ["app=1.0"]


def test_recommended_packages_are_left_out_unless_the_release_wants_them(
    archive: Archive, root: Path
) -> None:
    archive.add("app", Recommends="manual", Suggests="game")
    archive.add("manual")
    archive.add("game")
    assert names(resolve(archive, root, "app")) == ["app=1.0"]
    assert names(resolve(archive, root, "app", recommends=True)) == ["app=1.0", "manual=1.0"]


@pytest.mark.parametrize(
    ("roots", "told"),
    [
        (["app"], "lost (>= 3)"),
        (["nowhere"], "Unable to locate package nowhere"),
        (["library=9.9"], "Version '9.9' for 'library' was not found"),
        (["left", "right"], "Conflicts: right"),
    ],
    ids=["missing dependency", "missing root", "missing version", "conflict"],
)
def test_what_does_not_fit_together_is_named(
    archive: Archive, root: Path, roots: list[str], told: str
) -> None:
    archive.add("app", Depends="library")
    archive.add("library", Depends="lost (>= 3)")
    archive.add("left", Conflicts="right")
    archive.add("right")
    with pytest.raises(BuildFailed) as caught:
        resolve(archive, root, *roots)
    assert "test-1" in caught.value.message
    assert any(told in line for line in caught.value.details), caught.value.details


def test_an_archive_without_a_signature_is_refused(archive: Archive, root: Path) -> None:
    archive.add("app")
    archive.publish(signed=False)
    with pytest.raises(BuildFailed) as caught:
        IsolatedApt(root, archive.target()).update()
    assert "apt rejects" in caught.value.message
    assert str(archive.folder) in caught.value.message
    assert any("not signed" in line for line in caught.value.details), caught.value.details


def test_an_archive_signed_by_another_key_is_refused(archive: Archive, root: Path) -> None:
    archive.add("app")
    archive.publish()
    with tempfile.TemporaryDirectory(prefix="gpg-") as home:
        stranger = ["gpg", "--batch", "--homedir", home]
        subprocess.run(
            [*stranger, "--passphrase", "", "--quick-generate-key", "stranger", "ed25519"],
            check=True,
            capture_output=True,
        )
        key = subprocess.run([*stranger, "--export"], check=True, capture_output=True).stdout
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
    archive.keyring.write_bytes(key)
    with pytest.raises(BuildFailed, match="apt rejects"):
        IsolatedApt(root, archive.target()).update()


def test_an_index_that_the_signature_does_not_cover_is_refused(
    archive: Archive, root: Path
) -> None:
    archive.add("app")
    archive.publish()
    index = archive.folder / "Packages"
    index.write_bytes(index.read_bytes().replace(b"a package of a test", b"A package of a test"))
    (archive.folder / "Packages.gz").write_bytes(gzip.compress(index.read_bytes()))
    with pytest.raises(BuildFailed, match="apt rejects"):
        IsolatedApt(root, archive.target()).update()


def test_a_tampered_package_is_refused_and_not_kept(
    archive: Archive, root: Path, tmp_path: Path
) -> None:
    archive.add("good")
    deb = archive.add("app")
    archive.publish()
    apt = IsolatedApt(root, archive.target())
    apt.update()
    packages = apt.resolve(["app", "good"])
    content = deb.read_bytes()
    deb.write_bytes(content.replace(b"1.0\n", b"6.6\n"))
    assert deb.stat().st_size == len(content)
    assert deb.read_bytes() != content
    with pytest.raises(BuildFailed) as caught:
        apt.download(packages, tmp_path / "pool")
    assert any(line.startswith("app 1.0: ") for line in caught.value.details)
    assert [path.name for path in (tmp_path / "pool").iterdir()] == ["good_1.0_amd64.deb"]
    deb.write_bytes(content)
    assert len(apt.download(packages, tmp_path / "pool")) == 2


def test_a_file_that_was_damaged_since_is_brought_again(
    archive: Archive, root: Path, tmp_path: Path
) -> None:
    deb = archive.add("app")
    archive.publish()
    apt = IsolatedApt(root, archive.target())
    apt.update()
    packages = apt.resolve(["app"])
    (path,) = apt.download(packages, tmp_path / "pool")
    path.write_bytes(b"x" * path.stat().st_size)
    apt.download(packages, tmp_path / "pool")
    assert path.read_bytes() == deb.read_bytes()


def test_a_keyring_that_is_not_there_is_refused_by_name(archive: Archive) -> None:
    archive.keyring.unlink()
    with pytest.raises(BundleRefused) as caught:
        archive.target()
    assert caught.value.details == (str(archive.keyring),)


def test_a_source_marked_as_trusted_is_refused(archive: Archive) -> None:
    for source in (
        f"deb [trusted=yes] copy:{archive.folder} ./",
        f"Types: deb\nURIs: copy:{archive.folder}\nSuites: ./\nTrusted: yes\n",
    ):
        with pytest.raises(BundleRefused, match="without a signature"):
            archive.target(sources=(source,))


def test_an_ordinary_user_resolves_and_downloads(archive: Archive) -> None:
    archive.add("app")
    archive.publish()
    with tempfile.TemporaryDirectory(prefix="appliance-user-") as name:
        folder = Path(name)
        shutil.copytree(archive.folder, folder / "archive")
        source = f"deb [signed-by={folder}/archive/archive.gpg] copy:{folder}/archive ./"
        home = folder / "home"
        home.mkdir()
        folder.chmod(0o755)
        if os.geteuid() == 0:
            os.chown(home, NOBODY, NOBODY)
        child = multiprocessing.get_context("fork").Process(
            target=_build_as_nobody, args=(home, AptTarget("test-1", ARCHITECTURE, (source,)))
        )
        child.start()
        child.join(60)
        assert child.exitcode == 0
        pool = [path.name for path in (home / "pool").iterdir()]
        assert pool == ["app_1.0_amd64.deb"]


def _build_as_nobody(home: Path, target: AptTarget) -> None:
    """A builder's work; a child does it, so that root can lay down its rights first."""
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    os.chdir("/")
    assert os.geteuid() != 0
    apt = IsolatedApt(home / "apt", target)
    apt.update()
    apt.download(apt.resolve(["app"]), home / "pool")


def test_an_archive_that_refuses_connections_is_named_at_once(archive: Archive, root: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/debian"
    target = archive.target(sources=(f"deb [signed-by={archive.keyring}] {url} stable main",))
    began = time.monotonic()
    with pytest.raises(BuildFailed, match="cannot be reached") as caught:
        IsolatedApt(root, target).update()
    assert url in caught.value.message
    assert time.monotonic() - began < 5


def test_an_archive_that_never_answers_is_named_within_our_patience(
    archive: Archive, root: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/debian"
        held: list[socket.socket] = []
        stop = threading.Event()

        def accept() -> None:
            silent.settimeout(0.1)
            while not stop.is_set():
                try:
                    held.append(silent.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=accept)
        thread.start()
        target = archive.target(
            sources=(
                f"deb [signed-by={archive.keyring}] {url} stable main",
                f"deb [signed-by={archive.keyring}] {url} stable-updates main",
            )
        )
        began = time.monotonic()
        try:
            with pytest.raises(BuildFailed, match="cannot be reached") as caught:
                IsolatedApt(root, target, patience_seconds=1).update()
        finally:
            stop.set()
            thread.join()
            for connection in held:
                connection.close()
    assert url in caught.value.message
    assert time.monotonic() - began < 5


def test_the_flat_repository_is_the_same_bytes_whenever_it_is_written(archive: Archive) -> None:
    archive.add("app", Depends="library")
    archive.add("library", "1:2.0")
    when = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
    files = ("Packages", "Packages.gz", "Release")
    first = write_flat_repository(archive.folder, origin="appliance", suite="t", when=when)
    before = [(archive.folder / name).read_bytes() for name in files]
    second = write_flat_repository(archive.folder, origin="appliance", suite="t", when=when)
    assert first == second
    assert [(archive.folder / name).read_bytes() for name in files] == before
    assert b"Date: Sat, 03 Feb 2024 04:05:06 UTC" in before[2]


def test_the_flat_repository_refuses_what_is_no_package(archive: Archive) -> None:
    archive.add("app")
    (archive.folder / "pool/fake_1.0_amd64.deb").write_bytes(b"not a package")
    with pytest.raises(CommandFailed, match="dpkg-deb"):
        archive.publish()
