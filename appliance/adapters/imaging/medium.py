"""The medium of one command: the operator's ISO with seeds on it, or its kernel for PXE."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from appliance.adapters.local.processes import run
from appliance.errors import CommandFailed, ConfigError
from appliance.model.bundle.release.installer import Layout
from appliance.model.node.imaging.medium import (
    INSTALLERS,
    files_in,
    menus,
    missing_files,
    remaster_words,
)

# Of an ISO of 1.4 GB on a slow disk.
_SECONDS: Final = 1800.0
_LIST_SECONDS: Final = 120.0
_PIECE: Final = 1 << 20


def require_iso(iso: Path, layout: Layout, sha256: str | None) -> None:
    """The ISO is the one that the release names.

    Args:
        iso: the operator's file.
        layout: of the medium that it should be.
        sha256: that the release has of it; None: the release has none.

    Raises:
        ConfigError: it is missing, another one, or no such medium; nothing was written.
    """
    try:
        found = _digest(iso)
    except OSError as error:
        raise ConfigError(
            f"{iso} cannot be read: {error.strerror}", hint="name the installer's ISO: --iso FILE"
        ) from error
    if sha256 is not None and found != sha256:
        raise ConfigError(
            f"{iso} has the SHA-256 {found}, the release wants {sha256}",
            hint="download the ISO that the release names, and copy it again",
        )
    try:
        listed = run(
            ["xorriso", "-indev", iso, "-find", "/", "-type", "f", "-exec", "echo", "--"],
            timeout=_LIST_SECONDS,
        ).stdout
    except CommandFailed as error:
        raise ConfigError(
            f"{iso} cannot be read as an ISO: {error.message}", hint=error.hint
        ) from error
    if missing := missing_files(layout, files_in(listed)):
        raise ConfigError(
            f"{iso} is not a {layout} installer: it has no {', '.join(missing)}",
            hint="name the ISO of the release: --iso FILE",
        )


def remaster(iso: Path, layout: Layout, files: Mapping[str, str], folder: Path) -> Path:
    """Make the medium: a copy of the ISO with these files and our boot menus.

    Args:
        iso: that :func:`require_iso` took.
        layout: of it.
        files: path on the medium -> text.
        folder: empty and ours; the medium and what goes onto it are written there.

    Raises:
        CommandFailed: xorriso is missing, or failed.
        OSError: the folder's disk is full.
    """
    tree, out = folder / "tree", folder / "medium.iso"
    for name, text in {**menus(layout), **files}.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
        path.chmod(0o644)
    run(remaster_words(layout, str(iso), str(out), str(tree)), timeout=_SECONDS)
    return out


def extract_kernel(iso: Path, layout: Layout, folder: Path) -> tuple[Path, Path]:
    """Kernel and initrd of the ISO, for PXE.

    Raises:
        CommandFailed: xorriso is missing, or failed.
    """
    one = INSTALLERS[layout]
    kernel, initrd = folder / "vmlinuz", folder / "initrd"
    words = ["xorriso", "-osirrox", "on", "-indev", str(iso)]
    words += ["-extract", one.kernel, str(kernel), "-extract", one.initrd, str(initrd)]
    run(words, timeout=_SECONDS)
    return kernel, initrd


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
