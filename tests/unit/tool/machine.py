"""A machine with an environment of this tool, a bundle with a later one, and fakes for programs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from appliance.adapters.bundle.directory import BundleDirectory
from appliance.adapters.local.processes import CompletedProcess
from appliance.adapters.tool.environment import Environment, read_receipt
from appliance.adapters.tool.place import Environments
from appliance.builder.wheel_needs import requirements
from appliance.errors import CommandFailed
from appliance.model.bundle.manifest import BundledFile, BundleManifest
from appliance.model.bundle.signature import Signature
from appliance.model.bundle.tool import Offer, tool_of
from appliance.workflows.self.upgrade import SelfUpgradePlan, SelfUpgradeRequest, self_upgrade

OLD, NEW = "0.1.0", "0.2.0"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"


def tool_bundle(
    directory: Path,
    wheels: Mapping[str, bytes],
    pythons: Sequence[str] = (HERE,),
    requirements_end: str = "",
) -> Path:
    """A bundle that carries these wheels, and nothing else."""
    folder = directory / "wheels"
    folder.mkdir(parents=True)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in wheels.items()}
    files = {**wheels, "requirements.txt": (requirements(digests) + requirements_end).encode()}
    listed = []
    for name, data in files.items():
        (folder / name).write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        listed.append(BundledFile(f"wheels/{name}", digest, len(data)))
    manifest = BundleManifest(
        *("r1", "debian-12", "amd64", "0", "2026-01-01T00:00:00Z"),
        files=tuple(listed),
        pythons=dict.fromkeys(pythons, "tried"),
    )
    (directory / "manifest.json").write_text(json.dumps(manifest.as_json()))
    return directory


def small_wheel(version: str) -> dict[str, bytes]:
    """A wheel of this tool that no pip could install: its name counts here."""
    name = f"appliance-{version}-py3-none-any.whl"
    path = Path(os.devnull)
    data = _zip({"appliance/__init__.py": version.encode()})
    assert path.exists()
    return {name: data}


def _zip(content: Mapping[str, bytes]) -> bytes:
    from io import BytesIO

    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return buffer.getvalue()


class Killed(BaseException):
    """SIGKILL: no handler of the product runs, but those for every exception."""


class Machine:
    """``tool`` is the environment of the present version; ``run`` plays venv, pip and programs.

    Attributes:
        started: the first words of each program that was started.
        dies_at: the number of the program before which the process is killed; 0: none.
        broken: what the launcher or a program says in place of its version: path -> text.
        faults: what the new version's ``site check`` prints; empty: it accepts the site.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tool = folder / "tool"
        self.started: list[tuple[str, ...]] = []
        self.dies_at = 0
        self.broken: dict[Path, str] = {}
        self.faults = ""
        self.notes: list[str] = []
        self.programs: dict[Path, str] = {}
        self.without_venv = False
        _script(self.tool / "bin" / "appliance", OLD)

    @property
    def launcher(self) -> Path:
        return self.tool / "bin" / "appliance"

    def in_use(self) -> str:
        """The version that whoever types the launcher gets."""
        return self.launcher.read_text().strip()

    def environment(self, folder: Path | None = None) -> Environment:
        """Of the process; by default the one that the launcher leads to."""
        found = folder or self.launcher.resolve().parent.parent
        receipt = read_receipt(found)
        return Environment(found, Path(receipt.launcher) if receipt else self.launcher, receipt)

    def offer(self, version: str = NEW, name: str = "bundle", **more: Any) -> Offer:
        directory = self.folder / name
        if not directory.exists():
            tool_bundle(directory, small_wheel(version), **more)
        found = BundleDirectory(directory)
        return Offer(directory, found.digest, tool_of(found.manifest, str(directory)))

    def place(self, offer: Offer | None, folder: Path | None = None) -> Environments:
        return Environments(self.environment(folder), offer, self.notes.append, self.run)

    def upgrade(
        self,
        offer: Offer | None = None,
        *,
        sites: tuple[Path, ...] = (),
        downgrade_to: str | None = None,
        dry_run: bool = False,
        unsigned: bool = True,
        signature: Signature = Signature("none"),  # noqa: B008 - frozen
        confirm: Callable[[SelfUpgradePlan], bool] = lambda _plan: True,
    ) -> SelfUpgradePlan:
        given = offer or self.offer()
        request = SelfUpgradeRequest(
            given, signature, sites, downgrade_to, dry_run=dry_run, unsigned=unsigned
        )
        return self_upgrade(request, self.place(given), confirm)

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        check: bool = True,
    ) -> CompletedProcess:
        words = tuple(os.fspath(word) for word in argv)
        assert env is not None, "a program of another environment gets no variables of this one"
        assert timeout is not None
        self.started.append(words)
        if len(self.started) == self.dies_at:
            raise Killed(words)
        code, out = self._play(words, cwd)
        if check and code:
            raise CommandFailed(f"{words[0]} failed")
        return CompletedProcess(words, code, out, "", 0.0)

    def _play(self, words: tuple[str, ...], cwd: Path | None) -> tuple[int, str]:
        if "import ensurepip, venv" in words:
            return int(self.without_venv), ""
        if "venv" in words:
            _script(Path(words[-1]) / "bin" / "python", "")
            return 0, ""
        if "install" in words:
            assert cwd is not None
            listed = Path(words[-1]).read_text()
            version = re.search(r"^appliance==(\S+)", listed, re.MULTILINE)
            assert version is not None
            _script(cwd / "bin" / "appliance", version[1])
            return 0, ""
        program = Path(words[0])
        if words[1:] == ("--version",):
            said = self.broken.get(program, program.read_text().strip())
            return 0, f"appliance, version {said}\nPython: 3\n"
        if words[1:3] == ("site", "check"):
            return (3, self.faults) if self.faults else (0, "")
        return 0, ""


def _script(path: Path, text: str) -> None:
    """A program; its text is its version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    path.chmod(0o755)
