"""Images of earlier bundles go from a real registry; a kill anywhere leaves all that is needed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from tests.unit.care.acts import Acts, Killed
from tests.unit.modules.loading import load, load_utils

pytestmark = pytest.mark.bundle
supply = load_utils("appliance_supply")
clean: Any = load("registry_clean", role="container_registry")
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"


def sha(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """A docker-registry of the bundle on the loopback, with a storage folder of its own."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.program, self.folder, self.storage = program, folder, folder / "storage"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.configuration = folder / "config.yml"
        self.configuration.write_text(
            f"version: 0.1\nlog: {{level: error}}\nstorage:\n  filesystem: "
            f"{{rootdirectory: {self.storage}}}\n  delete: {{enabled: true}}\n"
            f"http: {{addr: '127.0.0.1:{self.port}'}}\n"
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, **environment: str) -> None:
        self.process = subprocess.Popen(
            [self.program, "serve", self.configuration],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        until = time.monotonic() + 30
        while True:
            try:
                assert self.ask("GET", "/v2/")[0] == 200
            except OSError:
                assert time.monotonic() < until, "the registry does not listen"
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(10)

    def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        line.request(method, path, body=body or None, headers={"Content-Type": kind, "Accept": f"{MANIFEST}, {INDEX}"})  # fmt: skip  # noqa: E501
        answer = line.getresponse()
        found = answer.status, dict(answer.headers), answer.read()
        line.close()
        return found

    def blob(self, repository: str, data: bytes) -> dict[str, Any]:
        _, headers, _ = self.ask("POST", f"/v2/{repository}/blobs/uploads/")
        place = headers["Location"].partition(f":{self.port}")[2]
        status, _, _ = self.ask("PUT", f"{place}&digest={sha(data)}", data)
        assert status == 201
        return {"digest": sha(data), "size": len(data), "mediaType": "application/octet-stream"}

    def push(self, name: str, *layers: bytes) -> str:
        repository, _, tag = name.partition(":")
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.blob(repository, b"{}" + name.encode()),
            "layers": [self.blob(repository, layer) for layer in layers],
        }
        return self.manifest(repository, tag, json.dumps(document).encode(), MANIFEST)

    def manifest(self, repository: str, tag: str, text: bytes, kind: str) -> str:
        status, _, said = self.ask("PUT", f"/v2/{repository}/manifests/{tag}", text, kind)
        assert status == 201, said
        return sha(text)

    def serves(self, name: str) -> bool:
        """Whether an image can be pulled: its manifest, and each of its blobs."""
        repository, _, tag = name.partition(":")
        status, _, text = self.ask("GET", f"/v2/{repository}/manifests/{tag}")
        if status != 200:
            return False
        document = json.loads(text)
        blobs = [document["config"], *document["layers"]]
        answers = [self.ask("GET", f"/v2/{repository}/blobs/{b['digest']}") for b in blobs]
        pairs = zip(blobs, answers, strict=True)
        return all(s == 200 and sha(body) == b["digest"] for b, (s, _, body) in pairs)


class World(NamedTuple):
    """The registry, what the module is asked, and its acts."""

    registry: Registry
    want: dict[str, Any]
    acts: Acts
    dropin: Path


