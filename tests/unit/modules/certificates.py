"""Self-signed certificates for tests, made by the openssl command as on a node."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.prerequisites import require


def self_signed(key: Path, certificate: Path, name: str = "localhost") -> None:
    """Write a key and a certificate for a name."""
    require("openssl")
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    argv += [
        "-nodes",
        "-days",
        "2",
        "-subj",
        f"/CN={name}",
        "-addext",
        f"subjectAltName=DNS:{name}",
    ]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True)
