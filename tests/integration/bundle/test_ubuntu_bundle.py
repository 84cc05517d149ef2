"""The README's command for a bundle of Ubuntu 20.04, against archives that the test serves.

Each case is typed in a network of its own. The archives have the addresses' shape, the suites, the
components and the package names of Ubuntu's and Docker's, and keys of the test's own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import pytest
import yaml

from appliance import __version__
from appliance.adapters.local.cache import Cache
from appliance.builder.fetch import Sources
from appliance.model.bundle.release.release import Release
from tests.package_suites import Keys, Suites, keys
from tests.prerequisites import require
from tests.unit.bundle.samples import VERSIONS, artifact

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "appliance/docs/operations/run-the-tool-in-a-container.md"
DOCKER = "5:20.10.11~3-0~ubuntu-focal"
TOOL = b"a program of the release"


@dataclass
class World:
    """What the network of a case has: three archives and one file, and the release of them."""

    folder: Path
    keys: Keys
    cache: Path
    keyrings: list[str] = field(default_factory=lambda: ["ubuntu.gpg", "docker.gpg", "nvidia.gpg"])

    def __post_init__(self) -> None:
        self.web, self.releases = self.folder / "web", self.folder / "releases"
        self.ubuntu = Suites(self.web / "ubuntu", self.keys, "ubuntu")
        self.security = Suites(self.web / "security", self.keys, "ubuntu")
        self.docker = Suites(self.web / "docker", self.keys, "docker")
        self.debian = Suites(self.web / "debian", self.keys, "docker")
        self.nvidia = Suites(self.web / "nvidia", self.keys, "nvidia")
        (self.web / "tool").write_bytes(TOOL)
        self._fill()
        for owner in ("ubuntu", "docker", "nvidia"):
            (self.folder / f"{owner}.gpg").write_bytes(self.keys.export(owner))
        self.releases.mkdir()
        (self.releases / "r1.yml").write_text(yaml.safe_dump(release_of(self.keys)))

    def _fill(self) -> None:
        self.ubuntu.add("focal", "main", "base-files", Essential="yes")
        self.ubuntu.add("focal", "main", "libc6")
        self.ubuntu.add("focal", "main", "iptables")
        self.ubuntu.add("focal", "universe", "chrony", Depends="libc6")
        self.ubuntu.add("focal-updates", "universe", "chrony", "1.1", Depends="libc6")
        self.security.add("focal-security", "main", "libc6", "1.2")
        self.debian.add("bookworm", "main", "python3", "3.11.2", Depends="python3.11")
        python = {"usr/bin/python3.11": "no real Python"}
        self.debian.add("bookworm", "main", "python3.11", "3.11.2", files=python)
        self.docker.add("focal", "stable", "docker-ce", DOCKER, Depends="libc6, iptables")
        self.docker.add("focal", "stable", "docker-ce", DOCKER.replace("11", "24"))
        # As NVIDIA's: a metapackage of a branch, and one that ties the fabric manager to it.
        for version in ("535.129.03-1", "535.161.08-1"):
            self.nvidia.add("/", "", "cuda-drivers-535", version, Depends="libc6")
            self.nvidia.add("/", "", "nvidia-fabricmanager-535", version)
            both = f"cuda-drivers-535 (= {version}), nvidia-fabricmanager-535 (= {version})"
            self.nvidia.add("/", "", "cuda-drivers-fabricmanager-535", version, Depends=both)
        self.publish()

    def publish(self, **changes: str) -> None:
        """Sign all indexes; ``changes`` are those of Ubuntu's own archive."""
        self.ubuntu.publish(["focal", "focal-updates"], ["main", "universe"], **changes)
        self.security.publish(["focal-security"], ["main", "universe"])
        self.docker.publish(["focal"], ["stable"])
        self.debian.publish(["bookworm"], ["main"])
        self.nvidia.publish(["/"], [])

    @property
    def release_file(self) -> Path:
        """``dists/focal/InRelease`` of Ubuntu's archive."""
        return self.web / "ubuntu/dists/focal/InRelease"

    def build(self, *more: str) -> subprocess.CompletedProcess[str]:
        """What README says, with the keyrings."""
        rings = [word for name in self.keyrings for word in ("--keyring", str(self.folder / name))]
        options = ["--release", "r1", "--os", "ubuntu-20.04", *rings, *more]
        return self.type("bundle", "build", *options, str(self.folder / "bundle"))

    def type(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        outside = ("PIP_", "APT_", "APPLIANCE_")
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(outside) and not key.lower().endswith("_proxy")
        }
        rights = [] if os.geteuid() == 0 else ["--map-root-user"]
        module = [sys.executable, "-m", "tests.integration.bundle.apart"]
        return subprocess.run(
            ["unshare", *rights, "--net", *module, self.web, self.releases, *arguments],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env={**kept, "APPLIANCE_CACHE": str(self.cache), "COLUMNS": "200"},
        )  # fmt: skip


