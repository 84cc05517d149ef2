"""Move files between file systems, and sum them up. Python 3.8, standard library."""

from __future__ import annotations

import hashlib

from ansible.module_utils import appliance_files


class TwoFilesError(Exception):
    """Two files of one name differ; the text names both."""


def move(source, target):
    """Move a file between file systems: at any moment it is whole in one of the two places.

    Raises:
        TwoFilesError: another file is at the target.
    """
    if not source.is_file():
        return
    content = source.read_bytes()
    if target.exists() and target.read_bytes() != content:
        raise TwoFilesError(
            "%s and %s differ: move the one that kubeadm did not write away, then run again"
            % (source, target)
        )
    appliance_files.write(target, content, source.stat().st_mode & 0o777)
    source.unlink()


def remove(folder, names):
    """Remove these files of a folder, and then the folder; one that holds more stays."""
    if folder.is_dir():
        for name in names:
            (folder / name).unlink(missing_ok=True)
        folder.rmdir()


def sha256(path):
    """Return the sha256 of a file in hexadecimal.

    Raises:
        OSError: it cannot be read.
    """
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        for part in iter(lambda: stream.read(1 << 20), b""):
            digest.update(part)
    return digest.hexdigest()
