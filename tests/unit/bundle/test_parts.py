"""A bundle in parts: what is cut, what is joined, and what a bad medium may not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle import parts_media
from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.parts_media import part_fault
from appliance.adapters.local.cache import Cache
from appliance.builder.join import join_parts
from appliance.builder.joining import JOINING
from appliance.builder.parts import PartsResult, parts_folder, write_parts
from appliance.errors import BuildFailed, BundleRefused, Refused
from appliance.model.bundle.carry.have import HaveList
from appliance.model.bundle.carry.parts import (
    INDEX,
    PartsIndex,
    Segment,
    numbers_in_words,
    part_name,
    part_sizes,
    segments,
    size_of,
)
from appliance.model.bundle.manifest import BundledFile
from tests.unit.bundle.test_bundle_directory import Maker, contents
from tests.unit.bundle.test_delta import Deltas

SIZE = 700
ZERO = "0" * 64


def quiet(_text: str) -> None:
    """Nobody listens."""


class Media:
    """A bundle in parts, on as many sticks as there are parts."""

    def __init__(self, folder: Path, maker: Maker) -> None:
        self.bundle = maker.directory
        self.target = folder / "joined"
        self.cut: PartsResult = write_parts(BundleDirectory(maker.directory), SIZE, quiet)
        self.sticks = []
        for number in self.cut.index.numbers:
            stick = folder / f"stick{number}"
            stick.mkdir()
            for path in self.cut.folder.iterdir():
                if "-part-" not in path.name or path.name == self.cut.index.name(number):
                    (stick / path.name).write_bytes(path.read_bytes())
            self.sticks.append(stick)

    def part(self, number: int) -> Path:
        return self.sticks[number - 1] / self.cut.index.name(number)

    def join(self, *numbers: int) -> tuple[int, ...]:
        places = [self.sticks[number - 1] for number in numbers]
        return join_parts(places, self.target, quiet).joined

    def fails(self, *numbers: int) -> BuildFailed:
        with pytest.raises(BuildFailed) as failed:
            self.join(*numbers)
        assert not (self.target / "manifest.json").exists()
        return failed.value

    def require_same(self) -> None:
        assert contents(self.target) == contents(self.bundle)
        assert BundleDirectory(self.target).faults() == ()
        for path in self.bundle.rglob("bin/*"):
            mode = (self.target / path.relative_to(self.bundle)).stat().st_mode
            assert mode & 0o777 == path.stat().st_mode & 0o777


def bundle_in(folder: Path) -> Maker:
    """A small signed bundle with a file of several parts, and an empty one."""
    maker = Maker(Cache(folder / "cache"), folder / "bundle")
    maker.files = {"bin/large": bytes(range(256)) * 8, "bin/empty": b"", "bin/small": b"x"}
    maker.make()
    (maker.directory / "manifest.json.sig").write_text("signature")
    return maker


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return bundle_in(tmp_path)


@pytest.fixture
def media(tmp_path: Path, maker: Maker) -> Media:
    found = Media(tmp_path, maker)
    assert len(found.sticks) > 4
    return found


def test_parts_are_joined_in_any_order_on_any_medium(media: Media) -> None:
    numbers = list(media.cut.index.numbers)
    for number in reversed(numbers[1:]):
        media.fails(number)
    assert media.join(1) == (1,)
    media.require_same()
    assert not (media.target / JOINING).exists()
    assert media.join(1) == ()


def test_all_parts_at_once_make_the_bundle(media: Media) -> None:
    assert media.join(*media.cut.index.numbers) == tuple(media.cut.index.numbers)
    media.require_same()


def test_no_part_is_larger_than_asked_and_names_sort_in_order(media: Media) -> None:
    names = sorted(path.name for path in media.cut.folder.glob("bundle-*"))
    assert names == [media.cut.index.name(number) for number in media.cut.index.numbers]
    assert {path.stat().st_size for path in media.cut.folder.glob("bundle-*")} <= {
        SIZE,
        media.cut.index.parts[-1].size,
    }
    assert part_name(ZERO, 7, 120) == "bundle-000000000000-part-007-of-120"


def test_parts_that_are_there_stay_and_only_missing_ones_are_written(
    media: Media, maker: Maker
) -> None:
    before = contents(media.cut.folder)
    kept = media.cut.folder / media.cut.index.name(1)
    lost = media.cut.folder / media.cut.index.name(2)
    stamp = kept.stat().st_mtime_ns
    lost.unlink()
    again = write_parts(BundleDirectory(maker.directory), SIZE, quiet)
    assert again.kept == len(media.cut.index.parts) - 1
    assert contents(media.cut.folder) == before
    assert kept.stat().st_mtime_ns == stamp


def test_parts_of_another_size_or_a_strangers_folder_are_not_touched(
    media: Media, maker: Maker
) -> None:
    before = contents(media.cut.folder)
    with pytest.raises(Refused, match="holds parts of 700 bytes, not of 900"):
        write_parts(BundleDirectory(maker.directory), 900, quiet)
    assert contents(media.cut.folder) == before
    (media.cut.folder / INDEX).unlink()
    (media.cut.folder / "thesis.docx").write_text("years")
    with pytest.raises(Refused, match="is not empty and holds no parts"):
        write_parts(BundleDirectory(maker.directory), SIZE, quiet)


def test_a_bundle_that_changed_while_it_was_cut_has_no_index(maker: Maker) -> None:
    (maker.directory / "bin/small").write_bytes(b"y")
    with pytest.raises(BuildFailed, match="bin/small differs from the bundle's manifest"):
        write_parts(BundleDirectory(maker.directory), SIZE, quiet)
    assert not (parts_folder(BundleDirectory(maker.directory)) / INDEX).exists()


def test_a_part_that_was_damaged_on_the_build_machine_is_named(media: Media, maker: Maker) -> None:
    path = media.cut.folder / media.cut.index.name(2)
    flip(path)
    with pytest.raises(BuildFailed, match="has the size of a part and other bytes"):
        write_parts(BundleDirectory(maker.directory), SIZE, quiet)


def test_a_delta_travels_in_parts(media: Media, maker: Maker, tmp_path: Path) -> None:
    found = BundleDirectory(maker.directory)
    later = Deltas(maker.cache, tmp_path / "later")
    later.files, later.tool = maker.files, b"newer tool"
    later.without = HaveList.of(found.manifest, found.digest)
    later.make()
    (tmp_path / "other").mkdir()
    Media(tmp_path / "other", later).join(*range(1, 1 + len(later_parts(later))))
    joined = BundleDirectory(tmp_path / "other/joined")
    assert joined.faults() == ()
    assert joined.delta == BundleDirectory(later.directory).delta
    assert joined.delta is not None
    assert media.cut.index.bundle == found.digest


def later_parts(maker: Maker) -> list[Path]:
    return list(parts_folder(BundleDirectory(maker.directory)).glob("bundle-*"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[5] ^= 1
    path.write_bytes(content)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def as_link(path: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (flip, "sha256"),
        (shorten, "699 bytes, expected 700"),
        (lengthen, "701 bytes, expected 700"),
        (as_link, "a link, expected a regular file"),
        (as_folder, "Is a directory"),
    ],
)
def test_a_damaged_part_does_not_count_and_is_named_with_its_medium(
    media: Media, harm: Callable[[Path], None], words: str
) -> None:
    path = media.part(2)
    whole = path.read_bytes()
    harm(path)
    failed = media.fails(*media.cut.index.numbers)
    assert failed.message.endswith("missing: 2")
    assert failed.details[0].startswith(f"part 2 of {len(media.sticks)}, {path}: {words}")
    assert part_fault(path, media.cut.index, 2) is not None
    if path.is_dir():
        path.rmdir()
    else:
        path.unlink()
    path.write_bytes(whole)
    assert media.join(2) == (2,)
    media.require_same()


def test_a_medium_that_is_pulled_costs_only_the_part_that_was_read(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = parts_media.chunks_of

    def pulled(path: Path, size: int) -> Any:
        if path.name == media.cut.index.name(3):
            yield b"half"
            raise OSError(5, "Input/output error", str(path))
        yield from real(path, size)

    with monkeypatch.context() as patched:
        patched.setattr("appliance.builder.join.chunks_of", pulled)
        failed = media.fails(1, 2, 3)
    missing = [n for n in media.cut.index.numbers if n not in (1, 2)]
    assert failed.message.endswith(f"missing: {numbers_in_words(missing)}")
    assert failed.details[0].startswith(
        f"part 3 of {len(media.sticks)}, {media.part(3)}: Input/output error"
    )
    assert f"part 3 is missing: {media.part(3).name} (last seen as {media.part(3)})" in (
        failed.details
    )
    assert media.join(*missing) == tuple(missing)
    media.require_same()


def test_a_kill_in_the_middle_of_a_part_costs_that_part(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, _size: int) -> Any:
        yield b"half"
        raise KeyboardInterrupt(path)

    media.fails(1)
    with monkeypatch.context() as patched:
        patched.setattr("appliance.builder.join.chunks_of", killed)
        with pytest.raises(KeyboardInterrupt):
            media.join(2)
    assert 1 not in media.join(*media.cut.index.numbers)
    media.require_same()


def test_a_kill_before_the_manifest_was_written_is_taken_up(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = tuple(media.cut.index.numbers)
    with monkeypatch.context() as patched:
        patched.setattr("appliance.builder.join._Join._seal", killed)
        with pytest.raises(KeyboardInterrupt):
            media.join(*numbers)
    assert not (media.target / "manifest.json").exists()
    assert media.join(1) == ()
    media.require_same()


def test_of_two_copies_of_a_part_the_right_one_counts(media: Media) -> None:
    twin = media.sticks[0] / media.cut.index.name(2)
    twin.write_bytes(b"x" * SIZE)
    assert 2 in media.join(*media.cut.index.numbers)
    media.require_same()


def test_a_single_file_can_be_named(media: Media) -> None:
    (media.sticks[0] / media.cut.index.name(2)).write_bytes(media.part(2).read_bytes())
    with pytest.raises(BuildFailed) as failed:
        join_parts([media.part(1)], media.target, quiet)
    assert "1 of" in failed.value.message


def test_media_of_two_bundles_are_not_mixed(media: Media, maker: Maker, tmp_path: Path) -> None:
    maker.tool = b"another tool"
    maker.make()
    (tmp_path / "second").mkdir()
    other = Media(tmp_path / "second", maker)
    with pytest.raises(BundleRefused, match="holds parts of bundle"):
        join_parts([media.sticks[0], other.sticks[1]], media.target, quiet)
    media.fails(1)
    with pytest.raises(Refused, match="is being joined from other parts"):
        join_parts([other.sticks[0]], media.target, quiet)
    assert media.join(*media.cut.index.numbers)


def test_a_target_with_something_else_is_not_touched(media: Media) -> None:
    media.target.mkdir()
    (media.target / "thesis.docx").write_text("years")
    with pytest.raises(Refused, match="is not empty, and no parts were joined there"):
        media.join(1)
    assert contents(media.target) == {"thesis.docx": b"years"}


def test_a_link_in_the_target_is_not_followed(media: Media, tmp_path: Path) -> None:
    media.fails(1)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "large").write_bytes(b"theirs")
    for path in (media.target / "bin").iterdir():
        path.unlink()
    (media.target / "bin").rmdir()
    (media.target / "bin").symlink_to(outside)
    with pytest.raises(BundleRefused, match="is a link, expected a folder of the bundle"):
        media.join(*media.cut.index.numbers)
    assert (outside / "large").read_bytes() == b"theirs"


@pytest.mark.parametrize(
    "text", ["", "[]", "5", '{"done": [true, 99, -1, "1"], "seen": {}}', '{"done": 5}', "[" * 9999]
)
def test_a_damaged_record_of_a_join_only_costs_time(media: Media, text: str) -> None:
    media.fails(1, 2)
    (media.target / JOINING / "state.json").write_text(text)
    assert media.join(*media.cut.index.numbers) == tuple(media.cut.index.numbers)
    media.require_same()


def test_the_bytes_of_each_part_follow_from_the_manifest_alone() -> None:
    files = [BundledFile("bin/a", ZERO, 5), BundledFile("bin/b", ZERO, 0),
             BundledFile("bin/c", ZERO, 3)]  # fmt: skip
    assert list(segments(files, 4)) == [
        (Segment("bin/a", 0, 4),),
        (Segment("bin/a", 4, 1), Segment("bin/c", 0, 3)),
    ]
    assert part_sizes(files, 4) == (4, 4)
    assert part_sizes(files, 5) == (5, 3)
    assert part_sizes(files, 100) == (8,)
    assert part_sizes([], 4) == (0,)
    assert list(segments([], 4)) == [()]
    assert part_sizes([BundledFile("bin/a", ZERO, 1000)], 1) == ()


@pytest.mark.parametrize(
    ("text", "size"),
    [("4G", 4 * 10**9), ("700M", 7 * 10**8), ("4GiB", 1 << 32), ("1mb", 10**6)],
)
def test_a_size_is_decimal_unless_it_says_otherwise(text: str, size: int) -> None:
    assert size_of(text) == size


@pytest.mark.parametrize("text", ["4", "G", "0G", "-1G", "4 G x", "1K", "1e9M", "9999999G", "٤G"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a size|is outside"):
        size_of(text)


def test_an_index_is_read_as_it_was_written(media: Media) -> None:
    content = json.dumps(media.cut.index.as_json()).encode()
    assert PartsIndex.parse(content, INDEX) == media.cut.index
