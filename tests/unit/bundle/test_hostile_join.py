"""A join that was killed, pulled or doubled ends whole, or says what to do."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.parts_media import read_documents
from appliance.builder.join import join_parts
from appliance.builder.joining import JOINING
from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.carry.delta import DELTA, KIND, Delta
from appliance.model.bundle.carry.parts import PARTS_DELTA
from tests.unit.bundle.test_bundle_directory import contents
from tests.unit.bundle.test_parts import Media, bundle_in, quiet

ZERO = "0" * 64


@pytest.fixture
def media(tmp_path: Path) -> Media:
    return Media(tmp_path, bundle_in(tmp_path))


def all_of(media: Media) -> tuple[int, ...]:
    return tuple(media.cut.index.numbers)


def test_a_delta_that_was_joined_is_not_called_the_whole_bundle(media: Media) -> None:
    """A delta has the manifest of its whole bundle: the manifest alone says too little."""
    media.join(*all_of(media))
    (media.target / "bin/small").unlink()
    delta = Delta(KIND, media.cut.index.bundle, ZERO, ("bin/small",))
    (media.target / DELTA).write_text(json.dumps(delta.as_json()))
    assert BundleDirectory(media.target).faults() == ()
    with pytest.raises(Refused, match="as a delta, and these are parts of the whole bundle") as no:
        media.join(*all_of(media))
    assert "--to" in str(no.value.hint)


def _before_the_index(folder: Path) -> None:
    (folder / "parts.json").unlink()
    (folder / ".parts.json.partial").write_text("{")


def _nothing_yet(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()


@pytest.mark.parametrize("left", [_before_the_index, _nothing_yet])
def test_a_kill_at_the_very_beginning_is_taken_up(
    media: Media, left: Callable[[Path], None]
) -> None:
    media.fails(1)
    for path in media.target.iterdir():
        if path.name != JOINING:
            shutil.rmtree(path)
    (media.target / JOINING / "state.json").unlink()
    left(media.target / JOINING)
    media.join(*all_of(media))
    media.require_same()


def test_somebody_elses_folder_of_that_name_is_not_touched(media: Media) -> None:
    (media.target / JOINING).mkdir(parents=True)
    (media.target / JOINING / "thesis.tex").write_text("years")
    with pytest.raises(Refused, match="is not empty"):
        media.join(1)
    assert contents(media.target) == {f"{JOINING}/thesis.tex": b"years"}


def test_a_kill_while_the_record_was_written_leaves_nothing(media: Media) -> None:
    media.fails(1)
    (media.target / JOINING / ".state.json.x1y2.new").write_text("{")
    (media.target / JOINING / ".parts.json.partial").write_text("{")
    media.join(*all_of(media))
    assert not (media.target / JOINING).exists()
    media.require_same()


def test_a_kill_after_the_manifest_leaves_nothing_for_ever(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.rmdir

    def killed(path: Path) -> None:
        if path.name == JOINING:
            raise KeyboardInterrupt
        real(path)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rmdir", killed)
        with pytest.raises(KeyboardInterrupt):
            media.join(*all_of(media))
    assert media.join(1) == ()
    assert not (media.target / JOINING).exists()
    media.require_same()


def test_the_bytes_are_on_the_disk_before_the_manifest_says_so(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    sync, replace = os.sync, Path.replace

    def noted_sync() -> None:
        done.append("sync")
        sync()

    def noted_replace(path: Path, target: Path) -> Path:
        done.append(Path(target).name)
        return replace(path, target)

    monkeypatch.setattr(os, "sync", noted_sync)
    monkeypatch.setattr(Path, "replace", noted_replace)
    media.join(*all_of(media))
    for name in ("parts.json", "manifest.json"):
        assert done[done.index(name) - 1] == "sync"


def test_two_joins_into_one_folder_do_not_mix(media: Media) -> None:
    media.fails(1)
    before = contents(media.target)
    handle = os.open(media.target, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with pytest.raises(Refused, match="another join"):
        media.join(*all_of(media))
    assert contents(media.target) == before
    os.close(handle)
    media.join(*all_of(media))
    media.require_same()


def test_media_that_leave_out_different_files_are_not_mixed(media: Media) -> None:
    """An index has no word on the delta: two deltas of one size have the same index."""
    delta = Delta(KIND, media.cut.index.bundle, ZERO, ("bin/empty",))
    (media.sticks[1] / PARTS_DELTA).write_text(json.dumps(delta.as_json()))
    assert read_documents(media.sticks[1]).raw_index == read_documents(media.sticks[0]).raw_index
    with pytest.raises(BundleRefused, match="leaves out other files"):
        media.join(1, 2)
    assert not media.target.exists()
    media.fails(1)
    with pytest.raises(Refused, match="is being joined from other parts"):
        media.join(2)


def test_a_medium_that_is_gone_is_named_and_not_the_target(
    media: Media, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Path.iterdir

    def pulled(path: Path) -> Any:
        if path == media.sticks[1]:
            raise OSError(5, "Input/output error", str(path))
        return real(path)

    monkeypatch.setattr(Path, "iterdir", pulled)
    with pytest.raises(BundleRefused, match=f"{media.sticks[1]} cannot be read: Input/output"):
        join_parts([media.sticks[0], media.sticks[1]], media.target, quiet)
