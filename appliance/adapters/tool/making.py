"""Makes an environment beside the present one, from the wheels of a bundle.

The wheels are copied first, and each copy is compared with the manifest: pip reads no medium that
might change. pip accepts only wheels with the digests of ``requirements.txt``, without a network.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shlex
import shutil
import socket
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from packaging.tags import Tag, compatible_tags, cpython_tags, sys_tags

from appliance.adapters.local.plain_files import open_plain
from appliance.adapters.local.processes import CompletedProcess, find_program
from appliance.adapters.local.processes import run as run_program
from appliance.adapters.local.state_files import make_folder
from appliance.adapters.tool.environment import (
    PROGRAM,
    RECEIPT,
    Receipt,
    read_receipt,
    write_receipt,
)
from appliance.errors import ApplianceError, BundleRefused, CommandFailed, Refused
from appliance.model.bundle.manifest import DAMAGED, BundledFile
from appliance.model.bundle.tool import BundledTool

_LIMIT_SECONDS: Final = 1800.0
_SMOKE_SECONDS: Final = 120.0
# Of the files in the wheels; Python compiles its own, about a third more.
_UNPACKED_FACTOR: Final = 1.4
# The environment itself, with its pip.
_BARE_BYTES: Final = 60_000_000
_WHEELS: Final = "wheels-of-the-bundle"
_FILES_AT_ONCE: Final = 1 << 20
# A line of requirements.txt: project and version, for which Pythons, and the digests.
_PINNED: Final = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[A-Za-z0-9.!+_]+( ; [A-Za-z0-9_.\"= ]+)?"
    r"( --hash=sha256:[0-9a-f]{64})+"
)


Words = Sequence[str | os.PathLike[str]]


class Run(Protocol):
    """Runs a program to its end (:func:`appliance.adapters.local.processes.run`)."""

    def __call__(
        self,
        argv: Words,
        *,
        cwd: Path | None = None,
        env: dict[str, str] | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> CompletedProcess:
        """The result; raises CommandFailed as the original does."""


class Maker:
    """Makes one environment.

    Args:
        bundle: the bundle's directory.
        tool: what it carries.
        note: receives what is done, one sentence each.
        run: starts programs.
    """

    def __init__(
        self,
        bundle: Path,
        tool: BundledTool,
        note: Callable[[str], None],
        run: Run = run_program,
    ) -> None:
        self._bundle, self._tool, self._note, self._run = bundle, tool, note, run

    def choose_python(self) -> Path:
        """A Python of this machine that the wheels are for: that of this process, if it is one.

        Raises:
            Refused: there is none, or it cannot make environments.
        """
        without: list[str] = []
        for version, python in _pythons(self._tool.pythons):
            words: Words = [python, "-I", "-c", "import ensurepip, venv"]
            if self._run(words, env=clean(), timeout=_SMOKE_SECONDS, check=False).ok:
                return python
            without.append(version)
        wanted = ", ".join(self._tool.pythons)
        here = socket.gethostname()
        if without:
            raise Refused(
                f"{here} (this machine): Python {without[0]} has no venv, which makes environments",
                hint=f"sudo apt-get install python{without[0]}-venv",
            )
        raise Refused(
            f"the wheels of {self._bundle} are for Python {wanted}; {here} (this machine) has "
            f"{platform.python_version()}",
            hint=f"install one of these: python{self._tool.pythons[-1]} with its venv; or use the "
            "bundle's image: appliance docs run-the-tool-in-a-container",
        )

    def tags(self, python: Path) -> tuple[Tag, ...]:
        """What this machine can install with a Python that :meth:`choose_python` returned."""
        minor = int(python.name.rpartition(".")[2] or sys.version_info.minor)
        if minor == sys.version_info.minor:
            return tuple(sys_tags())
        version = (3, minor)
        return (*cpython_tags(version), *compatible_tags(version, f"cp3{minor}"))

    def needed_bytes(self) -> int:
        """The disk that the new environment needs while it is made.

        Raises:
            BundleRefused: a wheel is missing, or is none.
        """
        unpacked = 0
        for wheel in self._tool.wheels:
            try:
                with (
                    open_plain(self._bundle / wheel.path) as stream,
                    zipfile.ZipFile(stream) as archive,
                ):
                    unpacked += sum(item.file_size for item in archive.infolist())
            except (OSError, zipfile.BadZipFile) as error:
                raise BundleRefused(f"{wheel.path} is not readable: {error}", hint=DAMAGED) from (
                    error
                )
        return int(unpacked * _UNPACKED_FACTOR) + self._tool.packed_bytes + _BARE_BYTES

    def make(self, folder: Path, python: Path, receipt: Receipt) -> None:
        """Make the environment and start its tool once; what an ended run left is made again.

        Raises:
            BundleRefused: a wheel differs from the manifest.
            CommandFailed: pip or the new tool failed; the environment is removed.
        """
        if is_half(folder):
            self._note(f"removing what an interrupted upgrade left in {folder}")
            _remove(folder)
        _claim(folder, receipt)
        try:
            with _readable_by_all():
                self._fill(folder, python)
                self.start(folder)
        except (ApplianceError, OSError):
            with suppress(OSError):
                _remove(folder)
            raise
        write_receipt(folder, receipt, whole=True)

    def start(self, folder: Path) -> None:
        """Start the tool of an environment; it has to be the version of the bundle.

        Raises:
            CommandFailed: it does not start, or is of another version.
        """
        require_version(folder / "bin" / PROGRAM, self._tool.version, self._run)

    def _fill(self, folder: Path, python: Path) -> None:
        wheels = folder / _WHEELS
        make_folder(wheels)
        self._note("copying the wheels, and comparing their digests")
        for file in (*self._tool.wheels, self._tool.requirements):
            self._copy(file, wheels)
        _require_plain(wheels / Path(self._tool.requirements.path).name)
        # pip unpacks there: a small /tmp is no reason to fail.
        scratch = wheels / "tmp"
        make_folder(scratch)
        env = {**clean(), "TMPDIR": str(scratch)}
        self._note(f"making {folder}")
        self._run([python, "-I", "-m", "venv", folder], env=env, timeout=_LIMIT_SECONDS)
        pip: Words = [folder / "bin/python", "-I", "-m", "pip", "--no-input"]
        self._note("installing the wheels, without a network")
        self._run(
            [*pip, "install", "--no-cache-dir", "--no-index", "--require-hashes",
             "--find-links", wheels, "-r", wheels / Path(self._tool.requirements.path).name],
            cwd=folder, env=env, timeout=_LIMIT_SECONDS,
        )  # fmt: skip
        self._run([*pip, "check"], cwd=folder, env=env, timeout=_LIMIT_SECONDS)
        shutil.rmtree(wheels)

    def _copy(self, file: BundledFile, folder: Path) -> None:
        digest = hashlib.sha256()
        try:
            source = open_plain(self._bundle / file.path)
        except OSError as error:
            raise BundleRefused(
                f"{file.path} is not readable: {error.strerror or error}", hint=DAMAGED
            ) from error
        with source, (folder / Path(file.path).name).open("xb") as copy:
            while piece := source.read(_FILES_AT_ONCE):
                digest.update(piece)
                copy.write(piece)
        if digest.hexdigest() != file.sha256:
            raise BundleRefused(
                f"{file.path}: sha256 {digest.hexdigest()[:12]}…, expected {file.sha256[:12]}…",
                hint=DAMAGED,
            )


def place_for(home: Path, version: str, bundle: str) -> Path:
    """The folder of the new environment, beside that of the launcher.

    Args:
        home: the environment of the launcher.
        version: of the new tool.
        bundle: digest of its bundle: two bundles may carry the same version.

    Raises:
        Refused: another folder has the name.
    """
    base = home.with_name(f"{home.name}-{version}")
    for folder in (base, base.with_name(f"{base.name}-{bundle[:8]}")):
        if not os.path.lexists(folder) or is_half(folder) or is_whole(folder, version, bundle):
            return folder
    raise Refused(
        f"{folder} exists, and is no environment of this bundle: nothing was changed",
        hint=f"look at it, then move it: mv {shlex.quote(str(folder))} OTHER",
    )


def is_half(folder: Path) -> bool:
    """Whether an upgrade began to make this environment, and did not end."""
    receipt = None if folder.is_symlink() else read_receipt(folder)
    return receipt is not None and not receipt.whole


def is_whole(folder: Path, version: str, bundle: str) -> bool:
    """Whether an upgrade made this environment whole, from this bundle."""
    receipt = read_receipt(folder)
    known = receipt and (receipt.whole, receipt.version, receipt.bundle)
    return known == (True, version, bundle)


def require_version(program: Path, version: str, run: Run = run_program) -> None:
    """Start a program of this tool; it has to be of that version.

    Raises:
        CommandFailed: it does not start, or is of another version.
    """
    done = run([program, "--version"], cwd=Path("/"), env=clean(), timeout=_SMOKE_SECONDS)
    first = done.stdout.partition("\n")[0]
    if first != f"{PROGRAM}, version {version}":
        raise CommandFailed(
            f"{program} says {first[:200]!r}, expected version {version}",
            hint="the bundle may be damaged: appliance bundle verify DIR",
        )


def clean() -> dict[str, str]:
    """Variables that would let another Python, index or option take part; empty: removed."""
    given = [key for key in os.environ if key.startswith(("PIP_", "PYTHON", "VIRTUAL_ENV"))]
    unset = dict.fromkeys(given, "")
    return {**unset, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def _claim(folder: Path, receipt: Receipt) -> None:
    """Create the folder with its receipt in one step: from then on it is known to be ours."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        if is_half(left) or _is_just_begun(left):
            _remove(left)
    new = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    new.chmod(0o755)
    write_receipt(new, receipt, whole=False)
    new.rename(folder)


