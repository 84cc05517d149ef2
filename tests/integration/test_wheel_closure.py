"""The tool's own wheels install and run where there is no network at all."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from appliance.builder.sources import wheels
from appliance.builder.sources.wheels import Wheel, WheelTarget
from appliance.builder.wheel_needs import CARRIED, WheelSet, requirements
from appliance.errors import BuildFailed, BundleRefused
from tests.prerequisites import require

TREE = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def closure(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, tuple[Wheel, ...]]:
    folder = tmp_path_factory.mktemp("bundle") / "wheels"
    return folder, wheels.write_wheel_closure(folder)


@pytest.fixture(scope="module")
def offline(
    closure: tuple[Path, tuple[Wheel, ...]], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A fresh virtual environment, filled from the bundle's wheels behind a cut cable."""
    require("unshare")
    home = tmp_path_factory.mktemp("offline") / "venv"
    venv.create(home, with_pip=True)
    listed = home.parent / "requirements.txt"
    listed.write_text(requirements({wheel.filename: wheel.sha256 for wheel in closure[1]}))
    pip: list[str | Path] = [home / "bin/pip", "install", "--no-index", "--require-hashes"]
    pip += ["--find-links", closure[0], "-r", listed]
    done = without_network(pip)
    assert done.returncode == 0, done.stderr
    return home


