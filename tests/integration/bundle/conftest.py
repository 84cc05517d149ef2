"""A context for sources, with everything in temporary folders."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.apt.sources import AptTarget
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context
from appliance.errors import BuildFailed
from tests.integration.bundle.web import Web, serving


def _no_target() -> AptTarget:
    raise BuildFailed("no packages in this test")


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "cache")


@pytest.fixture
def context(tmp_path: Path, cache: Cache) -> Context:
    folder = tmp_path / "release"
    folder.mkdir()
    packages = TargetPackages(cache, _no_target)
    return Context(cache, folder, "amd64", packages, Reach(patience_seconds=1.0))


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as found:
        yield found
