"""An environment without pip, as uv makes them, is told as that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from appliance.builder.sources import wheels
from appliance.errors import BuildFailed


def test_an_environment_without_pip_is_reported_with_what_brings_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"],
        check=True,
        capture_output=True,
    )
    bare = str(tmp_path / "bare/bin/python")
    monkeypatch.setattr(sys, "executable", bare)
    with pytest.raises(BuildFailed, match="has no pip") as told:
        wheels._pip("download", "--dest", tmp_path, "appliance")
    assert f"{bare} -m ensurepip" in (told.value.hint or "")
