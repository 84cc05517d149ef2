"""Makes a recorded machine with a few things changed, and looks at it with the probe."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from appliance.probe.collect import collect
from appliance.probe.source import Machine, Request, Source

DATA = Path(__file__).parents[2] / "data" / "probe"


def machine(case: dict[str, Any], folder: Path) -> tuple[Path, Path]:
    """Lay a case's files, links and outputs over the recorded machine; return root, outputs."""
    shutil.copytree(DATA / case["machine"], folder, symlinks=True, dirs_exist_ok=True)
    root, outputs = folder / "root", folder / "outputs"
    for name, text in case.get("files", {}).items():
        _put(root / name.lstrip("/"), text)
    for name, text in case.get("outputs", {}).items():
        _put(outputs / name, text)
    for name, target in case.get("links", {}).items():
        path = root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
    return root, outputs


def _put(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
        while not any(path.parent.iterdir()):
            path.parent.rmdir()
            path = path.parent
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def look(root: Path, outputs: Path | None, **request: Any) -> dict[str, Any]:
    """The probe's document of a recorded machine."""
    return collect(Source(Machine(root, outputs, Request(**request)), "probe"))


def at(document: Any, path: str) -> Any:
    """The value at a path with slashes; figures are positions in lists."""
    for key in path.split("/") if path else ():
        document = document[int(key)] if isinstance(document, list) else document[key]
    return document
