"""The package archives of a target operating system: apt sources and keyrings.

A release may name its archives. If it names none, the build host's own sources are used, limited to
the suites of its operating system. For another release of Debian, a Debian host asks the same
archives for the suites of that release. What must not be here: resolving or downloading (see
``isolated.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from appliance.adapters.local import processes
from appliance.errors import BundleRefused

_UNVERIFIED = re.compile(
    r"(?im)^\s*(trusted|allow-insecure|allow-weak|allow-downgrade-to-insecure)\s*:\s*(yes|true|1)"
    r"|\[[^\]]*\b(trusted|allow-insecure|allow-weak|allow-downgrade-to-insecure)=(yes|true|1)"
)
_ONE_LINE = re.compile(r"^deb\s+(?:\[(?P<options>[^\]]*)\]\s+)?(?P<uri>\S+)\s+(?P<rest>.+)$")
_DUMPED = re.compile(r'^(?P<key>Acquire::[\w-]+(?:::[^ ]+)?) "(?P<value>[^"]*)";$')
_TRANSPORT = re.compile(
    r"(?i)^Acquire::https?::(?:[^ ]+::)?(Proxy|Proxy-Auto-Detect|CaInfo|CaPath)"
)
_VALIDITY = re.compile(r"(?i)^Acquire::(Check-Valid-Until|Check-Date|Max-FutureTime)$")
# The codename of each release of Debian that nodes can run; no release file names its archive.
DEBIAN_SUITES = {"debian-11": "bullseye", "debian-12": "bookworm"}
# What every release of Debian has. Others, such as backports, are archived before the release is.
_ALWAYS_THERE = ("", "-updates", "-security")
_COMPONENTS = frozenset({"main", "contrib", "non-free"})
_OPTION_FIELDS = {
    "arch": "Architectures",
    "signed-by": "Signed-By",
    "check-valid-until": "Check-Valid-Until",
    "check-date": "Check-Date",
}


@dataclass(frozen=True)
class AptTarget:
    """An operating system whose packages the build needs.

    Attributes:
        name: its name in errors, such as ``debian-12``.
        architecture: dpkg's name of the architecture.
        sources: deb822 stanzas or one-line entries.
        keyrings: keys for sources without ``Signed-By``.
        credentials: apt ``auth.conf`` files for archives that require a login.
        options: further lines of apt configuration, such as a proxy.
    """

    name: str
    architecture: str
    sources: tuple[str, ...]
    keyrings: tuple[Path, ...] = ()
    credentials: tuple[Path, ...] = ()
    options: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a target without archives, or with an archive whose signature is not checked."""
        if not self.sources:
            raise BundleRefused(
                f"no package archive is named for {self.name}",
                hint=f"build on a {self.name} host, or name the archive in the release file",
            )
        for text in self.sources:
            if _UNVERIFIED.search(text):
                raise BundleRefused(
                    f"a package archive of {self.name} is marked as trusted without a signature",
                    details=text.strip().splitlines(),
                    hint="remove the trusted= or allow- option; only signed packages are accepted",
                )
        missing = [key for key in self.keyrings if not key.is_file()]
        missing += [key for text in self.sources for key in _signed_by(text) if not key.is_file()]
        if missing:
            raise BundleRefused(
                f"the keyring for the packages of {self.name} is not on this machine",
                details=[str(path) for path in missing],
                hint="install its package (debian-archive-keyring, ubuntu-keyring)",
            )


def read_os_release(root: Path = Path("/")) -> dict[str, str]:
    """The fields of /etc/os-release in the tree at ``root``; empty if there is no such file."""
    path = root / "etc/os-release"
    if not path.is_file():
        return {}
    pairs = (line.partition("=") for line in path.read_text(encoding="utf-8").splitlines())
    return {key.strip(): value.strip().strip("\"'") for key, _, value in pairs if value}


def running_system(root: Path = Path("/")) -> str:
    """This machine's operating system, as releases name it."""
    os_release = read_os_release(root)
    return f"{os_release.get('ID', 'unknown')}-{os_release.get('VERSION_ID', 'unknown')}"


def host_target(name: str, architecture: str, *, root: Path = Path("/")) -> AptTarget:
    """The target whose packages the archives of this machine's own apt sources provide.

    Only the suites of the machine's operating system count (``bookworm``, ``bookworm-security``,
    ...), not the archives of other vendors. For another release of Debian its codename replaces the
    machine's in each of them: same archives, same keyrings, same options.

    Raises:
        BundleRefused: this machine runs another operating system, or has no such source.
    """
    os_release = read_os_release(root)
    running = running_system(root)
    codename = os_release.get("VERSION_CODENAME", "")
    suite = codename if running == name else _suite_of(name, os_release)
    if suite is None:
        raise BundleRefused(
            f"this machine's apt sources have no packages for {name}: it runs {running}",
            hint=f"build on a {name} host, or name the archive in the release file",
        )
    etc = root / "etc/apt"
    own = _only_own_suites(_host_stanzas(etc), codename)
    return AptTarget(
        name=name,
        architecture=architecture,
        sources=tuple(own if suite == codename else _of_suite(own, codename, suite)),
        keyrings=tuple(_files(etc, "trusted.gpg", "trusted.gpg.d/*.gpg", "trusted.gpg.d/*.asc")),
        credentials=tuple(_files(etc, "auth.conf", "auth.conf.d/*.conf")),
        options=host_options(_host_dump(), own_archives=True),
    )


