"""Layers, and what a quick answer must not load."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

from tests.contract import tree

FORBIDDEN_IN_HELP = {"kubernetes", "paramiko", "sushy", "ansible_runner"}


def _loaded_by(*arguments: str) -> set[str]:
    """Top-level modules that a command line has loaded when it ends, asked of itself."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: print(chr(10).join(m for m in sys.modules if '.' not in m),"
        " file=sys.stderr))\n"
        "from appliance.cli.exits import main\n"
        f"sys.argv = ['appliance', *{list(arguments)!r}]\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tree.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr.partition("\nsys\n")[0]
    assert done.stdout.startswith("Usage:") or "version" in done.stdout, done.stdout
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("install", "--help")])
def test_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    loaded = _loaded_by(*arguments)
    assert "click" in loaded, "the premise: the modules are seen"
    assert loaded & FORBIDDEN_IN_HELP == set()


def test_the_layers_hold() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [lint, "--no-cache"], cwd=tree.ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(tree.read(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add((node.module or "").split(".")[0])
    return names


def test_ansible_is_never_imported_into_our_process() -> None:
    ours = [path for path in tree.under("appliance") if path.suffix == ".py"]
    assert [str(path) for path in ours if "ansible" in _imported(path)] == []


def _prints(path: Path) -> bool:
    calls = (node for node in ast.walk(ast.parse(tree.read(path))) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "print" for call in calls)


def test_only_the_command_line_prints() -> None:
    folders = (
        "appliance/model",
        "appliance/workflows",
        "appliance/adapters",
        "appliance/builder",
        "appliance/lab",
    )
    core = [
        path
        for path in tree.under(*folders)
        if path.suffix == ".py" and not path.is_relative_to("appliance/lab/standins")
    ]
    assert [str(path) for path in core if _prints(path)] == []


IMPURE = {"time", "random", "secrets", "socket", "shutil", "tempfile", "os", "subprocess"}
IMPURE_CALLS = {"now", "today", "utcnow", "read_text", "write_text", "read_bytes", "open"}


def test_the_model_reads_no_clock_no_chance_and_no_file() -> None:
    wrong = []
    for path in tree.under("appliance/model"):
        if path.suffix != ".py":
            continue
        wrong += [f"{path}: import {name}" for name in sorted(_imported(path) & IMPURE)]
        wrong += [
            f"{path}:{node.lineno}: {node.attr}"
            for node in ast.walk(ast.parse(tree.read(path)))
            if isinstance(node, ast.Attribute) and node.attr in IMPURE_CALLS
        ]
    assert wrong == []


def _client_classes(path: Path, function: str | None = None) -> set[str]:
    """What a file, or one function of it, takes from the Kubernetes client."""
    tree_of = ast.parse(tree.read(path))
    found = [
        node
        for node in ast.walk(tree_of)
        if function is None or (isinstance(node, ast.FunctionDef) and node.name == function)
    ]
    return {
        alias.name
        for part in found
        for node in ast.walk(part)
        if isinstance(node, ast.ImportFrom) and node.module == "kubernetes.client"
        for alias in node.names
    }


def test_what_reads_the_cluster_is_loaded_beforehand() -> None:
    adapters = tree.ROOT / "appliance/adapters/kubernetes"
    loaded = _client_classes(adapters / "api.py", "load_library")
    parts = (
        "api",
        "connection/client",
        "gpu",
        "nodes/roles",
        "releases",
        "storage",
        "prerequisites",
    )
    used = set().union(*(_client_classes(adapters / f"{part}.py") for part in parts))
    assert loaded >= used - {"ApiException"}
    assert len(used) > 5, "the premise: they are seen"


def _circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Modules that import each other, directly or through others."""
    ours = sorted(module for module in graph.modules if module.startswith("appliance"))
    found: set[frozenset[str]] = set()
    for module in ours:
        below = graph.find_upstream_modules(module)
        circle = {other for other in below if module in graph.find_upstream_modules(other)}
        if circle:
            found.add(frozenset(circle | {module}))
    return sorted(sorted(circle) for circle in found)


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("appliance", exclude_type_checking_imports=False, cache_dir=None)
    assert graph.find_modules_directly_imported_by("appliance.cli.app"), "the premise"
    assert _circles(graph) == []
