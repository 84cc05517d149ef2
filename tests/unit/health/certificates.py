"""A small organisation's certificates, made by the openssl command in a folder."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.prerequisites import require


def _openssl(folder: Path, *words: str, stdin: str = "") -> None:
    require("openssl")
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, input=stdin,
                   text=True)  # fmt: skip


@dataclass(frozen=True)
class Organisation:
    """Makes keys and certificates: ``NAME.key`` and ``NAME.pem`` in its folder."""

    folder: Path

    def text(self, *names: str) -> bytes:
        """Several files, one after the other."""
        return b"".join((self.folder / name).read_bytes() for name in names)

    def key(self, name: str) -> None:
        """Make a key."""
        words = ["genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
        _openssl(self.folder, *words, "-out", f"{name}.key")

    def authority(self, name: str, by: str | None = None) -> None:
        """Make a CA, signed by itself or by another."""
        self.certificate(name, by or name, "basicConstraints=critical,CA:TRUE")

    def certificate(self, name: str, by: str, extensions: str, days: int = 400) -> None:
        """Make a key, and a certificate for it that ``by`` signs; today's date begins it."""
        self.key(name)
        request = ["req", "-new", "-key", f"{name}.key", "-subj", f"/CN={name}"]
        _openssl(self.folder, *request, "-out", f"{name}.csr")
        (self.folder / f"{name}.ext").write_text(extensions)
        words = ["x509", "-req", "-in", f"{name}.csr", "-days", str(days)]
        words += ["-extfile", f"{name}.ext", "-out", f"{name}.pem"]
        if by == name:
            words += ["-signkey", f"{name}.key"]
        else:
            words += ["-CA", f"{by}.pem", "-CAkey", f"{by}.key", "-CAcreateserial"]
        _openssl(self.folder, *words)
