"""The cache: content by its digest, outcomes by their recipe, nothing half-written."""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache, cache_directory, digest_of, recipe_key
from appliance.errors import BuildFailed

HELLO = hashlib.sha256(b"hello").hexdigest()


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


def written(path: Path, content: bytes = b"hello") -> Path:
    path.write_bytes(content)
    return path


def test_content_is_kept_under_its_digest_and_only_once(cache: Cache, tmp_path: Path) -> None:
    assert cache.adopt(written(tmp_path / "a")) == (HELLO, 5)
    assert cache.adopt(written(tmp_path / "b")) == (HELLO, 5)
    assert cache.path(HELLO).read_bytes() == b"hello"
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()
    assert cache.holds(HELLO, 5)
    assert not cache.holds(HELLO, 6)
    assert not cache.holds("0" * 64, 5)


def test_a_recipe_is_carried_out_once(cache: Cache, tmp_path: Path) -> None:
    made = []

    def make() -> Path:
        made.append(1)
        return written(tmp_path / "made")

    key = recipe_key({"what": "hello"})
    assert cache.made(key, make) == (HELLO, 5)
    assert cache.made(key, make) == (HELLO, 5)
    assert len(made) == 1


def test_a_recipe_is_carried_out_again_when_its_content_is_gone(
    cache: Cache, tmp_path: Path
) -> None:
    cache.made("k", lambda: written(tmp_path / "made"))
    cache.path(HELLO).unlink()
    assert cache.made("k", lambda: written(tmp_path / "made")) == (HELLO, 5)
    assert cache.holds(HELLO, 5)


def test_two_threads_that_want_the_same_make_it_once(cache: Cache, tmp_path: Path) -> None:
    made = []
    barrier = threading.Barrier(2)

    def make() -> Path:
        made.append(1)
        return written(tmp_path / "made")

    def want() -> None:
        barrier.wait()
        cache.made("k", make)

    threads = [threading.Thread(target=want) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_a_broken_note_of_a_recipe_counts_as_none(cache: Cache) -> None:
    cache.remember("k", {"sha256": HELLO})
    assert cache.recall("k") == {"sha256": HELLO}
    (cache.root / "keys/k.json").write_text("{")
    assert cache.recall("k") is None


def test_placing_copies_checks_and_sets_the_mode(cache: Cache, tmp_path: Path) -> None:
    digest, _ = cache.add_bytes(b"hello")
    target = tmp_path / "deep/er/file"
    cache.place(digest, target, executable=True)
    assert target.read_bytes() == b"hello"
    assert target.stat().st_mode & 0o777 == 0o755
    assert not list(target.parent.glob(".*"))


def test_placing_leaves_a_right_file_and_replaces_a_wrong_one(cache: Cache, tmp_path: Path) -> None:
    digest, _ = cache.add_bytes(b"hello")
    target = written(tmp_path / "file")
    before = target.stat().st_ino
    cache.place(digest, target)
    assert target.stat().st_ino == before
    target.write_bytes(b"hellO")
    cache.place(digest, target)
    assert target.read_bytes() == b"hello"


def test_a_cache_file_that_went_bad_is_dropped_and_told(cache: Cache, tmp_path: Path) -> None:
    digest, _ = cache.add_bytes(b"hello")
    cache.path(digest).write_bytes(b"hellO")
    with pytest.raises(BuildFailed, match="removed a damaged file"):
        cache.place(digest, tmp_path / "file")
    assert not cache.path(digest).exists()
    assert not list(tmp_path.glob(".*partial"))


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APPLIANCE_CACHE", "/a")
    assert cache_directory() == Path("/a")
    monkeypatch.delenv("APPLIANCE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/b")
    assert cache_directory() == Path("/b/appliance")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/c")
    assert cache_directory() == Path("/c/.cache/appliance")


def test_a_cache_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="cannot be used"):
        Cache(written(tmp_path / "file") / "cache")


def test_digests_are_those_of_sha256(tmp_path: Path) -> None:
    assert digest_of(written(tmp_path / "file")) == (HELLO, 5)