def release_of(keys: Keys) -> dict[str, Any]:
    """A release as its file says it."""

    def archive(where: str, owner: str, suites: str, components: str) -> dict[str, Any]:
        key = {"fingerprint": keys.fingerprint(owner), "title": f"The key of {owner}"}
        return {
            "uri": f"http://127.0.0.1/{where}", "suites": suites.split(),
            "components": components.split(),
            "keyring": {"keys": [key], "url": f"http://127.0.0.1/{owner}.gpg"},
        }  # fmt: skip

    return {
        "name": "r1", "description": "a release of a test", "architecture": "amd64",
        "versions": VERSIONS, "needs": {}, "support_ends": {},
        "runtime": {"name": "docker", "socket": "/var/run/dockershim.sock"},
        "operating_systems": {
            "ubuntu-20.04": {
                "title": "Ubuntu", "versions": {},
                "archives": [
                    archive("ubuntu", "ubuntu", "focal focal-updates", "main universe"),
                    archive("security", "ubuntu", "focal-security", "main universe"),
                    archive("docker", "docker", "focal", "stable"),
                    archive("nvidia", "nvidia", "/", ""),
                ],
                "package_roots": {
                    "time": ["chrony"], "runtime": [f"docker-ce={DOCKER}"],
                    "driver": ["cuda-drivers-535"],
                    "fabric_manager": ["cuda-drivers-fabricmanager-535"],
                },
            },
        },
        "artifacts": [
            artifact("tool", sources=[{
                "kind": "url", "url": "http://127.0.0.1/tool",
                "sha256": hashlib.sha256(TOOL).hexdigest(),
            }]),
            artifact("appliance-controller", "controller", sources=[{
                "kind": "controller", "system": "test-1", "python": "3.11",
                "archives": [archive("debian", "docker", "bookworm", "main")],
                "packages": ["python3"],
            }]),
        ],
    }  # fmt: skip


@pytest.fixture(scope="module")
def owners() -> Iterator[Keys]:
    require("unshare", "ip", "apt-get", "dpkg-deb")
    with keys() as made:
        for owner in ("ubuntu", "docker", "nvidia", "stranger"):
            made.make(owner)
        made.make("expired", expired=True)
        yield made