def without_network(argv: list[str | Path]) -> subprocess.CompletedProcess[str]:
    """Run where no interface is up and no route leads anywhere; nothing of our index is known."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PIP_")}
    kept.pop("PYTHONPATH", None)
    return subprocess.run(
        ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--net", *argv],
        env={**kept, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )


def test_the_place_without_a_network_reaches_nothing() -> None:
    code = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=5)"
    done = without_network([sys.executable, "-c", code])
    assert "Network is unreachable" in done.stderr


def test_every_wheel_is_there_as_it_is_recorded(closure: tuple[Path, tuple[Wheel, ...]]) -> None:
    folder, recorded = closure
    assert {path.name for path in folder.iterdir()} == {wheel.filename for wheel in recorded}
    for wheel in recorded:
        content = (folder / wheel.filename).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (wheel.sha256, wheel.size)
    assert {"appliance", "ansible-core", "kubernetes", "paramiko", "pydantic"} <= {
        wheel.name for wheel in recorded
    }
    assert {wheel.name for wheel in recorded}.isdisjoint({"pytest", "mypy", "molecule"})


def test_the_closure_carries_the_versions_that_built_it(
    closure: tuple[Path, tuple[Wheel, ...]],
) -> None:
    for wheel in closure[1]:
        if wheel.name != "appliance":
            assert wheel.version == metadata.version(wheel.name), wheel.name


def test_our_own_wheel_carries_the_content_that_it_converges_with(
    closure: tuple[Path, tuple[Wheel, ...]],
) -> None:
    (own,) = (wheel for wheel in closure[1] if wheel.name == "appliance")
    with zipfile.ZipFile(closure[0] / own.filename) as archive:
        carried = set(archive.namelist())
    for folder in ("playbooks", "roles", "hardware", "inventories/example"):
        here = {f"appliance/_content/{name}" for name in _tracked(folder)}
        assert here, f"{folder} is empty"
        assert here <= carried, sorted(here - carried)[:5]
    assert not [name for name in carried if "__pycache__" in name or "/.appliance/" in name]


def test_our_own_wheel_names_the_commit_that_it_was_built_from(
    closure: tuple[Path, tuple[Wheel, ...]], offline: Path
) -> None:
    (own,) = (wheel for wheel in closure[1] if wheel.name == "appliance")
    with zipfile.ZipFile(closure[0] / own.filename) as archive:
        written = archive.read("appliance/_content/commit").decode().strip()
    argv = ["git", "rev-parse", "HEAD"]
    head = subprocess.run(argv, cwd=TREE, check=True, capture_output=True, text=True).stdout
    assert written == head.strip()
    done = without_network([offline / "bin/appliance", "--version"])
    assert f"commit:       {written}\n" in done.stdout


def _tracked(folder: str) -> list[str]:
    return subprocess.run(
        ["git", "ls-files", folder], cwd=TREE, check=True, capture_output=True, text=True
    ).stdout.splitlines()


def test_the_installed_tool_shows_its_help_without_a_network(offline: Path) -> None:
    done = without_network([offline / "bin/appliance", "--help"])
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: appliance")
    assert "install" in done.stdout


def test_the_offline_installation_is_whole(offline: Path) -> None:
    done = without_network([offline / "bin/pip", "check"])
    assert done.returncode == 0, done.stdout


def test_an_installed_tool_writes_its_own_wheel_again(
    offline: Path, closure: tuple[Path, tuple[Wheel, ...]], tmp_path: Path
) -> None:
    """A bundle is built by the installed tool too: there is no source tree then."""
    code = (
        "from pathlib import Path; from appliance.builder.sources import wheels; "
        f"assert wheels.checkout() is None; print(wheels.write_own_wheel(Path({str(tmp_path)!r})))"
    )
    done = without_network([offline / "bin/python", "-c", code])
    assert done.returncode == 0, done.stderr
    again = Path(done.stdout.strip())
    (own,) = (wheel for wheel in closure[1] if wheel.name == "appliance")
    assert again.name == own.filename
    assert _contents(again) == _contents(closure[0] / own.filename)
    argv: list[str | Path] = [offline / "bin/pip", "install", "--no-index", "--no-deps"]
    done = without_network([*argv, "--target", tmp_path / "site", again])
    assert done.returncode == 0, done.stderr


def _contents(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return {
            name: archive.read(name) for name in archive.namelist() if not name.endswith("RECORD")
        }


def test_wheels_of_an_earlier_build_do_not_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "wheels"
    folder.mkdir()
    (folder / "stale-1.0-py3-none-any.whl").write_bytes(b"old")
    (tmp_path / ".wheels-interrupted").mkdir()
    _point_pip_at(monkeypatch, _own_only(tmp_path))
    with pytest.raises(BuildFailed):
        wheels.write_wheel_closure(folder)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".wheels")] == []
    assert (folder / "stale-1.0-py3-none-any.whl").exists(), "a failed build takes nothing away"


def _own_only(tmp_path: Path) -> Path:
    empty = tmp_path / "index"
    empty.mkdir()
    return empty


def _point_pip_at(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))


def test_an_index_that_cannot_be_reached_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(BuildFailed, match="index cannot be reached") as caught:
        wheels.write_wheel_closure(tmp_path / "wheels")
    assert "127.0.0.1" in caught.value.message


def test_a_wheel_with_a_sites_state_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "appliance-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("appliance/_content/inventories/example/.appliance/kubeconfig", "secret")
    with pytest.raises(BundleRefused, match="state of a site"):
        wheels.refuse_state(path)
    assert not path.exists()


def test_a_target_takes_any_glibc_from_its_floor_on() -> None:
    target = WheelTarget("3.12", "x86_64")
    assert target.platforms[0] == "manylinux_2_28_x86_64"
    assert "manylinux2014_x86_64" in target.platforms
    assert wheels.this_python().python == ".".join(map(str, sys.version_info[:2]))


@pytest.mark.parametrize("python", CARRIED)
def test_the_wheels_are_whole_for_each_python_that_the_bundle_names(
    closure: tuple[Path, tuple[Wheel, ...]], python: str
) -> None:
    assert WheelSet(closure[0], python).unmet("appliance") == ()


@pytest.mark.parametrize("python", CARRIED)
def test_pip_resolves_the_wheels_for_each_python_without_a_network(
    closure: tuple[Path, tuple[Wheel, ...]], tmp_path: Path, python: str
) -> None:
    """Not tried: only the Python of this test runs here. pip takes each wheel by its digest."""
    listed = tmp_path / "requirements.txt"
    listed.write_text(requirements({wheel.filename: wheel.sha256 for wheel in closure[1]}))
    pip: list[str | Path] = [sys.executable, "-m", "pip", "install", "--dry-run", "--no-deps"]
    pip += ["--ignore-installed", "--no-index", "--require-hashes", "--find-links", closure[0]]
    pip += ["--only-binary", ":all:", "--python-version", python, "--target", tmp_path / "t"]
    done = without_network([*pip, "-r", listed])
    assert done.returncode == 0, done.stderr
    assert "Would install" in done.stdout
