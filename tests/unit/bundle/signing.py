"""Real SSH keys, and who may sign with them."""

from __future__ import annotations

from pathlib import Path

from appliance.adapters.local.processes import run
from appliance.model.bundle.signature import NAMESPACE
from tests.prerequisites import require

PASSPHRASE = "correct horse"  # noqa: S105 - of a key that lives for one test


def make_key(folder: Path, name: str, passphrase: str = "") -> Path:
    """A new key pair; the path of its private half."""
    require("ssh-keygen")
    path = folder / name
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-C", name, "-f", path])
    return path


def public(key: Path) -> str:
    """Type and key, as they stand in an allowed_signers file."""
    return " ".join(key.with_name(f"{key.name}.pub").read_text().split()[:2])


def allow(path: Path, **signers: Path) -> Path:
    """Write an allowed_signers file: principal -> key."""
    lines = [
        f'{name}@example namespaces="{NAMESPACE}" {public(key)}\n' for name, key in signers.items()
    ]
    path.write_text("".join(lines))
    return path


def askpass(folder: Path, answer: str) -> dict[str, str]:
    """An environment in which whoever asks for a passphrase is given ``answer``."""
    program = folder / "askpass"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o700)
    return {"SSH_ASKPASS": str(program), "SSH_ASKPASS_REQUIRE": "force"}
