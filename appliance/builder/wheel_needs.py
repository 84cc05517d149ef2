"""Which Pythons the wheels of a bundle are for, and whether a set of wheels is whole for one.

pip resolves for another Python with the markers of its own ("python_version < ..."), so the needs
of every other Python are read from the wheels' own metadata. What must not be here: downloading.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from email.parser import HeaderParser
from pathlib import Path

from packaging.markers import default_environment
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from appliance.errors import BuildFailed

# The Pythons of Debian 12, Ubuntu 24.04 and Debian 13.
CARRIED = ("3.11", "3.12", "3.13")
_METADATA = re.compile(r"[^/]+\.dist-info/METADATA")
_ONE_PYTHON = re.compile(r"cp3(?P<minor>\d+)")


class WheelSet:
    """The wheels of a folder that one Python can install."""

    def __init__(self, folder: Path, python: str) -> None:
        self._python = python
        self._versions: dict[str, str] = {}
        self._needs: dict[str, list[Requirement]] = {}
        for path in sorted(folder.glob("*.whl")):
            if python in pythons_of(path.name, (python,)):
                name, version, *_ = path.name.split("-")
                self._versions[canonicalize_name(name)] = version
                self._needs[canonicalize_name(name)] = _requirements(path)

    def unmet(self, root: str) -> tuple[str, ...]:
        """What ``root`` needs on this Python, directly or not, and no wheel of the folder is."""
        missing: set[str] = set()
        seen: set[tuple[str, str]] = set()
        todo = [(canonicalize_name(root), "")]
        while todo:
            name, extra = todo.pop()
            if (name, extra) in seen:
                continue
            seen.add((name, extra))
            for need in self._needs.get(name, ()):
                if need.marker and not need.marker.evaluate(self._environment(extra)):
                    continue
                found = self._versions.get(canonicalize_name(need.name))
                if found is None or not need.specifier.contains(found, prereleases=True):
                    missing.add(f"{need.name}{need.specifier}")
                    continue
                todo += [(canonicalize_name(need.name), key) for key in ("", *need.extras)]
        return tuple(sorted(missing))

    def _environment(self, extra: str) -> dict[str, str]:
        full = f"{self._python}.0"
        version = {"python_version": self._python, "python_full_version": full}
        here = {key: str(value) for key, value in default_environment().items()}
        return {**here, **version, "implementation_version": full, "extra": extra}


def pythons_of(filename: str, among: Sequence[str]) -> frozenset[str]:
    """Which of these Pythons a wheel is for, by the tags in its name."""
    *_, interpreters, abis, _ = filename.removesuffix(".whl").split("-")
    found: set[str] = set()
    for interpreter in interpreters.split("."):
        match = _ONE_PYTHON.fullmatch(interpreter)
        if match is None:
            found.update(among if interpreter == "py3" else ())
        elif "abi3" in abis.split("."):
            found.update(one for one in among if _minor(one) >= int(match["minor"]))
        else:
            found.add(f"3.{match['minor']}")
    return frozenset(found.intersection(among))


def requirements(digests: Mapping[str, str]) -> str:
    """The input of ``pip --require-hashes -r``: every wheel with its version and digest.

    A project whose wheels are not for every carried Python is named for those that they are for.

    Args:
        digests: file name of a wheel -> its sha256, hex.
    """
    wheels = {file: digest for file, digest in sorted(digests.items()) if file.count("-") >= 4}
    others = {f"3.{match['minor']}" for file in wheels for match in _ONE_PYTHON.finditer(file)}
    among = sorted({*CARRIED, *others}, key=_minor)
    pins: dict[str, list[str]] = {}
    served: dict[str, set[str]] = {}
    for file, digest in wheels.items():
        name, version, *_ = file.split("-")
        pins.setdefault(f"{name}=={version}", []).append(f"--hash=sha256:{digest}")
        served.setdefault(f"{name}=={version}", set()).update(pythons_of(file, among))
    lines = []
    for pin, hashes in pins.items():
        only = [one for one in among if one in served[pin]] if set(CARRIED) - served[pin] else []
        marker = " or ".join(f'python_version == "{one}"' for one in only)
        lines.append(" ".join([f"{pin} ; {marker}" if marker else pin, *hashes]) + "\n")
    return "".join(lines)


def _requirements(wheel: Path) -> list[Requirement]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            (name,) = (name for name in archive.namelist() if _METADATA.fullmatch(name))
            text = archive.read(name).decode("utf-8", errors="replace")
        needs = HeaderParser().parsestr(text).get_all("Requires-Dist", [])
        return [Requirement(need) for need in needs]
    except (zipfile.BadZipFile, ValueError, InvalidRequirement) as error:
        raise BuildFailed(
            f"the wheel {wheel.name} does not say what it needs: {error}",
            hint="run the same command again: pip downloads it again",
        ) from error


def _minor(python: str) -> int:
    return int(python.partition(".")[2])


def describe(pythons: Iterable[str], here: str) -> dict[str, str]:
    """Python -> how the wheels for it were tried, for the manifest."""
    return {
        one: "the builder runs them" if one == here else "resolved, not tried" for one in pythons
    }
