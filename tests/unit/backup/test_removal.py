"""Old backups go, and a removal that was killed anywhere ends with the next run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from appliance.adapters.backup.age import Sink
from appliance.adapters.backup.places import FolderPlace
from appliance.adapters.backup.store import BackupStore
from appliance.errors import CommandFailed, Refused
from appliance.model.backup.names import SUFFIX
from appliance.model.backup.retention import Keep
from tests.unit.backup.bench import Bench, Killed, bench_in


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return bench_in(tmp_path)


class _DyingAtRemoval(FolderPlace):
    """A place at which the process is killed before or after one of the acts of a removal."""

    def __init__(self, folder: Path, at: int) -> None:
        super().__init__(folder)
        self.at = at
        self.acts = 0

    def _act(self) -> None:
        self.acts += 1
        if self.acts == self.at:
            raise Killed

    @contextmanager
    def new(self, name: str) -> Iterator[Sink]:
        with super().new(name) as sink:
            yield sink
        if name.endswith(".removing"):
            self._act()

    def remove(self, name: str) -> None:
        self._act()
        super().remove(name)
        self._act()


@pytest.mark.parametrize("at", range(1, 8))
def test_the_next_backup_ends_a_removal_that_was_killed_anywhere(bench: Bench, at: int) -> None:
    bench.keep = Keep(1, 1)
    old = bench.create().sidecar
    assert old is not None
    bench.clock.time += 5 * 86_400
    with pytest.raises(Killed):
        bench.create(_DyingAtRemoval(bench.folder, at))
    states = {one.id: one.state for one in BackupStore(FolderPlace(bench.folder)).held()}
    assert states.get(old.about.id) in ("whole", "being removed", None)
    bench.clock.time += 5 * 86_400
    bench.create()
    assert [name for name in bench.names() if old.about.id in name] == []
    assert [name for name in bench.names() if name.endswith(".removing")] == []


def test_word_of_a_removal_that_is_not_ours_removes_nothing(bench: Bench) -> None:
    whole = bench.create().sidecar
    assert whole is not None
    other = "rack7-20260922T141320Z"
    (bench.folder / f"{whole.about.id}.backup.removing").write_text(whole.sha256)
    (bench.folder / f"{other}.backup.removing").write_text("0" * 64)
    (bench.folder / f"{other}.backup.json").write_text("theirs")
    store = BackupStore(FolderPlace(bench.folder))
    with pytest.raises(Refused):
        store.end_removal(whole.about.id, {whole.sha256})
    before = bench.names()
    assert store.end_removal(other, {whole.sha256}) is False
    assert bench.names() == before


def test_a_half_backup_that_is_still_being_written_is_named_and_stays(tmp_path: Path) -> None:
    place, name = FolderPlace(tmp_path), "rack7-20260921T141320Z"
    with place.new(name + SUFFIX) as sink:
        sink.write(b"half")
        with pytest.raises(CommandFailed, match="another command is writing it") as stopped:
            BackupStore(place).remove_unfinished(name)
        assert "appliance status" in (stopped.value.hint or "")
    assert [path.name for path in tmp_path.iterdir()] == [name + SUFFIX]
