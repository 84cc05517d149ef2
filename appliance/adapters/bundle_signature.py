"""The signature beside a bundle's manifest: made and checked by ``ssh-keygen -Y``.

The manifest goes through standard input as the bytes that were read, so that what is checked is
what is used, and no copy lies on a disk. A passphrase is between ssh-keygen (or the agent) and the
person: it never passes through here.
"""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import replace
from pathlib import Path

from appliance.adapters.control_host import require
from appliance.adapters.plain_files import read_plain
from appliance.adapters.processes import Completed, run
from appliance.errors import BundleRefused, ConfigError
from appliance.model.bundle import MANIFEST, SIGNATURE
from appliance.model.programs import Use
from appliance.model.signature import MOST_BYTES, NAMESPACE, Signature

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
        """Where the signature is written."""
        return str(self._signature)

    def sign(self) -> bool:
        """Sign; whether another signature was there before.

        Raises:
            BundleRefused: there is no manifest, or the signature can not be written.
            CommandFailed: ssh-keygen did not sign.
        """
        try:
            manifest = self._manifest.read_bytes()
        except OSError as error:
            raise BundleRefused(
                f"{self._manifest} can not be read: {error.strerror}",
                hint="name the directory that 'appliance bundle build' made",
            ) from error
        signed = run(
            [_PROGRAM, "-q", "-Y", "sign", "-f", self._key, "-n", NAMESPACE],
            stdin=manifest,
            timeout=None,
            attended=True,
            hint=f"{self._key} must be a private SSH key, or the public half of one in the agent; "
            f"one with a passphrase needs a terminal, or before: "
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
                f"{self._signature} can not be written: {error.strerror}",
                hint="sign the bundle where it can be written, then copy it",
            ) from error
        return replaced


def read_signature(directory: Path, manifest: bytes, allowed: Path | None) -> Signature:
    """What there is to say of the signature of ``manifest``, beside it in ``directory``.

    Args:
        directory: the bundle.
        manifest: the bytes that must be signed.
        allowed: an ssh allowed_signers file; None: only look whether there is a signature.

    Raises:
        ConfigError: ``allowed`` can not be read.
        Refused: ssh-keygen is not on this machine.
    """
    path = directory / SIGNATURE
    there = path.exists() or path.is_symlink()
    if allowed is None:
        return Signature("unchecked" if there else "none")
    _require_readable(allowed)
    if not there:
        return Signature("missing", fault=f"{SIGNATURE}: missing: nobody signed this bundle")
    require(Use.SIGN)
    try:
        signature = read_plain(path, most_bytes=MOST_BYTES, follow=True)
    except OSError as error:
        return _not_of_this(error.strerror or str(error))
    return judge_signature(signature, manifest, allowed)


def judge_signature(signature: bytes, manifest: bytes, allowed: Path) -> Signature:
    """Judge bytes that are said to be the signature of ``manifest``.

    Args:
        signature: as it was read, from wherever.
        manifest: the bytes that must be signed.
        allowed: an ssh allowed_signers file.

    Raises:
        ConfigError: ``allowed`` can not be read.
        Refused: ssh-keygen is not on this machine.
    """
    _require_readable(allowed)
    require(Use.SIGN)
    if len(signature) > MOST_BYTES:
        return _not_of_this(f"it is larger than {MOST_BYTES} bytes")
    with tempfile.NamedTemporaryFile(prefix="appliance-signature-") as copy:
        copy.write(signature)
        copy.flush()
        found = _checked(Path(copy.name), manifest, allowed)
    if found.state != "good":
        return found
    return replace(found, text=signature.decode("ascii", "replace").rstrip("\n") + "\n")


def _not_of_this(why: str) -> Signature:
    return Signature("wrong", fault=f"{SIGNATURE}: is not a signature of this manifest: {why}")


def _checked(path: Path, manifest: bytes, allowed: Path) -> Signature:
    made = _keygen("check-novalidate", "-n", NAMESPACE, "-s", path, manifest=manifest)
    found = _MADE_WITH.search(made.stdout)
    if not made.ok or found is None:
        return _not_of_this(_why(made))
    key = " ".join(found.groups())
    principals = _keygen("find-principals", "-s", path, "-f", allowed)
    reason = _why(principals)
    # Older versions print the principals of a line as they are written, with commas.
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


def _keygen(verb: str, *words: str | Path, manifest: bytes = b"") -> Completed:
    return run([_PROGRAM, "-Y", verb, *words], stdin=manifest, check=False, env=_ENGLISH)


def _why(done: Completed) -> str:
    """The first thing that ssh-keygen said: the cause; what follows is the consequence."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"{_PROGRAM} ended with status {done.returncode}"


def _require_readable(allowed: Path) -> None:
    try:
        allowed.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the allowed signers {allowed} can not be read: {error.strerror}",
            hint="name an ssh allowed_signers file: one line 'NAME KEYTYPE KEY' for each signer",
        ) from error
