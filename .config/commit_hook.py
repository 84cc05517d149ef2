"""Writes the commit of the source tree into a wheel, so that ``appliance --version`` names it."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

INSIDE = "appliance/_content/commit"


class CommitHook(BuildHookInterface):
    """Adds one file, if git says a commit; a tree without git gives a wheel without it."""

    _folder: tempfile.TemporaryDirectory[str] | None = None

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file and add it to the wheel."""
        commit = "" if version == "editable" else commit_of(Path(self.root))
        if commit:
            self._folder = tempfile.TemporaryDirectory(prefix="appliance-commit-")
            file = Path(self._folder.name) / "commit"
            file.write_text(f"{commit}\n", encoding="ascii")
            build_data["force_include"][str(file)] = INSIDE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the file: it is in the wheel."""
        if self._folder is not None:
            self._folder.cleanup()


def commit_of(tree: Path) -> str:
    """The commit that is checked out in the tree itself, not in a folder above it; else empty."""
    if not (tree / ".git").exists():
        return ""
    argv = ["git", "-C", str(tree), "rev-parse", "HEAD"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
