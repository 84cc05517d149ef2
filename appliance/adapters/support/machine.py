"""What this machine has for a support bundle: runs' logs, its own faults, versions, secrets."""

from __future__ import annotations

import os
import platform
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from appliance import __version__
from appliance.adapters.local.plain_files import open_plain
from appliance.adapters.site.state import STATE
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
    password = password_file(site)
    for path in (password, site.directory / STATE / "kubeconfig"):
        if path is not None:
            values += _secrets_of_file(Path(path))
    if vault is None:
        return Known(values), "the vault is closed: its values are found by their form alone"
    return Known([*values, *_texts(vault)]), ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)
    elif isinstance(value, str):
        yield value


def _secrets_of_file(path: Path) -> list[str]:
    """Long words of a small file: a password, or the keys of a kubeconfig."""
    try:
        with open_plain(path, follow=True) as stream:
            text = stream.read(65536).decode(errors="replace")
    except OSError:
        return []
    return [word for word in text.split() if len(word) >= 16 or "\n" not in text.strip()]


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
