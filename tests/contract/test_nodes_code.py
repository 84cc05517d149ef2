"""What runs on a node: Python 3.8, the standard library, no import from the package."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.contract import tree

PROBE = [path for path in tree.under("appliance/probe") if path.suffix == ".py"]
INSTALLER = [path for path in tree.under("appliance/installer") if path.suffix == ".py"]
MODULES = [
    path
    for path in tree.under("roles", "playbooks")
    if path.suffix == ".py" and {"library", "module_utils"} & set(path.parts)
]
SERVER = [path for path in tree.under("playbooks/module_server") if path.suffix == ".py"]
# These run on the control host: in the lab's role on localhost, and where certificates are signed.
ON_THE_CONTROL_HOST = ("roles/lab_node/", "roles/site_certificate/library/certificate_sign.py")


def _imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(tree.read(path))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module or "")
    return names


def _on_nodes() -> list[Path]:
    return [path for path in MODULES if not str(path).startswith(ON_THE_CONTROL_HOST)]


def test_what_runs_on_a_node_is_python_3_8() -> None:
    assert PROBE
    assert SERVER
    vermin = Path(sys.executable).with_name("vermin")
    done = subprocess.run(
        [vermin, "--no-tips", "--violations", "-t=3.8-", "--eval-annotations",
         *PROBE, *INSTALLER, *SERVER, *_on_nodes()],
        cwd=tree.ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", INSTALLER, ids=str)
def test_a_program_of_an_installer_imports_the_standard_library_alone(path: Path) -> None:
    assert {name.split(".")[0] for name in _imports(path)} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", PROBE, ids=str)
def test_the_probe_imports_the_standard_library_and_itself_alone(path: Path) -> None:
    foreign = {
        name
        for name in _imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names and name.split(".")[0] != "probe"
    }
    # In the source tree the probe's modules call each other by the package's name at most.
    assert {name for name in foreign if not name.startswith("appliance.probe")} == set()


@pytest.mark.parametrize("path", [*SERVER, *_on_nodes()], ids=str)
def test_a_module_imports_the_standard_library_and_ansibles_utilities_alone(path: Path) -> None:
    foreign = {
        name
        for name in _imports(path)
        if name.split(".")[0] not in sys.stdlib_module_names
        and not name.startswith("ansible.module_utils")
    }
    assert foreign == set()


@pytest.mark.parametrize("path", [path for path in MODULES if "library" in path.parts], ids=str)
def test_a_module_is_documented_and_knows_check_mode(path: Path) -> None:
    text = tree.read(path)
    assert "DOCUMENTATION" in text
    assert "supports_check_mode=True" in text.replace(" ", "")


def test_every_own_module_is_known_to_the_linter_and_named_once() -> None:
    names = [path.stem for path in MODULES if "library" in path.parts]
    assert len(names) == len(set(names))
    config = tree.load(Path(".config/ansible-lint.yml"))
    assert sorted(config.get("only_builtins_allow_modules") or []) == sorted(names)
