"""What runs on nodes is run by Python 3.8, the one of Ubuntu 20.04."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.executor import module_common
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.loader import init_plugin_loader, module_utils_loader
from ansible.template import Templar
from ansible.utils.collection_loader import AnsibleCollectionConfig

from appliance.adapters.ssh.probing.archive import probe_archive
from tests.contract.test_nodes_code import MODULES, ON_THE_CONTROL_HOST, SERVER
from tests.contract.tree import ROOT
from tests.oldest_python import require_oldest_python
from tests.prerequisites import require
from tests.unit.probe import recorded

MACHINES = sorted(path.parent.name for path in recorded.DATA.glob("*/outputs"))
LIBRARY = [
    path
    for path in MODULES
    if "library" in path.parts and not str(path).startswith(ON_THE_CONTROL_HOST)
]


@pytest.fixture(scope="module")
def python() -> Path:
    return require_oldest_python()


def _look(python: Path | str, archive: Path, folder: Path) -> dict[str, Any]:
    words = [python, "-I", archive, "--root", folder / "root", "--outputs", folder / "outputs"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


@pytest.mark.parametrize("machine", MACHINES)
def test_the_probe_says_the_same_by_python_3_8(python: Path, machine: str, tmp_path: Path) -> None:
    recorded.machine({"machine": machine}, tmp_path / machine)
    archive = tmp_path / "probe.pyz"
    archive.write_bytes(probe_archive())
    said = [_look(each, archive, tmp_path / machine) for each in (python, sys.executable)]
    for document in said:
        assert document.pop("took_seconds") > 0
    assert said[0] == said[1]
    assert said[0]["os"]["pretty"].startswith("Debian GNU/Linux 12")


def _module(path: Path, python: Path, params: dict[str, Any]) -> bytes:
    """A module as Ansible sends it to a node."""
    if AnsibleCollectionConfig.collection_finder is None:
        init_plugin_loader([])
    module_utils_loader.add_directory(str(ROOT / "playbooks/module_utils"))
    if (ROOT / path.parents[1] / "module_utils").is_dir():
        module_utils_loader.add_directory(str(ROOT / path.parents[1] / "module_utils"))
    built = module_common.modify_module(
        module_name=path.stem, module_path=str(ROOT / path), module_args=params,
        templar=Templar(DataLoader()), task_vars={"ansible_python_interpreter": str(python)},
    )  # fmt: skip
    return bytes(built.b_module_data)


def _run(python: Path, module: bytes) -> dict[str, Any]:
    done = subprocess.run([python, "-"], input=module, capture_output=True, check=False, timeout=60)
    assert done.stdout, done.stderr.decode()
    result: dict[str, Any] = json.loads(done.stdout)
    assert "Traceback" not in done.stderr.decode()
    return result


@pytest.mark.parametrize("path", LIBRARY, ids=lambda path: path.stem)
def test_every_module_is_loaded_and_reads_its_arguments_by_python_3_8(
    python: Path, path: Path
) -> None:
    """It does nothing: an argument that it does not have ends it before it begins."""
    result = _run(python, _module(path, python, {"no_such_argument": 1}))
    assert result["failed"]
    assert "no_such_argument" in result["msg"] or "missing required arguments" in result["msg"]


def test_every_file_that_nodes_are_sent_compiles_by_python_3_8(python: Path) -> None:
    files = [ROOT / path for path in [*MODULES, *SERVER]]
    program = "import sys\nfor p in sys.argv[1:]: compile(open(p).read(), p, 'exec')"
    done = subprocess.run(
        [python, "-I", "-W", "error", "-c", program, *files],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_a_module_does_its_work_by_python_3_8(python: Path, tmp_path: Path) -> None:
    (path,) = (one for one in LIBRARY if one.stem == "text_files")
    written = tmp_path / "written"
    module = _module(path, python, {"files": [{"path": str(written), "content": "a line"}]})
    assert _run(python, module)["changed"]
    assert written.read_text().strip() == "a line"
    assert not _run(python, module)["changed"]


def test_a_key_and_its_request_are_made_by_python_3_8(python: Path, tmp_path: Path) -> None:
    require("openssl")
    (path,) = (one for one in LIBRARY if one.stem == "certificate_request")
    key = tmp_path / "tls" / "server"
    params = {"path": str(key), "names": ["a.test"], "authority": "an authority"}
    result = _run(python, _module(path, python, params))
    assert "BEGIN CERTIFICATE REQUEST" in json.dumps(result)
