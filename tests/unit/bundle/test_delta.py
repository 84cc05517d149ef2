"""A delta leaves out what a list has, and never calls itself complete."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.have import mirrored_list, read_have, write_have
from appliance.adapters.bundle.images import image_faults
from appliance.adapters.local.cache import Cache
from appliance.builder.writer import BundleWriter
from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.builds.fetched import FetchedFile
from appliance.model.bundle.carry.delta import DELTA, Delta, left_out
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.manifest import INDEXES, BundledFile, BundleManifest
from appliance.model.bundle.mirror import BundleDoubt
from tests import samples
from tests.prerequisites import require
from tests.unit.bundle.test_bundle_directory import Maker, contents

ZERO, ONE = "0" * 64, "1" * 64


class Deltas(Maker):
    """Writes a bundle without the files of a list."""

    without: HaveList | None = None

    def writer(self, *, replace_other: bool) -> BundleWriter:
        return BundleWriter(
            self.directory, self.cache, replace_other=replace_other, without=self.without
        )


@pytest.fixture
def base(tmp_path: Path) -> Maker:
    """The bundle that the site has: all but the tool and one wheel are in the next one, too."""
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "base")
    maker.files = {"wheels/pure-1.whl": b"wheel", "bin/same": b"same"}
    maker.make()
    return maker


@pytest.fixture
def next_one(base: Maker, tmp_path: Path) -> Deltas:
    maker = Deltas(base.cache, tmp_path / "next")
    maker.files = dict(base.files)
    maker.tool = b"newer tool"
    maker.without = have(base)
    return maker


def have(maker: Maker) -> HaveList:
    found = BundleDirectory(maker.directory)
    return HaveList.of(found.manifest, found.digest)


def expected(maker: Maker) -> set[str]:
    delta = BundleDirectory(maker.directory).delta
    assert delta is not None
    return set(delta.files)


def test_a_delta_has_the_manifest_and_digest_of_the_whole_bundle(next_one: Deltas) -> None:
    digest = next_one.make()
    whole = Maker(next_one.cache, next_one.directory.with_name("whole"))
    whole.files, whole.tool = next_one.files, next_one.tool
    assert whole.make() == digest
    here, there = contents(next_one.directory), contents(whole.directory)
    assert here["manifest.json"] == there["manifest.json"]
    assert there.keys() - here.keys() == expected(next_one)
    assert here.keys() - there.keys() == {DELTA}


def test_a_delta_leaves_out_what_the_list_has_by_digest(next_one: Deltas) -> None:
    next_one.make()
    paths = expected(next_one)
    assert "bin/same" in paths
    assert "bin/tool" not in paths
    assert len([path for path in paths if path.startswith("images/blobs/")]) == 3
    # What the admin host installs, and what a reader of the bundle begins with.
    assert not {path for path in paths if path.startswith("wheels/") or path in INDEXES}


def test_a_whole_delta_has_no_fault_and_each_fault_of_what_is_here_is_found(
    next_one: Deltas,
) -> None:
    next_one.make()
    found = BundleDirectory(next_one.directory)
    assert found.faults() == ()
    assert image_faults(next_one.directory, found.manifest, found.elsewhere) == ()
    (next_one.directory / "bin/tool").unlink()
    (next_one.directory / "bin/same").write_bytes(b"emas")
    faults = [str(fault) for fault in BundleDirectory(next_one.directory).faults()]
    assert [fault.split(":")[0] for fault in faults] == ["bin/same", "bin/tool"]


def test_a_delta_becomes_whole_and_a_whole_bundle_a_delta(next_one: Deltas) -> None:
    next_one.make()
    held, next_one.without = next_one.without, None
    next_one.make()
    assert next_one.faults() == []
    assert not (next_one.directory / DELTA).exists()
    next_one.without = held
    next_one.make()
    assert not (next_one.directory / "bin/same").exists()
    assert BundleDirectory(next_one.directory).faults() == ()
    assert next_one.strangers == ()


def test_the_package_index_of_a_delta_is_that_of_the_whole_bundle(
    next_one: Deltas, tmp_path: Path
) -> None:
    require("dpkg-deb")
    for name in ("old", "new"):
        tree = tmp_path / name / "DEBIAN"
        tree.mkdir(parents=True)
        (tree / "control").write_text(
            f"Package: {name}\nVersion: 1\nArchitecture: amd64\nMaintainer: N <n@e.test>\n"
            "Description: x\n"
        )
        words = ["dpkg-deb", "-Znone", "--build", str(tree.parent), str(tmp_path / f"{name}.deb")]
        subprocess.run(words, check=True, capture_output=True)
        next_one.files[f"apt/pool/{name}_1.deb"] = (tmp_path / f"{name}.deb").read_bytes()
    held, next_one.without = next_one.without, None
    digest = next_one.make()
    whole = contents(next_one.directory)
    (old,) = (f for f in BundleDirectory(next_one.directory).manifest.files if "old_1" in f.path)
    assert held is not None
    more = HaveList.parse(
        json.dumps(
            {**held.as_json(), "files": [{"sha256": old.sha256, "size": old.size}]}
        ).encode(),
        "LIST",
    )
    next_one.without = more
    assert next_one.make() == digest
    delta = contents(next_one.directory)
    assert {path for path in whole if path not in delta} == {"apt/pool/old_1.deb"}
    assert delta["apt/Packages"] == whole["apt/Packages"]


def test_a_strangers_file_of_the_deltas_name_is_refused(next_one: Deltas) -> None:
    next_one.make()
    for text in ("their own", '{"kind": "bundle have"}'):
        (next_one.directory / DELTA).write_text(text)
        with pytest.raises(Refused, match=r"delta\.json is no file of a build"):
            next_one.make()
        assert (next_one.directory / DELTA).read_text() == text


MANIFEST = BundleManifest(
    "r1", "debian-12", "amd64", "0", "t",
    files=(BundledFile("bin/tool", ZERO, 4), BundledFile("wheels/x.whl", ONE, 2)),
)  # fmt: skip
GOOD: dict[str, Any] = {
    "schema": 1, "kind": "bundle delta", "bundle": ZERO, "without": ONE, "files": ["bin/tool"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"bundle": ONE}, "it belongs to bundle 111111111111"),
        ({"files": ["bin/tool"] * 2}, "a path is listed twice"),
        ({"files": ["bin/other"]}, "bin/other is not in the manifest"),
        ({"files": ["../../etc/shadow"]}, "is invalid: files.0"),
        ({"files": ["/etc/shadow"]}, "is invalid: files.0"),
        ({"files": ["wheels/x.whl"]}, "is in every delta"),
        ({"files": [5]}, "is invalid: files.0"),
        ({"without": "../" * 22}, "is invalid: without"),
        ({"kind": "bundle have"}, "is invalid: kind"),
        ({"schema": 2}, "it has schema 2"),
        ({"schema": "1"}, "its schema is not a number"),
    ],
    ids=repr,
)
def test_a_delta_that_contradicts_its_manifest_is_refused(
    change: dict[str, Any], words: str
) -> None:
    assert Delta.parse(json.dumps(GOOD).encode(), MANIFEST, ZERO).files == ("bin/tool",)
    with pytest.raises(BundleRefused) as refused:
        Delta.parse(json.dumps({**GOOD, **change}).encode(), MANIFEST, ZERO)
    assert words in refused.value.message


def test_a_delta_that_is_a_link_or_endless_is_refused(next_one: Deltas) -> None:
    next_one.make()
    path = next_one.directory / DELTA
    path.unlink()
    path.symlink_to("/dev/zero")
    with pytest.raises(BundleRefused, match="a link, expected a regular file"):
        BundleDirectory(next_one.directory).faults()


LIST: dict[str, Any] = {
    "schema": 1, "kind": "bundle have", "bundle": ZERO, "release": "r1", "os": "debian-12",
    "files": [{"sha256": ZERO, "size": 4}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "it is not a JSON object"),
        ({**LIST, "files": LIST["files"] * 2}, "a sha256 is listed twice"),
        ({**LIST, "files": [{"sha256": "A" * 64, "size": 4}]}, "files.0.sha256"),
        ({**LIST, "files": [{"sha256": ZERO, "size": -1}]}, "files.0.size"),
        ({**LIST, "files": [{"sha256": ZERO, "size": True}]}, "files.0.size"),
        ({**LIST, "files": [{"sha256": f"{n:064x}", "size": 1} for n in range(100_001)]}, "files"),
        ({**LIST, "release": "r1\x1b[2K"}, "release"),
        ({**LIST, "kind": "bundle delta"}, "kind"),
        ({key: value for key, value in LIST.items() if key != "bundle"}, "bundle"),
        ({**LIST, "schema": 2}, "it has schema 2"),
        (samples.manifest().as_json(), "kind"),
    ],
    ids=["list", "twins", "capitals", "negative", "true", "huge", "control", "other", "no bundle",
         "newer", "a manifest"],
)  # fmt: skip
def test_what_is_no_list_is_refused(document: Any, words: str) -> None:
    with pytest.raises(BundleRefused) as refused:
        HaveList.parse(json.dumps(document).encode(), "LIST")
    assert words in refused.value.message
    assert "appliance bundle have" in str(refused.value.hint)


def test_a_list_above_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "have.json"
    with path.open("wb") as stream:
        stream.truncate((16 << 20) + 1)
    with pytest.raises(BundleRefused, match="larger than 16777216 bytes"):
        read_have(path)


def test_a_list_that_was_written_is_read_as_it_was(base: Maker, tmp_path: Path) -> None:
    held = have(base)
    assert HaveList.parse(held.text().encode(), "LIST") == held
    path = tmp_path / "have.json"
    write_have(path, held)
    assert read_have(path) == held
    write_have(path, held)
    path.write_text("theirs")
    with pytest.raises(Refused, match="holds something else"):
        write_have(path, held)
    assert path.read_text() == "theirs"


def test_a_list_that_lies_about_a_size_is_refused_by_the_name_of_the_file() -> None:
    file = FetchedFile("bin/tool", ZERO, 4)
    held = HaveList.parse(json.dumps(LIST).encode(), "LIST")
    assert left_out([file], held) == {"bin/tool"}
    with pytest.raises(BundleRefused, match="gives bin/tool 4 bytes, and it has 5"):
        left_out([replace(file, size=5)], held)


def test_the_list_of_a_site_is_that_of_its_mirror_and_only_where_it_is_trusted() -> None:
    desired = samples.desired()
    assert desired.manifest is not None
    held = mirrored_list(desired)
    assert held.bundle == desired.bundle_digest
    assert {file.sha256 for file in held.files} == {f.sha256 for f in desired.manifest.files}
    with pytest.raises(BundleRefused, match="cp1: its bundle is not trusted"):
        mirrored_list(replace(desired, doubt=BundleDoubt("another", "ours")))
    with pytest.raises(BundleRefused, match="cp1: no bundle was found there"):
        mirrored_list(samples.desired(with_bundle=False))
