"""Writing a bundle, and finding every fault of one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.images import image_faults
from appliance.adapters.bundle.oci import Blob
from appliance.adapters.local.cache import Cache
from appliance.builder.sources.oci.layout import (
    MANIFEST_TYPE,
    ImageSettings,
    image_config,
    image_manifest,
)
from appliance.builder.writer import BundleWriter, Locks
from appliance.errors import ApplianceError, BuildFailed, Refused
from appliance.model.bundle.builds.fetched import FetchedFile
from appliance.model.bundle.faults import BundleFault, cure
from appliance.model.bundle.manifest import MANIFEST, SIGNATURE, BundleManifest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


class Maker:
    """Writes the same small bundle again and again."""

    def __init__(self, cache: Cache, directory: Path) -> None:
        self.cache = cache
        self.directory = directory
        self.created = "2026-01-01T00:00:00Z"
        self.tool = b"tool"
        self.signature_removed = False
        self.strangers: tuple[str, ...] = ()
        self.files: dict[str, bytes] = {}

    def make(self, os_name: str = "debian-12", *, replace_other: bool = False) -> str:
        writer = self.writer(replace_other=replace_other)
        writer.prepare("r1", os_name)
        layer, config = self._blob(b"layer"), self._blob(b"")
        config = self._blob(image_config([layer], ImageSettings()))
        manifest = self._blob(image_manifest(config, [layer]))
        files = [
            self._file(f"images/blobs/sha256/{blob.sha256}", blob)
            for blob in (layer, config, manifest)
        ]
        files.append(self._file("bin/tool", self._blob(self.tool), executable=True))
        files += [self._file(path, self._blob(content)) for path, content in self.files.items()]
        writer.write(files, {"web:v1": (manifest.sha256, MANIFEST_TYPE)})
        images = {"web:v1": f"sha256:{manifest.sha256}"}
        wanted = BundleManifest("r1", os_name, "amd64", "0", self.created, images=images)
        sealed = writer.seal(wanted)
        paths = {file.path for file in sealed.manifest.files}
        assert paths >= {"bin/tool", "images/index.json"}
        self.signature_removed = sealed.signature_removed
        self.strangers = sealed.strangers
        return sealed.digest

    def writer(self, *, replace_other: bool) -> BundleWriter:
        return BundleWriter(self.directory, self.cache, replace_other=replace_other)

    def faults(self) -> list[str]:
        return [str(fault) for fault in self.found()]

    def found(self) -> list[BundleFault]:
        found = BundleDirectory(self.directory)
        return [*found.faults(), *image_faults(self.directory, found.manifest)]

    def cure(self) -> str:
        manifest = BundleDirectory(self.directory).manifest
        return cure(str(self.directory), manifest, self.found())

    def _blob(self, content: bytes) -> Blob:
        return Blob(*self.cache.add_bytes(content))

    @staticmethod
    def _file(path: str, blob: Blob, *, executable: bool = False) -> FetchedFile:
        return FetchedFile(path, blob.sha256, blob.size, executable=executable)


@pytest.fixture
def maker(cache: Cache, tmp_path: Path) -> Maker:
    return Maker(cache, tmp_path / "bundle")


def test_what_is_written_is_whole(maker: Maker) -> None:
    digest = maker.make()
    assert maker.faults() == []
    assert BundleDirectory(maker.directory).digest == digest
    assert (maker.directory / "bin/tool").stat().st_mode & 0o777 == 0o755
    assert not [path.name for path in maker.directory.iterdir() if path.name.startswith(".")]


def test_the_same_bundle_again_keeps_its_digest_and_date(maker: Maker) -> None:
    first = maker.make()
    (maker.directory / "manifest.json.sig").write_text("signature")
    maker.created = "2026-02-02T00:00:00Z"
    assert maker.make() == first
    assert (maker.directory / "manifest.json.sig").is_file()


def test_a_bundle_stays_one_while_the_same_is_built_again(maker: Maker) -> None:
    maker.make()
    writer = BundleWriter(maker.directory, maker.cache)
    writer.prepare("r1", "debian-12")
    files = BundleDirectory(maker.directory).manifest.files
    kept = [FetchedFile(f.path, f.sha256, f.size) for f in files if "index" not in f.path]
    writer.write([file for file in kept if file.path.startswith(("bin/", "images/blobs"))], {})
    assert (maker.directory / "manifest.json").is_file()
    writer.write([], {})
    assert not (maker.directory / "manifest.json").exists()


def test_a_changed_bundle_has_another_digest_and_no_signature_any_more(maker: Maker) -> None:
    first = maker.make()
    (maker.directory / "manifest.json.sig").write_text("signature")
    maker.tool = b"another tool"
    assert maker.make() != first
    assert maker.faults() == []
    assert not (maker.directory / "manifest.json.sig").exists()


def test_building_again_repairs_what_is_broken_and_removes_what_is_left_over(maker: Maker) -> None:
    first = maker.make()
    (maker.directory / "bin/tool").write_bytes(b"looT")
    left = [f"images/blobs/sha256/{'0' * 64}", "apt/pool/old_1_amd64.deb", "wheels/old-1.whl"]
    for name in left:
        (maker.directory / name).write_bytes(b"x")
    (maker.directory / "apt/Packages").unlink()
    assert maker.make() == first
    assert maker.faults() == []


def test_a_file_that_the_next_bundle_does_not_have_is_removed_with_its_manifest(
    maker: Maker,
) -> None:
    maker.make()
    maker.files = {"bin/other": b"other"}
    maker.make()
    maker.files = {}
    maker.make()
    assert not (maker.directory / "bin/other").exists()
    assert maker.faults() == []


@pytest.mark.parametrize(
    "text",
    ['{"name": "web app", "icons": []}', "{", "", "[]", '{"schema": 1, "release": "r1"}'],
)
def test_a_folder_whose_manifest_is_not_a_bundles_is_refused_and_untouched(
    maker: Maker, text: str
) -> None:
    theirs = {".git/HEAD": "ref", "src/thesis.docx": "years", "manifest.json": text}
    for name, content in theirs.items():
        path = maker.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    with pytest.raises(Refused, match=r"holds a manifest\.json that is not a bundle's"):
        maker.make(replace_other=True)
    assert contents(maker.directory) == {k: v.encode() for k, v in theirs.items()}


def test_what_lies_beside_a_bundle_on_the_medium_stays_and_is_named(maker: Maker) -> None:
    maker.make()
    theirs = ("runai-2.7.14.tar.gz", "customer/vault-password", "bin/their-script", "wheels/x.txt")
    for name in theirs:
        path = maker.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("theirs")
    maker.tool = b"another tool"
    maker.make()
    maker.make("ubuntu-20.04", replace_other=True)
    assert sorted(maker.strangers) == sorted(theirs)
    found = contents(maker.directory)
    assert all(found[name] == b"theirs" for name in theirs)
    # Inside the bundle's own folders a stranger would be served: that stays a fault.
    assert sorted(maker.faults()) == [
        "bin/their-script: is not in the manifest",
        "wheels/x.txt: is not in the manifest",
    ]


def test_a_build_that_was_killed_removes_later_only_what_it_or_an_earlier_one_listed(
    maker: Maker, cache: Cache
) -> None:
    maker.files = {"bin/old": b"old"}
    maker.make()
    killed = BundleWriter(maker.directory, cache)
    killed.prepare("r1", "debian-12")
    digest, size = cache.add_bytes(b"half")
    killed.write([FetchedFile("bin/half", digest, size)], {})
    (maker.directory / "bin/theirs").write_text("theirs")
    assert not (maker.directory / "manifest.json").exists()
    maker.files = {}
    maker.make()
    assert maker.strangers == ("bin/theirs",)
    assert not {"bin/old", "bin/half", ".building"} & contents(maker.directory).keys()


def test_a_build_that_was_killed_while_it_cleared_goes_on(
    maker: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker.make()
    maker.tool = b"another tool"

    def die(_writer: BundleWriter) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(BundleWriter, "_clear", die)
        with pytest.raises(KeyboardInterrupt):
            maker.make()
    assert not (maker.directory / "manifest.json").exists()
    maker.make()
    assert maker.faults() == []


def test_only_the_files_of_the_manifest_are_sent_and_nothing_is_deleted_by_rsync() -> None:
    role = ROOT / "roles/artifact_server"
    tasks = yaml.safe_load((role / "tasks/transfer.yml").read_text())
    pushed = [task["rsync_push"] for task in tasks if "rsync_push" in task]
    documents, files = pushed
    constants = yaml.safe_load((role / "vars/main.yml").read_text())
    assert documents["options"] == "{{ __artifact_server_rsync + __artifact_server_documents }}"
    sent = [f"--include=/{name}" for name in (MANIFEST, SIGNATURE)]
    assert constants["__artifact_server_documents"] == [*sent, "--exclude=*"]
    # What bundle_fill lists is confined to the folders of a bundle, by bundle_verify's own rules.
    assert files["files"] == "{{ __artifact_server_filled.absent }}"
    options = constants["__artifact_server_rsync"]
    assert not [word for word in options if "delete" in word or "inplace" in word]


@pytest.mark.parametrize("folder", ["bin", "images/blobs/sha256"])
def test_a_folder_of_the_bundle_that_is_a_link_is_refused(
    maker: Maker, tmp_path: Path, folder: str
) -> None:
    maker.make()
    (maker.directory / folder).rename(tmp_path / "programs")
    (maker.directory / folder).symlink_to(tmp_path / "programs")
    before = contents(tmp_path / "programs")
    with pytest.raises(Refused, match="is a link, expected a folder of the bundle"):
        maker.make()
    assert contents(tmp_path / "programs") == before


@pytest.mark.parametrize("text", ["their own", "[]", '{"files of this bundle": 5}'])
def test_a_marker_of_something_else_is_no_build_of_ours(maker: Maker, text: str) -> None:
    maker.directory.mkdir()
    (maker.directory / ".building").write_text(text)
    with pytest.raises(Refused, match="is not empty and not a bundle"):
        maker.make()


def contents(directory: Path) -> dict[str, bytes]:
    """Every file below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def break_byte(directory: Path) -> None:
    (directory / "bin/tool").write_bytes(b"looT")


