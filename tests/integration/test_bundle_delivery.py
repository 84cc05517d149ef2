"""The role's own tasks bring bundles and deltas to a node: with real Ansible, rsync and links.

The node is a folder of this machine, and ssh is a script that runs the words of the far side here.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.local.cache import Cache
from appliance.model.bundle.carry.have import HaveList
from tests.prerequisites import require
from tests.unit.bundle.test_bundle_directory import Maker, contents
from tests.unit.bundle.test_delta import Deltas

ROOT = Path(__file__).resolve().parents[2]
SSH = '#!/bin/sh\nwhile [ "$1" != node ]; do shift; done\nshift\nexec sh -c "$*"\n'
PLAY = [
    {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Bring the bundle",
                "ansible.builtin.include_role": {
                    "name": "artifact_server",
                    "tasks_from": "{{ entry }}",
                    "rolespec_validate": False,
                },
            }
        ],
    }
]


class Node:
    """A services node in a folder, and the control host that plays against it."""

    def __init__(self, folder: Path) -> None:
        require("rsync")
        self.folder = folder
        self.state = folder / "node"
        self.state.mkdir()
        (folder / "ssh").write_text(SSH)
        (folder / "ssh").chmod(0o755)
        (folder / "hosts.yml").write_text("all: {hosts: {localhost: {}}}\n")
        (folder / "play.yml").write_text(yaml.safe_dump(PLAY))

    @property
    def current(self) -> Path:
        return self.state / "bundle"

    def play(self, entry: str, *more: str, **variables: Any) -> tuple[int, list[str]]:
        """Run tasks of the role; return the exit code and the lines of its output."""
        given = {
            "entry": entry,
            "__artifact_server_dir": str(self.current),
            "__artifact_server_store": str(self.state / "bundles"),
            "__artifact_server_marker": str(self.state / "bundle.verified"),
            "__artifact_server_ssh": str(self.folder / "ssh"),
            "__artifact_server_login": "node",
            "ansible_become": False,
            "ansible_python_interpreter": sys.executable,
            **variables,
        }
        words = [str(Path(sys.executable).with_name("ansible-playbook")), *more]
        words += [
            "-i",
            str(self.folder / "hosts.yml"),
            "-e",
            json.dumps(given),
            str(self.folder / "play.yml"),
        ]
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "playbooks/ansible.cfg"),
            "ANSIBLE_NOCOLOR": "1",
        }
        done = subprocess.run(
            words, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        return done.returncode, (done.stdout + done.stderr).splitlines()

    def bring(self, maker: Maker, *more: str) -> tuple[int, list[str]]:
        digest = BundleDirectory(maker.directory).digest
        return self.play(
            "bundle",
            *more,
            artifact_server_bundle_dir=str(maker.directory),
            artifact_server_bundle_digest=digest,
            artifact_server_signature="",
        )

    def served(self) -> str:
        return hashlib.sha256((self.current / "manifest.json").read_bytes()).hexdigest()


def changed(lines: list[str]) -> int:
    """How many tasks changed something, as the recap counts them."""
    recap = next(line for line in reversed(lines) if "changed=" in line)
    return int(recap.split("changed=")[1].split()[0])


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def base(tmp_path: Path) -> Maker:
    maker = Maker(Cache(tmp_path / "cache"), tmp_path / "base")
    maker.files = {"bin/same": b"same" * 1000}
    maker.make()
    return maker


@pytest.fixture
def delta(base: Maker, tmp_path: Path) -> Deltas:
    maker = Deltas(base.cache, tmp_path / "delta")
    maker.files, maker.tool = base.files, b"newer tool"
    found = BundleDirectory(base.directory)
    maker.without = HaveList.of(found.manifest, found.digest)
    maker.make()
    assert not (maker.directory / "bin/same").exists()
    return maker


def test_a_delta_completes_what_an_earlier_bundle_has_and_both_stay(
    node: Node, base: Maker, delta: Deltas
) -> None:
    code, lines = node.bring(base)
    assert code == 0, "\n".join(lines)
    assert contents(node.current) == contents(base.directory)
    code, lines = node.bring(base)
    assert (code, changed(lines)) == (0, 0), "\n".join(lines)
    code, lines = node.bring(delta, "--check")
    assert code == 0, "\n".join(lines)
    assert node.served() == BundleDirectory(base.directory).digest
    code, lines = node.bring(delta)
    assert code == 0, "\n".join(lines)
    assert node.served() == BundleDirectory(delta.directory).digest
    whole = Maker(delta.cache, node.folder / "whole")
    whole.files, whole.tool = delta.files, delta.tool
    whole.make()
    assert contents(node.current) == contents(whole.directory)
    earlier = node.state / "bundles" / BundleDirectory(base.directory).digest
    assert (earlier / "bin/same").samefile(node.current / "bin/same")
    assert (earlier / "bin/tool").read_bytes() == b"tool"
    # The way back needs no transfer, and no bundle on the control host.
    digest = BundleDirectory(base.directory).digest
    code, lines = node.play(
        "bundle", artifact_server_bundle_dir="", artifact_server_bundle_digest=digest,
        artifact_server_signature="",
    )  # fmt: skip
    assert (code, changed(lines)) == (0, 1), "\n".join(lines)
    assert node.served() == digest
    newer = BundleDirectory(delta.directory).digest
    assert node.play("remove", artifact_server_removed_digest=digest)[0] != 0
    assert node.play("remove", artifact_server_removed_digest=newer)[0] == 0
    assert not (node.state / "bundles" / newer).exists()
    assert contents(node.current) == contents(base.directory)


def test_a_delta_is_refused_by_the_names_of_what_the_node_lacks(
    node: Node, base: Maker, delta: Deltas
) -> None:
    assert node.bring(base)[0] == 0
    (node.current / "bin/same").write_bytes(b"damaged")
    code, lines = node.bring(delta)
    said = " ".join(lines)
    assert code != 0
    assert "files are not in" in said
    assert "bin/same" in said
    assert "appliance bundle have --site SITE" in said
    assert node.served() == BundleDirectory(base.directory).digest
    assert node.bring(base)[0] == 0
    assert node.bring(delta)[0] == 0


def test_a_site_of_the_previous_version_goes_on(node: Node, base: Maker, delta: Deltas) -> None:
    """One folder, a marker of one digest, a record beside it: as that version left it."""
    node.current.mkdir()
    for name, content in contents(base.directory).items():
        (node.current / name).parent.mkdir(parents=True, exist_ok=True)
        (node.current / name).write_bytes(content)
    digest = BundleDirectory(base.directory).digest
    (node.state / "bundle.verified").write_text(digest + "\n")
    code, lines = node.bring(delta)
    assert code == 0, "\n".join(lines)
    assert node.served() == BundleDirectory(delta.directory).digest
    assert contents(node.state / "bundles" / digest) == contents(base.directory)
    assert (node.state / "bundle.verified").read_text().split() == [digest, node.served()]
