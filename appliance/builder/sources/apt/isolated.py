"""Packages for a target operating system, resolved by apt in a separate root.

The build host's dpkg state, sources, keys, hooks and preferences are never read: with an empty
status file and a private ``APT_CONFIG``, apt answers for the target only, as an ordinary user. apt
checks the archive's signatures; the signed sha256 is recorded, and checked again on every file.
What must not be here: the purpose of the packages.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from appliance.adapters.local import processes
from appliance.builder.sources.apt.sources import AptTarget, as_deb822, stanza_fields
from appliance.builder.sources.reach import unanswered
from appliance.errors import BuildFailed
from appliance.model.bundle.archives.faults import causes

PATIENCE_SECONDS = 8
_UPDATE_LIMIT_SECONDS = 600
_DOWNLOAD_LIMIT_SECONDS = 3600
_PRINTED_URI = re.compile(r"^'(?P<uri>[^']+)' (?P<file>\S+) (?P<size>\d+)")
_EXACT = re.compile(r"^\s*(?P<name>[a-z0-9][a-z0-9+.-]*)(?::\w+)?\s*\(=\s*(?P<version>\S+)\)\s*$")
_NOT_GOING = re.compile(
    r"Depends: (?P<name>[a-z0-9][a-z0-9+.-]*).* but it is not going to be installed"
)
_DEEPEST_EXPLANATION = 12
_NOT_REACHED = re.compile(
    r"Could not (connect|resolve|wait)|Unable to connect|Connection (refused|timed out|failed)"
    r"|Temporary failure|timed out|Cannot initiate|Network is unreachable|No route to host",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class ResolvedPackage:
    """One package of a closure: one file, as the archive's signed index describes it."""

    name: str
    version: str
    architecture: str
    uri: str
    sha256: str
    size: int
    filename: str


