"""What the role places on a node is all that its programs import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.oldest_python import oldest_python
from tests.unit.modules.loading import ROOT

MODULES = yaml.safe_load((ROOT / "roles/node_timers/vars/main.yml").read_text())[
    "__node_timers_modules"
]
START = "import sys; sys.path.insert(0, sys.argv[1]); from ansible.module_utils import {}"


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules as on a node, with none of Ansible's own."""
    folder = tmp_path_factory.mktemp("programs")
    package = folder / "ansible/module_utils"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("\n")
    (package / "__init__.py").write_text("\n")
    for name in MODULES:
        file = ROOT / f"{name}.py"
        (package / file.name).write_text(file.read_text())
    return folder


@pytest.mark.parametrize("name", ["backup", "certificates"])
def test_a_program_finds_every_module_that_it_needs(name: str, programs: Path) -> None:
    python = oldest_python() or sys.executable
    script = START.format(f"appliance_timer_{name}")
    done = subprocess.run(
        [str(python), "-I", "-B", "-c", script, str(programs)],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