def remove_layer(directory: Path) -> None:
    blobs = directory / "images/blobs/sha256"
    (path,) = [path for path in blobs.iterdir() if path.read_bytes() == b"layer"]
    path.unlink()


def lengthen(directory: Path) -> None:
    with (directory / "bin/tool").open("ab") as stream:
        stream.write(b"!")


def add_file(directory: Path) -> None:
    (directory / "bin/extra").write_bytes(b"x")


def empty_index(directory: Path) -> None:
    (directory / "images/index.json").write_text(json.dumps({"manifests": []}))


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (break_byte, ["bin/tool: sha256"]),
        (lengthen, ["bin/tool: 5 bytes, expected 4"]),
        (remove_layer, [": missing", "image web:v1: blob sha256:"]),
        (add_file, ["bin/extra: is not in the manifest"]),
        (empty_index, ["images/index.json: ", "image web:v1: the index has nothing"]),
    ],
)
def test_each_fault_is_found(maker: Maker, harm: Callable[[Path], None], words: list[str]) -> None:
    maker.make()
    harm(maker.directory)
    text = "\n".join(maker.faults())
    for word in words:
        assert word in text


def test_all_faults_are_found_at_once(maker: Maker) -> None:
    maker.make()
    for harm in (break_byte, remove_layer, add_file):
        harm(maker.directory)
    assert len(maker.faults()) == 4


