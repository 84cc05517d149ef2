"""Archives of modules are kept from play to play, where no other user can write."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.contract import tree
from tests.contract.test_talking_hosts import WELL

PLUGIN = tree.ROOT / "playbooks" / "callback_plugins" / "prepared_workers.py"
PLAY = """
- name: One module
  hosts: all
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.stat: {path: "{{ '/' | trim }}"}
"""


@pytest.fixture(scope="module")
def plugin() -> ModuleType:
    spec = importlib.util.spec_from_file_location("prepared_workers", PLUGIN)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _play(folder: Path, *words: str) -> str:
    (folder / "play.yml").write_text(PLAY)
    ssh = folder / "ssh"
    ssh.write_text(WELL)
    ssh.chmod(0o755)
    host = {
        "ansible_ssh_executable": str(ssh), "ansible_python_interpreter": sys.executable,
        "ansible_remote_tmp": str(folder / "tmp"),
    }  # fmt: skip
    (folder / "hosts.yml").write_text(json.dumps({"all": {"hosts": {"n1": host}}}))
    own = {key: value for key, value in os.environ.items() if not key.startswith("ANSIBLE_")}
    program = Path(sys.executable).with_name("ansible-playbook")
    return subprocess.run(
        [program, *words, "-i", folder / "hosts.yml", folder / "play.yml"],
        cwd=folder,
        env={
            **own,
            "LC_ALL": "C.UTF-8",
            "ANSIBLE_CONFIG": str(tree.ROOT / "playbooks" / "ansible.cfg"),
            "ANSIBLE_HOME": str(folder / "ansible"),
            "APPLIANCE_CACHE": str(folder / "cache"),
        },
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True,
    ).stdout  # fmt: skip


def test_the_next_play_finds_the_archives_of_the_last(tmp_path: Path) -> None:
    _play(tmp_path)
    (kept,) = (tmp_path / "cache" / "modules").glob("*/*stat*none")
    before = kept.stat()
    _play(tmp_path)
    assert kept.stat().st_mtime_ns == before.st_mtime_ns
    # One that can not be read shows that the next play does use it.
    kept.write_bytes(b"no pickle")
    with pytest.raises(subprocess.CalledProcessError):
        _play(tmp_path)


@pytest.mark.parametrize("mode", [0o770, 0o755])
def test_a_cache_that_others_reach_is_not_used(
    plugin: ModuleType, tmp_path: Path, mode: int
) -> None:
    (tmp_path / "cache" / "modules").mkdir(parents=True)
    (tmp_path / "cache" / "modules").chmod(mode)
    plugin.keep_archives(tmp_path, tmp_path / "cache")
    assert not (tmp_path / "ansiballz_cache").is_symlink()
    (tmp_path / "cache" / "modules").chmod(0o700)
    plugin.keep_archives(tmp_path, tmp_path / "cache")
    assert (tmp_path / "ansiballz_cache").is_symlink()


def test_archives_are_apart_for_each_state_of_the_sources(
    plugin: ModuleType, tmp_path: Path
) -> None:
    source = tmp_path / "x.py"
    source.write_text("a = 1\n")
    before = plugin.digest_of([source])
    assert plugin.digest_of([source]) == before
    source.write_text("a = 22\n")
    assert plugin.digest_of([source]) != before


def test_archives_that_no_play_used_for_a_week_go(plugin: ModuleType, tmp_path: Path) -> None:
    top = tmp_path / "cache" / "modules"
    for name, days in (("old", 8), ("recent", 6), ("of_a_clock_ahead", -30)):
        (top / name).mkdir(mode=0o700, parents=True)
        (top / name / "archive").touch()
        then = time.time() - days * 86400
        os.utime(top / name, (then, then))
    top.chmod(0o700)
    plugin.keep_archives(tmp_path, tmp_path / "cache")
    assert not (top / "old").exists()
    assert not (top / "of_a_clock_ahead").exists()
    (link,) = tmp_path.glob("ansiballz_cache")
    assert link.resolve().is_dir(), "the folder in use stays"
    assert (top / "recent" / "archive").exists()
    assert len(list(top.iterdir())) == 2


def test_every_module_and_utility_is_such_a_source(plugin: ModuleType) -> None:
    found = {path.relative_to(tree.ROOT) for path in plugin.sources()}
    assert found == {
        path
        for path in tree.under("roles", "playbooks")
        if path.suffix == ".py" and path.parent.name in {"library", "module_utils"}
    }
