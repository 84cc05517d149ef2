"""This tool replaces itself: real wheels, real environments, real kills, and no network.

The new wheel is that of the tree, and the old one is the same with an older version. Both find what
they need in the environment of this test: in the bundle, each of these projects is a wheel of its
name and version without files. ``test_wheel_closure`` installs the real ones.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
import venv
import zipfile
from importlib import metadata
from io import BytesIO
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from appliance import __version__
from appliance.adapters.bundle.signature import SshSigner
from appliance.builder.sources import wheels
from tests.prerequisites import require
from tests.site_cases import copy_of_good
from tests.unit.bundle.signing import allow, make_key
from tests.unit.tool.machine import tool_bundle

OLD = "0.0.9"
# Lets an environment find what is installed in this one.
LINK, HERE = "needed.pth", f"{sysconfig.get_path('purelib')}\n"


class Host:
    """An admin host with ``tool``, made by the page, and a signed bundle with this tree."""

    def __init__(self, folder: Path, wheel: Path, needed: dict[str, bytes]) -> None:
        require("unshare")
        self.home = folder / "home"
        self.home.mkdir()
        self.tool = self.home / "tool"
        venv.create(self.tool, with_pip=True)
        (packages,) = self.tool.glob("lib/*/site-packages")
        (packages / LINK).write_text(HERE)
        older = older_wheel(wheel, folder)
        self.call(self.tool / "bin/pip", "install", "--no-index", "--no-deps", older)
        self.bundle = tool_bundle(folder / "bundle", {wheel.name: wheel.read_bytes(), **needed})
        key = make_key(folder, "ada")
        self.signers = allow(folder / "allowed_signers", ada=key)
        SshSigner(self.bundle, key).sign()
        self.site = copy_of_good(self.home / "rack7")

    @property
    def launcher(self) -> Path:
        return self.tool / "bin/appliance"

    def argv(self, *words: str | Path) -> list[str | Path]:
        return ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", *words]

    def environment(self) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
        return {**kept, "PIP_CONFIG_FILE": os.devnull, "HOME": str(self.home)}

    def call(self, *words: str | Path) -> str:
        done = subprocess.run(
            self.argv(*words), cwd="/", env=self.environment(), capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def upgrade(self) -> list[str | Path]:
        return [self.launcher, "self", "upgrade", "--bundle", self.bundle, "--unsigned", "--yes",
                "--allowed-signers", self.signers, "--site", self.site]  # fmt: skip

    def version(self) -> str:
        found = re.match(r"appliance, version (\S+)\n", self.call(self.launcher, "--version"))
        assert found is not None
        return found[1]


def older_wheel(wheel: Path, folder: Path) -> Path:
    """The same wheel with an older version."""
    path = folder / wheel.name.replace(__version__, OLD)
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(path, "w") as made:
        for item in given.infolist():
            data = given.read(item)
            if item.filename.endswith((".dist-info/METADATA", "appliance/__init__.py")):
                data = data.replace(__version__.encode(), OLD.encode())
            if item.filename.endswith(".dist-info/RECORD"):
                data = b""
            made.writestr(item.filename.replace(__version__, OLD), data)
    return path


def needed() -> dict[str, bytes]:
    """Wheels that stand for what this tool needs, directly or not: file name -> content."""
    seen, todo = {"appliance": ""}, ["appliance"]
    while todo:
        for text in metadata.distribution(todo.pop()).requires or ():
            need = Requirement(text)
            name = canonicalize_name(need.name)
            if name not in seen and not (need.marker and not need.marker.evaluate({"extra": ""})):
                seen[name] = metadata.version(name)
                todo.append(name)
    del seen["appliance"]
    return {
        f"{name.replace('-', '_')}-{version}-py3-none-any.whl": _empty(name, version)
        for name, version in seen.items()
    }


def _empty(name: str, version: str) -> bytes:
    home = f"{name.replace('-', '_')}-{version}.dist-info"
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        if name == "click":
            archive.writestr(LINK, HERE)
        said = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{home}/METADATA", said)
        tag = "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{home}/WHEEL", tag)
        archive.writestr(f"{home}/RECORD", "")
    return buffer.getvalue()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    folder = tmp_path_factory.mktemp("admin-host")
    return Host(folder, wheels.write_own_wheel(folder / "own"), needed())


def test_the_tool_replaces_itself_killed_or_not_and_goes_back(host: Host) -> None:
    assert host.version() == OLD
    plan = host.call(*host.upgrade(), "--dry-run")
    assert "signature: good, by ada@example" in plan
    assert not list(host.home.glob("*tool-*"))

    _kill_while_pip_installs(host)
    assert host.version() == OLD, "what was killed is not typed"

    said = host.call(*host.upgrade())
    assert f"in use:   appliance {__version__}, {host.launcher}\n" in said
    assert host.version() == __version__
    assert (host.tool / f"bin/appliance-{OLD}").is_file()
    new = host.home / f"tool-{__version__}"
    assert host.launcher.resolve() == new / "bin/appliance"
    assert not list(new.glob("wheels*")), "the copies are gone"
    assert "nothing to do" in host.call(*host.upgrade())

    assert f"appliance {OLD}" in host.call(host.launcher, "self", "upgrade", "--back", "--yes")
    assert host.version() == OLD
    assert "in use:" in host.call(*host.upgrade()), "it is whole already: only the link is changed"
    assert host.version() == __version__
    assert "no fault" in host.call(host.launcher, "site", "check", "--site", host.site)


def _kill_while_pip_installs(host: Host) -> None:
    running = subprocess.Popen(
        host.argv(*host.upgrade()), cwd="/", env=host.environment(), start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    pattern = f"tool-{__version__}/lib/*/site-packages/click-*"
    deadline = time.monotonic() + 120
    while not list(host.home.glob(pattern)) and time.monotonic() < deadline:
        assert running.poll() is None, "the upgrade ended before it could be killed"
        time.sleep(0.05)
    assert list(host.home.glob(pattern)), "pip was at work"
    children = _children(running.pid)
    os.kill(running.pid, signal.SIGKILL)
    for child in children:
        os.kill(child, signal.SIGKILL)
    running.wait()
    assert (host.home / f"tool-{__version__}").is_dir(), "a half environment is there"


def _children(pid: int) -> list[int]:
    """The processes below one, that would go on after it."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    parents = {int(line.split()[0]): int(line.split()[1]) for line in listed.splitlines()}
    found = [pid]
    for one in found:
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def test_a_source_tree_is_told_how_it_is_brought_up_to_date(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "appliance"
    done = subprocess.run(
        [program, "self", "upgrade", "--bundle", tool_bundle(tmp_path / "b", {}), "--yes"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "runs from the source tree" in done.stderr
    assert "hint: git -C " in done.stderr
