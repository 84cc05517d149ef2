"""Too little space is known before anything is fetched."""

from __future__ import annotations

import shutil
from collections import namedtuple
from pathlib import Path

import pytest

from appliance.adapters.local.cache import Cache
from appliance.builder.space import require_space
from appliance.builder.writer import BundleWriter
from appliance.errors import BundleRefused

Usage = namedtuple("Usage", ["total", "used", "free"])


def full(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: Usage(10**12, 0, free))


def test_a_full_disk_is_refused_with_both_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full(monkeypatch, 400_000_000)
    with pytest.raises(BundleRefused) as refused:
        require_space(tmp_path / "usb" / "bundle", 2_500_000_000, "a bundle")
    assert refused.value.message == (
        f"{tmp_path / 'usb' / 'bundle'} has 0.4 GB free, and a bundle needs 2.5 GB at least"
    )
    assert f"df -h {tmp_path}" in (refused.value.hint or "")
    assert refused.value.exit_code == 3
    require_space(tmp_path, 400_000_000, "a bundle")


def test_a_new_bundle_on_a_full_medium_is_refused_and_an_unfinished_one_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = Cache(tmp_path / "cache")
    full(monkeypatch, 5_000_000)
    with pytest.raises(BundleRefused, match="a bundle needs"):
        BundleWriter(tmp_path / "bundle", cache).check("r1", "debian-12")
    assert not (tmp_path / "bundle").exists()
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / ".building").write_text("")
    BundleWriter(tmp_path / "bundle", cache).check("r1", "debian-12")
