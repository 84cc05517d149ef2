"""What the integration tests share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.package_archive import Archive, signing_key
from tests.prerequisites import require


@pytest.fixture(scope="session")
def gnupg() -> Iterator[Path]:
    require("gpg")
    with signing_key() as home:
        yield home


@pytest.fixture
def archive(tmp_path: Path, gnupg: Path) -> Archive:
    return Archive(tmp_path / "archive", gnupg)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "isolated"