@pytest.fixture(scope="module")
def wheels(owners: Keys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that holds the tool's wheels: a case has no package index."""
    folder = tmp_path_factory.mktemp("wheels") / "cache"
    release = Release.model_validate(release_of(owners))
    Sources(release, "ubuntu-20.04", Cache(folder), folder=folder).wheels()
    return folder


@pytest.fixture
def world(owners: Keys, wheels: Path, tmp_path: Path) -> World:
    shutil.copytree(wheels, tmp_path / "cache")
    return World(tmp_path / "world", owners, tmp_path / "cache")


def test_the_command_of_the_readme_builds_a_bundle_that_verify_accepts(world: World) -> None:
    done = world.build("-o", "json")
    assert done.returncode == 0, done.stderr
    bundle = world.folder / "bundle"
    packages = json.loads((bundle / "manifest.json").read_text())["packages"]
    assert packages == {
        "base-files": "1.0", "chrony": "1.1", "docker-ce": DOCKER, "iptables": "1.0",
        "libc6": "1.2", "cuda-drivers-535": "535.161.08-1",
        "cuda-drivers-fabricmanager-535": "535.161.08-1",
        "nvidia-fabricmanager-535": "535.161.08-1",
    }  # fmt: skip
    assert (bundle / "bin/tool").read_bytes() == TOOL
    with tarfile.open(bundle / "controller/appliance-controller.tar") as saved:
        ((image,), names) = json.load(_member(saved, "manifest.json")), saved.getnames()
        assert {image["Config"], *image["Layers"]} < set(names)
        assert image["RepoTags"] == [f"appliance-controller:{__version__}"]
        paths = [path for layer in image["Layers"] for path in _paths(saved, layer)]
    assert {"usr/bin/python3.11", "usr/local/bin/appliance"} < set(paths)
    assert "usr/local/bin/ansible-playbook" in paths
    assert _page_accepts(bundle)
    verified = world.type("bundle", "verify", str(bundle))
    assert verified.returncode == 0, verified.stderr
    again = world.build("-o", "json")
    assert json.loads(again.stdout)["digest"] == json.loads(done.stdout)["digest"]


def test_the_page_of_containers_loads_no_image_that_was_changed(world: World) -> None:
    done = world.build()
    assert done.returncode == 0, done.stderr
    bundle = world.folder / "bundle"
    with (bundle / "controller/appliance-controller.tar").open("ab") as image:
        image.write(b"more")
    assert not _page_accepts(bundle)


def _page_accepts(bundle: Path) -> bool:
    """Whether the page's commands would load the image, once its signer is known."""
    block = re.findall(r"```\n(.*?)```", PAGE.read_text(), re.DOTALL)[0]
    check = block.partition("&&\n")[2].replace("docker load -i", "test -s")
    done = subprocess.run(
        ["sh", "-c", check], env={**os.environ, "B": str(bundle)}, check=False, capture_output=True
    )
    return done.returncode == 0


def _member(saved: tarfile.TarFile, name: str) -> IO[bytes]:
    found = saved.extractfile(name)
    assert found is not None
    return found


def _paths(saved: tarfile.TarFile, layer: str) -> list[str]:
    with tarfile.open(fileobj=_member(saved, layer)) as files:
        return files.getnames()


def _expired_key(world: World) -> None:
    release = release_of(world.keys)
    expired = {"fingerprint": world.keys.fingerprint("expired"), "title": "The expired key"}
    release["operating_systems"]["ubuntu-20.04"]["archives"][0]["keyring"]["keys"] = [expired]
    (world.releases / "r1.yml").write_text(yaml.safe_dump(release))
    (world.folder / "ubuntu.gpg").write_bytes(world.keys.export("expired", "ubuntu"))
    world.publish(signer="expired", signed_in="20200101T120000")


def _foreign_key_beside(world: World) -> None:
    (world.folder / "ubuntu.gpg").write_bytes(world.keys.export("stranger", "ubuntu"))
    world.publish(signer="stranger")


def _tampered(world: World) -> None:
    path = world.release_file
    path.write_text(path.read_text().replace("Origin: test", "Origin: Test"))


def _index_tampered(world: World) -> None:
    for path in world.web.glob("ubuntu/dists/focal/universe/*/Packages*"):
        path.write_bytes(path.read_bytes() + b"\n")


def _key_missing(world: World) -> None:
    world.keyrings = []


def _one_key_missing(world: World) -> None:
    world.keyrings = ["ubuntu.gpg"]


def _wrong_key(world: World) -> None:
    (world.folder / "docker.gpg").write_bytes(world.keys.export("stranger"))


def _no_keyring(world: World) -> None:
    (world.folder / "docker.gpg").write_text("<html>404</html>")


def _stale(world: World) -> None:
    world.publish(valid_until="Thu, 02 Jan 2020 00:00:00 UTC")


def _no_release_file(world: World) -> None:
    shutil.rmtree(world.web / "docker/dists")


UBUNTU = "apt rejects the package archive of ubuntu-20.04: http://127.0.0.1/ubuntu: "
CASES: dict[str, tuple[Callable[[World], None], tuple[str, ...]]] = {
    "no key": (_key_missing, (
        "this machine lacks the signing keys of 5 package archives of the release",
        "http://127.0.0.1/ubuntu (focal focal-updates) is signed by one of these keys:",
        "http://127.0.0.1/security (focal-security) is signed by one of these keys:",
        "The key of ubuntu", "The key of docker", "/usr/share/keyrings", "/etc/apt/keyrings",
        "-o {docker} http://127.0.0.1/docker.gpg",
        "hint: appliance bundle build {folder}/bundle --release r1 --os ubuntu-20.04 "
        "--keyring {ubuntu} --keyring {docker} --keyring {nvidia}\n",
    )),
    "one key": (_one_key_missing, (
        "this machine lacks the signing keys of 3 package archives of the release",
        "http://127.0.0.1/docker (focal) is signed by one of these keys:",
        "looked for in: {folder}/ubuntu.gpg, ",
        "--keyring {folder}/ubuntu.gpg --keyring {docker} --keyring {nvidia}\n",
    )),
    "a wrong key": (_wrong_key, (
        "docker.gpg holds no key that the release names", "it holds: {stranger_print}",
    )),
    "no keyring": (_no_keyring, (
        "docker.gpg: it is neither a binary nor an armoured",
    )),
    "an expired key": (_expired_key, (
        UBUNTU + "the key that signs it has expired", "new copy of the key",
    )),
    "another signer": (_foreign_key_beside, (
        UBUNTU + "it is signed by a key that the release does not name",
    )),
    "a Release file that was changed": (_tampered, (
        UBUNTU + "it was changed after it was signed", "hint: use another mirror",
    )),
    "an index that was changed": (_index_tampered, (
        UBUNTU + "an index differs from its signed list",
    )),
    "an old index": (_stale, (UBUNTU + "its index has expired (Valid-Until)", "date -u")),
    "an archive that is gone": (_no_release_file, (
        "apt rejects the package archive of ubuntu-20.04: http://127.0.0.1/docker: ",
    )),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_an_archive_that_is_not_as_the_release_says_is_refused_first(
    world: World, case: str
) -> None:
    harm, words = CASES[case]
    harm(world)
    done = world.build()
    assert done.returncode == 3, done.stderr
    owners = ("ubuntu", "docker", "nvidia", "stranger")
    prints = {owner: world.keys.fingerprint(owner) for owner in owners}
    names = {
        "folder": str(world.folder),
        "stranger_print": prints["stranger"],
        **{owner: f"{print_[-16:].lower()}.gpg" for owner, print_ in prints.items()},
    }
    for text in words:
        assert text.format(**names) in done.stderr
    assert not (world.folder / "bundle").exists()
    assert "fetching" not in done.stderr


def test_an_armoured_keyring_is_taken_and_a_foreign_key_in_it_is_not(world: World) -> None:
    world.keyrings = ["all.asc"]
    (world.folder / "all.asc").write_bytes(
        world.keys.export("stranger", armour=True)
        + world.keys.export("docker", "nvidia", "ubuntu", armour=True)
    )
    done = world.build()
    assert done.returncode == 0, done.stderr
    rings = [path.read_bytes() for path in (world.cache / "work/archive-keys").iterdir()]
    owners = ("ubuntu", "docker", "nvidia")
    assert sorted(rings) == sorted(world.keys.export(owner) for owner in owners)


def test_an_artifact_without_a_source_is_refused_beside_the_other_faults(world: World) -> None:
    release = release_of(world.keys)
    url = {"kind": "url", "url": "http://192.0.2.7/lost"}
    file = {"kind": "file", "name": "chart.tgz"}
    release["artifacts"] += [artifact("lost", sources=[url]), artifact("ours", sources=[file])]
    (world.releases / "r1.yml").write_text(yaml.safe_dump(release))
    _tampered(world)
    done = world.build()
    assert done.returncode == 3
    assert "3 faults make this build impossible" in done.stderr
    assert "binary lost: no source works" in done.stderr
    assert "http://192.0.2.7/lost: the host cannot be reached" in done.stderr
    assert "you supply chart.tgz: give its folder with --files" in done.stderr
    assert UBUNTU in done.stderr
    assert not (world.folder / "bundle").exists()
