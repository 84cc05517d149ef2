"""Load modules that run on nodes as Ansible does: by file, with our module_utils in its own."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[3]
UTILS = ROOT / "playbooks" / "module_utils"


def load(name: str, *, role: str | None = None) -> ModuleType:
    """Return a module of playbooks/library, or of a role's library."""
    folder = ROOT / "roles" / role / "library" if role else ROOT / "playbooks" / "library"
    if role:
        _join(ROOT / "roles" / role / "module_utils")
    return from_file(f"node_module_{name}", folder / f"{name}.py")


def load_utils(name: str) -> ModuleType:
    """Return one of our module_utils."""
    return from_file(name, UTILS / f"{name}.py")


def _join(folder: Path) -> None:
    """Let a folder's modules be found in the package that Ansible puts them in."""
    package = importlib.import_module("ansible.module_utils")
    if str(folder) not in package.__path__:
        package.__path__.append(str(folder))


def from_file(name: str, path: Path) -> ModuleType:
    """Return the module in a file."""
    _join(UTILS)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