class IsolatedApt:
    """apt for one target, in a folder that may be kept between builds or removed at any time."""

    def __init__(
        self,
        folder: Path,
        target: AptTarget,
        *,
        recommends: bool = False,
        patience_seconds: int = PATIENCE_SECONDS,
    ) -> None:
        self._folder = folder.resolve()
        self._target = target
        self._recommends = recommends
        self._patience = patience_seconds
        self._lay_out()

    def update(self) -> None:
        """Read the archives' indexes.

        Raises:
            BuildFailed: an archive cannot be reached, or its signature is not valid.
        """
        self._require_answers()
        done = self._apt("apt-get", "update", timeout=_UPDATE_LIMIT_SECONDS)
        faults = _lines(done.output, ("E:", "W: Failed", "W: GPG", "W: Some index", "W: An error"))
        if done.ok and not faults:
            return
        reasons = _lines(done.output, ("Err:", "  ")) + faults
        if _NOT_REACHED.search("\n".join(reasons)):
            raise BuildFailed(
                f"the package archive of {self._target.name} cannot be reached: "
                + ", ".join(self._archives()),
                details=_unique(reasons),
                hint="build where the archive can be reached; what is cached is kept",
            )
        found = causes(reasons, self._archives())
        told = [": ".join([", ".join(uris), fault.meaning]) for fault, uris in found.items()]
        raise BuildFailed(
            f"apt rejects the package archive of {self._target.name}: "
            + "; ".join(text.removesuffix(": ") for text in told),
            details=_unique(reasons),
            hint="; ".join(_unique(fault.hint for fault in found)),
        )

    def _require_answers(self) -> None:
        if any("proxy" in option.lower() for option in self._target.options):
            return
        silent = unanswered(self._archives(), patience_seconds=self._patience)
        if silent:
            raise BuildFailed(
                f"the package archive of {self._target.name} cannot be reached: "
                + ", ".join(silent),
                details=[f"{uri}: {reason}" for uri, reason in silent.items()],
                hint="build where the archive can be reached; what is cached is kept",
            )

    def resolve(
        self, roots: Sequence[str], *, essential: bool = True
    ) -> tuple[ResolvedPackage, ...]:
        """The roots (``name`` or ``name=version``) and their dependencies, sorted by name.

        Args:
            roots: the requested packages.
            essential: include the target's essential packages; others may depend on them without
                declaring it.

        Raises:
            BuildFailed: a package is missing, or two cannot be installed together.
        """
        self._pin(roots)
        requested = [*roots, *(["?essential"] if essential else [])]
        done = self._apt("apt-get", "install", "--yes", "--print-uris", "-qq", *requested)
        if not done.ok:
            raise BuildFailed(
                f"the packages of {self._target.name} cannot be installed together: "
                + " ".join(roots),
                details=self._explain(requested),
                hint="correct the package list of the release",
            )
        return self._described(done.stdout)

    def download(
        self,
        packages: Iterable[ResolvedPackage],
        destination: Path,
        *,
        on_line: Callable[[str], None] | None = None,
    ) -> list[Path]:
        """Download the packages to ``destination`` and check each against its recorded sha256.

        A file that is there with the right sha256 is not downloaded again.

        Raises:
            BuildFailed: a file cannot be downloaded, or differs from the archive's index.
        """
        destination.mkdir(parents=True, exist_ok=True)
        every = list(packages)
        missing = [item for item in every if not _is_right(destination / item.filename, item)]
        if missing:
            self._fetch(missing, destination, on_line)
        return [destination / item.filename for item in every]

    def _fetch(
        self,
        missing: list[ResolvedPackage],
        destination: Path,
        on_line: Callable[[str], None] | None,
    ) -> None:
        landing = self._folder / "landing"
        landing.mkdir(exist_ok=True)
        names = [f"{item.name}:{item.architecture}={item.version}" for item in missing]
        done = self._apt(
            "apt-get", "download", *names,
            cwd=landing, timeout=_DOWNLOAD_LIMIT_SECONDS, on_line=on_line,
        )  # fmt: skip
        landed = {_landed_key(path.name): path for path in landing.glob("*.deb")}
        wrong = []
        for item in missing:
            path = landed.get((item.name, item.version))
            if path is None or not _is_right(path, item):
                wrong.append(f"{item.name} {item.version}: {item.uri}")
                if path is not None:
                    path.unlink()
                continue
            shutil.move(path, destination / item.filename)
        if wrong or not done.ok:
            raise BuildFailed(
                f"{len(wrong)} of {len(missing)} packages of {self._target.name} could not be "
                "downloaded, or differ from the archive's signed index",
                details=[*wrong, *_complaint(done.output)],
                hint="run the same command again; what is cached is kept",
            )

    def _described(self, printed_uris: str) -> tuple[ResolvedPackage, ...]:
        """Find each file that apt chose in the signed index, by its path in the archive."""
        found = (_PRINTED_URI.match(line) for line in printed_uris.splitlines())
        printed = [match for match in found if match]
        if not printed:
            return ()
        names = [_landed_key(match["file"]) for match in printed]
        shown = self._apt(
            "apt-cache", "show", *(f"{name}={version}" for name, version in names), check=True
        )
        stanzas = [stanza_fields(text) for text in re.split(r"\n\n+", shown.stdout) if text.strip()]
        by_identity = {
            (item["package"], item["version"], item["filename"].removeprefix("./")): item
            for item in stanzas
            if "filename" in item
        }
        packages = []
        for match, (name, version) in zip(printed, names, strict=True):
            path = unquote(urlsplit(match["uri"]).path)
            fields = next(
                (
                    item
                    for (at_name, at_version, file), item in by_identity.items()
                    if at_name == name and at_version == version and path.endswith("/" + file)
                ),
                None,
            )
            if fields is None or "sha256" not in fields:
                raise BuildFailed(f"the index of {self._target.name} has no sha256 for {name}")
            packages.append(
                ResolvedPackage(
                    name=name,
                    version=version,
                    architecture=fields["architecture"],
                    uri=match["uri"],
                    sha256=fields["sha256"],
                    size=int(fields["size"]),
                    filename=Path(path).name,
                )
            )
        return tuple(sorted(packages, key=lambda item: (item.name, item.version)))

    def _explain(self, roots: Sequence[str]) -> list[str]:
        """The conflict, traced to the package that causes it.

        apt names only the requested packages ("app needs library, which will not be installed").
        Requesting the named package as well makes apt print the reason.
        """
        requested = list(roots)
        lines: list[str] = []
        for _ in range(_DEEPEST_EXPLANATION):
            lines = _complaint(self._apt("apt-get", "install", "--simulate", *requested).output)
            deeper = {match["name"] for line in lines if (match := _NOT_GOING.search(line))}
            if deeper <= set(requested):
                break
            requested += sorted(deeper - set(requested))
        return lines

    def _pin(self, roots: Sequence[str]) -> None:
        """Pin roots with a version, and their dependencies on one exact version.

        apt considers only the newest version of a dependency; a root that is older on purpose
        would not find the packages of its own build.
        """
        preferences = self._folder / "etc/preferences"
        preferences.write_text("", encoding="utf-8")
        todo = [tuple(root.split("=", 1)) for root in roots if "=" in root]
        pins: dict[str, str] = {}
        while todo:
            fresh = [(name, version) for name, version in todo if pins.get(name) != version]
            fresh = [pin for pin in fresh if pin[0] not in pins]
            pins.update(fresh)
            todo = [pin for pin in self._exact_needs(fresh) if pin[0] not in pins]
        preferences.write_text(
            "".join(
                f"Package: {name}\nPin: version {version}\nPin-Priority: 1001\n\n"
                for name, version in sorted(pins.items())
            ),
            encoding="utf-8",
        )

    def _exact_needs(self, pins: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        if not pins:
            return []
        shown = self._apt("apt-cache", "show", *(f"{name}={version}" for name, version in pins))
        needs = []
        for text in re.split(r"\n\n+", shown.stdout):
            fields = stanza_fields(text)
            for clause in f"{fields.get('pre-depends', '')},{fields.get('depends', '')}".split(","):
                if match := _EXACT.match(clause.replace("\n", " ")):
                    needs.append((match["name"], match["version"]))
        return needs

    def _archives(self) -> list[str]:
        uris = [stanza_fields(as_deb822(text)).get("uris", "") for text in self._target.sources]
        return _unique(" ".join(uris).split())

    def _apt(
        self,
        *argv: str,
        cwd: Path | None = None,
        timeout: float = processes.DEFAULT_TIMEOUT,
        check: bool = False,
        on_line: Callable[[str], None] | None = None,
    ) -> processes.CompletedProcess:
        return processes.run(
            argv,
            cwd=cwd,
            env={"APT_CONFIG": str(self._folder / "apt.conf"), "LC_ALL": "C.UTF-8", "LANGUAGE": ""},
            timeout=timeout,
            check=check,
            on_line=on_line,
            hint="apt is needed to build a bundle: build on a Debian-family host",
        )

    def _lay_out(self) -> None:
        folder = self._folder
        for name in (
            "lists/partial", "archives/partial", "log", "etc/sources.list.d", "etc/trusted.gpg.d",
            "etc/auth.conf.d", "etc/preferences.d", "etc/apt.conf.d",
        ):  # fmt: skip
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").write_text("", encoding="utf-8")
        (folder / "etc/sources.list.d/target.sources").write_text(
            "\n".join(as_deb822(text) for text in self._target.sources), encoding="utf-8"
        )
        _link(self._target.keyrings, folder / "etc/trusted.gpg.d")
        _link(self._target.credentials, folder / "etc/auth.conf.d")
        (folder / "apt.conf").write_text(self._configuration(), encoding="utf-8")

    def _configuration(self) -> str:
        folder = self._folder
        settings: Mapping[str, object] = {
            "Dir": folder,
            "Dir::State": folder,
            "Dir::State::lists": folder / "lists",
            "Dir::State::status": folder / "status",
            "Dir::State::extended_states": folder / "extended_states",
            "Dir::Cache": folder,
            "Dir::Cache::archives": folder / "archives",
            "Dir::Log": folder / "log",
            "Dir::Etc": folder / "etc",
            "Dir::Etc::main": "apt.conf",
            "Dir::Etc::parts": "apt.conf.d",
            "Dir::Etc::sourcelist": "/dev/null",
            "APT::Architecture": self._target.architecture,
            "APT::Architectures": self._target.architecture,
            # apt's sandbox user cannot enter this folder if apt runs as root.
            "APT::Sandbox::User": "root" if os.geteuid() == 0 else "",
            "APT::Install-Recommends": str(self._recommends).lower(),
            "APT::Install-Suggests": "false",
            "APT::Update::Error-Mode": "any",
            "Acquire::Languages": "none",
            "Acquire::ForceHash": "SHA256",
            "Acquire::Retries": "1",
            "Acquire::http::Timeout": self._patience,
            "Acquire::https::Timeout": self._patience,
            "Acquire::AllowInsecureRepositories": "false",
            "Acquire::AllowWeakRepositories": "false",
            "Acquire::AllowDowngradeToInsecureRepositories": "false",
        }
        lines = [f'{key} "{value}";' for key, value in settings.items()]
        return "\n".join([*lines, *self._target.options]) + "\n"


def _landed_key(filename: str) -> tuple[str, str]:
    """Name and version from the file name that apt gives a package."""
    name, version, _ = unquote(filename).removesuffix(".deb").split("_", 2)
    return name, version


def _is_right(path: Path, item: ResolvedPackage) -> bool:
    if not path.is_file() or path.stat().st_size != item.size:
        return False
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == item.sha256


def _link(paths: Iterable[Path], folder: Path) -> None:
    for old in folder.iterdir():
        old.unlink()
    for path in paths:
        (folder / path.name).symlink_to(path.resolve())


def _lines(text: str, starts: tuple[str, ...]) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.startswith(starts)]


def _complaint(output: str) -> list[str]:
    """Errors of apt without its progress: unmet dependencies first."""
    lines = output.splitlines()
    unmet = [line.strip() for line in lines if re.match(r"^ +\S", line)]
    return _unique([*unmet, *_lines(output, ("E:", "W:"))])


def _unique(items: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(items))