def _require_plain(requirements: Path) -> None:
    """Refuse a list with anything but wheels: options in it overrule those of the command line.

    Raises:
        BundleRefused: a line is something else.
    """
    text = requirements.read_text(encoding="ascii", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not _PINNED.fullmatch(line):
            raise BundleRefused(
                f"{requirements.name}:{number} is not a wheel with its digest", hint=DAMAGED
            )


def _is_just_begun(folder: Path) -> bool:
    """Whether a kill came before the receipt was whole: there is nothing but a part of it."""
    if folder.is_symlink() or not folder.is_dir():
        return False
    return all(
        path.name.startswith(f".{RECEIPT}.") and path.name.endswith(".new")
        for path in folder.iterdir()
    )


def _remove(folder: Path) -> None:
    """Remove an environment; the receipt goes last, so that after a kill it is known as ours."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        elif path.name != RECEIPT:
            path.unlink()
    shutil.rmtree(folder)


@contextmanager
def _readable_by_all() -> Iterator[None]:
    """Others start the program, too, whatever the umask of whoever upgrades it."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _pythons(wanted: Iterable[str]) -> list[tuple[str, Path]]:
    """The Pythons of this machine among these versions, that of this process first."""
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    found = []
    for version in sorted(wanted, key=lambda one: one != own):
        name = f"python{version}"
        beside = Path(sys.base_prefix) / "bin" / name
        program = beside if version == own and beside.is_file() else find_program(name)
        if program is not None:
            found.append((version, program))
    return found
