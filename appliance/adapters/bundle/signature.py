"""The signature of a bundle's manifest: created and checked by ``ssh-keygen -Y``.

The manifest is passed on standard input as the bytes that were read: the checked bytes are the used
bytes, and no copy is on a disk. ssh-keygen or the agent asks for a passphrase; it never passes
through this tool.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from appliance.adapters.local.control_host import require
from appliance.adapters.local.plain_files import read_plain
from appliance.adapters.local.processes import CompletedProcess, run
from appliance.errors import BundleRefused, ConfigError
from appliance.model.bundle.manifest import MANIFEST, SIGNATURE
from appliance.model.bundle.signature import MOST_BYTES, NAMESPACE, Signature
from appliance.model.programs import Use

_PROGRAM = "ssh-keygen"
_ENGLISH = {"LC_ALL": "C"}
_MADE_WITH = re.compile(r"with (\S+) key (SHA256:\S+)")


class SshSigner:
    """Signs the manifest of the bundle in a directory with one SSH key."""

    def __init__(self, directory: Path, key: Path) -> None:
        require(Use.SIGN)
        self._manifest = directory.resolve() / MANIFEST
        self._signature = directory.resolve() / SIGNATURE
        self._key = key

    @property
    def path(self) -> str:
        """Path of the signature."""
        return str(self._signature)

    def sign(self) -> bool:
        """Sign the manifest; return whether this replaced an earlier signature.

        Raises:
            BundleRefused: there is no manifest, or the signature cannot be written.
            CommandFailed: ssh-keygen failed.
        """
        try:
            manifest = self._manifest.read_bytes()
        except OSError as error:
            raise BundleRefused(
                f"{self._manifest} cannot be read: {error.strerror}",
                hint="name the directory that 'appliance bundle build' wrote",
            ) from error
        signed = run(
            [_PROGRAM, "-q", "-Y", "sign", "-f", self._key, "-n", NAMESPACE],
            stdin=manifest,
            timeout=None,
            attended=True,
            hint=f"{self._key} must be a private SSH key, or the public key of one in the agent; "
            f"a key with a passphrase needs a terminal, or first: "
            f"ssh-add {shlex.quote(str(self._key))}; "
            f"then: appliance bundle sign --key {shlex.quote(str(self._key))} "
            f"{shlex.quote(str(self._manifest.parent))}",
        )
        return self._write(signed.stdout)

    def _write(self, text: str) -> bool:
        partial = self._signature.with_name(f".{SIGNATURE}.partial")
        replaced = self._signature.exists()
        try:
            partial.write_text(text, encoding="ascii")
            partial.replace(self._signature)
        except OSError as error:
            raise BundleRefused(
                f"{self._signature} cannot be written: {error.strerror}",
                hint="sign the bundle on a writable disk, then copy it",
            ) from error
        return replaced


def read_signature(directory: Path, manifest: bytes, allowed: Path | None) -> Signature:
    """The state of the signature of ``manifest`` in ``directory``.

    Args:
        directory: the bundle.
        manifest: the signed bytes.
        allowed: an ssh allowed_signers file; None: only check whether there is a signature.

    Raises:
        ConfigError: ``allowed`` cannot be read.
        Refused: ssh-keygen is not on this machine.
    """
    path = directory / SIGNATURE
    exists = path.exists() or path.is_symlink()
    if allowed is None:
        return Signature("unchecked" if exists else "none")
    _require_readable(allowed)
    if not exists:
        return Signature("missing", fault=f"{SIGNATURE}: missing: this bundle is not signed")
    require(Use.SIGN)
    try:
        signature = read_plain(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        return _not_of_this(error.strerror or str(error))
    return judge_signature(signature, manifest, allowed)


def judge_signature(signature: bytes, manifest: bytes, allowed: Path) -> Signature:
    """Check whether bytes are a valid signature of ``manifest``.

    Args:
        signature: the bytes, from any source.
        manifest: the signed bytes.
        allowed: an ssh allowed_signers file.

    Raises:
        ConfigError: ``allowed`` cannot be read.
        Refused: ssh-keygen is not on this machine.
    """
    _require_readable(allowed)
    require(Use.SIGN)
    if len(signature) > MOST_BYTES:
        return _not_of_this(f"it is larger than {MOST_BYTES} bytes")
    with tempfile.NamedTemporaryFile(prefix="appliance-signature-") as copy:
        copy.write(signature)
        copy.flush()
        checked = _checked(Path(copy.name), manifest, allowed)
    if checked.state != "good":
        return checked
    return replace(checked, text=signature.decode("ascii", "replace").rstrip("\n") + "\n")


def _not_of_this(why: str) -> Signature:
    return Signature("wrong", fault=f"{SIGNATURE}: is not a signature of this manifest: {why}")


def _checked(path: Path, manifest: bytes, allowed: Path) -> Signature:
    made = _keygen("check-novalidate", "-n", NAMESPACE, "-s", path, manifest=manifest)
    match = _MADE_WITH.search(made.stdout)
    if not made.ok or match is None:
        return _not_of_this(_why(made))
    key = " ".join(match.groups())
    principals = _keygen("find-principals", "-s", path, "-f", allowed)
    reason = _why(principals)
    # Older versions print the principals of a line unchanged, with commas.
    for principal in filter(None, re.split(r"[,\n]", principals.stdout)):
        words = ("-f", allowed, "-I", principal, "-n", NAMESPACE, "-s", path)
        judged = _keygen("verify", *words, manifest=manifest)
        if judged.ok:
            return Signature("good", signer=principal, key=key)
        reason = _why(judged)
    return Signature(
        "wrong",
        key=key,
        fault=f"{SIGNATURE}: made with the key {key}, which {allowed} does not allow: {reason}",
    )


def _keygen(verb: str, *words: str | Path, manifest: bytes = b"") -> CompletedProcess:
    return run([_PROGRAM, "-Y", verb, *words], stdin=manifest, check=False, env=_ENGLISH)


def _why(done: CompletedProcess) -> str:
    """The first line of ssh-keygen's errors, which is the cause."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"{_PROGRAM} ended with status {done.returncode}"


def _require_readable(allowed: Path) -> None:
    try:
        allowed.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the allowed signers {allowed} cannot be read: {error.strerror}",
            hint="name an ssh allowed_signers file: one line 'NAME KEYTYPE KEY' for each signer",
        ) from error
