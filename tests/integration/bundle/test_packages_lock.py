"""Two builds on one machine share apt's folders: one waits for the other."""

from __future__ import annotations

import threading

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.errors import BuildFailed
from tests.integration.bundle.conftest import _no_target


def test_a_build_waits_while_another_uses_apt(cache: Cache) -> None:
    asked = threading.Event()

    def ask() -> None:
        with pytest.raises(BuildFailed, match="no packages in this test"):
            TargetPackages(cache, _no_target).closure(("a",), essential=False)
        asked.set()

    other = threading.Thread(target=ask)
    with Cache(cache.root).alone("apt"):
        other.start()
        assert not asked.wait(0.3)
    assert asked.wait(10)
    other.join()