def _suite_of(name: str, os_release: Mapping[str, str]) -> str | None:
    """The codename of another release of Debian, if this machine runs Debian itself."""
    return DEBIAN_SUITES.get(name) if os_release.get("ID") == "debian" else None


def host_options(dump: str, *, own_archives: bool) -> tuple[str, ...]:
    """The machine's apt settings for reaching an archive.

    A proxy belongs to the machine's network and applies to every archive. The maximum age of an
    index belongs to the machine's own archives (a mirror's snapshot) and applies only to them.
    """
    kept = []
    for line in dump.splitlines():
        match = _DUMPED.match(line.strip())
        if match is None or not match["value"]:
            continue
        if _TRANSPORT.match(match["key"]) or (own_archives and _VALIDITY.match(match["key"])):
            kept.append(line.strip())
    return tuple(kept)


def with_host_network(target: AptTarget) -> AptTarget:
    """The same target with this machine's network settings."""
    ours = host_options(_host_dump(), own_archives=False)
    return replace(target, options=(*ours, *target.options))


def as_deb822(text: str) -> str:
    """One source in deb822 form; the text may be in either of apt's two forms."""
    lines = [line for line in text.strip().splitlines() if not line.lstrip().startswith("#")]
    match = _ONE_LINE.match(lines[0].strip()) if len(lines) == 1 else None
    if match is None:
        return "\n".join(lines) + "\n"
    suite, *components = match["rest"].split()
    fields = ["Types: deb", f"URIs: {match['uri']}", f"Suites: {suite}"]
    if components:
        fields.append(f"Components: {' '.join(components)}")
    for option in (match["options"] or "").split():
        key, _, value = option.partition("=")
        field = _OPTION_FIELDS.get(key)
        if field is None:
            raise BundleRefused(f"unknown option {key!r} of a package archive: {text}")
        fields.append(f"{field}: {value.replace(',', ' ')}")
    return "\n".join(fields) + "\n"


def stanza_fields(stanza: str) -> dict[str, str]:
    """The fields of one deb822 stanza by lower-case name; folded lines are joined by newlines."""
    fields: dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line[:1] in {" ", "\t"} and last:
            fields[last] += "\n" + line.strip()
        elif ":" in line:
            key, _, value = line.partition(":")
            last = key.strip().lower()
            fields[last] = value.strip()
    return fields


def _host_dump() -> str:
    return processes.run(
        ["apt-config", "dump"],
        hint="apt is needed to build a bundle: build on a Debian-family host",
    ).stdout


def _host_stanzas(etc: Path) -> Iterator[str]:
    for path in _files(etc, "sources.list", "sources.list.d/*.list"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.split("#", 1)[0].strip().startswith("deb "):
                yield line.split("#", 1)[0]
    for path in _files(etc, "sources.list.d/*.sources"):
        body = "\n".join(
            line for line in path.read_text(encoding="utf-8").splitlines() if line[:1] != "#"
        )
        yield from (part for part in re.split(r"\n\s*\n", body) if part.strip())


def _only_own_suites(stanzas: Iterable[str], codename: str) -> Iterator[str]:
    for text in stanzas:
        fields = stanza_fields(as_deb822(text))
        suites = [
            suite
            for suite in fields.get("suites", "").split()
            if suite.split("/")[0] == codename or suite.startswith(f"{codename}-")
        ]
        disabled = fields.get("enabled", "yes").lower() in {"no", "false", "0", "off", "disable"}
        if not suites or disabled or "deb" not in fields.get("types", "").split():
            continue
        yield _stanza({**fields, "types": "deb", "suites": " ".join(suites)})


def _of_suite(stanzas: Iterable[str], codename: str, suite: str) -> Iterator[str]:
    """The same archives' stanzas for another release of Debian, as far as each has it."""
    for text in stanzas:
        fields = stanza_fields(text)
        kinds = [word.removeprefix(codename) for word in fields["suites"].split()]
        suites = [suite + kind for kind in kinds if kind in _ALWAYS_THERE]
        components = [word for word in fields.get("components", "").split() if word in _COMPONENTS]
        if suites and components:
            yield _stanza(
                {**fields, "suites": " ".join(suites), "components": " ".join(components)}
            )


def _stanza(fields: Mapping[str, str]) -> str:
    return "".join(
        f"{key.title()}: {value.replace(chr(10), chr(10) + ' ')}\n" for key, value in fields.items()
    )


def _signed_by(text: str) -> list[Path]:
    value = stanza_fields(as_deb822(text)).get("signed-by", "")
    return [Path(word) for word in value.split() if word.startswith("/")]


def _files(folder: Path, *patterns: str) -> list[Path]:
    return [path for pattern in patterns for path in sorted(folder.glob(pattern)) if path.is_file()]
