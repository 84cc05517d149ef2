"""The controller image and the wheels, of real packages, tried in roots without a network."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from appliance import __version__
from appliance.adapters.local.cache import Cache
from appliance.adapters.local.content import RELEASES, load_release
from appliance.builder.fetch import Sources
from appliance.builder.sources.apt.packages import TargetPackages
from appliance.builder.sources.apt.sources import host_target, running_system
from appliance.builder.sources.oci.compose import package_layer
from appliance.builder.sources.reach import Reach
from appliance.builder.sources.source import Context
from appliance.builder.wheel_needs import requirements
from appliance.model.bundle.release.release import Release
from appliance.model.programs import Use, used_by
from tests.archives import extract
from tests.integration.bundle.roots import inside, unpack
from tests.this_run import RELEASE

pytestmark = pytest.mark.bundle

PLAY = """
- hosts: localhost
  connection: local
  gather_facts: true
  tasks:
    - ansible.builtin.copy: {content: played, dest: /tmp/played, mode: "0644"}
    - ansible.builtin.command: cat /tmp/played
"""


@pytest.fixture(scope="module")
def release() -> Release:
    return load_release(RELEASE)


@pytest.fixture(scope="module")
def image(release: Release, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of the image, unpacked as docker does it."""
    (artifact,) = (a for a in release.artifacts if a.kind == "controller")
    (spec,) = release.controllers_on("ubuntu-20.04")
    assert running_system() == spec.system, "the premise: this machine's own archives bring it"
    cache = Cache()
    sources = Sources(release, "ubuntu-20.04", cache, folder=RELEASES / RELEASE)
    fetched = sources.fetch(artifact, spec, {})
    assert (fetched.kind, fetched.verified) == ("controller", "inputs")
    folder, root = (tmp_path_factory.mktemp(name) for name in ("layers", "image"))
    with tarfile.open(cache.path(fetched.file.sha256)) as saved:
        member = saved.extractfile("manifest.json")
        assert member is not None
        (described,) = json.load(member)
        assert described["RepoTags"] == [f"appliance-controller:{__version__}"]
        extract(saved, folder)
    unpack([folder / name for name in described["Layers"]], root)
    (root / "home/engineer/play.yml").write_text(PLAY)
    return root


def test_the_tool_and_every_program_that_changes_of_nodes_start_are_in_the_image(
    image: Path,
) -> None:
    names = {row.name for row in used_by([Use.PLAYS, Use.BRING, Use.SIGN])}
    assert names >= {"ssh", "rsync", "ssh-keygen"}
    for name in ("appliance", "ansible-playbook", "ansible-vault", "sh", *names):
        done = inside(image, "sh", "-c", f"command -v {name}")
        assert done.returncode == 0, name


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["appliance", "--help"], "Usage: appliance"),
        (["appliance", "hardware", "list"], "quanta"),
        (["ssh", "-V"], "OpenSSH_9"),
        (["rsync", "--version"], "rsync  version"),
        (["sh", "-c", "nano --version && ls /lib/terminfo/x/xterm"], "GNU nano"),
        (["python3", "-c", "import paramiko, kubernetes, sushy; print('imported')"], "imported"),
        (["ansible-playbook", "-i", "localhost,", "/home/engineer/play.yml"], "failed=0"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)  # fmt: skip
def test_it_starts_as_an_ordinary_user_without_a_network(
    image: Path, argv: list[str], words: str
) -> None:
    done = inside(image, *argv)
    assert done.returncode == 0, done.stdout + done.stderr
    assert words in done.stdout + done.stderr


def test_pip_installs_the_wheels_in_a_root_with_python_3_11_and_nothing_of_ours(
    release: Release, tmp_path: Path
) -> None:
    """The root has Debian's python3 and python3-venv: what an offline admin host has."""
    (spec,) = release.controllers_on("ubuntu-20.04")
    packages = (*spec.packages, "python3-venv")
    cache, system = Cache(), spec.system
    resolved = TargetPackages(cache, lambda: host_target(system, release.architecture))
    context = Context(cache, tmp_path, release.architecture, resolved, Reach())
    layer = package_layer(spec.model_copy(update={"packages": packages}), context)
    root = tmp_path / "root"
    root.mkdir()
    unpack([cache.path(layer.sha256)], root)
    sources = Sources(release, "ubuntu-20.04", cache, folder=RELEASES / RELEASE)
    files = sources.wheels().files
    (root / "wheels").mkdir()
    for file in files:
        shutil.copyfile(cache.path(file.sha256), root / file.path)
    pins = requirements({Path(file.path).name: file.sha256 for file in files})
    (root / "wheels/requirements.txt").write_text(pins)
    install = (
        "cd && python3 -m venv tool && tool/bin/pip install --no-index --require-hashes "
        "--find-links /wheels -r /wheels/requirements.txt && tool/bin/pip check && "
        "tool/bin/python --version && tool/bin/appliance --help"
    )
    done = inside(root, "sh", "-c", install)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Python {spec.python}." in done.stdout
    assert "Usage: appliance" in done.stdout
