"""This tool as a bundle carries it: its version, its wheels, and the Pythons that they are for.

What must not be here: reading the wheels, or installing them.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packaging.tags import Tag
from packaging.utils import InvalidWheelFilename, parse_wheel_filename
from packaging.version import Version

from appliance.errors import BundleRefused, Refused
from appliance.model.bundle.manifest import DAMAGED, REQUIREMENTS, BundledFile, BundleManifest

PROJECT: Final = "appliance"
_FOLDER: Final = "wheels/"
_PYTHON: Final = re.compile(r"3\.[1-9][0-9]?")


@dataclass(frozen=True)
class BundledTool:
    """This tool in one bundle.

    Attributes:
        version: of the tool.
        wheels: its wheel and those of everything it needs.
        requirements: what pip installs, each wheel with its digest.
        pythons: the versions of Python that the wheels are for, as ``3.11``.
    """

    version: str
    wheels: tuple[BundledFile, ...]
    requirements: BundledFile
    pythons: tuple[str, ...]

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the wheels, without their folder."""
        return tuple(file.path.removeprefix(_FOLDER) for file in self.wheels)

    @property
    def packed_bytes(self) -> int:
        """The size of all wheels."""
        return sum(file.size for file in self.wheels)


@dataclass(frozen=True)
class Offer:
    """A bundle on this machine, with the tool that it carries.

    Attributes:
        directory: the bundle.
        digest: of the bundle.
    """

    directory: Path
    digest: str
    tool: BundledTool


@dataclass(frozen=True)
class PresentTool:
    """A version of this tool on this machine.

    Attributes:
        folder: its environment.
        launcher: the program that is typed.
    """

    version: str
    folder: Path
    launcher: Path


@dataclass(frozen=True)
class NewEnvironment:
    """Where a new version will be.

    Attributes:
        python: the program that makes the environment.
        needed_bytes: the disk that it needs while it is made; 0 if it is whole already.
        free_bytes: the disk that is free.
        is_whole: whether an earlier run made it whole.
    """

    folder: Path
    python: Path
    needed_bytes: int
    free_bytes: int
    is_whole: bool = False


def tool_of(manifest: BundleManifest, directory: str) -> BundledTool:
    """The tool that a bundle carries.

    Args:
        manifest: of the bundle.
        directory: the bundle, for a message.

    Raises:
        BundleRefused: it carries none, none that can be installed by its digests, or for no Python.
    """
    wheels = tuple(
        file
        for file in manifest.files
        if file.path.startswith(_FOLDER) and file.path.endswith(".whl")
    )
    listed = next((file for file in manifest.files if file.path == REQUIREMENTS), None)
    own = [version for file in wheels if (version := _version_of(file.path))]
    if len(own) != 1 or listed is None or not manifest.pythons:
        raise BundleRefused(
            f"the bundle {directory} does not carry this tool as wheels with their digests",
            hint="build the bundle with a later version of this tool, where there is internet",
        )
    for version in manifest.pythons:
        # A program of this name is started, also by a dry run.
        if not _PYTHON.fullmatch(version):
            raise BundleRefused(
                f"the manifest of the bundle {directory} names {version!r}, which is no version of "
                "Python",
                hint=DAMAGED,
            )
    return BundledTool(own[0], wheels, listed, tuple(sorted(manifest.pythons, key=_minor)))


def refuse_downgrade(present: str, offered: str, named: str | None) -> bool:
    """Whether there is anything to do; an earlier version has to be named.

    Args:
        present: the version in use.
        offered: the version in the bundle.
        named: the earlier version that the operator asked for, or None.

    Raises:
        Refused: the bundle has another version than the named one, or an earlier one.
    """
    if named is not None and named != offered:
        raise Refused(
            f"the bundle carries appliance {offered}, not {named}: nothing was changed",
            hint="name the bundle that carries it; to see what one carries: "
            "appliance bundle show --all DIR",
        )
    if offered != present and Version(offered) < Version(present) and named is None:
        raise Refused(
            f"the bundle carries appliance {offered}, and this is {present}: nothing was changed",
            hint="sites that this version changed refuse an earlier one; if you want it: "
            f"--downgrade-to {offered}",
        )
    return offered != present


def unfit_wheels(wheels: Collection[str], python: str, tags: Collection[Tag]) -> tuple[str, ...]:
    """Wheels for this Python whose project has none for this machine; sorted.

    Args:
        wheels: the names of their files.
        python: the version, as ``3.11``.
        tags: what this machine and this Python can install.
    """
    fitting: set[str] = set()
    unfit: dict[str, str] = {}
    for name in wheels:
        project, _, _, its = parse_wheel_filename(name)
        if its & set(tags):
            fitting.add(project)
        elif any(_is_for(tag, python) for tag in its):
            unfit[project] = name
    return tuple(sorted(name for project, name in unfit.items() if project not in fitting))


def _is_for(tag: Tag, python: str) -> bool:
    minor = _minor(python)
    if tag.abi == "abi3":
        least = tag.interpreter[3:] or "0"
        is_cpython = tag.interpreter.startswith("cp3") and least.isdecimal()
        return is_cpython and int(least) <= minor
    return tag.interpreter in ("py3", f"cp3{minor}")


def _version_of(path: str) -> str:
    """The version of our own wheel; empty for another one."""
    try:
        name, version, _, _ = parse_wheel_filename(path.removeprefix(_FOLDER))
    except InvalidWheelFilename as error:
        raise BundleRefused(f"{path} has not the name of a wheel: {error}", hint=DAMAGED) from error
    return str(version) if name == PROJECT else ""


def _minor(python: str) -> int:
    minor = python.partition(".")[2]
    return int(minor) if minor.isdecimal() else 0