@pytest.fixture(scope="module")
def program(bundle_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docker-registry")
    (package,) = (bundle_directory / "apt/pool").glob("docker-registry_*.deb")
    subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
    return folder / "usr/bin/docker-registry"


@pytest.fixture(scope="module")
def filled(program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    registry = Registry(program, tmp_path_factory.mktemp("registry"))
    registry.start()
    shared, old, older, new, own = (letter * 50_000 for letter in (b"s", b"o", b"d", b"n", b"m"))
    for name, layers in {
        "pause:3.5": (shared, old), "coredns:1.8": (shared, older), "pause:3.6": (shared, new),
        "theirs/app:1": (shared, own),
    }.items():  # fmt: skip
        registry.push(name, *layers)
    # A repository whose image has a second name that no bundle lists.
    digest = registry.push("shared/tool:1", shared, old)
    _, _, text = registry.ask("GET", "/v2/shared/tool/manifests/1")
    assert registry.manifest("shared/tool", "mine", text, MANIFEST) == digest
    shutil.copytree(registry.storage, registry.folder / "kept")
    age(registry.folder / "kept")
    yield registry
    registry.stop()


def age(storage: Path) -> None:
    """Make everything old enough to belong to no push."""
    for path in [storage, *storage.rglob("*")]:
        os.utime(path, (1, 1))


def bundle(store: Path, release: str, images: dict[str, str]) -> Path:
    text = json.dumps({"release": release, "images": images, "files": []}).encode()
    folder = store / hashlib.sha256(text).hexdigest()
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_bytes(text)
    return folder


@pytest.fixture
def world(filled: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    reset(filled)
    digests = {
        f"{one['repository']}:{tag}": one["digest"]
        for one in supply.RegistryStore(filled.storage).revisions()
        for tag in one["tags"]
    }
    store, current = tmp_path / "bundles", tmp_path / "bundle"
    names = ("pause:3.5", "coredns:1.8", "shared/tool:1")
    bundle(store, "old", {name: digests[name] for name in names})
    current.symlink_to(bundle(store, "new", {"pause:3.6": digests["pause:3.6"]}))
    acts, dropin = Acts(), tmp_path / "dropin.conf"
    want = {
        "registry": f"127.0.0.1:{filled.port}", "login_dir": "", "ca_path": "",
        "storage": str(filled.storage), "configuration": str(filled.configuration),
        "images": {name: digests[name] for name in ("pause:3.5", "coredns:1.8")},
        "kept": [], "store": str(store), "current": str(current), "deadline_seconds": 60,
    }  # fmt: skip

    class Client:
        """Asks over plain HTTP; each deletion is an act."""

        def __init__(self, *_: Any) -> None:
            pass

        def ask(self, method: str, path: str) -> Any:
            acts.before()
            status, _, _ = filled.ask(method, path)
            acts.made(f"{method} {path}")
            return SimpleNamespace(status=status)

        def close(self) -> None:
            pass

    def collect(_want: Any) -> None:
        """The acts of the unit: read-only, the collection, and writable again."""
        acts.before()
        dropin.write_text("")
        acts.made("read-only")
        acts.before()
        words: list[Any] = [filled.program, "garbage-collect", filled.configuration]
        subprocess.run(words, check=True, capture_output=True)
        acts.made("collected")
        acts.before()
        dropin.unlink()
        acts.made("writable")

    monkeypatch.setattr(clean, "Client", Client)
    monkeypatch.setattr(clean, "collect", collect)
    monkeypatch.setattr(clean, "DROPIN", dropin)
    return World(filled, want, acts, dropin)


def reset(registry: Registry) -> None:
    shutil.rmtree(registry.storage)
    shutil.copytree(registry.folder / "kept", registry.storage)
    age(registry.storage)


KEPT = ("pause:3.6", "theirs/app:1", "shared/tool:1", "shared/tool:mine")


def test_what_only_an_earlier_bundle_lists_goes(world: World) -> None:
    registry = world.registry
    assert clean.converge(world.want, check=True) == (["coredns:1.8", "pause:3.5"], 0)
    assert registry.serves("pause:3.5"), "a check changes nothing"
    removed, freed = clean.converge(world.want)
    assert removed == ["coredns:1.8", "pause:3.5"]
    # Two manifests, two configurations, and the one layer that nothing else has.
    assert 50_000 < freed < 53_000
    assert all(registry.serves(name) for name in KEPT)
    assert not registry.serves("pause:3.5")
    assert clean.converge(world.want) == ([], 0)
    assert registry.push("pause:3.5", b"s" * 50_000, b"again"), "it can be pushed again"
    assert registry.serves("pause:3.5")


def test_a_kill_at_each_act_is_ended_by_the_same_command(world: World) -> None:
    clean.converge(world.want)
    acts = list(world.acts.done)
    assert [a.partition(" ")[0] for a in acts] == ["DELETE", "DELETE", "read-only", "collected", "writable"]  # fmt: skip  # noqa: E501
    whole = blobs(world)
    for number in range(len(acts)):
        for after in (False, True):
            reset(world.registry)
            world.dropin.unlink(missing_ok=True)
            world.acts.again()
            world.acts.kill_at, world.acts.after = number, after
            with pytest.raises(Killed):
                clean.converge(world.want)
            assert all(world.registry.serves(name) for name in KEPT), (number, after)
            world.acts.again()
            clean.converge(world.want)
            assert blobs(world) == whole, (number, after)
            assert not world.dropin.exists(), (number, after)
            assert all(world.registry.serves(name) for name in KEPT), (number, after)


def blobs(world: World) -> set[str]:
    return set(supply.RegistryStore(world.registry.storage).blobs())


REFUSED = {
    "of the bundle that is served": ("pause:3.6", "is needed still"),
    "of nobody's list": ("theirs/app:1", "no bundle of this host lists theirs/app:1"),
    "with another name": ("shared/tool:1", "shared/tool:mine names the same image"),
}


@pytest.mark.parametrize(("name", "why"), REFUSED.values(), ids=REFUSED)
def test_what_may_not_go_stops_all_of_it(world: World, name: str, why: str) -> None:
    before = blobs(world)
    (digest,) = {
        one["digest"]
        for one in supply.RegistryStore(world.registry.storage).revisions()
        for tag in one["tags"]
        if f"{one['repository']}:{tag}" == name
    }
    want = {**world.want, "images": {**world.want["images"], name: digest}}
    with pytest.raises(clean.RegistryError, match=why):
        clean.converge(want)
    assert (blobs(world), world.acts.done) == (before, [])


def test_a_kept_digest_and_a_host_that_serves_nothing_stop_it(world: World) -> None:
    kept = [world.want["images"]["pause:3.5"]]
    with pytest.raises(clean.RegistryError, match="is needed still"):
        clean.converge({**world.want, "kept": kept})
    Path(world.want["current"]).unlink()
    with pytest.raises(clean.RegistryError, match="no bundle is served here"):
        clean.converge(world.want)
    assert world.acts.done == []


def test_a_part_of_an_index_that_stays_stops_it(world: World) -> None:
    digest = world.want["images"]["pause:3.5"]
    part = {"mediaType": MANIFEST, "digest": digest, "size": 1}
    text = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": [part]}).encode()
    world.registry.manifest("pause", "all", text, INDEX)
    age(world.registry.storage)
    with pytest.raises(clean.RegistryError, match=r"pause:3\.5 is a part of pause@sha256:"):
        clean.converge(world.want)
    assert world.acts.done == []


def test_nothing_goes_while_an_image_is_pushed(world: World) -> None:
    world.registry.blob("theirs/new", b"half an image")
    with pytest.raises(clean.RegistryError, match="an image is being pushed"):
        clean.converge(world.want)
    assert world.acts.done == []


def test_what_the_look_says(world: World) -> None:
    found = {one["release"]: one for one in supply.bundles(
        world.want["store"], world.want["current"], Path(world.want["store"]).parent / "no"
    )}  # fmt: skip
    assert [found[name]["served"] for name in ("old", "new")] == [False, True]
    assert set(found["old"]["images"]) == {"pause:3.5", "coredns:1.8", "shared/tool:1"}
    (folder,) = Path(world.want["store"]).glob(found["old"]["digest"])
    (folder / "manifest.json").write_text('{"release": "old", "images": {}}')
    (changed,) = [b for b in supply.bundles(world.want["store"]) if b["digest"] == folder.name]
    assert (changed["release"], changed["images"]) == ("", None)


@pytest.mark.parametrize("ending", ["well", "collection fails", "killed by systemd"])
def test_the_unit_ends_the_read_only_state_whatever_happens(tmp_path: Path, ending: str) -> None:
    programs, log, dropin = tmp_path / "bin", tmp_path / "log", tmp_path / "d/clean.conf"
    programs.mkdir()
    body = {"well": "true", "collection fails": "exit 3", "killed by systemd": "sleep 60 & wait"}
    write(programs / "systemctl", f'echo "systemctl $* $(ls {tmp_path}/d)" >>{log}')
    write(programs / "docker-registry", f'echo "$*" >>{log}; {body[ending]}')
    words = ["/bin/sh", "-c", clean.COLLECT, "sh", clean.UNIT, str(dropin), "config.yml"]
    environment = {"PATH": f"{programs}:/usr/bin:/bin"}
    unit = subprocess.Popen(words, env=environment, start_new_session=True)
    if ending == "killed by systemd":
        until = time.monotonic() + 20
        while not (log.exists() and "garbage-collect" in log.read_text()):
            assert time.monotonic() < until
            time.sleep(0.05)
        os.killpg(unit.pid, signal.SIGTERM)
    unit.wait(20)
    assert (unit.returncode == 0) == (ending == "well")
    assert not dropin.exists()
    assert [line.strip() for line in log.read_text().splitlines()] == [
        "systemctl daemon-reload clean.conf", "systemctl restart docker-registry.service clean.conf",  # noqa: E501
        "garbage-collect config.yml",
        "systemctl daemon-reload", "systemctl restart docker-registry.service",
    ]  # fmt: skip


def write(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_a_registry_is_read_only_by_the_variable_that_the_unit_sets(
    program: Path, tmp_path: Path
) -> None:
    registry = Registry(program, tmp_path)
    registry.start(REGISTRY_STORAGE_MAINTENANCE_READONLY='{"enabled":true}')
    try:
        assert registry.ask("POST", "/v2/pause/blobs/uploads/")[0] == 405
        assert 'REGISTRY_STORAGE_MAINTENANCE_READONLY={\\"enabled\\":true}' in clean.COLLECT
    finally:
        registry.stop()
