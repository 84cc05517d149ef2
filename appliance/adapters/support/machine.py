"""What this machine has for a support bundle: runs' logs, its own faults, versions, secrets."""

from __future__ import annotations

import json
import os
import platform
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance import __version__
from appliance.adapters.local.plain_files import open_plain
from appliance.adapters.site.state import STATE
from appliance.errors import ApplianceError
from appliance.model.support.forms import is_secret_name
from appliance.model.support.items import Found, Unanswered
from appliance.model.support.redaction import Known

if TYPE_CHECKING:
    from appliance.model.site.settings import Site

HERE: Final = "this machine"
# Of one log: its end; of all runs together.
MOST_LOG_BYTES: Final = 4_000_000
MOST_LOGS: Final = 200
MOST_FAULTS: Final = 5
# Inventories hold every setting of a run; they are described by site.json.
_LOGS: Final = (".log", ".txt")
_RANDOM: Final = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])[A-Za-z0-9_+/=-]{16,}")
_RUN: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")


def run_logs(directory: Path, oldest: float) -> Iterator[Found | Unanswered]:
    """The logs of the runs since then, the newest first.

    Args:
        directory: of the site.
        oldest: when a run must have begun, UTC epoch seconds.
    """
    folder = directory / STATE / "runs"
    try:
        names = sorted((p.name for p in folder.iterdir() if _RUN.fullmatch(p.name)), reverse=True)
    except FileNotFoundError:
        return
    except OSError as error:
        yield Unanswered(HERE, "logs of runs", f"{folder}: {error.strerror}")
        return
    left = MOST_LOGS
    for name in names:
        if _begun(name) < oldest:
            return
        for path in _files(folder / name):
            if not left:
                yield Unanswered(HERE, f"logs of run {name} and older ones", "there are too many")
                return
            left -= 1
            yield _end_of(path, f"runs/{name}/{path.relative_to(folder / name)}")


def fault_logs(oldest: float) -> Iterator[Found | Unanswered]:
    """Tracebacks of internal errors of this user, the newest first."""
    found = []
    for path in Path(tempfile.gettempdir()).glob("appliance-fault-*.log"):
        try:
            told = path.lstat()
        except OSError:
            continue
        if told.st_uid == os.getuid() and told.st_mtime > oldest:
            found.append((told.st_mtime, path))
    for _, path in sorted(found, reverse=True)[:MOST_FAULTS]:
        yield _end_of(path, f"faults/{path.name}")


def versions() -> dict[str, Any]:
    """Of this tool and of what it uses, as ``appliance --version`` has them."""
    from appliance.adapters.local.shipped import find_commit, list_releases, version_of

    packages = ("ansible-core", "ansible-runner", "kubernetes", "paramiko", "pydantic", "click")
    return {
        "appliance": __version__,
        "commit": find_commit(),
        "releases": list(list_releases()),
        "python": platform.python_version(),
        "system": platform.platform(),
        **{name: version_of(name) for name in packages},
    }


def known_secrets(site: Site) -> tuple[Known, str]:
    """Every secret that the site's vault and state hold, and why the vault's are not known."""
    from appliance.adapters.runai.backend_certificate import open_vault
    from appliance.adapters.site.vault import password_file

    values: list[str] = []
    vault = open_vault(site)
    try:
        password = password_file(site)
    except ApplianceError:
        password = None
    for path in (password, site.directory / STATE / "kubeconfig"):
        if path is not None:
            values += _secrets_of_file(Path(path))
    if vault is None:
        return Known(values), "the vault is closed: its values are found by their form alone"
    return Known([*values, *_texts(vault)]), ""


def _texts(vault: Mapping[str, str]) -> Iterator[str]:
    """The values of a vault; of a mapping in it those that have a secret's name, or look random.

    Settings may be in it as well: the site's domain must not be taken out of every log.
    """
    for value in vault.values():
        try:
            inner = json.loads(value) if value.lstrip()[:1] in ("{", "[") else value
        except ValueError:
            inner = value
        if isinstance(inner, str):
            yield inner
        else:
            yield from _inside(inner, of_secret=False)


def _inside(value: Any, *, of_secret: bool) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _inside(inner, of_secret=of_secret or is_secret_name(str(key)))
    elif isinstance(value, list):
        for inner in value:
            yield from _inside(inner, of_secret=of_secret)
    elif isinstance(value, str) and (of_secret or _RANDOM.fullmatch(value)):
        yield value


def _secrets_of_file(path: Path) -> list[str]:
    """The password that is all of a small file, or the keys of a kubeconfig, which look random."""
    try:
        with open_plain(path, follow=True) as stream:
            text = stream.read(65536).decode(errors="replace")
    except OSError:
        return []
    # Addresses and names of a kubeconfig stand in every log.
    return [word for word in text.split() if "\n" not in text.strip() or _RANDOM.fullmatch(word)]


def _begun(run: str) -> float:
    """When a run began, by its UUIDv7."""
    return int(run.replace("-", "")[:12], 16) / 1000


def _files(folder: Path) -> list[Path]:
    found = [path for path in folder.rglob("*") if path.suffix in _LOGS and not path.is_symlink()]
    return sorted(path for path in found if path.is_file())


def _end_of(path: Path, name: str) -> Found | Unanswered:
    """The end of a log."""
    try:
        with open_plain(path) as stream:
            size = os.fstat(stream.fileno()).st_size
            stream.seek(max(size - MOST_LOG_BYTES, 0))
            content = stream.read(MOST_LOG_BYTES)
    except OSError as error:
        return Unanswered(HERE, name, error.strerror or str(error))
    text = content.decode(errors="replace")
    if size > MOST_LOG_BYTES:
        text = f"[cut: the newest part of {size} bytes]\n" + text.partition("\n")[2]
    return Found(name, text)