def test_an_index_that_is_no_json_is_a_fault(maker: Maker) -> None:
    maker.make()
    (maker.directory / "images/index.json").write_text("{")
    assert any("not a readable index" in fault for fault in maker.faults())


def test_a_directory_with_something_else_is_refused(maker: Maker) -> None:
    maker.directory.mkdir()
    (maker.directory / "letter.txt").write_text("dear")
    with pytest.raises(Refused, match="is not empty and not a bundle"):
        maker.make()
    assert (maker.directory / "letter.txt").read_text() == "dear"


def test_a_bundle_of_another_system_is_only_replaced_when_asked(maker: Maker) -> None:
    maker.make()
    with pytest.raises(Refused, match="holds a bundle of r1 for debian-12"):
        maker.make("ubuntu-20.04")
    maker.make("ubuntu-20.04", replace_other=True)
    assert maker.faults() == []


def test_an_interrupted_build_is_no_bundle_and_goes_on(maker: Maker, cache: Cache) -> None:
    writer = BundleWriter(maker.directory, cache)
    writer.prepare("r1", "debian-12")
    writer.write([], {})
    assert not (maker.directory / "manifest.json").exists()
    maker.make()
    assert maker.faults() == []


def test_a_directory_that_cannot_be_made_is_refused(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(Refused, match="cannot be created"):
        BundleWriter(tmp_path / "file/bundle", cache).prepare("r1", "debian-12")


def test_a_disk_that_cannot_be_written_fails_the_build(cache: Cache, tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path / "bundle", cache)
    writer.prepare("r1", "debian-12")
    (tmp_path / "bundle/bin").write_text("in the way")
    digest, size = cache.add_bytes(b"x")
    with pytest.raises(BuildFailed, match="could not be written"):
        writer.write([FetchedFile("bin/tool", digest, size)], {})


def test_a_lock_remembers_the_first_digest_only(cache: Cache, tmp_path: Path) -> None:
    one, two = "1" * 64, "2" * 64
    (tmp_path / "r1.lock").write_text(f"# shipped\n{one}  https://a.test/x\n")
    Locks("r1", tmp_path, cache).record({"https://a.test/x": two, "https://b.test/y": two})
    again = Locks("r1", tmp_path, cache)
    assert again.known == {"https://a.test/x": one, "https://b.test/y": two}
    again.record({})
    assert one not in (cache.root / "locks/r1.lock").read_text()


def test_a_lock_that_is_none_is_reported(cache: Cache, tmp_path: Path) -> None:
    (tmp_path / "r1.lock").write_text("nonsense\n")
    with pytest.raises(ApplianceError, match="is not a lock file"):
        Locks("r1", tmp_path, cache)
