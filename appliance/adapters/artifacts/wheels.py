"""The tool itself as wheels, so that an offline admin host can install it from the bundle.

pip resolves and downloads ready wheels only: no foreign build code runs here. The versions are
those that run in this very process, so what a bundle carries is what built it. What must not be
here: where the index is (pip's own configuration knows), or what becomes of the wheels.
"""

from __future__ import annotations

import hashlib
import platform
import re
import shutil
import sys
import tempfile
import zipfile
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import appliance
from appliance.adapters import processes
from appliance.errors import BuildFailed, BundleRefused

PROJECT = "appliance"
# glibc 2.28 is older than that of every distribution whose Python 3.11 we support.
_NEWEST_GLIBC_MINOR = 28
_OLDEST_GLIBC_MINOR = 5
_LIMIT_SECONDS = 1800
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_LEFT_BEHIND = {"INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"}
_NO_CONNECTION = re.compile(r"(?:Connection|Timeout|NewConnection|ProxyE|MaxRetry)\w*|Retrying \(")
_INDEXES = "Looking in indexes: "
_NO_PIP = "No module named pip"


@dataclass(frozen=True)
class Wheel:
    """One wheel of the closure: exactly this file."""

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
        """The wheel platforms that such a machine takes, newest first."""
        newest = range(_NEWEST_GLIBC_MINOR, _OLDEST_GLIBC_MINOR - 1, -1)
        return (*(f"manylinux_2_{minor}_{self.machine}" for minor in newest),
                f"manylinux2014_{self.machine}")  # fmt: skip


def this_python() -> WheelTarget:
    """The Python of this process."""
    return WheelTarget(f"{sys.version_info.major}.{sys.version_info.minor}", platform.machine())


def checkout() -> Path | None:
    """The source tree that this process runs from, or None when it runs from a wheel."""
    root = Path(appliance.__file__).resolve().parent.parent
    return root if (root / "pyproject.toml").is_file() else None


def write_wheel_closure(
    destination: Path,
    *,
    targets: Iterable[WheelTarget] = (),
    on_line: Callable[[str], None] | None = None,
) -> tuple[Wheel, ...]:
    """Write the tool's own wheel and all that it needs at run time into ``destination``.

    Args:
        destination: the folder of wheels; wheels of an earlier build are removed from it.
        targets: the Pythons that it is for; this one when none is named.
        on_line: hears pip's progress.

    Raises:
        BuildFailed: the index can not be reached, or has no wheel for a target.
        BundleRefused: our own wheel would carry a site's state.
    """
    destination.mkdir(parents=True, exist_ok=True)
    for left in destination.parent.glob(".wheels-*"):
        shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=destination.parent, prefix=".wheels-") as name:
        landing = Path(name)
        own = write_own_wheel(landing / "own")
        for target in tuple(targets) or (this_python(),):
            _download(own, target, landing, on_line)
        own.replace(landing / own.name)
        wheels = sorted(landing.glob("*.whl"))
        for old in destination.glob("*.whl"):
            old.unlink()
        return tuple(_describe(path.replace(destination / path.name)) for path in wheels)


def requirements(digests: Mapping[str, str]) -> str:
    """What ``pip --require-hashes -r`` is to install: every wheel, by its version and digest.

    Args:
        digests: name of a wheel's file -> its sha256, hex.
    """
    found: dict[str, list[str]] = {}
    for file, digest in sorted(digests.items()):
        name, version, *tags = file.removesuffix(".whl").split("-")
        if tags:
            found.setdefault(f"{name}=={version}", []).append(f"--hash=sha256:{digest}")
    return "".join(" ".join([pin, *hashes]) + "\n" for pin, hashes in found.items())


def write_own_wheel(folder: Path) -> Path:
    """Our own wheel: built from the source tree, or put together again from the installed files."""
    folder.mkdir(parents=True, exist_ok=True)
    tree = checkout()
    if tree is None:
        wheel = _repack(metadata.distribution(PROJECT), folder)
    else:
        _pip("wheel", "--no-deps", "--wheel-dir", folder, tree)
        (wheel,) = folder.glob(f"{PROJECT}-*.whl")
    refuse_state(wheel)
    return wheel


def _download(
    own: Path, target: WheelTarget, landing: Path, on_line: Callable[[str], None] | None
) -> None:
    arguments: list[str | Path] = ["--dest", landing, "--only-binary", ":all:"]
    arguments += ["--python-version", target.python, "--implementation", "cp"]
    for tag in target.platforms:
        arguments += ["--platform", tag]
    constraints = landing / "constraints.txt"
    constraints.write_text("\n".join(_running_versions()) + "\n", encoding="utf-8")
    arguments += ["--constraint", constraints]
    _pip("download", *arguments, own, on_line=on_line)
    (landing / own.name).unlink(missing_ok=True)


def _running_versions() -> list[str]:
    """``name==version`` of all that is installed here from wheels, without ourselves."""
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
            f"the Python environment {sys.prefix} has no pip, which brings the tool's own wheels",
            hint=f"{sys.executable} -m ensurepip (in an environment by uv: uv pip install pip)",
        )
    lines = [line.strip() for line in done.output.splitlines()]
    told = [line for line in lines if line.startswith(("ERROR", "WARNING"))]
    if _NO_CONNECTION.search("\n".join(told)):
        # pip names its indexes (without their passwords) only when they are not its own default.
        named = [line.removeprefix(_INDEXES) for line in lines if line.startswith(_INDEXES)]
        index = named[0] if named else "the default one"
        raise BuildFailed(
            f"the Python package index can not be reached: {index}",
            details=told[-4:],
            hint="build where the index can be reached, or set pip's index-url to your mirror",
        )
    raise BuildFailed(
        "the wheels of the tool could not be brought together",
        details=told or done.output.splitlines()[-8:],
        hint="see pip's own words above; a package without a wheel can not be carried",
    )


def _repack(installed: metadata.Distribution, folder: Path) -> Path:
    """A wheel from an installed distribution: the same files, with a RECORD of their own."""
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
        raise BuildFailed(f"the installed {PROJECT} does not say which wheel it came from")
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
    """Remove and refuse a wheel that a site in the source tree has leaked into."""
    with zipfile.ZipFile(wheel) as archive:
        state = [name for name in archive.namelist() if "/.appliance/" in name]
    if state:
        wheel.unlink()
        raise BundleRefused(
            "our own wheel would carry the state of a site, with its secrets",
            details=state[:8],
            hint="move the site out of the source tree's inventories/example",
        )


def _describe(path: Path) -> Wheel:
    name, version, *_ = path.name.split("-")
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return Wheel(name.replace("_", "-").lower(), version, path.name, digest, path.stat().st_size)
