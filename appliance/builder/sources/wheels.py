"""This tool as wheels: an offline admin host installs it from the bundle.

pip downloads only ready-made wheels: no foreign build code runs here. The versions are those of
this process: a bundle carries the software that built it. What must not be here: the address of
the index (it is in pip's configuration), or the use of the wheels.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import appliance
from appliance.adapters.local import processes
from appliance.builder.wheel_needs import CARRIED, WheelSet
from appliance.errors import BuildFailed, BundleRefused

_SHIPPED = ("appliance", "playbooks", "roles", "hardware", "inventories/example")
_TOP = ("pyproject.toml", "README.md")
_NOT_SHIPPED = {"__pycache__", ".appliance", ".mypy_cache", ".ruff_cache"}

PROJECT = "appliance"
# glibc 2.28 is older than that of every distribution whose Python 3.11 we support.
_NEWEST_GLIBC_MINOR = 28
_OLDEST_GLIBC_MINOR = 5
_LIMIT_SECONDS = 1800
# Needs of needs that only another Python has.
_MOST_ROUNDS = 5
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_BEHIND = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}
_NO_CONNECTION = re.compile(r"(?:Connection|Timeout|NewConnection|ProxyE|MaxRetry)\w*|Retrying \(")
_INDEXES = "Looking in indexes: "
_NO_PIP = "No module named pip"


@dataclass(frozen=True)
class Wheel:
    """One wheel of the closure."""

    name: str
    version: str
    filename: str
    sha256: str
    size: int


@dataclass(frozen=True)
class WheelTarget:
    """The Python that will install the wheels: ``3.11`` on ``x86_64``, any glibc from 2.28 on."""

    python: str
    machine: str

    @property
    def platforms(self) -> tuple[str, ...]:
        """The wheel platforms that such a machine accepts, newest first."""
        newest = range(_NEWEST_GLIBC_MINOR, _OLDEST_GLIBC_MINOR - 1, -1)
        return (*(f"manylinux_2_{minor}_{self.machine}" for minor in newest),
                f"manylinux2014_{self.machine}")  # fmt: skip


def this_python() -> WheelTarget:
    """The Python of this process."""
    return WheelTarget(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())


def carried() -> tuple[WheelTarget, ...]:
    """The Pythons that a bundle has wheels for: this one first."""
    here = this_python()
    others = (WheelTarget(one, here.machine) for one in CARRIED if one != here.python)
    return (here, *others)


def checkout() -> Path | None:
    """The source tree of this process, or None if it runs from a wheel."""
    root = Path(appliance.__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() else None


def write_wheel_closure(
    destination: Path,
    *,
    targets: Iterable[WheelTarget] = (),
    on_line: Callable[[str], None] | None = None,
) -> tuple[Wheel, ...]:
    """Write the tool's own wheel and its run-time dependencies to ``destination``.

    Args:
        destination: the folder of wheels; wheels of an earlier build are removed from it.
        targets: the Pythons to support; by default all that a bundle carries wheels for.
        on_line: receives pip's progress.

    Raises:
        BuildFailed: the index cannot be reached, or has no wheel for a target.
        BundleRefused: the tool's own wheel would contain a site's state.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for stale in destination.parent.glob(".wheels-*"):
        shutil.rmtree(stale)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".wheels-") as name:
        landing = Path(name)
        own = write_own_wheel(landing / "own")
        for target in tuple(targets) or carried():
            _download_whole(own, target, landing, on_line)
        own.replace(landing / own.name)
        wheels = sorted(landing.glob("*.whl"))
        for old in destination.glob("*.whl"):
            old.unlink()
        return tuple(_describe(path.replace(destination / path.name)) for path in wheels)


