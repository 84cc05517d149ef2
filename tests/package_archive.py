"""A small signed package repository that tests make themselves, with dpkg-deb and gpg."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from appliance.builder.sources.apt.repository import write_flat_repository
from appliance.builder.sources.apt.sources import AptTarget
from tests.prerequisites import require

ARCHITECTURE = "amd64"


class Archive:
    """A flat, signed package repository on disk, with packages that hold one file each."""

    def __init__(self, folder: Path, gnupg: Path) -> None:
        self.folder = folder
        self.keyring = folder / "archive.gpg"
        self._gnupg = gnupg
        (folder / "pool").mkdir(parents=True)
        exported = self._gpg("--export", "archive@example.test")
        self.keyring.write_bytes(exported)

    def add(self, name: str, version: str = "1.0", **fields: str) -> Path:
        tree = self.folder / "trees" / f"{name}_{version}"
        (tree / "DEBIAN").mkdir(parents=True)
        (tree / "usr/share" / name).mkdir(parents=True)
        (tree / "usr/share" / name / "version").write_text(version + "\n")
        control = {
            "Package": name,
            "Version": version,
            "Architecture": ARCHITECTURE,
            "Maintainer": "Nobody <nobody@example.test>",
            **{key.replace("_", "-"): value for key, value in fields.items()},
            "Description": "a package of a test",
        }
        text = "".join(f"{key}: {value}\n" for key, value in control.items())
        (tree / "DEBIAN/control").write_text(text)
        path = self.folder / "pool" / f"{name}_{version.replace(':', '%3a')}_{ARCHITECTURE}.deb"
        subprocess.run(
            ["dpkg-deb", "-Znone", "--root-owner-group", "--build", tree, path],
            check=True,
            capture_output=True,
        )
        return path

    def publish(self, *, signed: bool = True) -> None:
        write_flat_repository(self.folder, origin="test", suite="testing", when=datetime.now(UTC))
        (self.folder / "InRelease").unlink(missing_ok=True)
        if signed:
            self.sign()

    def sign(self) -> None:
        inline = str(self.folder / "InRelease")
        self._gpg("--clearsign", "--output", inline, str(self.folder / "Release"))

    def target(self, **changes: object) -> AptTarget:
        source = f"deb [signed-by={self.keyring}] copy:{self.folder} ./"
        values: dict[str, object] = {
            "name": "test-1",
            "architecture": ARCHITECTURE,
            "sources": (source,),
            **changes,
        }
        return AptTarget(**values)  # type: ignore[arg-type]

    def _gpg(self, *argv: str) -> bytes:
        return subprocess.run(
            ["gpg", "--batch", "--yes", "--homedir", self._gnupg, *argv],
            check=True,
            capture_output=True,
        ).stdout


@contextlib.contextmanager
def signing_key() -> Iterator[Path]:
    """A key ring with one signing key; in a short path, because an agent's socket needs one."""
    require("gpg", "gpg-agent", "gpgconf")
    with tempfile.TemporaryDirectory(prefix="gpg-") as name:
        home = Path(name)
        subprocess.run(
            [
                "gpg", "--batch", "--homedir", home, "--passphrase", "", "--quick-generate-key",
                "archive@example.test", "ed25519", "sign", "never",
            ],
            check=True,
            capture_output=True,
        )  # fmt: skip
        yield home
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
