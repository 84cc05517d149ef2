"""The takeover of the single folder where a disk is mounted there, or the store is another disk."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path

import pytest

from tests.unit.modules.test_bundle_store import NEW, OLD, Services, layout


@pytest.fixture
def node(tmp_path: Path) -> Services:
    return Services(tmp_path)


@pytest.mark.parametrize("code", [errno.EBUSY, errno.EXDEV])
@pytest.mark.parametrize("can_exchange", [True, False])
def test_a_disk_of_its_own_stays_and_the_way_on_is_named(
    node: Services, code: int, can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = node.write(node.current, OLD)

    def refused(*_: object) -> None:
        raise OSError(code if can_exchange else errno.EINVAL, "no")

    def busy(*_: object) -> None:
        raise OSError(code, "no")

    monkeypatch.setattr(layout, "exchange", refused)
    monkeypatch.setattr(Path, "rename", busy)
    with pytest.raises(ValueError, match="a mount point or on another disk") as failed:
        node.arrange(digest)
    assert str(node.store / digest) in str(failed.value)
    assert (node.current / "bin/tool").read_bytes() == b"old"
    assert [*node.store.iterdir()] == [], "a link that leads nowhere is not left behind"


def test_the_empty_folder_under_a_disk_that_moved_makes_way(node: Services) -> None:
    """After umount and mount at the new place, the old mount point is an empty folder."""
    digest = node.digest(OLD)
    node.write(node.store / digest, OLD)
    node.current.mkdir()
    node.arrange(digest)
    assert not node.current.exists()
    assert node.prove(digest) == []
    node.serve(digest)
    assert (node.current / "bin/tool").read_bytes() == b"old"


def test_an_empty_folder_with_nothing_in_the_store_makes_way(node: Services) -> None:
    digest = node.digest(OLD)
    node.current.mkdir()
    node.arrange(digest)
    node.write(node.store / digest, OLD)
    assert node.prove(digest) == []
    node.serve(digest)
    assert str(node.current.readlink()) == f"bundles/{digest}"


def test_the_last_bundle_there_is_stays_where_the_served_one_was_deleted(node: Services) -> None:
    """The marker and the link still name the one that somebody deleted by hand."""
    old, new = node.hold(OLD), node.hold(NEW)
    node.serve(new)
    shutil.rmtree(node.store / new)
    assert "is not there" in node.removal(old).refusal()