def write_own_wheel(folder: Path) -> Path:
    """The tool's own wheel: built from the source tree, or repacked from the installed files."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = checkout()
    if tree is None:
        wheel = _repack(metadata.distribution(PROJECT), folder)
    else:
        _pip("wheel", "--no-deps", "--wheel-dir", folder, tree)
        (wheel,) = folder.glob(f"{PROJECT}-*.whl")
    refuse_state(wheel)
    return wheel


def _download_whole(
    own: Path, target: WheelTarget, landing: Path, on_line: Callable[[str], None] | None
) -> None:
    """Download for a target until its wheels are whole by their own metadata."""
    wanted: tuple[str | Path, ...] = (own,)
    for _ in range(_MOST_ROUNDS):
        _download(wanted, target, landing, on_line)
        shutil.copyfile(own, landing / own.name)
        unmet = WheelSet(landing, target.python).unmet(PROJECT)
        (landing / own.name).unlink()
        if not unmet:
            return
        wanted = unmet
    raise BuildFailed(
        f"the wheels for Python {target.python} are not whole",
        details=[str(need) for need in wanted],
        hint="pin these dependencies in this environment and run the same command again",
    )


def _download(
    wanted: Iterable[str | Path],
    target: WheelTarget,
    landing: Path,
    on_line: Callable[[str], None] | None,
) -> None:
    arguments: list[str | Path] = ["--dest", landing, "--only-binary", ":all:"]
    arguments += ["--python-version", target.python, "--implementation", "cp"]
    for tag in target.platforms:
        arguments += ["--platform", tag]
    constraints = landing / "constraints.txt"
    constraints.write_text("\n".join(_running_versions()) + "\n", encoding="utf-8")
    arguments += ["--constraint", constraints]
    _pip("download", *arguments, *wanted, on_line=on_line)


def _running_versions() -> list[str]:
    """``name==version`` of every distribution installed from a wheel, except this tool."""
    pins = {
        item.metadata["Name"].lower(): item.version
        for item in metadata.distributions()
        if item.read_text("direct_url.json") is None
    }
    return [f"{name}=={version}" for name, version in sorted(pins.items()) if name != PROJECT]


def _pip(verb: str, *arguments: str | Path, on_line: Callable[[str], None] | None = None) -> None:
    done = processes.run(
        [
            sys.executable, "-m", "pip", verb, "--disable-pip-version-check", "--no-input",
            "--progress-bar", "off", "--retries", "1", "--timeout", "15", *arguments,
        ],
        timeout=_LIMIT_SECONDS,
        check=False,
        on_line=on_line,
    )  # fmt: skip
    if done.ok:
        return
    if _NO_PIP in done.output:
        raise BuildFailed(
            f"the Python environment {sys.prefix} has no pip, which downloads the tool's wheels",
            hint=f"{sys.executable} -m ensurepip (in an environment by uv: uv pip install pip)",
        )
    lines = [line.strip() for line in done.output.splitlines()]
    errors = [line for line in lines if line.startswith(("ERROR", "WARNING"))]
    if _NO_CONNECTION.search("\n".join(errors)):
        # pip names its indexes (without their passwords) only if they are not the default.
        named = [line.removeprefix(_INDEXES) for line in lines if line.startswith(_INDEXES)]
        index = named[0] if named else "pip's default"
        raise BuildFailed(
            f"the Python package index cannot be reached: {index}",
            details=errors[-4:],
            hint="build where the index can be reached, or set pip's index-url to your mirror",
        )
    raise BuildFailed(
        "pip could not download the tool's wheels",
        details=errors or done.output.splitlines()[-8:],
        hint="see pip's errors above; a bundle can only contain packages with a wheel",
    )


def _repack(installed: metadata.Distribution, folder: Path) -> Path:
    """A wheel from an installed distribution: the same files, with a new RECORD."""
    entries: dict[str, bytes] = {}
    home = ""
    for file in installed.files or ():
        name = file.as_posix()
        inside = ".dist-info/" in name
        if name.startswith("..") or "__pycache__" in file.parts:
            continue
        if inside and file.name in _LEFT_BEHIND:
            continue
        if inside:
            home = file.parts[0]
        entries[name] = Path(str(file.locate())).read_bytes()
    if f"{home}/WHEEL" not in entries:
        raise BuildFailed(
            f"{PROJECT} is neither a source tree nor installed from a wheel",
            hint="install it with pip, or build the bundle from a checkout",
        )
    tag = re.search(r"(?m)^Tag: (\S+)", entries[f"{home}/WHEEL"].decode())
    if tag is None:
        raise BuildFailed(f"the installed {PROJECT} has no wheel tag in its metadata")
    path = folder / f"{home.removesuffix('.dist-info')}-{tag[1]}.whl"
    _write_zip(path, entries, f"{home}/RECORD")
    return path


def _write_zip(path: Path, entries: dict[str, bytes], record: str) -> None:
    lines = []
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in sorted(entries.items()):
            digest = urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}\n")
            archive.writestr(_member(name), content)
        archive.writestr(_member(record), "".join([*lines, f"{record},,\n"]))


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _ZIP_EPOCH)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = 0o644 << 16
    return info


def refuse_state(wheel: Path) -> None:
    """Remove and refuse a wheel that contains state of a site in the source tree."""
    with zipfile.ZipFile(wheel) as archive:
        state = [name for name in archive.namelist() if "/.appliance/" in name]
    if state:
        wheel.unlink()
        raise BundleRefused(
            "the tool's own wheel would contain the state of a site, with its secrets",
            details=state[:8],
            hint="move the site out of the source tree's inventories/example",
        )


def _describe(path: Path) -> Wheel:
    name, version, *_ = path.name.split("-")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Wheel(name.replace("_", "-").lower(), version, path.name, digest, path.stat().st_size)


def closure_recipe() -> dict[str, object]:
    """The inputs of the closure: this tool, its installed dependencies, and the Python."""
    return {
        "own": own_content(checkout()),
        "beside": sorted(
            f"{item.metadata['Name']}=={item.version}" for item in metadata.distributions()
        ),
        "python": sys.version_info[:2],
        "carried": CARRIED,
        "machine": os.uname().machine,
    }


def own_content(tree: Path | None) -> str:
    """A digest of the source tree's shipped files, or of the installed ones."""
    digest = hashlib.sha256()
    if tree is None:
        digest.update((metadata.distribution(PROJECT).read_text("RECORD") or "").encode())
        return digest.hexdigest()
    for path in sorted(_files(tree)):
        digest.update(f"{path.relative_to(tree)}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _files(tree: Path) -> Iterator[Path]:
    yield from (tree / name for name in _TOP if (tree / name).is_file())
    for name in _SHIPPED:
        for folder, below, files in os.walk(tree / name):
            below[:] = [item for item in below if item not in _NOT_SHIPPED]
            yield from (Path(folder, file) for file in files)
