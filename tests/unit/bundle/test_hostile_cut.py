"""Cutting a bundle into parts, after a kill at its end, or for another delta of the same bundle."""

from __future__ import annotations

from pathlib import Path

import pytest

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.bundle.parts_media import read_documents
from appliance.adapters.local.cache import Cache
from appliance.builder.parts import parts_folder, write_parts
from appliance.errors import Refused
from appliance.model.bundle.carry.parts import INDEX, PARTS_DELTA
from tests.unit.bundle.test_bundle_directory import Maker
from tests.unit.bundle.test_delta import Deltas, have
from tests.unit.bundle.test_parts import SIZE, bundle_in, quiet


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_kill_between_the_documents_is_taken_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    maker = bundle_in(tmp_path)
    bundle = BundleDirectory(maker.directory)
    written: list[Path] = []
    real = Path.replace

    def killed(path: Path, target: Path) -> Path:
        if not Path(target).name.startswith("bundle-"):
            written.append(target)
            if len(written) == after:
                raise KeyboardInterrupt
        return real(path, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write_parts(bundle, SIZE, quiet)
    done = write_parts(bundle, SIZE, quiet)
    assert done.kept == len(done.index.parts)
    assert read_documents(done.folder).index == done.index
    assert not list(done.folder.glob(".*"))


@pytest.fixture
def delta(tmp_path: Path) -> Deltas:
    base = Maker(Cache(tmp_path / "cache"), tmp_path / "base")
    base.files = {"bin/same": b"same" * 500}
    base.make()
    maker = Deltas(base.cache, tmp_path / "next")
    maker.files, maker.tool, maker.without = dict(base.files), b"newer tool", have(base)
    maker.make()
    return maker


def test_the_parts_of_a_delta_are_not_mixed_with_those_of_its_whole_bundle(delta: Deltas) -> None:
    """Both have one digest, so one folder; an index beside another delta is refused everywhere."""
    before = write_parts(BundleDirectory(delta.directory), SIZE, quiet)
    delta.without = None
    delta.make()
    whole = BundleDirectory(delta.directory)
    assert parts_folder(whole) == before.folder
    with pytest.raises(Refused, match="leave out other files") as refused:
        write_parts(whole, SIZE, quiet)
    assert f"mv {before.folder}" in str(refused.value.hint)
    assert read_documents(before.folder).index == before.index
    before.folder.rename(before.folder.with_name("aside"))
    done = write_parts(whole, SIZE, quiet)
    assert read_documents(done.folder).delta is None


def test_a_stale_document_of_a_run_that_was_killed_is_not_kept(delta: Deltas) -> None:
    before = write_parts(BundleDirectory(delta.directory), SIZE, quiet)
    (before.folder / INDEX).unlink()
    delta.without = None
    delta.make()
    done = write_parts(BundleDirectory(delta.directory), SIZE, quiet)
    assert not (done.folder / PARTS_DELTA).exists()
    assert read_documents(done.folder).delta is None
